// Conjugate: the posterior of rate is gamma(shape + sum(y), scale + N).
data {
  int<lower=0> N;
  array[N] int<lower=0> y;
  real<lower=0> shape;
  real<lower=0> scale;
}
parameters {
  real<lower=0> rate;
}
transformed parameters {
  real log_rate = log(rate);
}
model {
  rate ~ gamma(shape, scale);
  y ~ poisson(rate);
}
generated quantities {
  int next = poisson_rng(rate);
}
