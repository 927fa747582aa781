"""After a flow's ELBO phase: what lowers k̂ for a few hundredths of a nat.

:mod:`.policy` holds every threshold; :mod:`.stages` measures a q and chooses between settings;
:mod:`.stretching` (longer tails), :mod:`.widening` (wider latent variables) and :mod:`.weighted`
(the importance-weighted bound) are the ways; :mod:`.guard` keeps q from falling behind its base. To
add a way, write a function that changes a :class:`FlowFit` and returns a :class:`Stage` or None,
and call it in :func:`pymc_ext.variational.bernstein.polish.polisher.Polisher.run`.
"""
