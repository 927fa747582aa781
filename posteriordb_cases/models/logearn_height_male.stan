// Log earnings linear in height and sex (Gelman and Hill (2006), ch. 4). beta and sigma have
// flat priors.
data {
  int<lower=0> N;
  vector<lower=0>[N] earn; // dollars
  vector<lower=0>[N] height; // inches
  vector<lower=0, upper=1>[N] male;
}
transformed data {
  vector[N] log_earn = log(earn);
}
parameters {
  vector[3] beta;
  real<lower=0> sigma;
}
model {
  target += normal_lpdf(log_earn | beta[1] + beta[2] * height + beta[3] * male, sigma);
}
