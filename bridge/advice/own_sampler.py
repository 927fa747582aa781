"""Draws of the sampler of a model's own package, where none of ours can run, and their doubts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bridge.methods.problems import ModelProblem, StanProblem
from bridge.targets.draws import InferenceData, group_names, labels_by_coords
from pymc_ext.density.protocol import Labels
from pymc_ext.sampling.diagnostics import Diagnostics
from pymc_ext.sampling.heavy import Heavy
from pymc_ext.sampling.progress import hidden
from pymc_ext.sampling.quantities import columns_of
from pymc_ext.variational.core.checks import Check

__all__ = ["OwnDraws", "own_draws"]

# Chains that are short of draws are made again, longer: by what they lack and half as much again,
# as an ESS is known to some tens of percent; and by no more than this, a quarter of an hour where
# the first took a minute.
LONGER, LONGEST = 1.5, 12.0
# R̂ up to which they may only be short: of 40 effective draws it is 1.1 by chance.
RHAT_SHORT = 1.2
OF_WHOLE_NUMBERS = ("R̂", "effective draws")  # by which they are judged


@dataclass(frozen=True)
class OwnDraws:
    """What several chains drew, and what it is worth.

    Parameters
    ----------
    idata
        The draws.
    labels
        Names of the elements of arrays; None: by the coords of ``idata``, or indices from 0.
    """

    idata: InferenceData
    labels: Labels | None = None

    @cached_property
    def diagnostics(self) -> tuple[Diagnostics, ...]:
        """Of real variables with the sampler's statistics, and of whole numbers, which are held to
        R̂ and ESS alone: the sd of a rare one is hardly known, and its mean well."""
        return (*self._of_real, *self._of_whole)

    @cached_property
    def _of_real(self) -> tuple[Diagnostics, ...]:
        statistics = self.idata["sample_stats"] if "sample_stats" in group_names(self.idata) else {}
        told = {
            name: np.asarray(statistics[name])
            for name in ("energy", "diverging")
            if name in statistics  # steps of whole numbers do not diverge, nor do those of Gibbs
        }
        return tuple(self._judged("f", told))

    @cached_property
    def _of_whole(self) -> tuple[Diagnostics, ...]:
        return tuple(replace(one, sd_error=0.0, heavy=()) for one in self._judged("iub", {}))

    def _judged(self, kinds: str, statistics: Mapping[str, NDArray]) -> Iterator[Diagnostics]:
        posterior = self.idata["posterior"]
        generated = json.loads(posterior.attrs.get("generated_quantities", "[]"))  # no parameters
        values = {
            str(name): np.asarray(posterior[name], dtype=float)
            for name in posterior.data_vars
            if name not in generated and posterior[name].dtype.kind in kinds
        }
        columns, names = columns_of(values, self.labels or self._by_coords)
        if names:
            yield Diagnostics.of(np.concatenate(columns, axis=-1), names, statistics)

    def _by_coords(self, name: str, shape: tuple[int, ...]) -> list[str]:
        return labels_by_coords(self.idata["posterior"][name])

    def doubts(self, ess: float) -> tuple[str, ...]:
        """Why they are not to be trusted, one sentence each; nothing where they are.

        Parameters
        ----------
        ess
            Effective draws that each quantity must have.
        """
        return tuple(doubt for found in self.diagnostics for doubt in found.doubts(ess))

    def checks(self, ess: float) -> tuple[Check, ...]:
        """All that they are judged by: of real variables, then of whole numbers."""
        whole = (check for found in self._of_whole for check in found.checks(ess))
        return (
            *(check for found in self._of_real for check in found.checks(ess)),
            *(check for check in whole if check.name in OF_WHOLE_NUMBERS),
        )

    @property
    def gradients(self) -> int | None:
        """That they took, with their warm-up and those before them that were too short; None where
        nobody has counted, as of PyMC's, which leaves out its warm-up."""
        return self.idata["posterior"].attrs.get("gradient_evaluations")

    def unknown(self, ess: float) -> tuple[Heavy, ...]:
        """Quantities whose sd, or mean, these draws do not tell, nor would more of them."""
        return tuple(quantity for found in self.diagnostics for quantity in found.unknown(ess))

    def advice(self, ess: float) -> str | None:
        """What would serve where they are not trusted, in a sentence; None where they are."""
        if not self.doubts(ess):
            return None
        short = self._shortage(ess)
        if self._rhat <= RHAT_SHORT and 1 < short < np.inf:
            sizes = self.idata["posterior"].sizes
            count = int(np.ceil(LONGER * short * sizes["chain"] * sizes["draw"]))
            return f"the chains are too short: draws={count:,} would do, as far as they tell"
        return "compare the chains, or write the model so that they mix: draws alone do not mend it"

    def longer(self, ess: float) -> float | None:
        """How many times as long chains would serve; None where they do, or nothing would."""
        if not self.diagnostics or all(found.enough(ess) for found in self.diagnostics):
            return None
        short = LONGER * self._shortage(ess)
        return max(2.0, short) if self._rhat <= RHAT_SHORT and short <= LONGEST else None

    @property
    def _rhat(self) -> float:
        return max(found.rhat for found in self.diagnostics)

    def _shortage(self, ess: float) -> float:
        """By what factor draws are too few."""
        return max(found.shortage(ess) for found in self.diagnostics)


def own_draws(
    problem: ModelProblem | StanProblem,
    draws: int,
    ess: float,
    seed: int,
    progressbar: bool,
    labels: Labels | None = None,
) -> OwnDraws:
    """Draws of the model's own sampler; once more, of longer chains, where they are short.

    Parameters
    ----------
    problem
        Whose posterior it is.
    draws
        Of all chains, at first.
    ess
        Effective draws that each quantity must have.
    seed, progressbar
        Of the sampler.
    labels
        As of :class:`OwnDraws`.
    """

    def made(draws: int) -> OwnDraws:
        with hidden():
            return OwnDraws(problem.nuts(draws, seed, progressbar), labels)

    found = made(draws)
    longer = found.longer(ess)
    sizes = found.idata["posterior"].sizes
    if longer is None or sizes["chain"] * sizes["draw"] < draws:  # or Ctrl-C has ended them
        return found
    again = made(int(np.ceil(longer * draws)))
    if found.gradients is not None:
        again.idata["posterior"].attrs["gradient_evaluations"] += found.gradients
    return again
