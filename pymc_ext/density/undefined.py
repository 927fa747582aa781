"""Which variable of a PyMC model makes its log density infinite or NaN, and by which data."""

from __future__ import annotations

from typing import cast

import numpy as np
import pymc as pm
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.tensor import TensorVariable

from pymc_ext.density.check import DensityError
from pymc_ext.density.model import PyMCDensity
from pymc_ext.maths.types import Array
from pymc_ext.over_draws import checked

POINTS = 10  # around the start and around the origin, as many each
AT_START, AT_ORIGIN = 1.0, 2.0  # how far away: PyMC's own jitter, and Stan's initial values
MOST_SHOWN = 3  # values of data in one sentence


def refuse_missing_data(model: pm.Model) -> None:
    """DensityError where ``pm.set_data`` was given NaN, as ``pm.Data`` refuses it from the start.

    PyMC makes a masked array of it, which is NaN in a log density, and which numba does not take.
    """
    for data in model.data_vars:
        value = data.get_value(borrow=True) if isinstance(data, SharedVariable) else None
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            raise DensityError(
                f"the data {data.name!r} hold NaN in {np.ma.count_masked(value)} of {value.size} "
                "entries: expected numbers; fill them in by pm.set_data, or give an array with NaN "
                "itself as observed=, which PyMC then imputes"
            )


def require_defined(density: PyMCDensity, start: Array) -> None:
    """Raise DensityError where log p̃ is finite neither at ``start`` (D,) nor at points around it
    or around the origin.

    Noisy densities (``pm.Minibatch``) are let through: another batch may be finite.
    """
    if density.noisy:
        return
    unit = np.random.default_rng(0).uniform(-1, 1, (2, POINTS, len(start)))
    points = [start[None], start + AT_START * unit[0], AT_ORIGIN * unit[1]]
    with np.errstate(all="ignore"):
        values = density.log_density(np.concatenate(points))
    if not np.isfinite(values).any():
        raise DensityError(
            f"the model's log density is {values[0]} at its start, and finite at none of "
            f"{2 * POINTS} points around: {undefined_terms(density, start)}; correct the data, the "
            "distribution or its parameters, or give initval= where it is finite"
        )


def undefined_terms(density: PyMCDensity, theta: Array) -> str:
    """The variables and Potentials whose log p is not finite at θ (D,), with what explains it."""
    model = density.model
    rvs = [*model.basic_RVs, *model.potentials]
    terms = cast("list[TensorVariable]", model.logp(rvs, sum=False))
    graphs = density.in_theta(checked(terms, model.check_bounds))
    with np.errstate(all="ignore"):  # compiled in no time, for one call
        values = density.compile([density.theta], graphs, mode="FAST_COMPILE")(theta)
    parts = []
    for rv, term, value in zip(rvs, terms, values, strict=True):
        bad = ~np.isfinite(value)
        if bad.any():
            what = ", ".join(str(v) for v in np.unique(value[bad]))
            where = f" in {bad.sum()} of {bad.size} entries" if bad.size > 1 else ""
            because = _nan_in(term) or _observed(density, rv, bad)
            parts.append(f"log p of {rv.name!r} is {what}{where}{because}")
    return ", ".join(parts) or "every variable's own log p is finite, but not their sum"


def _nan_in(term: TensorVariable) -> str:
    """Data with NaN that it is made of."""
    found = []
    for v in ancestors([term]):
        if isinstance(v, Constant | SharedVariable):
            value = np.asarray(v.data if isinstance(v, Constant) else v.get_value(borrow=True))
            # a single NaN without a name is PyMC's own
            if value.dtype.kind == "f" and np.isnan(value).any() and (v.name or value.size > 1):
                found.append(repr(v.name) if v.name else f"an array of shape {value.shape}")
    return f" (NaN in its data: {', '.join(found)})" if found else ""


def _observed(density: PyMCDensity, rv: TensorVariable, bad: Array) -> str:
    """The data at the entries that are ``bad``."""
    if rv not in density.model.observed_RVs:
        return ""
    data = density.model.rvs_to_values[rv].eval()
    if data.shape != bad.shape:
        return ""
    values = np.unique(data[bad])
    shown = ", ".join(f"{v:.6g}" for v in values[:MOST_SHOWN])
    more = ", ..." if len(values) > MOST_SHOWN else ""
    return f" (observed there: {shown}{more})"
