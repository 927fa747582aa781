// Log leaf weight of mesquite bushes by log canopy volume and area (Gelman and Hill (2006), ch.
// 4). beta and sigma have flat priors.
data {
  int<lower=0> N;
  vector<lower=0>[N] weight; // of the leaves
  vector<lower=0>[N] diam1; // canopy, along its longer axis
  vector<lower=0>[N] diam2; // canopy, along its shorter axis
  vector<lower=0>[N] canopy_height;
  vector<lower=0, upper=1>[N] group; // 1: measured in the other year
}
transformed data {
  vector[N] log_weight = log(weight);
  vector[N] log_volume = log(diam1 .* diam2 .* canopy_height);
  vector[N] log_area = log(diam1 .* diam2);
}
parameters {
  vector[4] beta;
  real<lower=0> sigma;
}
model {
  vector[N] location = beta[1] + beta[2] * log_volume + beta[3] * log_area + beta[4] * group;
  target += normal_lpdf(log_weight | location, sigma);
}
