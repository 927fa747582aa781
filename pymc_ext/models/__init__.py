"""What a PyMC model is held to before it is fitted; knows no density and no family.

`context` finds the model that a call is about, `discrete` refuses one with parameters that are not
continuous, `no_coordinates` one with a simulator or Wishart's matrices, `improper` one whose
posterior has no finite mass; `observed_twice` mends what PyMC's predictions leave behind. `prior`
draws from one's prior, `minibatch` names what goes in batches. `recover` draws, after a fit, what
pymc-extras summed out: `hidden` is one such variable, `summed_out` what a model has of them.
"""
