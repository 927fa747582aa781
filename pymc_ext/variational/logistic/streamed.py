"""Logistic models whose rows are in a file: a pass reads them, and goes on where it was killed.

The model is written on ``pm.Data`` of any size; a block of rows takes their place, and the graph
gives its design, offset and outcomes, as of data in memory.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any

import numpy as np
import pymc as pm
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.tensor import TensorVariable

from pymc_ext.maths.types import Array
from pymc_ext.rows.progress import Progress
from pymc_ext.rows.protocol import Block, Rows
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian
from pymc_ext.variational.logistic.density import LogisticDensity
from pymc_ext.variational.logistic.newton import Normal
from pymc_ext.variational.logistic.numbers import LogisticData, Terms, added

SAMPLE = 200_000  # rows that the first Gaussian is fitted to: .1 s each of its few iterations
SAME = 1e-6  # of sds: a Gaussian of the same pass, on a machine that rounds otherwise


class StreamedDensity(LogisticDensity):
    """The density of such a model given all rows of ``rows``: a call of it is a pass over them.

    Parameters
    ----------
    rows
        Arrays by the names of the model's ``pm.Data``.
    checkpoint
        File in which a fit keeps its passes; None keeps nothing.
    of
        What beside rows and model the checkpoint belongs to.
    model, variables, options
        As :class:`LogisticDensity`.

    Raises
    ------
    ValueError
        Some variable is not linear; an array is no ``pm.Data`` of the model, or of another shape;
        an observed variable takes none of them, or has a ``total_size``.
    """

    read_often = True

    def __init__(
        self,
        model: pm.Model,
        variables: list[TensorVariable] | None = None,
        *,
        rows: Rows,
        checkpoint: str | PathLike[str] | None = None,
        of: str = "",
        **options: Any,
    ) -> None:
        super().__init__(model, variables, **options)
        if self.split.given:
            names = [rv.name for rv in self.split.given]
            raise ValueError(
                f"rows of a file need every variable in the linear part, but {names} are not: fix "
                "them, or fit all data in memory"
            )
        self.rows, self.checkpoint, self.of = rows, checkpoint, of
        self._shared = {name: self._data_variable(name, s) for name, s in rows.shapes.items()}
        self._require_rows()

    def _data_variable(self, name: str, shape: tuple[int, ...]) -> SharedVariable:
        variable = self.model.named_vars.get(name)
        if not isinstance(variable, SharedVariable):
            known = [v.name for v in self.model.data_vars]
            raise ValueError(
                f"rows have {name!r}, which is no pm.Data of the model (it has {known}): write "
                f"{name} = pm.Data({name!r}, np.zeros({(1, *shape)}))"
            )
        held = np.shape(variable.get_value(borrow=True))[1:]
        if held != shape:
            raise ValueError(f"rows have {name!r} of shape (n, *{shape}), the model (n, *{held})")
        return variable

    def _require_rows(self) -> None:
        ours = set(self._shared.values())
        for term in self.split.terms:
            if not ours & set(ancestors([term.observed])):
                raise ValueError(
                    f"observed {term.name!r} takes no rows: name its column, so that it is not "
                    "counted once a block"
                )
            if not (isinstance(term.weight, Constant) and float(term.weight.data) == 1):
                raise ValueError(
                    f"observed {term.name!r} has a total_size: leave it out, for all rows are read"
                )

    # ---- blocks ------------------------------------------------------------------------------

    def data(self) -> RowsOfFile:  # type: ignore[override]  # of which it makes no arrays
        return RowsOfFile(self)

    def of_block(self, block: Block) -> LogisticData:
        """Design, offset and outcomes of a block."""
        with self.holding(block):
            return super().data()

    @contextlib.contextmanager
    def holding(self, block: Block) -> Iterator[None]:
        """Context in which the model's data are a block."""
        before = {v: v.get_value(borrow=True) for v in self._shared.values()}
        try:
            for name, variable in self._shared.items():
                variable.set_value(_as(name, block[name], variable), borrow=True)
            yield
        finally:
            for variable, value in before.items():
                variable.set_value(value, borrow=True)

    # ---- numbers -----------------------------------------------------------------------------

    def log_density(self, theta: Array) -> Array:
        """log p̃ given all rows, (N, D) -> (N,)."""
        (lp,) = self._summed(lambda: (LogisticDensity.log_density(self, theta),), theta)
        return lp

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        """log p̃ and its gradient in θ given all rows, (N, D) -> (N,), (N, D)."""
        lp, score = self._summed(lambda: LogisticDensity.log_density_gradient(self, theta), theta)
        return lp, score

    def _summed(self, of_block: Callable[[], tuple[Array, ...]], theta: Array) -> list[Array]:
        """Values of all rows from those of blocks, each of which has the prior too."""
        prior = self.prior()
        once = (prior.log_density(theta), prior.score(theta))
        total: list[Array] | None = None
        for block in self.rows.blocks():
            with self.holding(block):
                parts: list[Array] = [v - o for v, o in zip(of_block(), once, strict=False)]
            total = parts if total is None else [t + v for t, v in zip(total, parts, strict=True)]
        assert total is not None, "there is a row at least"
        return [t + o for t, o in zip(total, once, strict=False)]

    def hessian(self, theta: Array) -> Array:
        """∇² log p̃ given all rows, (D,) -> (D, D)."""
        P, total = self.prior().precision, np.zeros((self.dimension, self.dimension))
        for block in self.rows.blocks():
            with self.holding(block):
                total += super().hessian(theta) + P
        return total - P


