// Log price of diamonds: regression on 24 highly correlated predictors, centred, with the priors
// brms gives (Bales et al. 2019). Intercept is that of the centred predictors.
data {
  int<lower=0> N;
  int<lower=1> K;
  vector[N] Y;
  matrix[N, K] X; // first column 1
}
transformed data {
  matrix[N, K - 1] centred;
  for (k in 2:K) {
    centred[:, k - 1] = X[:, k] - mean(X[:, k]);
  }
}
parameters {
  vector[K - 1] b;
  real Intercept;
  real<lower=0> sigma;
}
model {
  target += normal_lpdf(b | 0, 1);
  target += student_t_lpdf(Intercept | 3, 8, 10);
  target += student_t_lpdf(sigma | 3, 0, 10) - student_t_lccdf(0 | 3, 0, 10);
  target += normal_id_glm_lpdf(Y | centred, Intercept, b, sigma);
}
