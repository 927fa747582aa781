"""Reads Categorical likelihoods with affine softmax predictors, beside the logistic ones.

A Categorical over K classes becomes K rows an observation, one for each logit, with its one-hot
label as the outcome: the form in which `affine` and `density` treat logits.
"""

from __future__ import annotations

import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor import TensorVariable
from pytensor.tensor.random.basic import CategoricalRV

from pymc_ext.pytensor_versions import Softmax
from pymc_ext.variational.logistic.affine import (
    AffinityError,
    LogisticTerm,
    logistic_terms,
    observed_values,
    refuse_other_densities,
)
from pymc_ext.variational.logistic.graph import over_last_axis, simplified
from pymc_ext.variational.plugin.pymc_variational import MinibatchRandomVariable


def matching_terms(model: pm.Model) -> list[LogisticTerm]:
    """The model's likelihoods, all of as many latents an observation (1 for logits).

    Raises
    ------
    AffinityError
        If the model has no covered likelihood, or mixes softmax with others.
    """
    classes = {str(rv.name): _n_classes(model, rv) for rv in model.observed_RVs}
    if not classes or all(K == 2 for K in classes.values()):
        return logistic_terms(model)
    refuse_other_densities(model)
    if len(set(classes.values())) > 1:
        raise AffinityError(f"the observed variables have different numbers of classes: {classes}")
    (K,) = set(classes.values())
    return [_softmax_term(model, rv, K) for rv in model.observed_RVs]


def _n_classes(model: pm.Model, rv: TensorVariable) -> int:
    """K of a Categorical; 2 for all others, which the logistic reader judges."""
    node = rv.owner
    if isinstance(node.op, MinibatchRandomVariable):
        raise ValueError(
            f"the rows of ['{rv.name}'] are a pm.Minibatch, and matching is closed form and needs "
            "all data: give it all rows"
        )
    if not isinstance(node.op, CategoricalRV):
        return 2
    p = pt.as_tensor(node.op.dist_params(node)[0])
    K = p.type.shape[-1]
    return int(p.shape[-1].eval()) if K is None else int(K)


def _softmax_term(model: pm.Model, rv: TensorVariable, K: int) -> LogisticTerm:
    name, value = str(rv.name), observed_values(model, rv)
    (p,) = simplified(model.replace_rvs_by_values(list(rv.owner.op.dist_params(rv.owner))))
    if p.owner is None or not isinstance(p.owner.op, Softmax):
        raise AffinityError(
            f"the probabilities of {name!r} are not the softmax of a graph: write logit_p=..., or "
            "p=pm.math.softmax(..., axis=-1)"
        )
    if not over_last_axis(p.owner.op.axis, p.type.ndim):
        raise AffinityError(f"the softmax of {name!r} must run over the last axis, axis=-1")
    z = p.owner.inputs[0]
    one_hot = pt.eq(value[..., None], pt.arange(K))
    valid = one_hot.any(axis=-1, keepdims=True)
    observed = pt.switch(valid, one_hot, value[..., None]).astype("float64")
    zeros = pt.zeros_like(observed)
    return LogisticTerm(
        name,
        (z + zeros).ravel(),
        observed.ravel(),
        pt.ones_like(observed).ravel(),
        pt.constant(1.0),
        K,
    )
