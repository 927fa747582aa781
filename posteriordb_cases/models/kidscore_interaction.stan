// Children's test scores by mother's high school, IQ and their interaction (Gelman and Hill
// (2006), ch. 3). beta is flat, sigma half-Cauchy(2.5).
data {
  int<lower=0> N;
  vector[N] kid_score;
  vector<lower=0, upper=1>[N] mom_hs; // 1: finished high school
  vector[N] mom_iq;
}
transformed data {
  vector[N] hs_iq = mom_hs .* mom_iq;
}
parameters {
  vector[4] beta;
  real<lower=0> sigma;
}
model {
  target += cauchy_lpdf(sigma | 0, 2.5) - cauchy_lccdf(0 | 0, 2.5);
  vector[N] location = beta[1] + beta[2] * mom_hs + beta[3] * mom_iq + beta[4] * hs_iq;
  target += normal_lpdf(kid_score | location, sigma);
}
