// Predictions, pointwise likelihoods and another quantity, all generated.
data { int N; vector[N] y; }
parameters { real mu; }
model { mu ~ normal(0, 5); y ~ normal(mu, 1); }
generated quantities {
  vector[N] log_lik;
  for (n in 1:N) log_lik[n] = normal_lpdf(y[n] | mu, 1);
  array[N] real y_rep = normal_rng(rep_vector(mu, N), 1);
  real twice = 2 * mu;
}
