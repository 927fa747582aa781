"""Whether draws have reached the tails of what governs others' scales: its marginal by Laplace.

Chains and weights see nothing of a neck that they do not enter: R̂, ESS and k̂ are of the draws that
are there. The marginal of :mod:`pymc_ext.variational.hierarchical.nested` is of p itself; its error
changes slowly along the governor, and what is compared is a spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pymc_ext.density import CountedDensity, Density
from pymc_ext.density.coordinates import TransportMap
from pymc_ext.density.protocol import value_names
from pymc_ext.maths.types import Array
from pymc_ext.sampling.attempts import INTERRUPTED
from pymc_ext.sampling.result import Sampled
from pymc_ext.variational.core.checks import Check
from pymc_ext.variational.fields.map import FieldMap
from pymc_ext.variational.hierarchical.law import LawAlong
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.hierarchical.reach import (
    is_of_all,
    law_of_crossing,
    law_of_governors,
    missed_in_scans,
    missed_tails,
)
from pymc_ext.variational.hierarchical.reach_of_field import missed_in_field

UNSEEN = "interrupted before it was known whether draws reach the tails of what governs scales"


def tails_not_reached(law: LawAlong, sd: Array, names: Sequence[str]) -> tuple[str, ...]:
    """`missed_tails` in a sentence of what to do."""
    return advised(missed_tails(law, sd, names), ENDLESS if law.open_ends else NECK)


NECK = (
    "give it a prior that keeps it from there, or, where it is the scale of others, write that "
    "level non-centred"
)
ENDLESS = (
    "give it a prior with a lighter tail there (with a flat one the posterior may have no "
    "integral), or, where it is the scale of others, write that level non-centred"
)


def advised(missed: str | None, what_to_do: str = NECK) -> tuple[str, ...]:
    """What draws miss, in a sentence of what to do."""
    return () if missed is None else (f"the draws miss {missed}: {what_to_do}",)


def with_tails(found: Sampled, density: Density, q: TransportMap | None) -> Sampled:
    """The answer of chains, not trusted where they miss a tail, nor after Ctrl-C during the look,
    whose scores are counted. Chains that Ctrl-C ended are not looked at."""
    if found.stop_reason == INTERRUPTED or not isinstance(q, HierarchicalMap | FieldMap):
        return found
    doubts: tuple[str, ...] = ()
    counted, theta = CountedDensity(density), found.theta.reshape(-1, found.theta.shape[-1])
    try:
        if isinstance(q, FieldMap):
            return found.missing(advised(missed_in_field(counted, q, theta)))
        law: LawAlong | None = law_of_governors(counted, q, theta)
        if not is_of_all(law, q):
            law = law_of_crossing(counted, q, theta) or law
        if law is not None:
            doubts = tails_not_reached(law, theta.std(axis=0), value_names(density))
        if not doubts and not is_of_all(law, q):
            doubts = advised(missed_in_scans(counted, q, theta))
    except KeyboardInterrupt:
        found = replace(found, checks=(Check("end", False, UNSEEN), *found.checks))
    spent = found.gradient_evaluations + counted.gradients
    return replace(found.missing(doubts), gradient_evaluations=spent)
