// The coordinates v of a fitted approximation: theta = T(v), where v ~ N(0, I)
// would mean theta ~ q; and the model's log density as one of v.
//
//   y = (S(asinh v - skew) - S(-skew)) / S'(-skew)                  marginals
//   S(u) = sinh(t u) / t, t = below for u < 0, above else
//   x = C w + d,  g = sigmoid(2 x),  g0 = sigmoid(2 d),  a = s log(g / g0) / 2
//   w = e^a y + g (m + H w) + Q (w^2 - 1)                           one layer
//   theta[order] = mu + L w
//
// C, H, Q are strictly lower triangular: w is found from its first entry on,
// and log|det dT/dv| = sum a + sum log dy/dv + log|det L|, whose last term, a
// constant, is left out.
// C = H = Q = 0, skew = 0, below = above = 1 is the Gaussian N(mu, L L'), L any
// root.
#pragma once

#include "library.hpp"

#include <Eigen/Sparse>

#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

extern "C" {

// `size` entries at (rows[k], columns[k]).
struct ext_matrix {
  int size;
  const int *rows, *columns;
  const double* values;
};

// Vectors of length D.
struct ext_map {
  const int* order;
  const double *mu, *d, *m, *s, *skew, *below, *above;
  ext_matrix L, C, H, Q;
};

}  // extern "C"

namespace coordinates {

using Eigen::ArrayXd;
using Eigen::VectorXd;
using Values = Eigen::Map<const ArrayXd>;

// A square matrix, dense where half of a triangle or more is not zero.
class Matrix {
 public:
  Matrix(int D, const ext_matrix& m) : size_(m.size), sparse_(D, D) {
    std::vector<Eigen::Triplet<double>> entries;
    for (int k = 0; k < m.size; ++k)
      entries.emplace_back(m.rows[k], m.columns[k], m.values[k]);
    sparse_.setFromTriplets(entries.begin(), entries.end());
    is_dense_ = 4.0 * m.size > static_cast<double>(D) * D;
    if (is_dense_) dense_ = sparse_;
  }
  bool empty() const { return size_ == 0; }
  bool has_row(int i) const {
    return sparse_.outerIndexPtr()[i] != sparse_.outerIndexPtr()[i + 1];
  }
  VectorXd operator*(const VectorXd& x) const {
    if (is_dense_) return dense_ * x;
    return sparse_ * x;
  }
  VectorXd transposed_times(const VectorXd& x) const {
    if (is_dense_) return dense_.transpose() * x;
    return sparse_.transpose() * x;
  }
  // Row i times x.
  double row_times(int i, const ArrayXd& x) const {
    double sum = 0;
    for (Row entry(sparse_, i); entry; ++entry)
      sum += entry.value() * x(entry.col());
    return sum;
  }
  // out += factor times row i, entry by entry times x in the second form.
  void add_row(int i, double factor, ArrayXd& out) const {
    for (Row entry(sparse_, i); entry; ++entry)
      out(entry.col()) += factor * entry.value();
  }
  void add_row(int i, double factor, const ArrayXd& x, ArrayXd& out) const {
    for (Row entry(sparse_, i); entry; ++entry)
      out(entry.col()) += factor * entry.value() * x(entry.col());
  }

 private:
  using Sparse = Eigen::SparseMatrix<double, Eigen::RowMajor>;
  using Row = Sparse::InnerIterator;

  int size_;
  bool is_dense_;
  Sparse sparse_;
  Eigen::MatrixXd dense_;
};

class Map {
 public:
  Map(int D, const ext_map& m)
      : order_(m.order, m.order + D), mu_(Values(m.mu, D)), d_(Values(m.d, D)),
        m_(Values(m.m, D)), s_(Values(m.s, D)), L_(D, m.L), C_(D, m.C), H_(D, m.H), Q_(D, m.Q) {
    for (int i = 0; i < D; ++i)
      if (m.skew[i] != 0 || m.below[i] != 1 || m.above[i] != 1)
        bent_.push_back({i, m.skew[i], m.below[i], m.above[i]});
    for (int i = 0; i < D; ++i)
      if (m_(i) != 0 || C_.has_row(i) || H_.has_row(i) || Q_.has_row(i))
        linked_.push_back(i);
    slope_ = ArrayXd::Ones(D);
    e_ = ArrayXd::Ones(D);
    g_ = follow_ = ArrayXd::Zero(D);
    by_log_slope_ = ArrayXd::Zero(D);
  }

  // theta; log|det dT/dv| goes to log_det(). What a pullback needs is kept.
  VectorXd forward(const VectorXd& v) {
    log_det_ = 0;
    y_ = v;
    for (const auto& marginal : bent_) bend(marginal, v(marginal.place));
    w_ = y_;
    squares_ = w_ * w_ - 1;
    for (const int i : linked_) {
      const double log_g = log_sigmoid(2 * (C_.row_times(i, w_) + d_(i)));
      const double a = 0.5 * s_(i) * (log_g - log_sigmoid(2 * d_(i)));
      e_(i) = std::exp(a);
      g_(i) = std::exp(log_g);
      follow_(i) = m_(i) + H_.row_times(i, w_);
      w_(i) = e_(i) * y_(i) + g_(i) * follow_(i) + Q_.row_times(i, squares_);
      squares_(i) = w_(i) * w_(i) - 1;
      log_det_ += a;
    }
    const VectorXd sorted = mu_.matrix() + L_ * w_.matrix();
    VectorXd theta(v.size());
    for (Eigen::Index i = 0; i < v.size(); ++i) theta(order_[i]) = sorted(i);
    return theta;
  }
  double log_det() const { return log_det_; }

