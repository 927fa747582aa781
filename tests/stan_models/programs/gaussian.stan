// A normal target of known mean and covariance, raised to a power: 1 for the
// target itself, 0 for a flat density, -1 for one without a maximum.
data {
  int<lower=1> D;
  vector[D] mean;
  cov_matrix[D] cov;
  real power;
}
parameters {
  vector[D] x;
}
model {
  target += power * multi_normal_lpdf(x | mean, cov);
}
