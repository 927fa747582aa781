// One compartment with first-order absorption and Michaelis-Menten elimination: drug
// concentrations after one dose, with lognormal errors. None of the drug is there at t0.
functions {
  vector change(real t, vector C, real dose, real V, real k_a, real K_m, real V_m) {
    real absorbed = k_a * dose / V * exp(-k_a * t);
    return [absorbed - V_m / V * C[1] / (K_m + C[1])]';
  }
}
data {
  real t0;
  real<lower=0> D; // dose
  real<lower=0> V; // volume
  int<lower=0> N_t;
  array[N_t] real times;
  vector<lower=0>[N_t] C_hat; // concentrations measured at times
}
parameters {
  real<lower=0> k_a; // rate of absorption
  real<lower=0> K_m; // concentration at half the largest elimination
  real<lower=0> V_m; // largest elimination
  real<lower=0> sigma;
}
model {
  // at small K_m the equation is stiff; elsewhere an explicit method takes a tenth of the time
  int stiff = V_m > 1000 * V * K_m;
  array[N_t] vector[1] C
    = stiff ? ode_bdf_tol(change, [0]', t0, times, 1e-9, 1e-9, 100000, D, V, k_a, K_m, V_m)
            : ode_rk45_tol(change, [0]', t0, times, 1e-8, 1e-8, 100000, D, V, k_a, K_m, V_m);
  target += cauchy_lpdf([k_a, K_m, V_m, sigma] | 0, 1) - 4 * cauchy_lccdf(0 | 0, 1);
  target += lognormal_lpdf(C_hat | log(to_vector(C[:, 1])), sigma);
}
