// method=optimize, variational, laplace, pathfinder
#pragma once

#include "run.hpp"

#include <stan/callbacks/json_writer.hpp>
#include <stan/callbacks/structured_writer.hpp>
#include <stan/services/experimental/advi/fullrank.hpp>
#include <stan/services/experimental/advi/meanfield.hpp>
#include <stan/services/optimize/bfgs.hpp>
#include <stan/services/optimize/laplace_sample.hpp>
#include <stan/services/optimize/lbfgs.hpp>
#include <stan/services/optimize/newton.hpp>
#include <stan/services/pathfinder/multi.hpp>
#include <stan/services/pathfinder/single.hpp>

#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace driver {

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

// laplace_sample of Stan 2.35 leaves each draw's density on the autodiff tape,
// which would grow to gigabytes; at the end of a draw nothing on it is in use.
struct ClearTape final : stan::callbacks::writer {
  explicit ClearTape(CsvWriter& writer) : out(writer) {}
  using writer::operator();
  void operator()(const std::vector<std::string>& names) override { out(names); }
  void operator()(const std::vector<double>& values) override {
    out(values);
    stan::math::recover_memory();
  }
  CsvWriter& out;
};

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
  // Stan's Newton step takes a NaN density for an improvement and -1e100 for a
  // rejected point, and ends with status OK at either.
  const bool sound = out.rows() > 0 && std::abs(out.last_lp()) < 1e99;
  if (code == error_codes::OK && !sound) {
    log.error("Error: " + algorithm + " lost its way (lp__ is not finite); try"
              " algorithm=lbfgs");
    code = error_codes::SOFTWARE;
  }
  // A failed line search leaves a last point that cmdstanpy offers on request
  // (require_converged=False); the status says what it is.
  if (sound) out.publish();
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
  ClearTape cleared(out);
  const int draws = integer("draws");
  const auto draw = [&](auto jacobian) {
    return services::laplace_sample<jacobian.value>(
        model, theta, draws, is("calculate_lp"), seed(), refresh(), interrupt,
        log, cleared, hessian);
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
          return p::pathfinder_lbfgs_single(model, *init[0], a..., save,
                                            refresh(), interrupt, log, nothing,
                                            out, traces[0], lp);
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

}  // namespace driver
