"""From Stan's CSV columns to the groups of a result, with densities recomputed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from stan_models.density import StanDensity
from stan_models.errors import StanRunError
from stan_models.inference_data import LOG_LIK, constrained, provenance, unconstrained
from stan_models.runs import CmdStanRun
from stan_models.toolchain import import_cmdstanpy
from stan_models.types import Array


@dataclass(frozen=True)
class Draws:
    """Stan's output of shape (chain, draw, column), split into its parts.

    ``method`` holds the columns that end in ``__`` by name, ``model`` the flat columns of
    parameters, transformed parameters and generated quantities, ``theta`` (chain, draw, D) the
    unconstrained points.
    """

    density: StanDensity
    method: dict[str, Array]
    model: Array
    theta: Array

    @classmethod
    def read(cls, density: StanDensity, names: tuple[str, ...], table: Array) -> Draws:
        """Split ``table`` (chain, draw, column) whose columns are called ``names``."""
        table = np.asarray(table, dtype=float)
        leading = next((i for i, name in enumerate(names) if not name.endswith("__")), len(names))
        method = {name: table[..., i] for i, name in enumerate(names[:leading])}
        model = table[..., leading:]
        flat = model[..., : density.count(transformed=False)].reshape(-1, density.count(False))
        _require_finite(flat, f"draws of Stan program {density.program.name!r}")
        theta = density.unconstrain_columns(flat)
        _require_finite(theta, "draws mapped back to the unconstrained space")
        return cls(density, method, model, theta.reshape(*table.shape[:2], -1))

    def __getitem__(self, index: slice | NDArray[np.integer]) -> Draws:
        """The draws at ``index`` of the draw axis."""
        method = {name: column[:, index] for name, column in self.method.items()}
        return Draws(self.density, method, self.model[:, index], self.theta[:, index])

    def log_density(self) -> Array:
        """log p̃ (chain, draw) with Jacobian and constants; -inf where the program rejects θ."""
        return self.density.log_density(self.theta.reshape(-1, self.theta.shape[-1])).reshape(
            self.theta.shape[:2]
        )

    def values(self) -> dict[str, Array]:
        """Parameters and transformed parameters by name, (chain, draw, *shape)."""
        columns = self.model[..., : self.density.count(transformed=True)]
        return self.density.by_name(columns, transformed=True)

    def generated(self) -> dict[str, Array]:
        """Generated quantities by name, (chain, draw, *shape)."""
        values = self.density.by_name(self.model, transformed=True, generated=True)
        known = self.density.by_name(self.model[:1, :1], transformed=True)
        return {name: value for name, value in values.items() if name not in known}


def _require_finite(values: Array, what: str) -> None:
    bad = ~np.isfinite(values).all(axis=1)
    if bad.any():
        raise StanRunError(
            f"{bad.sum()} of {len(values)} {what} are not finite: a parameter has overflowed or "
            "reached the edge of its constraint in double precision; the method went astray, or "
            "the parameter needs another scale"
        )


def posterior_groups(draws: Draws, run: CmdStanRun, **facts: object) -> dict[str, xr.Dataset]:
    """Groups ``posterior``, ``unconstrained_posterior`` and, of ``log_lik``, ``log_likelihood``.

    Other generated quantities are in ``posterior``, as ``arviz.from_cmdstanpy`` has them; its
    attribute of that name lists them, for they are no parameters.
    """
    toolchain, generated = run.program.toolchain, draws.generated()
    attrs = provenance(
        inference_library="Stan",
        engine=toolchain.engine,
        stan_version=toolchain.stan_version,
        cmdstanpy_version=import_cmdstanpy().__version__,
        program=run.program.name,
        seconds=run.seconds,
        generated_quantities=[name for name in generated if name != LOG_LIK] or None,
        **facts,
    )
    return {
        **constrained(draws.values() | generated, attrs),
        "unconstrained_posterior": unconstrained(draws.theta, draws.density.unconstrained_names),
    }


def given(**arguments: object) -> dict[str, object]:
    """The arguments that were set, for the call and for the record."""
    return {name: value for name, value in arguments.items() if value is not None}
