// One parameter of every kind of transform and container, and a rejection.
data {
  int<lower=1> K;
}
parameters {
  real free;
  real<lower=-1, upper=2> bounded;
  vector<lower=0>[K] positive;
  simplex[K] share;
  ordered[K] cuts;
  matrix[2, K] grid;
  array[2] vector[K] rows;
  array[2, 3] real table;
  cholesky_factor_corr[K] L;
  array[0] real nothing;
}
transformed parameters {
  matrix[2, K] doubled = 2 * grid;
}
model {
  if (free > 50) reject("free must be at most 50, found ", free);
  free ~ normal(1, 2);
  bounded ~ normal(0, 1);
  positive ~ exponential(2);
  share ~ dirichlet(rep_vector(1.5, K));
  cuts ~ normal(0, 3);
  to_vector(grid) ~ normal(0, 1);
  for (row in rows) row ~ student_t(4, 0, 1);
  for (line in table) line ~ logistic(0, 1);
  L ~ lkj_corr_cholesky(2);
}
generated quantities {
  matrix[2, K] noisy = doubled + normal_rng(0, 1);
}
