// method=sample
#pragma once

#include "run.hpp"

#include <stan/callbacks/structured_writer.hpp>
#include <stan/services/sample/fixed_param.hpp>
#include <stan/services/sample/hmc_nuts_dense_e.hpp>
#include <stan/services/sample/hmc_nuts_dense_e_adapt.hpp>
#include <stan/services/sample/hmc_nuts_diag_e.hpp>
#include <stan/services/sample/hmc_nuts_diag_e_adapt.hpp>
#include <stan/services/sample/hmc_nuts_unit_e.hpp>
#include <stan/services/sample/hmc_nuts_unit_e_adapt.hpp>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace driver {

inline int Run::sample() {
  const int chains = integer("num_chains"), thin = integer("thin");
  const int warmup = integer("num_warmup"), draws = integer("num_samples");
  const bool fixed = args.str("sample.algorithm") == "fixed_param";
  const bool adapt = !fixed && args.is("sample.adapt.engaged");
  const bool save_warmup = is("save_warmup");
  const std::string metric = args.str("sample.metric");
  const std::string metric_file = args.str("sample.metric_file");
  if (adapt && warmup == 0)
    throw usage_error("adapt engaged=1 needs num_warmup >= 1, got 0");
  if (metric == "unit_e" && !metric_file.empty())
    throw usage_error("metric=unit_e takes no metric_file");

  const auto init = inits(chains);
  std::vector<Context> metrics;
  const size_t D = model.num_params_r();
  if (!metric_file.empty())
    metrics = read_contexts(metric_file, "metric", chains, id());
  else
    for (int i = 0; i < chains; ++i)
      metrics.push_back(std::make_shared<stan::io::array_var_context>(
          metric == "dense_e" ? services::util::create_unit_e_dense_inv_metric(D)
                              : services::util::create_unit_e_diag_inv_metric(D)));
  auto samples = csvs(output(), chains);
  auto diagnostics = csvs(args.str("output.diagnostic_file"), chains);
  std::vector<CsvWriter> unwanted(chains);
  std::vector<stan::callbacks::structured_writer> tuning(chains);

  const auto hmc = std::make_tuple(seed(), static_cast<unsigned int>(id()),
                                   init_radius(), warmup, draws, thin,
                                   save_warmup, refresh(), real("stepsize"),
                                   real("stepsize_jitter"), integer("max_depth"));
  const auto step = std::make_tuple(real("adapt.delta"), real("adapt.gamma"),
                                    real("adapt.kappa"), real("adapt.t0"));
  const auto step_and_metric = std::tuple_cat(
      step, std::make_tuple(args.natural("sample.adapt.init_buffer"),
                            args.natural("sample.adapt.term_buffer"),
                            args.natural("sample.adapt.window")));
  namespace s = services::sample;
  int code;
  if (fixed) {
    code = s::fixed_param(model, chains, init, seed(), id(), init_radius(), draws,
                          thin, refresh(), interrupt, log, unwanted, samples,
                          diagnostics);
  } else if (adapt && metric == "unit_e") {
    code = std::apply(
        [&](auto... a) {
          return s::hmc_nuts_unit_e_adapt(model, chains, init, a..., interrupt,
                                          log, unwanted, samples, diagnostics,
                                          tuning);
        },
        std::tuple_cat(hmc, step));
  } else if (adapt) {
    code = std::apply(
        [&](auto... a) {
          if (metric == "diag_e")
            return s::hmc_nuts_diag_e_adapt(model, chains, init, metrics, a...,
                                            interrupt, log, unwanted, samples,
                                            diagnostics, tuning);
          return s::hmc_nuts_dense_e_adapt(model, chains, init, metrics, a...,
                                           interrupt, log, unwanted, samples,
                                           diagnostics, tuning);
        },
        std::tuple_cat(hmc, step_and_metric));
  } else {
    code = std::apply(
        [&](auto... a) {
          if (metric == "unit_e")
            return s::hmc_nuts_unit_e(model, chains, init, a..., interrupt, log,
                                      unwanted, samples, diagnostics);
          if (metric == "diag_e")
            return s::hmc_nuts_diag_e(model, chains, init, metrics, a...,
                                      interrupt, log, unwanted, samples,
                                      diagnostics);
          return s::hmc_nuts_dense_e(model, chains, init, metrics, a...,
                                     interrupt, log, unwanted, samples,
                                     diagnostics);
        },
        hmc);
  }
  const auto kept = [thin](int n) { return (n + thin - 1) / thin; };
  const size_t rows
      = kept(draws) + (save_warmup && !fixed ? kept(warmup) : 0);
  for (auto& writer : samples)
    if (code == error_codes::OK && writer.rows() != rows)
      code = finish(code, writer, rows);
  for (auto& writer : samples) code = finish(code, writer, rows);
  for (auto& writer : diagnostics)
    if (code == error_codes::OK) writer.publish();
  return code;
}

}  // namespace driver
