// Children's test scores by mother's work as a factor, level 1 being the intercept
// (Gelman and Hill (2006), ch. 4). beta and sigma have flat priors.
data {
  int<lower=0> N;
  vector[N] kid_score;
  array[N] int<lower=1, upper=4> mom_work; // none, later, part time, full time
}
parameters {
  vector[4] beta;
  real<lower=0> sigma;
}
model {
  vector[4] level = beta[1] + append_row(0, beta[2:4]);
  target += normal_lpdf(kid_score | level[mom_work], sigma);
}
