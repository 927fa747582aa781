// GARCH(1, 1): the variance of each value depends on the square and the variance of the last.
// Flat priors on the region of finite variance.
data {
  int<lower=1> T;
  vector[T] y;
  real<lower=0> sigma1; // scale of the first value
}
parameters {
  real mu;
  real<lower=0> alpha0;
  real<lower=0, upper=1> alpha1;
  real<lower=0, upper=1 - alpha1> beta1;
}
model {
  vector[T] variance;
  variance[1] = square(sigma1);
  for (t in 2:T) {
    variance[t] = alpha0 + alpha1 * square(y[t - 1] - mu) + beta1 * variance[t - 1];
  }
  target += normal_lpdf(y | mu, sqrt(variance));
}
