// Leaf weight of mesquite bushes linear in their sizes (Gelman and Hill (2006), ch. 4). beta and
// sigma have flat priors.
data {
  int<lower=0> N;
  vector<lower=0>[N] weight; // of the leaves
  vector<lower=0>[N] diam1; // canopy, along its longer axis
  vector<lower=0>[N] diam2; // canopy, along its shorter axis
  vector<lower=0>[N] canopy_height;
  vector<lower=0>[N] total_height;
  vector<lower=0>[N] density; // stems a plant unit
  vector<lower=0, upper=1>[N] group; // 1: measured in the other year
}
parameters {
  vector[7] beta;
  real<lower=0> sigma;
}
model {
  vector[N] location = beta[1] + beta[2] * diam1 + beta[3] * diam2 + beta[4] * canopy_height
                       + beta[5] * total_height + beta[6] * density + beta[7] * group;
  target += normal_lpdf(weight | location, sigma);
}
