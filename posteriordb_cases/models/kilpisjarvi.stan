// Summer temperature linear in the year, whose size makes alpha and beta all but collinear
// (Bales et al. 2019). sigma has a flat prior.
data {
  int<lower=0> N;
  vector[N] x; // year
  vector[N] y; // mean temperature
  real pmualpha;
  real<lower=0> psalpha;
  real pmubeta;
  real<lower=0> psbeta;
}
parameters {
  real alpha;
  real beta;
  real<lower=0> sigma;
}
model {
  target += normal_lpdf(alpha | pmualpha, psalpha);
  target += normal_lpdf(beta | pmubeta, psbeta);
  target += normal_lpdf(y | alpha + beta * x, sigma);
}
