// The options of the command line: scope, name, default and what they accept.
// The one table drives parsing, checks, help and the CSV header, so that an
// option exists in all of them or in none.
#pragma once

#include <cstdlib>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace driver {

struct Domain {
  enum Kind { text, flag, integer, real, choice } kind;
  double low = 0, high = 0;
  bool open = false;  // bounds excluded
  const char* words = "";
};

inline constexpr double top = std::numeric_limits<int>::max();
inline constexpr double infinite = std::numeric_limits<double>::infinity();
inline constexpr Domain text{Domain::text}, flag{Domain::flag};
inline constexpr Domain count{Domain::integer, 0, top};
inline constexpr Domain positive_count{Domain::integer, 1, top};
inline constexpr Domain positive{Domain::real, 0, infinite, true};
inline constexpr Domain nonnegative{Domain::real, 0, infinite};
inline constexpr Domain open_unit{Domain::real, 0, 1, true};
inline constexpr Domain unit{Domain::real, 0, 1};
inline constexpr Domain one_of(const char* words) {
  return {Domain::choice, 0, 0, false, words};
}

struct Option {
  const char *scope, *name, *fallback;
  Domain domain;
};

// Within a scope the order is the one of the CSV header.
inline const std::vector<Option>& options() {
  static const std::vector<Option> table{
      {"sample", "num_samples", "1000", count},
      {"sample", "num_warmup", "1000", count},
      {"sample", "save_warmup", "0", flag},
      {"sample", "thin", "1", positive_count},
      {"sample.adapt", "engaged", "1", flag},
      {"sample.adapt", "gamma", "0.05", positive},
      {"sample.adapt", "delta", "0.8", open_unit},
      {"sample.adapt", "kappa", "0.75", positive},
      {"sample.adapt", "t0", "10", positive},
      {"sample.adapt", "init_buffer", "75", count},
      {"sample.adapt", "term_buffer", "50", count},
      {"sample.adapt", "window", "25", count},
      {"sample", "algorithm", "hmc", one_of("hmc|fixed_param")},
      {"sample", "engine", "nuts", one_of("nuts")},
      {"sample", "max_depth", "10", positive_count},
      {"sample", "metric", "diag_e", one_of("unit_e|diag_e|dense_e")},
      {"sample", "metric_file", "", text},
      {"sample", "stepsize", "1", positive},
      {"sample", "stepsize_jitter", "0", unit},
      {"sample", "num_chains", "1", positive_count},

      {"optimize", "algorithm", "lbfgs", one_of("lbfgs|bfgs|newton")},
      {"optimize", "init_alpha", "0.001", positive},
      {"optimize", "tol_obj", "1e-12", nonnegative},
      {"optimize", "tol_rel_obj", "10000", nonnegative},
      {"optimize", "tol_grad", "1e-08", nonnegative},
      {"optimize", "tol_rel_grad", "10000000", nonnegative},
      {"optimize", "tol_param", "1e-08", nonnegative},
      {"optimize", "history_size", "5", positive_count},
      {"optimize", "jacobian", "0", flag},
      {"optimize", "iter", "2000", positive_count},
      {"optimize", "save_iterations", "0", flag},

      {"variational", "algorithm", "meanfield", one_of("meanfield|fullrank")},
      {"variational.adapt", "engaged", "1", flag},
      {"variational.adapt", "iter", "50", positive_count},
      // After adapt: readers keep the last `iter` of the header.
      {"variational", "iter", "10000", positive_count},
      {"variational", "grad_samples", "1", positive_count},
      {"variational", "elbo_samples", "100", positive_count},
      {"variational", "eta", "1", positive},
      {"variational", "tol_rel_obj", "0.01", positive},
      {"variational", "eval_elbo", "100", positive_count},
      {"variational", "output_samples", "1000", count},

      {"laplace", "mode", "", text},
      {"laplace", "jacobian", "1", flag},
      {"laplace", "draws", "1000", positive_count},
      {"laplace", "calculate_lp", "1", flag},

      {"pathfinder", "init_alpha", "0.001", positive},
      {"pathfinder", "tol_obj", "1e-12", nonnegative},
      {"pathfinder", "tol_rel_obj", "10000", nonnegative},
      {"pathfinder", "tol_grad", "1e-08", nonnegative},
      {"pathfinder", "tol_rel_grad", "10000000", nonnegative},
      {"pathfinder", "tol_param", "1e-08", nonnegative},
      {"pathfinder", "history_size", "5", positive_count},
      {"pathfinder", "num_psis_draws", "1000", positive_count},
      {"pathfinder", "num_paths", "4", positive_count},
      {"pathfinder", "save_single_paths", "0", flag},
      {"pathfinder", "psis_resample", "1", flag},
      {"pathfinder", "calculate_lp", "1", flag},
      {"pathfinder", "max_lbfgs_iters", "1000", positive_count},
      {"pathfinder", "num_draws", "1000", positive_count},
      {"pathfinder", "num_elbo_draws", "25", positive_count},

      {"generate_quantities", "fitted_params", "", text},

      {"log_prob", "unconstrained_params", "", text},
      {"log_prob", "constrained_params", "", text},
      {"log_prob", "jacobian", "1", flag},

      {"diagnose", "test", "gradient", one_of("gradient")},
      {"diagnose", "epsilon", "1e-06", positive},
      {"diagnose", "error", "1e-06", positive},

      {"", "id", "1", count},
      {"data", "file", "", text},
      {"", "init", "2", text},
      {"random", "seed", "", {Domain::integer, 0, 4294967295.0}},
      {"output", "file", "output.csv", text},
      {"output", "diagnostic_file", "", text},
      {"output", "refresh", "100", count},
      {"output", "sig_figs", "8", {Domain::integer, -1, 18}},
      {"output", "profile_file", "profile.csv", text},
      {"", "num_threads", "1", {Domain::integer, -1, top}},
  };
  return table;
}

