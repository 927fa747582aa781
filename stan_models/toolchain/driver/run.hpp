// One run of one method: what the methods share.
#pragma once

#include "arguments.hpp"
#include "inputs.hpp"
#include "outputs.hpp"

#include <stan/callbacks/interrupt.hpp>
#include <stan/callbacks/writer.hpp>
#include <stan/model/model_base.hpp>
#include <stan/services/error_codes.hpp>

#include <string>
#include <vector>

namespace driver {

using Model = stan::model::model_base;
using stan::services::error_codes;
namespace services = stan::services;

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

  CsvWriter csv(const std::string& path) { return csv(path, id()); }
  CsvWriter csv(const std::string& path, int chain) {
    std::string text = header;
    const auto line = text.find("\nid = ") + 1, end = text.find('\n', line);
    if (chain != id())
      text.replace(line, end - line, "id = " + std::to_string(chain));
    return CsvWriter(path, text, args.integer("output.sig_figs"));
  }
  std::vector<CsvWriter> csvs(const std::string& path, int n) {
    std::vector<CsvWriter> writers;
    for (int i = 0; i < n; ++i)
      writers.push_back(csv(n == 1 || path.empty()
                                ? path
                                : with_suffix(path, std::to_string(id() + i)),
                            id() + i));
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

}  // namespace driver
