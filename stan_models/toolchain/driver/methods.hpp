// One function a method: command line -> stan::services -> finished files.
#pragma once

#include "arguments.hpp"
#include "files.hpp"

#include <stan/callbacks/interrupt.hpp>
#include <stan/callbacks/json_writer.hpp>
#include <stan/model/log_prob_grad.hpp>
#include <stan/model/model_base.hpp>
#include <stan/services/diagnose/diagnose.hpp>
#include <stan/services/error_codes.hpp>
#include <stan/services/experimental/advi/fullrank.hpp>
#include <stan/services/experimental/advi/meanfield.hpp>
#include <stan/services/optimize/bfgs.hpp>
#include <stan/services/optimize/laplace_sample.hpp>
#include <stan/services/optimize/lbfgs.hpp>
#include <stan/services/optimize/newton.hpp>
#include <stan/services/pathfinder/multi.hpp>
#include <stan/services/pathfinder/single.hpp>
#include <stan/services/sample/fixed_param.hpp>
#include <stan/services/sample/hmc_nuts_dense_e.hpp>
#include <stan/services/sample/hmc_nuts_dense_e_adapt.hpp>
#include <stan/services/sample/hmc_nuts_diag_e.hpp>
#include <stan/services/sample/hmc_nuts_diag_e_adapt.hpp>
#include <stan/services/sample/hmc_nuts_unit_e.hpp>
#include <stan/services/sample/hmc_nuts_unit_e_adapt.hpp>
#include <stan/services/sample/standalone_gqs.hpp>

#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace driver {

using Model = stan::model::model_base;
using stan::services::error_codes;
namespace services = stan::services;

struct KeepStream {
  void operator()(std::ostream*) const {}
};
using JsonWriter = stan::callbacks::json_writer<std::ostream, KeepStream>;

// laplace_sample takes the Cholesky factor without asking whether there is one;
// its draws would then be NaN or, worse, plausible.
struct HessianCheck final : stan::callbacks::structured_writer {
  using structured_writer::write;
  void write(const std::string& name, const Eigen::MatrixXd& value) override {
    if (name != "Hessian") return;
    if (!value.allFinite() || (-value).llt().info() != Eigen::Success)
      throw std::domain_error(
          "Error: the negative Hessian at the mode is not positive definite, so"
          " there is no Laplace approximation; is the mode a maximum of the"
          " density with this jacobian= setting?");
  }
};

// pathfinder_lbfgs_single is <ReturnLpSamples, Model, …> up to some Stan 2.3x
// and has one more leading bool later; deduce the status from either result.
inline int status(int code) { return code; }
template <typename Tuple>
int status(const Tuple& result) { return std::get<0>(result); }

struct Run {
  const Arguments& args;
  Model& model;
  const std::string& header;

  Console log{};
  stan::callbacks::interrupt interrupt{};
  CsvWriter nothing{};

  unsigned int seed() const { return args.natural("random.seed"); }
  int id() const { return args.integer("id"); }
  int refresh() const { return args.integer("output.refresh"); }
  double real(const char* name) const { return args.real(args.method() + "." + name); }
  int integer(const char* name) const { return args.integer(args.method() + "." + name); }
  bool is(const char* name) const { return args.is(args.method() + "." + name); }

  CsvWriter csv(const std::string& path) {
    return CsvWriter(path, header, args.integer("output.sig_figs"));
  }
  std::vector<CsvWriter> csvs(const std::string& path, int n) {
    std::vector<CsvWriter> writers;
    for (int i = 0; i < n; ++i)
      writers.push_back(csv(n == 1 || path.empty()
                                ? path
                                : with_suffix(path, std::to_string(id() + i))));
    return writers;
  }
  const std::string& output() const { return args.str("output.file"); }

  // init=R: uniform on (-R, R) unconstrained; init=FILE: R = 2 for what the
  // file leaves out.
  double init_radius() const {
    return accepts(nonnegative, args.str("init")) ? args.real("init") : 2;
  }
  std::vector<Context> inits(int n) const {
    const bool radius = accepts(nonnegative, args.str("init"));
    return read_contexts(radius ? "" : args.str("init"), "init", n, id());
  }

  // A service can return OK without its draws (a step size that cannot be
  // initialised, for one): the row count decides.
  int finish(int code, CsvWriter& writer, size_t expected) {
    if (code == error_codes::OK && writer.rows() != expected) {
      log.error("Error: " + std::to_string(writer.rows()) + " of "
                + std::to_string(expected) + " draws were made");
      code = error_codes::SOFTWARE;
    }
    if (code == error_codes::OK) writer.publish();
    return code;
  }

  std::vector<std::string> parameter_names() const {
    std::vector<std::string> names;
    model.constrained_param_names(names, false, false);
    return names;
  }