inline const Option* find_option(const std::string& scope,
                                 const std::string& name) {
  for (const auto& option : options())
    if (scope == option.scope && name == option.name) return &option;
  return nullptr;
}

inline bool is_scope(const std::string& scope) {
  for (const auto& option : options())
    if (scope == option.scope && !scope.empty()) return true;
  return false;
}

inline bool is_method(const std::string& word) {
  return is_scope(word) && word.find('.') == std::string::npos
         && word != "data" && word != "random" && word != "output";
}

inline std::string describe(const Domain& d) {
  std::ostringstream out;
  switch (d.kind) {
    case Domain::text: return "text";
    case Domain::flag: return "0 or 1";
    case Domain::choice: return "one of " + std::string(d.words);
    default: break;
  }
  out << (d.kind == Domain::integer ? "an integer " : "a number ")
      << (d.open ? "> " : ">= ") << d.low;
  if (d.high < top) out.precision(10), out << (d.open ? " and < " : " and <= ") << d.high;
  return out.str();
}

inline bool accepts(const Domain& d, const std::string& value) {
  if (d.kind == Domain::text) return true;
  if (d.kind == Domain::flag)
    return value == "0" || value == "1" || value == "true" || value == "false";
  if (d.kind == Domain::choice)
    return !value.empty() && value.find('|') == std::string::npos
           && ("|" + std::string(d.words) + "|").find("|" + value + "|")
                  != std::string::npos;
  char* end = nullptr;
  const double x = std::strtod(value.c_str(), &end);
  if (value.empty() || *end != '\0') return false;
  if (d.kind == Domain::integer
      && value.find_first_not_of("+-0123456789") != std::string::npos)
    return false;
  return d.open ? x > d.low && x < d.high : x >= d.low && x <= d.high;
}

inline std::string help() {
  std::ostringstream out;
  out << "Usage: <model> METHOD [key=value …] [data file=F] [output file=F …]\n"
         "       <model> info | help\n";
  std::string open = "?";
  for (const auto& o : options()) {
    if (open != o.scope)
      out << (*o.scope ? o.scope : "everywhere") << "\n", open = o.scope;
    out << "  " << o.name << "=" << o.fallback << "  (" << describe(o.domain)
        << ")\n";
  }
  return out.str();
}

}  // namespace driver
