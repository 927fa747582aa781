// Bernoulli trials with a beta prior: the posterior is a beta distribution.
data {
  int<lower=0> N;
  array[N] int<lower=0, upper=1> y;
  real<lower=0> prior_successes;
  real<lower=0> prior_failures;
}
parameters {
  real<lower=0, upper=1> p;
}
model {
  target += beta_lpdf(p | prior_successes, prior_failures);
  target += bernoulli_lpmf(y | p);
}
