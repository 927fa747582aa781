// Poisson regression whose log rate is a Gaussian process with an exponentiated quadratic kernel.
data {
  int<lower=0> N;
  array[N] real x;
  array[N] int<lower=0> k;
}
parameters {
  real<lower=0> rho;   // length scale
  real<lower=0> alpha; // standard deviation
  vector[N] f_tilde;
}
transformed parameters {
  vector[N] f;
  {
    matrix[N, N] covariance = add_diag(gp_exp_quad_cov(x, alpha, rho), 1e-10);
    f = cholesky_decompose(covariance) * f_tilde;
  }
}
model {
  target += gamma_lpdf(rho | 25, 4);
  target += normal_lpdf(alpha | 0, 2) - normal_lccdf(0 | 0, 2);
  target += std_normal_lpdf(f_tilde);
  target += poisson_log_lpmf(k | f);
}
