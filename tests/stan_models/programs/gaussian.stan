// A normal target of known mean and covariance times exp(log_z), raised to a
// power: 1 for the target itself, 0 for a flat density, -1 for one without a
// maximum.
data {
  int<lower=1> D;
  vector[D] mean;
  cov_matrix[D] cov;
  real log_z;
  real power;
}
parameters {
  vector[D] x;
}
model {
  target += power * (log_z + multi_normal_lpdf(x | mean, cov));
}
