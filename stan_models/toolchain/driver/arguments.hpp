// The command line. One table drives parsing, checks, defaults, help and the
// CSV header, so that an option exists in all five places or in none.
//
// Grammar: a bare word opens a scope (a method, `data`, `output`, `adapt`, …);
// `key=value` belongs to the innermost open scope that has the key, which also
// closes the scopes inside it: `adapt iter=50 eval_elbo=10 iter=100` sets
// adapt.iter, then the method's eval_elbo and iter.
#pragma once

#include <cstdlib>
#include <limits>
#include <map>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace driver {

struct usage_error : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

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

class Arguments {
 public:
  Arguments(int argc, char** argv) {
    for (const auto& o : options()) values_[key(o.scope, o.name)] = o.fallback;
    if (const char* threads = std::getenv("STAN_NUM_THREADS"))
      set(*find_option("", "num_threads"), threads);
    for (int i = 1; i < argc; ++i) read(argv[i]);
    if (method_.empty()) throw usage_error("no method given");
    if (!given("random.seed"))
      values_["random.seed"] = std::to_string(std::random_device{}());
  }

  const std::string& method() const { return method_; }
  const std::string& str(const std::string& k) const { return values_.at(k); }
  double real(const std::string& k) const { return std::stod(str(k)); }
  int integer(const std::string& k) const { return std::stoi(str(k)); }
  unsigned int natural(const std::string& k) const {
    return static_cast<unsigned int>(std::stoul(str(k)));
  }
  bool is(const std::string& k) const {
    return str(k) == "1" || str(k) == "true";
  }
  bool given(const std::string& k) const { return given_.count(k) > 0; }
  void set(const std::string& scope, const std::string& name,
           const std::string& value) {
    set(*find_option(scope, name), value);
  }

  // `key = value` lines, two spaces deeper inside each scope.
  std::string header() const {
    std::ostringstream out;
    out << "method = " << method_ << "\n  " << method_ << "\n";
    std::string open = method_;
    for (const auto& o : options()) {
      const std::string scope = o.scope;
      if (!relevant(scope, o.name)) continue;
      const bool own = scope.rfind(method_, 0) == 0;
      if (scope != open && !scope.empty() && scope != method_)
        out << (own ? "    " : "")
            << scope.substr(own ? method_.size() + 1 : 0) << "\n";
      open = scope;
      const int depth = own ? (scope == method_ ? 4 : 6) : (scope.empty() ? 0 : 2);
      const std::string k = key(scope, o.name);
      out << std::string(depth, ' ') << o.name << " = "
          << (o.domain.kind == Domain::flag ? (is(k) ? "true" : "false") : str(k))
          << (given(k) ? "" : " (Default)") << "\n";
    }
    return out.str();
  }

 private:
  static std::string key(const std::string& scope, const std::string& name) {
    return scope.empty() ? name : scope + "." + name;
  }

  // A fixed_param header without the HMC options: readers look for `metric =`.
  bool relevant(const std::string& scope, const std::string& name) const {
    if (is_scope(scope) && scope != "data" && scope != "random"
        && scope != "output" && scope != method_
        && scope.rfind(method_ + ".", 0) != 0)
      return false;
    if (method_ != "sample" || str("sample.algorithm") == "hmc") return true;
    return scope != "sample.adapt" && name != "engine" && name != "max_depth"
           && name.rfind("metric", 0) != 0 && name.rfind("stepsize", 0) != 0;
  }

  void read(const std::string& token) {
    const auto equals = token.find('=');
    if (equals == std::string::npos) return enter(token);
    const std::string name = token.substr(0, equals);
    const std::string value = token.substr(equals + 1);
    if (name == "method") {
      if (!is_method(value)) throw usage_error("unknown method \"" + value + "\"");
      return enter(value);
    }
    for (const auto& scope : {scope_, method_, std::string()})
      if (const Option* option = find_option(scope, name)) {
        scope_ = scope;
        return set(*option, value);
      }
    throw usage_error("unknown argument \"" + name + "\""
                      + (method_.empty() ? "" : " for method=" + method_));
  }

  void enter(const std::string& word) {
    if (is_method(word)) {
      if (!method_.empty() && method_ != word)
        throw usage_error("two methods given, " + method_ + " and " + word);
      scope_ = method_ = word;
    } else if (!method_.empty() && is_scope(method_ + "." + word)) {
      scope_ = method_ + "." + word;
    } else if (is_scope(word)) {
      scope_ = word;
    } else {
      throw usage_error("unknown argument \"" + word + "\"");
    }
  }

  void set(const Option& option, const std::string& value) {
    if (!accepts(option.domain, value))
      throw usage_error(std::string(option.name) + " must be "
                        + describe(option.domain) + ", got \"" + value + "\"");
    const std::string k = key(option.scope, option.name);
    values_[k] = value;
    given_[k] = true;
  }

  std::string method_, scope_;
  std::map<std::string, std::string> values_;
  std::map<std::string, bool> given_;
};

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
