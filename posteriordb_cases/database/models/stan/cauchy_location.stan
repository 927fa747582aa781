// Location of Cauchy observations with known scale, standard normal prior: two modes.
data {
  int<lower=0> N;
  vector[N] y;
  real<lower=0> scale;
}
parameters {
  real xi;
}
model {
  target += std_normal_lpdf(xi);
  target += cauchy_lpdf(y | xi, scale);
}
