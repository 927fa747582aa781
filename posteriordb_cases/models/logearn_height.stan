// Log earnings linear in height (Gelman and Hill (2006), ch. 4). beta and sigma have flat
// priors.
data {
  int<lower=0> N;
  vector<lower=0>[N] earn; // dollars
  vector<lower=0>[N] height; // inches
}
transformed data {
  vector[N] log_earn = log(earn);
}
parameters {
  vector[2] beta;
  real<lower=0> sigma;
}
model {
  target += normal_lpdf(log_earn | beta[1] + beta[2] * height, sigma);
}
