// A normal density of known mean and covariance, times exp(log_evidence).
data {
  int<lower=1> D;
  vector[D] mu;
  cholesky_factor_cov[D] scale_tril; // lower Cholesky factor of the covariance
  real log_evidence;
}
parameters {
  vector[D] x;
}
model {
  target += multi_normal_cholesky_lpdf(x | mu, scale_tril);
  target += log_evidence;
}
