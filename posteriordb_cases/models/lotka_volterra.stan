// Hares and lynxes in a year: the Lotka-Volterra equations, in logarithms, with lognormal errors.
functions {
  vector growth(real t, vector log_z, vector theta) {
    return [theta[1] - theta[2] * exp(log_z[2]), theta[4] * exp(log_z[1]) - theta[3]]';
  }
}
data {
  int<lower=0> N;
  array[N] real<lower=0> ts; // years since the first counts
  vector<lower=0>[2] y_init; // first counts of hares and lynxes, thousands
  array[N] vector<lower=0>[2] y; // counts at ts
}
parameters {
  vector<lower=0>[4] theta; // growth of hares, loss to lynxes; decline of lynxes, gain from hares
  vector<lower=0>[2] z_init;
  vector<lower=0>[2] sigma;
}
model {
  array[N] vector[2] log_z = ode_rk45_tol(growth, log(z_init), 0, ts, 1e-7, 1e-7, 100000, theta);
  vector[4] location = [1, 0.05, 1, 0.05]';
  vector[4] scale = [0.5, 0.05, 0.5, 0.05]';
  target += normal_lpdf(theta | location, scale) - normal_lccdf(rep_vector(0, 4) | location, scale);
  target += lognormal_lpdf(z_init | log(10), 1);
  target += lognormal_lpdf(sigma | -1, 1);
  target += lognormal_lpdf(y_init | log(z_init), sigma);
  for (n in 1:N) {
    target += lognormal_lpdf(y[n] | log_z[n], sigma);
  }
}
