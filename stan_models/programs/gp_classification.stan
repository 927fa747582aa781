// Gaussian process classification, y_n ~ Bernoulli(h(f(x_n))) with h the logistic
// function or, with probit = 1, the normal distribution function;
// f ~ GP(0, signal^2 Matern-5/2(|x - x'| / length_scale)), independent priors whose
// parameters are data:
//   length_scale ~ inverse-gamma(length_scale_shape, length_scale_rate)
//   signal ~ half-normal(signal_scale), with the half's log 2 included
// f = L z with z standard normal (non-centred) and L L' = K + jitter I.
// Every density is written as target += ..., so the log density is normalised:
// its integral is the marginal likelihood.
data {
  int<lower=1> N;                // observations
  int<lower=1> D;                // inputs
  array[N] vector[D] x;
  array[N] int<lower=0, upper=1> y;
  int<lower=0, upper=1> probit;
  real<lower=0> jitter;          // added to the variances, 1e-6 in PyMC
  real<lower=0> length_scale_shape;
  real<lower=0> length_scale_rate;
  real<lower=0> signal_scale;
}
transformed data {
  vector[N] label = 2 * to_vector(y) - 1;
}
parameters {
  real<lower=0> length_scale;
  real<lower=0> signal;
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
  target += std_normal_lpdf(z);
  if (probit == 1) {
    target += std_normal_lcdf(label .* f);
  } else {
    target += bernoulli_logit_lpmf(y | f);
  }
}
