// A standard normal whose density takes K rounds.
data { int<lower=1> K; }
parameters { real x; }
model {
  real y = 0;
  for (k in 1:K) y += x / K;
  y ~ normal(0, 1);
}
