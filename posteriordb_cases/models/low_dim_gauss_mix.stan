// Mixture of two normal distributions, the means in increasing order.
data {
  int<lower=0> N;
  vector[N] y;
}
parameters {
  ordered[2] mu;
  vector<lower=0>[2] sigma;
  real<lower=0, upper=1> theta; // weight of the first
}
model {
  target += normal_lpdf(mu | 0, 2);
  target += normal_lpdf(sigma | 0, 2) - 2 * normal_lccdf(0 | 0, 2);
  target += beta_lpdf(theta | 5, 5);
  for (n in 1:N) {
    target += log_mix(theta, normal_lpdf(y[n] | mu[1], sigma[1]),
                      normal_lpdf(y[n] | mu[2], sigma[2]));
  }
}