  int dispatch() {
    const auto& method = args.method();
    if (method == "sample") return sample();
    if (method == "generate_quantities") return generate_quantities();
    if (method == "diagnose") return diagnose();
    if (model.num_params_r() == 0) {
      log.error("Error: the model has no parameters; method=" + method
                + " needs one at least");
      return error_codes::CONFIG;
    }
    if (method == "optimize")
      return is("jacobian") ? optimize<true>() : optimize<false>();
    if (method == "variational") return variational();
    if (method == "laplace") return laplace();
    if (method == "pathfinder") return pathfinder();
    return log_prob();
  }

  int sample();
  template <bool jacobian>
  int optimize();
  int variational();
  int laplace();
  int pathfinder();
  int generate_quantities();
  int log_prob();
  int diagnose();
};

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

template <bool jacobian>
int Run::optimize() {
  const auto init = inits(1).front();
  auto out = csv(output());
  const auto start = std::make_tuple(seed(), static_cast<unsigned int>(id()),
                                     init_radius());
  const auto search = std::make_tuple(
      real("init_alpha"), real("tol_obj"), real("tol_rel_obj"), real("tol_grad"),
      real("tol_rel_grad"), real("tol_param"), integer("iter"),
      is("save_iterations"), refresh());
  const auto& algorithm = args.str("optimize.algorithm");
  namespace o = services::optimize;
  int code;
  if (algorithm == "newton")
    code = std::apply(
        [&](auto... a) {
          return o::newton<Model, jacobian>(model, *init, a..., integer("iter"),
                                            is("save_iterations"), interrupt, log,
                                            nothing, out);
        },
        start);
  else if (algorithm == "bfgs")
    code = std::apply(
        [&](auto... a) {
          return o::bfgs<Model, jacobian>(model, *init, a..., interrupt, log,
                                          nothing, out);
        },
        std::tuple_cat(start, search));
  else
    code = std::apply(
        [&](auto... a) {
          return o::lbfgs<Model, jacobian>(model, *init, a..., interrupt, log,
                                           nothing, out);
        },
        std::tuple_cat(start, std::make_tuple(integer("history_size")), search));
  // A failed line search leaves a last point that cmdstanpy offers on request
  // (require_converged=False); the status says what it is.
  if (out.rows() > 0) out.publish();
  return code;
}

inline int Run::variational() {
  const auto init = inits(1).front();
  auto out = csv(output());
  auto diagnostics = csv(args.str("output.diagnostic_file"));
  const bool adapt = args.is("variational.adapt.engaged");
  // Readers look for eta below this line whether it was adapted or given.
  if (!adapt)
    out.after_names({"Stepsize adaptation complete.",
                     "eta = " + args.str("variational.eta")});
  const auto a = std::make_tuple(
      seed(), static_cast<unsigned int>(id()), init_radius(),
      integer("grad_samples"), integer("elbo_samples"), integer("iter"),
      real("tol_rel_obj"), real("eta"), adapt, integer("adapt.iter"),
      integer("eval_elbo"), integer("output_samples"));
  const bool meanfield = args.str("variational.algorithm") == "meanfield";
  namespace advi = services::experimental::advi;
  int code = std::apply(
      [&](auto... a) {
        if (meanfield)
          return advi::meanfield(model, *init, a..., interrupt, log, nothing, out,
                                 diagnostics);
        return advi::fullrank(model, *init, a..., interrupt, log, nothing, out,
                              diagnostics);
      },
      a);
  // The first row is the mean of the approximation, not a draw.
  code = finish(code, out, integer("output_samples") + 1);
  if (code == error_codes::OK) diagnostics.publish();
  return code;
}

inline int Run::laplace() {
  const auto& mode = args.str("laplace.mode");
  if (mode.empty()) throw usage_error("method=laplace needs mode=FILE");
  Eigen::VectorXd theta;
  if (ends_with(mode, ".json")) {
    model.transform_inits(*read_context(mode, "mode"), theta, &std::cout);
  } else {
    const auto rows = read_draws(mode, "mode", parameter_names());
    const Eigen::VectorXd last = rows.row(rows.rows() - 1);
    model.unconstrain_array(last, theta, &std::cout);
  }
  auto out = csv(output());
  HessianCheck hessian;
  const int draws = integer("draws");
  const auto draw = [&](auto jacobian) {
    return services::laplace_sample<jacobian.value>(
        model, theta, draws, is("calculate_lp"), seed(), refresh(), interrupt,
        log, out, hessian);
  };
  const int code
      = is("jacobian") ? draw(std::true_type{}) : draw(std::false_type{});
  return finish(code, out, draws);
}

