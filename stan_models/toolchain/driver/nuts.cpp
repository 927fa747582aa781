// Stan's own NUTS on a model in the coordinates of an approximation, one chain
// a handle, run block by block: functions of the C library.
//
// v is a point in those coordinates, length D; without a map it is theta. A
// chain serves one thread at a time, several chains several threads.
#include "coordinates.hpp"

#include <stan/callbacks/logger.hpp>
#include <stan/mcmc/hmc/nuts/adapt_diag_e_nuts.hpp>
#include <stan/mcmc/hmc/nuts/adapt_unit_e_nuts.hpp>
#include <stan/services/util/create_rng.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <vector>

using Eigen::VectorXd;

extern "C" {

// inverse_metric: length D, the diagonal to start from, or null for ones.
struct ext_nuts_settings {
  unsigned int seed, chain;
  double step_size, target_acceptance;
  int max_depth, adapt_metric;
  const double* inverse_metric;
};

}  // extern "C"

struct ext_chain {
  virtual ~ext_chain() = default;
  virtual void engage(int iterations) = 0;
  virtual void disengage() = 0;
  virtual void transition(double* v, double* statistics) = 0;
  virtual void read_metric(double* inverse_metric) = 0;
  virtual double step_size() = 0;
  virtual void set_step_size(double value) = 0;

  ext_chain(const bs_model& m, const ext_map* map, const ext_nuts_settings& s,
            const double* v)
      : model(m, map), rng(stan::services::util::create_rng(s.seed, s.chain)),
        state(Eigen::Map<const VectorXd>(v, m.D), 0, 0) {}

  coordinates::Model model;
  stan::rng_t rng;
  stan::callbacks::logger silent;
  stan::mcmc::sample state;
};

namespace {

// Stan's own defaults, of CmdStan's command line.
constexpr double gamma_ = 0.05, kappa = 0.75, t0 = 10;
constexpr int init_buffer = 75, term_buffer = 50, window = 25;

using Unit = stan::mcmc::adapt_unit_e_nuts<coordinates::Model, stan::rng_t>;
using Diagonal = stan::mcmc::adapt_diag_e_nuts<coordinates::Model, stan::rng_t>;

template <typename Sampler>
struct Chain final : ext_chain {
  Chain(const bs_model& m, const ext_map* map, const ext_nuts_settings& s,
        const double* v)
      : ext_chain(m, map, s, v), sampler(model, rng) {
    if constexpr (adapts_metric)
      if (s.inverse_metric)
        sampler.set_metric(
            VectorXd(Eigen::Map<const VectorXd>(s.inverse_metric, m.D)));
    sampler.set_nominal_stepsize(s.step_size);
    sampler.set_max_depth(s.max_depth);
    auto& adaptation = sampler.get_stepsize_adaptation();
    adaptation.set_mu(std::log(10 * s.step_size));
    adaptation.set_delta(s.target_acceptance);
    adaptation.set_gamma(gamma_);
    adaptation.set_kappa(kappa);
    adaptation.set_t0(t0);
  }

  void engage(int iterations) override {
    if constexpr (adapts_metric)
      sampler.set_window_params(iterations, init_buffer, term_buffer, window,
                                silent);
    sampler.engage_adaptation();
    sampler.z().q = state.cont_params();
    sampler.init_stepsize(silent);
  }
  void disengage() override { sampler.disengage_adaptation(); }

  void transition(double* v, double* statistics) override {
    model.start_at(state.cont_params());
    state = sampler.transition(state, silent);
    const auto& q = state.cont_params();
    std::copy(q.data(), q.data() + q.size(), v);
    std::vector<double> values{state.log_prob(), state.accept_stat()};
    sampler.get_sampler_params(values);  // step size, depth, steps, divergent, energy
    std::copy(values.begin(), values.end(), statistics);
  }

  void read_metric(double* inverse_metric) override {
    VectorXd found = VectorXd::Ones(model.num_params_r());
    if constexpr (adapts_metric) found = sampler.z().inv_e_metric_;
    std::copy(found.data(), found.data() + found.size(), inverse_metric);
  }

  double step_size() override { return sampler.get_nominal_stepsize(); }
  void set_step_size(double value) override {
    sampler.set_nominal_stepsize(value);
  }

  static constexpr bool adapts_metric = std::is_same_v<Sampler, Diagonal>;
  Sampler sampler;
};

constexpr int statistics_ = 7;

}  // namespace

extern "C" {

// map: null for none. v: where the chain starts. The model must outlive it.
ext_chain* ext_chain_construct(const bs_model* m, const ext_map* map,
                               const ext_nuts_settings* settings,
                               const double* v, char** error_msg) {
  std::unique_ptr<ext_chain> chain;
  const int code = guarded(error_msg, [&](auto&) {
    if (settings->adapt_metric)
      chain = std::make_unique<Chain<Diagonal>>(*m, map, *settings, v);
    else
      chain = std::make_unique<Chain<Unit>>(*m, map, *settings, v);
  });
  return code == 0 ? chain.release() : nullptr;
}

void ext_chain_destruct(ext_chain* chain) { delete chain; }

// n iterations, adapting from the first to the last of them if `adapt`; fewer
// where *stop becomes nonzero, which ends it at the next gradient, as a trajectory
// may take minutes: *made says how many. v: n x D, row major;
// statistics: n x 7, row major, with log density of v, acceptance rate, step
// size, tree depth, leapfrog steps, divergent, energy.
int ext_chain_run(ext_chain* chain, int n, bool adapt, const volatile int* stop,
                  double* v, double* statistics, int* made, char** error_msg) {
  *made = 0;
  return guarded(error_msg, [&](auto&) {
    const auto D = static_cast<long>(chain->model.num_params_r());
    chain->model.heed(stop);
    try {
      if (adapt) chain->engage(n);
      for (; *made < n; ++*made)
        chain->transition(v + *made * D, statistics + *made * statistics_);
    } catch (const coordinates::Stopped&) {
    }
    chain->model.heed(nullptr);
    if (adapt) chain->disengage();
  });
}

// Gradients of the model so far, the searches for a step size included.
long long ext_chain_gradients(const ext_chain* chain) {
  return chain->model.gradients();
}

// The diagonal of the inverse metric at present, length D.
void ext_chain_inverse_metric(ext_chain* chain, double* inverse_metric) {
  chain->read_metric(inverse_metric);
}

double ext_chain_step_size(ext_chain* chain) { return chain->step_size(); }
void ext_chain_set_step_size(ext_chain* chain, double value) {
  chain->set_step_size(value);
}

// theta = T(v) and log|det dT/dv| of one point, without that of L; for checks.
int ext_map_forward(const bs_model* m, const ext_map* map, const double* v,
                    double* theta, double* log_det, char** error_msg) {
  return guarded(error_msg, [&](auto&) {
    coordinates::Map transport(m->D, *map);
    Eigen::Map<VectorXd>(theta, m->D)
        = transport.forward(Eigen::Map<const VectorXd>(v, m->D));
    *log_det = transport.log_det();
  });
}

// Score in v from the score of log p at theta = T(v); for checks.
int ext_map_pullback(const bs_model* m, const ext_map* map, const double* v,
                     const double* score, double* in_v, char** error_msg) {
  return guarded(error_msg, [&](auto&) {
    coordinates::Map transport(m->D, *map);
    transport.forward(Eigen::Map<const VectorXd>(v, m->D));
    Eigen::Map<VectorXd>(in_v, m->D)
        = transport.pullback(Eigen::Map<const VectorXd>(score, m->D));
  });
}

}  // extern "C"