  // Score in v of log p(T(v)) + log|det|, from that of log p at theta = T(v),
  // at the v of the last forward.
  VectorXd pullback(const VectorXd& score) const {
    VectorXd sorted(score.size());
    for (Eigen::Index i = 0; i < score.size(); ++i) sorted(i) = score(order_[i]);
    ArrayXd by_w = L_.transposed_times(sorted).array();
    for (auto linked = linked_.rbegin(); linked != linked_.rend(); ++linked) {
      const int i = *linked;  // all that depends on w(i) has been added to it
      const double t = by_w(i), shut = 1 - g_(i);
      const double by_x = shut * (s_(i) * e_(i) * y_(i) + 2 * g_(i) * follow_(i));
      C_.add_row(i, by_x * t + s_(i) * shut, by_w);
      H_.add_row(i, g_(i) * t, by_w);
      Q_.add_row(i, 2 * t, w_, by_w);
    }
    ArrayXd by_y = e_ * by_w;
    if (!bent_.empty()) by_y = slope_ * by_y + by_log_slope_;
    return by_y.matrix();
  }

 private:
  static double log_sigmoid(double t) {
    return t < 0 ? t - std::log1p(std::exp(t)) : -std::log1p(std::exp(-t));
  }

  struct Marginal {
    int place;
    double skew, below, above;
    double tail(double u) const { return u < 0 ? below : above; }
  };

  void bend(const Marginal& marginal, double v) {
    const double square = 1 + v * v, u = std::asinh(v) - marginal.skew;
    const double t = marginal.tail(u), t0 = marginal.tail(-marginal.skew);
    const double S = std::sinh(t * u), at_zero = std::cosh(t0 * marginal.skew);
    const int i = marginal.place;
    y_(i) = (S / t + std::sinh(t0 * marginal.skew) / t0) / at_zero;
    slope_(i) = std::sqrt((1 + S * S) / square) / at_zero;
    by_log_slope_(i) = t * std::tanh(t * u) / std::sqrt(square) - v / square;
    log_det_ += std::log(slope_(i));
  }

  std::vector<int> order_;
  ArrayXd mu_, d_, m_, s_;
  Matrix L_, C_, H_, Q_;
  std::vector<Marginal> bent_;
  std::vector<int> linked_;  // places that depend on others, first ones first
  double log_det_ = 0;
  ArrayXd y_, w_, squares_, e_, g_, follow_, slope_, by_log_slope_;
};

// Thrown in place of a gradient that nobody waits for any more; Stan's samplers
// catch standard exceptions alone.
struct Stopped {};

// log p(T(v)) + log|det dT/dv| as Stan's samplers take a model; without a map
// v is theta. Autodiff sees the user's model alone.
class Model {
 public:
  Model(const bs_model& model, const ext_map* map) : model_(model) {
    if (map) map_.emplace(model.D, *map);
  }

  size_t num_params_r() const { return model_.D; }
  long long gradients() const { return gradients_; }

  // From here on no gradient is begun once *stop is nonzero.
  void heed(const volatile int* stop) { stop_ = stop; }

  // The gradient at v, the end of one trajectory and the start of the next, is
  // kept: Stan's samplers would compute it again.
  void start_at(const VectorXd& v) {
    std::optional<Evaluation> start;
    for (auto& seen : seen_)
      if (seen.v == v) start = std::move(seen);
    seen_.clear();
    if (start) seen_.push_back(std::move(*start));
    starts_here_ = start.has_value();
  }

  template <bool propto, bool jacobian, typename T>
  T log_prob(Eigen::Matrix<T, -1, 1>& v, std::ostream*) const {
    const VectorXd at = stan::math::value_of(v);
    const Evaluation& found = evaluate(at);
    stan::arena_t<Eigen::Matrix<T, -1, 1>> inputs(v);
    stan::arena_t<VectorXd> gradient(found.gradient);
    return stan::math::make_callback_var(
        found.value, [inputs, gradient](auto& result) mutable {
          inputs.adj() += result.adj() * gradient;
        });
  }

 private:
  struct Evaluation {
    VectorXd v, gradient;
    double value;
  };
  static constexpr size_t most_kept = 1 << 22;  // numbers: 32 MB a chain

  const Evaluation& evaluate(const VectorXd& v) const {
    if (starts_here_ && seen_.front().v == v) return seen_.front();
    if (stop_ && *stop_) throw Stopped();
    ++gradients_;
    stan::math::nested_rev_autodiff nested;
    Eigen::Matrix<stan::math::var, -1, 1> theta(map_ ? map_->forward(v) : v);
    const auto lp = model_.model->template log_prob<true, true>(theta, nullptr);
    stan::math::grad(lp.vi_);
    Evaluation found{v, theta.adj(), lp.val()};
    if (map_) {
      found.value += map_->log_det();
      found.gradient = map_->pullback(found.gradient);
    }
    if (seen_.size() * v.size() * 2 > most_kept) {
      seen_.clear();
      starts_here_ = false;
    }
    seen_.push_back(std::move(found));
    return seen_.back();
  }

  const bs_model& model_;
  mutable std::optional<Map> map_;
  mutable std::vector<Evaluation> seen_;
  mutable bool starts_here_ = false;
  mutable long long gradients_ = 0;
  const volatile int* stop_ = nullptr;
};

}  // namespace coordinates