inline int Run::pathfinder() {
  const int paths = integer("num_paths"), draws = integer("num_draws");
  const bool lp = is("calculate_lp"), resample = lp && is("psis_resample");
  const bool save = is("save_single_paths");
  const auto init = inits(paths);
  auto out = csv(output());
  const auto lbfgs = std::make_tuple(
      seed(), static_cast<unsigned int>(id()), init_radius(),
      integer("history_size"), real("init_alpha"), real("tol_obj"),
      real("tol_rel_obj"), real("tol_grad"), real("tol_rel_grad"),
      real("tol_param"), integer("max_lbfgs_iters"), integer("num_elbo_draws"),
      draws);

  std::vector<CsvWriter> single(paths), unwanted(paths);
  std::vector<std::unique_ptr<OutputFile>> trace_files;
  std::vector<JsonWriter> traces;
  for (int i = 0; i < paths; ++i) {
    std::unique_ptr<std::ostream, KeepStream> stream;
    if (save) {
      const auto path = with_suffix(output(), "path_" + std::to_string(id() + i));
      single[i] = csv(path);
      trace_files.push_back(std::make_unique<OutputFile>(
          path.substr(0, path.find_last_of('.')) + ".json"));
      stream.reset(&trace_files.back()->stream());
    }
    traces.emplace_back(std::move(stream));
  }

  namespace p = services::pathfinder;
  int code;
  if (paths == 1) {
    code = std::apply(
        [&](auto... a) {
          return status(p::pathfinder_lbfgs_single(
              model, *init[0], a..., save, refresh(), interrupt, log, nothing,
              out, traces[0], lp));
        },
        lbfgs);
    code = finish(code, out, draws);
  } else {
    code = std::apply(
        [&](auto... a) {
          return p::pathfinder_lbfgs_multi(
              model, init, a..., integer("num_psis_draws"), paths, save,
              refresh(), interrupt, log, unwanted, single, traces, out, nothing,
              lp, resample);
        },
        lbfgs);
    // Without resampling a path that failed leaves fewer draws, and says so.
    code = finish(code, out,
                  resample ? integer("num_psis_draws") : std::max<size_t>(1, out.rows()));
  }
  for (int i = 0; save && code == error_codes::OK && i < paths; ++i) {
    if (paths > 1) single[i].publish();
    trace_files[i]->publish();
  }
  return code;
}

inline int Run::generate_quantities() {
  const auto& fitted = args.str("generate_quantities.fitted_params");
  if (fitted.empty())
    throw usage_error("method=generate_quantities needs fitted_params=FILE");
  const auto draws = read_draws(fitted, "fitted_params", parameter_names());
  auto out = csv(output());
  const int code = services::standalone_generate(model, draws, seed(), interrupt,
                                                 log, out);
  return finish(code, out, draws.rows());
}

// lp__ and its gradient on the unconstrained space, constants included.
inline int Run::log_prob() {
  const auto& constrained = args.str("log_prob.constrained_params");
  const auto& unconstrained = args.str("log_prob.unconstrained_params");
  if (constrained.empty() == unconstrained.empty())
    throw usage_error("method=log_prob needs either constrained_params=FILE or"
                      " unconstrained_params=FILE");
  std::vector<std::vector<double>> points;
  std::vector<int> integers;
  const size_t D = model.num_params_r();
  if (!unconstrained.empty()) {
    const auto values
        = read_context(unconstrained, "unconstrained_params")->vals_r("params_r");
    if (values.empty() || values.size() % D != 0)
      throw bad_file("unconstrained_params file \"" + unconstrained
                     + "\": params_r must hold " + std::to_string(D)
                     + " values a point, got " + std::to_string(values.size()));
    // A JSON array of arrays arrives column major.
    const size_t n = values.size() / D;
    points.assign(n, std::vector<double>(D));
    for (size_t i = 0; i < values.size(); ++i) points[i % n][i / n] = values[i];
  } else if (ends_with(constrained, ".csv")) {
    const auto draws = read_draws(constrained, "constrained_params", parameter_names());
    for (Eigen::Index i = 0; i < draws.rows(); ++i) {
      const Eigen::VectorXd draw = draws.row(i);
      Eigen::VectorXd theta;
      model.unconstrain_array(draw, theta, &std::cout);
      points.emplace_back(theta.data(), theta.data() + theta.size());
    }
  } else {
    points.emplace_back();
    const auto context = read_context(constrained, "constrained_params");
    model.transform_inits(*context, integers, points[0], &std::cout);
  }

  auto out = csv(output());
  std::vector<std::string> names;
  model.unconstrained_param_names(names, false, false);
  for (auto& name : names) name = "g_" + name;
  names.insert(names.begin(), "lp__");
  out(names);
  for (auto& theta : points) {
    std::vector<double> row;
    const double lp
        = is("jacobian")
              ? stan::model::log_prob_grad<false, true>(model, theta, integers, row, &std::cout)
              : stan::model::log_prob_grad<false, false>(model, theta, integers, row, &std::cout);
    row.insert(row.begin(), lp);
    out(row);
  }
  return finish(error_codes::OK, out, points.size());
}

// Published whatever the verdict: the table is what the caller wants to see.
inline int Run::diagnose() {
  const auto init = inits(1).front();
  auto out = csv(output());
  const int failed = services::diagnose::diagnose(
      model, *init, seed(), id(), init_radius(), real("epsilon"), real("error"),
      interrupt, log, nothing, out);
  out.publish();
  return failed == 0 ? error_codes::OK : error_codes::SOFTWARE;
}

}  // namespace driver
