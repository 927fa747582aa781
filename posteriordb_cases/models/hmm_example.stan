// Hidden Markov model with normal observations of unit variance; the first state is uniform.
data {
  int<lower=0> N;
  int<lower=2, upper=2> K;
  vector[N] y;
}
parameters {
  simplex[K] theta1; // transition from state 1
  simplex[K] theta2; // transition from state 2
  positive_ordered[K] mu;
}
model {
  matrix[K, N] log_density;
  matrix[K, K] transition = [theta1', theta2'];
  for (n in 1:N) {
    for (k in 1:K) {
      log_density[k, n] = normal_lpdf(y[n] | mu[k], 1);
    }
  }
  target += dirichlet_lpdf(theta1 | rep_vector(1, K));
  target += dirichlet_lpdf(theta2 | rep_vector(1, K));
  target += normal_lpdf(mu | [3, 10]', 1);
  target += hmm_marginal(log_density, transition, rep_vector(1.0 / K, K));
}
