// As many parameters as the data ask for, also none.
data {
  int<lower=0> K;
}
parameters {
  vector[K] x;
}
model {
  x ~ normal(0, 1);
}
