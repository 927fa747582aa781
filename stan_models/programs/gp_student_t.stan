// Gaussian process regression with Student-t noise, y_n ~ t_nu(f(x_n), noise),
// f ~ GP(0, signal^2 Matern-5/2(|x - x'| / length_scale)), independent priors whose
// parameters are data:
//   length_scale ~ inverse-gamma(length_scale_shape, length_scale_rate)
//   signal ~ half-normal(signal_scale), noise ~ half-normal(noise_scale),
//   with the halves' log 2 included
// f = L z with z standard normal (non-centred) and L L' = K + jitter I.
// Every density is written as target += ..., so the log density is normalised:
// its integral is the marginal likelihood.
data {
  int<lower=1> N;                // observations
  int<lower=1> D;                // inputs
  array[N] vector[D] x;
  vector[N] y;
  real<lower=0> nu;              // degrees of freedom
  real<lower=0> jitter;          // added to the variances, 1e-6 in PyMC
  real<lower=0> length_scale_shape;
  real<lower=0> length_scale_rate;
  real<lower=0> signal_scale;
  real<lower=0> noise_scale;
}
parameters {
  real<lower=0> length_scale;
  real<lower=0> signal;
  real<lower=0> noise;
  vector[N] z;
}
transformed parameters {
  vector[N] f;
  {
    matrix[N, N] K = add_diag(gp_matern52_cov(x, signal, length_scale), jitter);
    f = cholesky_decompose(K) * z;
  }
}
model {
  target += inv_gamma_lpdf(length_scale | length_scale_shape, length_scale_rate);
  target += normal_lpdf(signal | 0, signal_scale) + log2();
  target += normal_lpdf(noise | 0, noise_scale) + log2();
  target += std_normal_lpdf(z);
  target += student_t_lpdf(y | nu, f, noise);
}
