"""The plug-in of algorithms that take noisy steps: what ``pm.fit`` lets a user say about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from pytensor.tensor import TensorVariable

from pymc_ext.density import CountedDensity
from pymc_ext.density.undefined import undefined_terms
from pymc_ext.options import require_count
from pymc_ext.variational.core.monitor import Callback
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.core.steps import SteppingAlgorithm
from pymc_ext.variational.plugin.approximation import VectorisedApproximation
from pymc_ext.variational.plugin.groups import FittedGroup
from pymc_ext.variational.plugin.inference import AlgorithmVI
from pymc_ext.variational.plugin.user_steps import Optimizer, UserUpdate, normals_from

if TYPE_CHECKING:
    from pymc_ext.pytensor_versions import TensorSharedVariable


class Changes(TypedDict):
    """What a user changes in the model's density for one fit; see :class:`PyMCDensity`."""

    trained: Sequence[TensorSharedVariable]
    updates: Mapping[TensorSharedVariable, TensorVariable]
    replacements: Mapping[TensorVariable, TensorVariable]


class StochasticVI(AlgorithmVI):
    """A :class:`SteppingAlgorithm` as a method of ``pm.fit``, with all that PyMC's own loop takes.

    Arguments as :class:`AlgorithmVI`.
    """

    algorithm: SteppingAlgorithm[Posterior]

    def __init__(
        self,
        algorithm: SteppingAlgorithm[Posterior],
        family: type[FittedGroup] = FittedGroup,
        **options: Any,
    ) -> None:
        super().__init__(algorithm, family, **options)
        self._step = algorithm.step  # of a fit that is told nothing else
        self._changes = self._applied = Changes(trained=(), updates={}, replacements={})

    def fit(  # type: ignore[override]  # what PyMC's own loop takes, by name
        self,
        n: int | None = None,
        score: bool | None = None,
        callbacks: Sequence[Callback] | None = None,
        progressbar: bool = True,
        progressbar_theme: object = None,
        *,
        obj_n_mc: int | None = None,
        obj_optimizer: Optimizer | None = None,
        total_grad_norm_constraint: float | None = None,
        more_obj_params: Sequence[TensorSharedVariable] | None = None,
        more_updates: Mapping[TensorSharedVariable, TensorVariable] | None = None,
        more_replacements: Mapping[TensorVariable, TensorVariable] | None = None,
        **others: Any,
    ) -> VectorisedApproximation:
        """Fit and return the approximation; arguments as :meth:`pymc.Inference.fit`.

        ``obj_n_mc`` draws a step; None takes the family's default. ``obj_optimizer`` replaces the
        built-in optimiser, with its schedule and average where it has them. ``more_obj_params`` are
        shared variables (a network's weights, say) trained jointly. ``callbacks`` may raise
        StopIteration; the fit so far is then returned. ``others``: as :meth:`AlgorithmVI.fit`.
        """
        n = self.default_budget if n is None else n
        draws = self._step.draws if obj_n_mc is None else obj_n_mc
        require_count("n", n, least=0)
        require_count("obj_n_mc", draws)
        replacements = dict(more_replacements or {})
        z = replacements.pop(self.approx.group.symbolic_initial, None)
        changes = Changes(
            trained=tuple(more_obj_params or ()),
            updates=dict(more_updates or {}),
            replacements=replacements,
        )
        if any(changes.values()) or any(self._changes.values()):
            self._changes = changes
        update = None
        if obj_optimizer is not None:
            update = UserUpdate(obj_optimizer, total_grad_norm_constraint, self.approx.compile)
        step = replace(
            self._step,
            draws=int(draws),
            max_norm=total_grad_norm_constraint,
            normals=None if z is None else normals_from(z),
            update=update,
        )
        self.algorithm = replace(self.algorithm, step=step)
        return super().fit(n, score, callbacks, progressbar, progressbar_theme, **others)

    def _run(self, n: int, score: bool, progressbar: bool) -> VectorisedApproximation:
        if self._changes is not self._applied:
            self.approx.__dict__["density"] = self.approx.make_density(**self._changes)
            self._applied = self._changes
        return super()._run(n, score, progressbar)

    def check_start(self, density: CountedDensity) -> None:
        start = self.approx.group.start
        if density.noisy:
            return
        with np.errstate(all="ignore"):
            value = float(density.log_density(start[None])[0])
        if not np.isfinite(value):
            raise ValueError(
                f"log p̃ is {value} at the starting point {start}, as "
                f"{undefined_terms(self.approx.density, start)}: give start= a point where the "
                "density is positive and finite, by variable name"
            )
