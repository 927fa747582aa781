// Children's test scores by mother's IQ (Gelman and Hill (2006), ch. 3). beta is flat, sigma
// half-Cauchy(2.5).
data {
  int<lower=0> N;
  vector[N] kid_score;
  vector[N] mom_iq;
}
parameters {
  vector[2] beta;
  real<lower=0> sigma;
}
model {
  target += cauchy_lpdf(sigma | 0, 2.5) - cauchy_lccdf(0 | 0, 2.5);
  target += normal_lpdf(kid_score | beta[1] + beta[2] * mom_iq, sigma);
}
