// Eight schools (Rubin 1981), non-centred parametrisation. Every density is normalised: tau's half-Cauchy
// includes its log 2, which posteriordb's program of the same name leaves out.
data {
  int<lower=0> J;               // schools
  array[J] real y;              // estimated effects
  array[J] real<lower=0> sigma; // their standard errors
}
parameters {
  vector[J] theta_trans; // standardised effects
  real mu;
  real<lower=0> tau;
}
transformed parameters {
  vector[J] theta = mu + tau * theta_trans;
}
model {
  target += std_normal_lpdf(theta_trans);
  target += normal_lpdf(mu | 0, 5);
  target += cauchy_lpdf(tau | 0, 5) - cauchy_lccdf(0 | 0, 5);
  target += normal_lpdf(y | theta, sigma);
}
