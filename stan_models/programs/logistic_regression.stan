// Bayesian logistic regression, y_n ~ Bernoulli(logit^-1(alpha + x_n' beta)),
// with independent normal priors whose scales are data:
//   alpha ~ normal(0, alpha_scale)    intercept
//   beta_k ~ normal(0, beta_scale)    slopes
// Every density is written as target += ..., so the log density is normalised:
// its integral is the marginal likelihood.
data {
  int<lower=0> N;                // observations
  int<lower=0> K;                // predictors
  matrix[N, K] x;                // design, without a column of ones
  array[N] int<lower=0, upper=1> y;
  real<lower=0> alpha_scale;
  real<lower=0> beta_scale;
}
parameters {
  real alpha;
  vector[K] beta;
}
model {
  target += normal_lpdf(alpha | 0, alpha_scale);
  target += normal_lpdf(beta | 0, beta_scale);
  target += bernoulli_logit_glm_lpmf(y | x, alpha, beta);
}
