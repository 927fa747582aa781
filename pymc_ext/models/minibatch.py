"""Data of a model that are drawn anew at each call, and who takes them."""

from __future__ import annotations

import pymc as pm
from pytensor.graph.traversal import ancestors

from pymc_ext.pymc_versions import MinibatchOp


def of_batches(model: pm.Model) -> list[str]:
    """Names of observed variables and potentials that ``pm.Minibatch`` rows go into."""
    terms = [(rv.name, [rv, model.rvs_to_values[rv]]) for rv in model.observed_RVs]
    terms += [(potential.name, [potential]) for potential in model.potentials]
    return [
        str(name)
        for name, graphs in terms
        if any(v.owner and isinstance(v.owner.op, MinibatchOp) for v in ancestors(graphs))
    ]


def refuse_batches(model: pm.Model) -> None:
    """Raise ValueError where data are ``pm.Minibatch``: it names the variables, and who takes them.

    Parameters
    ----------
    model
        Whose draws are to be judged by log p̃.
    """
    names = of_batches(model)
    if names:
        raise ValueError(
            f"the rows of {names} are a pm.Minibatch, so that log p̃ is another at each call and no "
            "draws can be judged by it: give the model all rows (pm.Data, or plain arrays), or fit "
            "it unjudged by px.fit('bernstein'), px.fit('monte-carlo'), for a logistic regression "
            "px.fit('viper'), or PyMC's own pm.fit(method='advi')"
        )
