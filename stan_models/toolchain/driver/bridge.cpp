// A Stan model as a C library: the bs_* functions that the bridgestan client
// 2.9.0 loads with ctypes, and two of our own for many points in one call.
//
// theta is unconstrained, length D = bs_param_unc_num. Functions with an
// error_msg return 0, or -1 and a message to release by bs_free_error_msg.
// Any thread may call any function; one bs_rng serves one thread at a time.
#include "library.hpp"

#include <stan/io/chained_var_context.hpp>
#include <stan/io/empty_var_context.hpp>
#include <stan/io/json/json_data.hpp>
#include <stan/io/random_var_context.hpp>
#include <stan/services/util/create_rng.hpp>
#include <stan/version.hpp>

#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

stan::model::model_base& new_model(stan::io::var_context& data,
                                   unsigned int seed, std::ostream* messages);

using Eigen::VectorXd;
using stan::math::var;
using PrintCallback = void (*)(const char* text, int length);

struct bs_rng {
  stan::rng_t state;
};

namespace {

constexpr double nan_ = std::numeric_limits<double>::quiet_NaN();

PrintCallback print_callback = nullptr;
std::mutex print_mutex;

std::string join(const std::vector<std::string>& names) {
  std::string out;
  for (const auto& name : names) out += (out.empty() ? "" : ",") + name;
  return out;
}

template <typename T>
T log_prob(const bs_model& m, bool propto, bool jacobian,
           Eigen::Matrix<T, -1, 1>& theta, std::ostream* messages) {
  const auto& model = *m.model;
  if (propto)
    return jacobian ? model.template log_prob<true, true>(theta, messages)
                    : model.template log_prob<true, false>(theta, messages);
  return jacobian ? model.template log_prob<false, true>(theta, messages)
                  : model.template log_prob<false, false>(theta, messages);
}

// Which terms are constant shows only in autodiff types, hence the tape for
// propto: on doubles Stan would drop everything.
double value(const bs_model& m, bool propto, bool jacobian, const double* theta,
             std::ostream* messages) {
  VectorXd x = Eigen::Map<const VectorXd>(theta, m.D);
  if (!propto) return log_prob<double>(m, false, jacobian, x, messages);
  stan::math::nested_rev_autodiff nested;
  Eigen::Matrix<var, -1, 1> v(x);
  return log_prob<var>(m, true, jacobian, v, messages).val();
}

double gradient(const bs_model& m, bool propto, bool jacobian,
                const double* theta, double* grad, std::ostream* messages) {
  stan::math::nested_rev_autodiff nested;
  Eigen::Matrix<var, -1, 1> v(Eigen::Map<const VectorXd>(theta, m.D));
  const var lp = log_prob<var>(m, propto, jacobian, v, messages);
  stan::math::grad(lp.vi_);
  Eigen::Map<VectorXd>(grad, m.D) = v.adj();
  return lp.val();
}

// (g(x + h d) - g(x - h d)) / 2h, the derivative of the gradient along d.
VectorXd gradient_slope(const bs_model& m, bool propto, bool jacobian,
                        const VectorXd& x, const VectorXd& d, double h,
                        std::ostream* messages) {
  const VectorXd up = x + h * d, down = x - h * d;
  VectorXd g_up(m.D), g_down(m.D);
  gradient(m, propto, jacobian, up.data(), g_up.data(), messages);
  gradient(m, propto, jacobian, down.data(), g_down.data(), messages);
  return (g_up - g_down) / (2 * h);
}

const double cube_root_epsilon
    = std::cbrt(std::numeric_limits<double>::epsilon());

// f(i) for each row; a point outside the support is a value, not a failure.
template <typename F>
int batch(const bs_model* m, int n, char** error_msg, F f) {
  int row = 0;
  const int code = guarded(error_msg, [&](auto& messages) {
    for (; row < n; ++row) f(row, &messages);
  });
  if (code != 0 && error_msg) {
    const std::string located = "row " + std::to_string(row) + ": " + *error_msg;
    free(*error_msg);
    *error_msg = strdup(located.c_str());
  }
  return code;
}

}  // namespace

void flush(std::ostringstream& messages) {
  const std::string text = messages.str();
  if (text.empty()) return;
  messages.str("");
  const std::lock_guard<std::mutex> lock(print_mutex);
  if (print_callback)
    print_callback(text.data(), static_cast<int>(text.size()));
  else
    std::cout << text << std::flush;
}

