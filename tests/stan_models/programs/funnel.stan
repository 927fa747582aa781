// A funnel: x | s ~ normal(0, exp(s)), s ~ normal(0, 1.5).
data {
  int<lower=1> K;
}
parameters {
  vector[K] x;
  real s;
}
model {
  s ~ normal(0, 1.5);
  x ~ normal(0, exp(s));
}
