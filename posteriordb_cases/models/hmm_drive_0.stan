// Hidden Markov model of a basketball player's movement: state 1 none, state 2 a drive to the
// hoop. Inverse speed and distance are exponential in either state; the first state is uniform.
data {
  int<lower=0> N;
  int<lower=2, upper=2> K;
  vector<lower=0>[N] u; // 1 / speed
  vector<lower=0>[N] v; // distance to the hoop
  matrix<lower=0>[K, K] alpha; // Dirichlet parameters of the transitions, a row a state
}
parameters {
  simplex[K] theta1; // transition from state 1
  simplex[K] theta2; // transition from state 2
  positive_ordered[K] phi; // rate of u
  positive_ordered[K] lambda; // rate of v
}
model {
  matrix[K, N] log_density;
  matrix[K, K] transition = [theta1', theta2'];
  for (n in 1:N) {
    for (k in 1:K) {
      log_density[k, n] = exponential_lpdf(u[n] | phi[k]) + exponential_lpdf(v[n] | lambda[k]);
    }
  }
  target += dirichlet_lpdf(theta1 | alpha[1]');
  target += dirichlet_lpdf(theta2 | alpha[2]');
  target += normal_lpdf(phi | [0, 3]', 1);
  target += normal_lpdf(lambda | [0, 3]', 1);
  target += hmm_marginal(log_density, transition, rep_vector(1.0 / K, K));
}
