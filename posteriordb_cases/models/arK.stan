// Autoregression of order K, conditional on the first K values.
data {
  int<lower=0> K;
  int<lower=K> T;
  vector[T] y;
}
transformed data {
  matrix[T - K, K] lags; // lags[t, k] is the value k steps before y[K + t]
  for (k in 1:K) {
    lags[:, k] = y[K + 1 - k:T - k];
  }
}
parameters {
  real alpha;
  vector[K] beta;
  real<lower=0> sigma;
}
model {
  target += normal_lpdf(alpha | 0, 10);
  target += normal_lpdf(beta | 0, 10);
  target += cauchy_lpdf(sigma | 0, 2.5) - cauchy_lccdf(0 | 0, 2.5);
  target += normal_id_glm_lpdf(y[K + 1:T] | lags, alpha, beta, sigma);
}