class RowsOfFile:
    """The rows of a density's file, summed a block at a time; passes are kept in its checkpoint."""

    def __init__(self, density: StreamedDensity) -> None:
        self.density, self.rows = density, density.rows
        names = [(entry.name, entry.shape) for entry in density.layout]
        parts = (self.rows.fingerprint, len(self.rows), names, density.of)
        self.progress = Progress(
            density.checkpoint, hashlib.sha256(repr(parts).encode()).hexdigest()
        )
        self.passes = 0  # asked for so far

    @property
    def begun(self) -> Normal | None:
        """Where the first pass that was kept began."""
        kept = self.progress.found
        return _gaussian(kept, 0) if "mean_0" in kept else None

    def sample(self) -> LogisticData:
        """Some rows, each of which stands for many."""
        block = self.rows.sample(min(SAMPLE, len(self.rows)))
        some = self.density.of_block(block)
        some.weight[...] *= len(self.rows) / len(next(iter(block.values())))
        return some

    def total(self, of: Callable[[LogisticData], Terms], q: Normal) -> Terms:
        """The sum of ``of`` over all rows at ``q``: the next pass, or what is kept of it."""
        k, kept = self.passes, self.progress.found
        self.passes += 1
        begin, sums = 0, None
        if f"mean_{k}" in kept and _same(_gaussian(kept, k), q):
            begin = int(kept[f"rows_{k}"])
            sums = float(kept[f"value_{k}"]), kept[f"gradient_{k}"], kept[f"curvature_{k}"]
        else:
            self._forget_from(k)
        for block in self.rows.blocks(begin):
            part = of(self.density.of_block(block))
            begin += len(next(iter(block.values())))
            sums = part if sums is None else added([sums, part])
            self._keep(k, q, begin, sums, now=begin == len(self.rows))
        assert sums is not None, "there is a row at least"
        return sums

    def _forget_from(self, k: int) -> None:
        found = self.progress.found
        for name in [name for name in found if int(name.rpartition("_")[2]) >= k]:
            del found[name]

    def _keep(self, k: int, q: Normal, begin: int, sums: Terms, now: bool) -> None:
        scale = q.std if isinstance(q, DiagonalGaussian) else q.root
        entries = {
            "mean": q.mean, "scale": scale, "rows": np.array(begin), "value": np.array(sums[0]),
            "gradient": sums[1], "curvature": sums[2],
        }  # fmt: skip
        self.progress.found |= {f"{name}_{k}": value for name, value in entries.items()}
        self.progress.write(self.progress.found, now=now)


def _gaussian(kept: dict[str, Array], k: int) -> Normal:
    mean, scale = kept[f"mean_{k}"], kept[f"scale_{k}"]
    if scale.ndim == 1:
        return DiagonalGaussian(mean, scale)
    return Gaussian(mean, scale, np.linalg.inv(scale))


def _same(a: Normal, b: Normal) -> bool:
    """Whether they are so by more than rounding; differences of means count in sds."""
    if type(a) is not type(b) or a.mean.shape != b.mean.shape:
        return False
    near = np.abs(a.mean - b.mean) <= SAME * b.std
    return bool(near.all() and np.allclose(a.std, b.std, rtol=SAME, atol=0))


def _as(name: str, values: Array, variable: SharedVariable) -> Array:
    """The block in the variable's type, which must hold it."""
    cast = values.astype(variable.type.dtype)
    if cast.dtype.kind in "iub" and not np.array_equal(cast, values):
        raise ValueError(
            f"column of {name!r} has numbers that are no integers, which the model's data are"
        )
    return cast
