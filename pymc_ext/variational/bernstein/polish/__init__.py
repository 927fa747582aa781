"""After a flow's ELBO phase: a proposal for importance weights, where q's own k̂ asks for one.

What lowers k̂ (longer tails, more width) makes plain draws worse: a flow widened until k̂ fell
from .65 to .47 had sds 7 % too large and a lower ELBO than the Laplace fit behind it. So q stays
what the ELBO chose, and a copy of it, with a log density of its own, is changed.

:mod:`.policy` holds the thresholds, but for those of :class:`~.weighted.ImportanceWeighted`;
:mod:`.stages` measures a flow, compares it with its base and chooses between settings;
:mod:`.stretching` (longer tails), :mod:`.widening` (wider latent variables) and :mod:`.weighted`
(the importance-weighted bound) are the ways. To add a way, write a function that changes a
:class:`~.stages.FlowFit` and returns a :class:`~.stages.Stage` or None, and call it in
:func:`pymc_ext.variational.bernstein.polish.polisher.Polisher.run`.
"""
