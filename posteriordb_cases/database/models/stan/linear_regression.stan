// Linear regression: intercept b and weights w ~ normal(0, 10), noise scale ~ lognormal(0.5, 1).
data {
  int<lower=0> N;
  int<lower=0> K;
  matrix[N, K] x;
  vector[N] y;
}
parameters {
  vector[K] w;
  real b;
  real<lower=0> sigma;
}
model {
  target += normal_lpdf(w | 0, 10);
  target += normal_lpdf(b | 0, 10);
  target += lognormal_lpdf(sigma | 0.5, 1);
  target += normal_lpdf(y | b + x * w, sigma);
}
