// Children's test scores by mother's high school less 1/2, IQ less 100, and their interaction
// (Gelman and Hill (2006), ch. 4). beta and sigma have flat priors.
data {
  int<lower=0> N;
  vector[N] kid_score;
  vector<lower=0, upper=1>[N] mom_hs; // 1: finished high school
  vector[N] mom_iq;
}
transformed data {
  vector[N] hs = mom_hs - 0.5;
  vector[N] iq = mom_iq - 100;
  vector[N] hs_iq = hs .* iq;
}
parameters {
  vector[4] beta;
  real<lower=0> sigma;
}
model {
  target += normal_lpdf(kid_score | beta[1] + beta[2] * hs + beta[3] * iq + beta[4] * hs_iq, sigma);
}
