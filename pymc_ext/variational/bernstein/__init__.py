"""Bernstein flows: flexible margins and dependence.

`shape` (options and what a flow is made of), `flow` (draws, log q, pullback of scores), `algorithm`
(base, training, polish, result) and `vi`, the method of ``pm.fit``. `training` follows the ELBO,
`polish` lowers k̂ afterwards, `whitening` gives the coordinates; `input_maps` and `latents` are what
a component is put together from. To add a latent law, a subclass of :class:`.latents.Latent`: an
instance of it is taken as it is.

>>> from pymc_ext.variational.bernstein.shape import default_hidden
>>> default_hidden(2), default_hidden(10), default_hidden(100)  # units of the hidden layers
((10, 10), (20, 20), (32, 32))
"""
