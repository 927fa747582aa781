// Log leaf weight of mesquite bushes linear in log canopy volume (Gelman and Hill (2006), ch.
// 4). beta and sigma have flat priors.
data {
  int<lower=0> N;
  vector<lower=0>[N] weight; // of the leaves
  vector<lower=0>[N] diam1; // canopy, along its longer axis
  vector<lower=0>[N] diam2; // canopy, along its shorter axis
  vector<lower=0>[N] canopy_height;
}
transformed data {
  vector[N] log_weight = log(weight);
  vector[N] log_volume = log(diam1 .* diam2 .* canopy_height);
}
parameters {
  vector[2] beta;
  real<lower=0> sigma;
}
model {
  target += normal_lpdf(log_weight | beta[1] + beta[2] * log_volume, sigma);
}
