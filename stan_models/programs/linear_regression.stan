// Bayesian linear regression, y_n ~ normal(alpha + x_n' beta, sigma), with
// independent priors whose scales are data:
//   alpha ~ normal(0, alpha_scale)    intercept
//   beta_k ~ normal(0, beta_scale)    slopes
//   sigma ~ half-normal(sigma_scale)  noise, with the half's log 2 included
// Every density is written as target += ..._lpdf, so the log density is
// normalised: its integral is the marginal likelihood.
data {
  int<lower=0> N;                // observations
  int<lower=0> K;                // predictors
  matrix[N, K] x;                // design, without a column of ones
  vector[N] y;                   // responses
  real<lower=0> alpha_scale;
  real<lower=0> beta_scale;
  real<lower=0> sigma_scale;
}
parameters {
  real alpha;
  vector[K] beta;
  real<lower=0> sigma;
}
model {
  target += normal_lpdf(alpha | 0, alpha_scale);
  target += normal_lpdf(beta | 0, beta_scale);
  target += normal_lpdf(sigma | 0, sigma_scale) + log2();
  target += normal_id_glm_lpdf(y | x, alpha, beta, sigma);
}
