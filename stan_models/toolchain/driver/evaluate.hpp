// method=generate_quantities, log_prob, diagnose
#pragma once

#include "run.hpp"

#include <stan/model/log_prob_grad.hpp>
#include <stan/services/diagnose/diagnose.hpp>
#include <stan/services/sample/standalone_gqs.hpp>

#include <string>
#include <vector>

namespace driver {

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