extern "C" {

int bs_major_version = 2, bs_minor_version = 9, bs_patch_version = 0;

void bs_free_error_msg(char* error_msg) { free(error_msg); }

int bs_set_print_callback(PrintCallback callback, char** error_msg) {
  return guarded(error_msg, [&](auto&) {
    const std::lock_guard<std::mutex> lock(print_mutex);
    print_callback = callback;
  });
}

// data: JSON text, empty for none.
bs_model* bs_model_construct(const char* data, unsigned int seed,
                             char** error_msg) {
  auto m = std::make_unique<bs_model>();
  const int code = guarded(error_msg, [&](auto& messages) {
    stan::math::init_threadpool_tbb(1);
    if (data == nullptr || *data == '\0') {
      stan::io::empty_var_context context;
      m->model.reset(&new_model(context, seed, &messages));
    } else {
      std::istringstream in(data);
      stan::json::json_data context(in);
      m->model.reset(&new_model(context, seed, &messages));
    }
    const auto& model = *m->model;
    std::vector<std::string> names;
    for (bool tp : {false, true})
      for (bool gq : {false, true}) {
        names.clear();
        model.constrained_param_names(names, tp, gq);
        m->names[tp][gq] = join(names);
        m->sizes[tp][gq] = static_cast<int>(names.size());
      }
    names.clear();
    model.unconstrained_param_names(names, false, false);
    m->unconstrained_names = join(names);
    m->D = static_cast<int>(model.num_params_r());
    m->name = model.model_name();
    std::ostringstream info;
    info << "stan_version = " << STAN_MAJOR << '.' << STAN_MINOR << '.'
         << STAN_PATCH << "\nSTAN_THREADS = true\n";
    for (const auto& line : model.model_compile_info()) info << line << '\n';
    m->info = info.str();
  });
  return code == 0 ? m.release() : nullptr;
}

void bs_model_destruct(bs_model* m) { delete m; }
const char* bs_name(const bs_model* m) { return m->name.c_str(); }
const char* bs_model_info(const bs_model* m) { return m->info.c_str(); }
const char* bs_param_names(const bs_model* m, bool tp, bool gq) {
  return m->names[tp][gq].c_str();
}
const char* bs_param_unc_names(const bs_model* m) {
  return m->unconstrained_names.c_str();
}
int bs_param_num(const bs_model* m, bool tp, bool gq) { return m->sizes[tp][gq]; }
int bs_param_unc_num(const bs_model* m) { return m->D; }

// theta: bs_param_num(m, tp, gq) values; rng may be null without gq.
int bs_param_constrain(const bs_model* m, bool tp, bool gq,
                       const double* theta_unc, double* theta, bs_rng* rng,
                       char** error_msg) {
  return guarded(error_msg, [&](auto& messages) {
    if (gq && rng == nullptr)
      throw std::invalid_argument("generated quantities need an rng, got null");
    stan::rng_t unused = stan::services::util::create_rng(0, 0);
    VectorXd x = Eigen::Map<const VectorXd>(theta_unc, m->D), out;
    m->model->write_array(rng ? rng->state : unused, x, out, tp, gq, &messages);
    std::copy(out.data(), out.data() + out.size(), theta);
  });
}

int bs_param_unconstrain(const bs_model* m, const double* theta,
                         double* theta_unc, char** error_msg) {
  return guarded(error_msg, [&](auto& messages) {
    const VectorXd x = Eigen::Map<const VectorXd>(theta, m->sizes[0][0]);
    VectorXd out;
    m->model->unconstrain_array(x, out, &messages);
    std::copy(out.data(), out.data() + out.size(), theta_unc);
  });
}

int bs_param_unconstrain_json(const bs_model* m, const char* json,
                              double* theta_unc, char** error_msg) {
  return guarded(error_msg, [&](auto& messages) {
    std::istringstream in(json);
    stan::json::json_data context(in);
    VectorXd out;
    m->model->transform_inits(context, out, &messages);
    std::copy(out.data(), out.data() + out.size(), theta_unc);
  });
}

// What json leaves out is uniform on (-radius, radius), unconstrained, drawn
// until density and gradient are finite.
int bs_param_initialize(const bs_model* m, const char* json, bs_rng* rng,
                        double radius, int max_tries, bool jacobian,
                        double* theta_unc, char** error_msg) {
  return guarded(error_msg, [&](auto& messages) {
    std::istringstream in(json && *json ? json : "{}");
    const stan::json::json_data given(in);
    std::string last = "the density or its gradient is not finite";
    for (int i = 0; i < max_tries; ++i) {
      try {
        stan::io::random_var_context random(*m->model, rng->state, radius,
                                            radius == 0);
        const stan::io::chained_var_context context(given, random);
        VectorXd x, g(m->D);
        m->model->transform_inits(context, x, &messages);
        const double lp
            = gradient(*m, true, jacobian, x.data(), g.data(), &messages);
        if (!std::isfinite(lp) || !g.allFinite()) continue;
        std::copy(x.data(), x.data() + x.size(), theta_unc);
        return;
      } catch (const std::domain_error& e) {
        last = e.what();
      }
    }
    throw std::domain_error("no starting point in " + std::to_string(max_tries)
                            + " tries: " + last);
  });
}

int bs_log_density(const bs_model* m, bool propto, bool jacobian,
                   const double* theta, double* lp, char** error_msg) {
  return guarded(error_msg, [&](auto& messages) {
    *lp = value(*m, propto, jacobian, theta, &messages);
  });
}

int bs_log_density_gradient(const bs_model* m, bool propto, bool jacobian,
                            const double* theta, double* lp, double* grad,
                            char** error_msg) {
  return guarded(error_msg, [&](auto& messages) {
    *lp = gradient(*m, propto, jacobian, theta, grad, &messages);
  });
}

// hessian: D x D, symmetric, central differences of the exact gradient.
int bs_log_density_hessian(const bs_model* m, bool propto, bool jacobian,
                           const double* theta, double* lp, double* grad,
                           double* hessian, char** error_msg) {
  return guarded(error_msg, [&](auto& messages) {
    *lp = gradient(*m, propto, jacobian, theta, grad, &messages);
    const VectorXd x = Eigen::Map<const VectorXd>(theta, m->D);
    Eigen::MatrixXd H(m->D, m->D);
    for (int j = 0; j < m->D; ++j)
      H.col(j) = gradient_slope(*m, propto, jacobian, x,
                                VectorXd::Unit(m->D, j),
                                cube_root_epsilon * std::max(1.0, std::abs(x(j))),
                                &messages);
    Eigen::Map<Eigen::MatrixXd>(hessian, m->D, m->D) = (H + H.transpose()) / 2;
  });
}

int bs_log_density_hessian_vector_product(const bs_model* m, bool propto,
                                          bool jacobian, const double* theta,
                                          const double* vector, double* lp,
                                          double* hvp, char** error_msg) {
  return guarded(error_msg, [&](auto& messages) {
    VectorXd g(m->D);
    *lp = gradient(*m, propto, jacobian, theta, g.data(), &messages);
    const VectorXd x = Eigen::Map<const VectorXd>(theta, m->D);
    const VectorXd v = Eigen::Map<const VectorXd>(vector, m->D);
    Eigen::Map<VectorXd> out(hvp, m->D);
    if (v.isZero(0)) return out.setZero(), void();
    const double scale = std::max(1.0, x.lpNorm<Eigen::Infinity>());
    const double h = cube_root_epsilon * scale / v.lpNorm<Eigen::Infinity>();
    out = gradient_slope(*m, propto, jacobian, x, v, h, &messages);
  });
}

bs_rng* bs_rng_construct(unsigned int seed, char** error_msg) {
  bs_rng* rng = nullptr;
  guarded(error_msg, [&](auto&) {
    rng = new bs_rng{stan::services::util::create_rng(seed, 0)};
  });
  return rng;
}
void bs_rng_destruct(bs_rng* rng) { delete rng; }

// theta: n x D, row major; lp: n; grad: n x D, row major. Where the program
// raises a domain error (out of support, reject()) lp is -inf and grad NaN, and
// the call goes on; any other error ends it, and the message names the row.
int ext_log_density_gradient_batch(const bs_model* m, bool propto, bool jacobian,
                                   int n, const double* theta, double* lp,
                                   double* grad, char** error_msg) {
  return batch(m, n, error_msg, [&](size_t i, std::ostream* messages) {
    double* g = grad + i * m->D;
    try {
      lp[i] = gradient(*m, propto, jacobian, theta + i * m->D, g, messages);
    } catch (const std::domain_error&) {
      lp[i] = -std::numeric_limits<double>::infinity();
      std::fill(g, g + m->D, nan_);
    }
  });
}

int ext_log_density_batch(const bs_model* m, bool propto, bool jacobian, int n,
                          const double* theta, double* lp, char** error_msg) {
  return batch(m, n, error_msg, [&](size_t i, std::ostream* messages) {
    try {
      lp[i] = value(*m, propto, jacobian, theta + i * m->D, messages);
    } catch (const std::domain_error&) {
      lp[i] = -std::numeric_limits<double>::infinity();
    }
  });
}

}  // extern "C"
