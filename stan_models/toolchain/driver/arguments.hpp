// The command line given, checked against options.hpp.
//
// Grammar: a bare word opens a scope (a method, `data`, `output`, `adapt`, …);
// `key=value` belongs to the innermost open scope that has the key, which also
// closes the scopes inside it: `adapt iter=50 eval_elbo=10 iter=100` sets
// adapt.iter, then the method's eval_elbo and iter.
#pragma once

#include "options.hpp"

#include <cstdlib>
#include <map>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>

namespace driver {

struct usage_error : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

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

}  // namespace driver
