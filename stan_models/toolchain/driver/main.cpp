// A Stan model as a program: CmdStan's command line and files over
// stan::services, so that cmdstanpy can drive it. Compiled once; a model is one
// more object file that defines new_model() and get_stan_profile_data().
#include <stan/math/rev.hpp>
#include <stan/model/model_base.hpp>
#include <stan/version.hpp>

#include "approximate.hpp"
#include "arguments.hpp"
#include "evaluate.hpp"
#include "inputs.hpp"
#include "outputs.hpp"
#include "sample.hpp"

#include <csignal>
#include <ctime>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>

stan::model::model_base& new_model(stan::io::var_context& data,
                                   unsigned int seed, std::ostream* messages);
stan::math::profile_map& get_stan_profile_data();
// Whether the build asked for STAN_THREADS; the code has it always. cmdstanpy
// runs one process a chain unless `info` says true.
extern const bool threads_requested;

namespace driver {
namespace {

int fail(int code, const std::string& message) {
  std::cerr << (Console::is_marked(message) ? "" : "Error: ") << message
            << std::endl;
  return code;
}

std::string version_lines() {
  std::ostringstream out;
  out << "stan_version_major = " << STAN_MAJOR
      << "\nstan_version_minor = " << STAN_MINOR
      << "\nstan_version_patch = " << STAN_PATCH << "\n";
  return out.str();
}

std::string header(const Arguments& args, const stan::model::model_base& model) {
  char now[32];
  const std::time_t t = std::time(nullptr);
  std::strftime(now, sizeof now, "%Y-%m-%d %H:%M:%S UTC", std::gmtime(&t));
  std::ostringstream out;
  out << version_lines() << "model = " << model.model_name()
      << "\nstart_datetime = " << now << "\n"
      << args.header();
  for (const auto& line : model.model_compile_info()) out << line << "\n";
  return out.str();
}

void write_profile(const Arguments& args) {
  const auto& profiles = get_stan_profile_data();
  if (profiles.empty() && !args.given("output.profile_file")) return;
  OutputFile file(args.str("output.profile_file"));
  auto& out = file.stream();
  out << "name,thread_id,total_time,forward_time,reverse_time,chain_stack,"
         "no_chain_stack,autodiff_calls,no_autodiff_calls\n";
  for (const auto& [key, p] : profiles)
    out << key.first << ',' << key.second << ','
        << p.get_fwd_time() + p.get_rev_time() << ',' << p.get_fwd_time() << ','
        << p.get_rev_time() << ',' << p.get_chain_stack_used() << ','
        << p.get_nochain_stack_used() << ',' << p.get_num_rev_passes() << ','
        << p.get_num_no_AD_fwd_passes() << '\n';
  file.publish();
}

int run(Arguments& args) {
  stan::math::init_threadpool_tbb(args.integer("num_threads"));
  const auto data = read_context(args.str("data.file"), "data");
  std::unique_ptr<stan::model::model_base> model;
  try {
    model.reset(&new_model(*data, args.natural("random.seed"), &std::cout));
  } catch (const std::exception& e) {
    return fail(error_codes::DATAERR, e.what());
  }
  if (model->num_params_r() == 0 && args.method() == "sample"
      && args.str("sample.algorithm") == "hmc") {
    std::cout << "No parameters: running fixed_param sampler" << std::endl;
    args.set("sample", "algorithm", "fixed_param");
  }
  const std::string config = header(args, *model);
  std::cout << config << std::endl;
  Run run{args, *model, config};
  const int code = run.dispatch();
  if (code == error_codes::OK)
    write_profile(args);
  else
    run.log.stopped(args.method());
  return code;
}

}  // namespace
}  // namespace driver

int main(int argc, char** argv) {
  using namespace driver;
  for (int signal : {SIGINT, SIGTERM, SIGHUP})
    if (std::signal(signal, remove_unfinished) == SIG_IGN)
      std::signal(signal, SIG_IGN);  // nohup
  const std::string word = argc > 1 ? argv[1] : "";
  if (word == "info") {
    std::cout << version_lines() << "STAN_THREADS="
              << (threads_requested ? "true" : "false") << "\nSTAN_MPI=false\n"
              << "STAN_OPENCL=false\nSTAN_NO_RANGE_CHECKS=false\n"
              << "STAN_CPP_OPTIMS=false" << std::endl;
    return error_codes::OK;
  }
  if (word == "help" || word == "help-all" || word == "--help") {
    std::cout << help();
    return error_codes::OK;
  }
  try {
    Arguments args(argc, argv);
    return run(args);
  } catch (const usage_error& e) {
    return fail(error_codes::USAGE,
                e.what() + std::string("; \"") + argv[0] + " help\" lists them");
  } catch (const missing_file& e) {
    return fail(error_codes::NOINPUT, e.what());
  } catch (const bad_file& e) {
    return fail(error_codes::DATAERR, e.what());
  } catch (const std::exception& e) {
    return fail(error_codes::SOFTWARE, e.what());
  }
}
