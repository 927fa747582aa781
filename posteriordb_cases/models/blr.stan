// Linear regression without intercept, with wide normal and half-normal priors.
data {
  int<lower=0> N;
  int<lower=0> D;
  matrix[N, D] X;
  vector[N] y;
}
parameters {
  vector[D] beta;
  real<lower=0> sigma;
}
model {
  target += normal_lpdf(beta | 0, 10);
  target += normal_lpdf(sigma | 0, 10) - normal_lccdf(0 | 0, 10);
  target += normal_id_glm_lpdf(y | X, 0, beta, sigma);
}
