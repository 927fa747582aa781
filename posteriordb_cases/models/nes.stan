// Party identification in an election year by ideology, race, age group, education, sex and income
// (Gelman and Hill (2006), ch. 4). beta and sigma have flat priors.
data {
  int<lower=0> N;
  vector[N] partyid7; // 1: strong Democrat ... 7: strong Republican
  vector[N] real_ideo; // 1: strong liberal ... 7: strong conservative
  vector[N] race_adj;
  array[N] int<lower=1, upper=4> age_discrete; // 18-29, 30-44, 45-64, 65 and older
  vector[N] educ1;
  vector[N] gender;
  vector[N] income;
}
parameters {
  vector[9] beta;
  real<lower=0> sigma;
}
model {
  vector[4] age = append_row(0, beta[4:6]);
  vector[N] location = beta[1] + beta[2] * real_ideo + beta[3] * race_adj + age[age_discrete]
                       + beta[7] * educ1 + beta[8] * gender + beta[9] * income;
  target += normal_lpdf(partyid7 | location, sigma);
}
