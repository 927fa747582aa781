"""nutpie's NUTS on any density: a compiled sampler that calls its log density in Python.

nutpie runs to its end in threads of its own. A gate in the function that it calls with every draw
holds a chain there until more draws are asked for, so that it goes on block by block, exactly as it
would in one run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import Density, DensityInCoordinates, TransportMap
from pymc_ext.density.check import DensityError
from pymc_ext.maths.types import Array
from pymc_ext.sampling.evaluated import Evaluated
from pymc_ext.sampling.gate import Gate
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.protocol import Chain
from pymc_ext.sampling.transitions import Transitions

NAMES = {  # ours, ArviZ's, to nutpie's
    "acceptance_rate": "mean_tree_accept",
    "step_size": "step_size",
    "tree_depth": "depth",
    "n_steps": "n_steps",
    "diverging": "diverging",
    "energy": "energy",
}
# Draws of a chain: nutpie wants a number, and reserves addresses for as many points, here 2 GB at
# most; 10⁷ draws of 353 dimensions were refused on a machine of 24 GB.
MOST_DRAWS, MOST_NUMBERS = 10**7, 2**28
NUDGE = 1e-3  # of a start where a score is zero, in the chain's coordinates: far less than an sd


class Outside(ArithmeticError):
    """A point without a finite log p̃, at which nutpie rejects and goes on."""

    is_recoverable = True


@dataclass(frozen=True)
class NutpieNUTS:
    """nutpie's NUTS, whose warm-up adapts step size and a diagonal metric (extra ``nutpie``).

    Parameters
    ----------
    tune_in_map
        Warm-up of a chain in an approximation's coordinates, where there is little to adapt.
    tune
        Warm-up of a chain in θ; nutpie's own default.

    References
    ----------
    https://github.com/pymc-devs/nutpie
    """

    tune_in_map: int = 100
    tune: int = 400
    name = "nutpie"

    def chain(
        self,
        density: Density,
        start: Array,
        *,
        transport: TransportMap | None,
        scale: Array | None,
        seed: int,
        options: Sampling,
    ) -> NutpieChain:
        """See `pymc_ext.sampling.protocol.Sampler`; nutpie guesses its own ``scale``."""
        seen: Density = density if transport is None else DensityInCoordinates(density, transport)
        tune = self.tune if transport is None else self.tune_in_map
        return NutpieChain(seen, start, tune, seed, options)

    def share(self, chains: Sequence[Chain]) -> None:
        """Nothing: each chain has adapted long enough."""


class NutpieChain:
    """One chain; see `pymc_ext.sampling.protocol.Chain`."""

    def __init__(
        self, density: Density, start: Array, tune: int, seed: int, options: Sampling
    ) -> None:
        self._evaluated, self._tune, self._gate = Evaluated(density), tune, Gate()
        self._taken = 0
        nutpie, D = _import_nutpie(), int(density.dimension)
        point = self._without_zero_scores(np.array(start, dtype=float), seed)
        model = nutpie.compiled_pyfunc.from_pyfunc(
            D, self._make_log_density, self._make_expand,
            [np.dtype("float64")], [(0,)], ["nothing"],
            make_initial_point_fn=lambda seed: point,
        )  # fmt: skip
        draws = min(MOST_DRAWS, MOST_NUMBERS // D)
        self._nutpie: _Sampler = nutpie.sample(
            model, draws=draws, tune=tune, chains=1, cores=1, seed=seed, blocking=False,
            progress_bar=False, return_raw_trace=True, save_warmup=True,
            target_accept=options.target_accept, maxdepth=options.max_depth,
        )  # fmt: skip

    def _without_zero_scores(self, point: Array, seed: int) -> Array:
        """nutpie takes its first metric from the score, and refuses a point where one is zero."""
        score = self._score(point)
        if np.all(score != 0):
            return point
        nudge = NUDGE * np.random.default_rng(seed).standard_normal(len(point))
        beside = np.where(score == 0, point + nudge, point)
        flat = np.flatnonzero(self._score(beside) == 0)
        if len(flat):  # nutpie would end the thread, and with some luck the process
            raise DensityError(
                f"the score is zero at and beside the start in coordinates {flat[:10].tolist()}, "
                "where log p̃ is flat: nutpie finds no metric there; map bounded variables to the "
                "real line, as PyMC and Stan do"
            )
        return beside

    @property
    def gradients(self) -> int:
        """Of log p̃ so far, those of the draw that is made ahead included."""
        return self._evaluated.calls

    @property
    def infinite(self) -> int:
        """Points tried so far where log p̃ is +∞."""
        return self._evaluated.infinite

    def warm_up(self) -> Transitions:
        """nutpie's tuning."""
        return self.draw(self._tune)

    def draw(self, iterations: int) -> Transitions:
        """The next states."""
        self._gate.advance(iterations, self._require_alive)
        begin, self._taken = self._taken, self._gate.allowed
        (_, (table, *_)) = self._nutpie.inspect().get_arrow_trace()
        rows = slice(begin, self._taken)
        statistics = {ours: np.asarray(table.column(own))[rows] for ours, own in NAMES.items()}
        statistics["diverging"] = statistics["diverging"].astype(bool)
        for name in ("tree_depth", "n_steps"):
            statistics[name] = statistics[name].astype(int)
        points = np.array(self._gate.points[rows]).reshape(-1, self._evaluated.density.dimension)
        return Transitions(points, statistics)

    def stop(self) -> None:
        """Let :meth:`draw` end with what there is."""
        self._gate.stop()

    def close(self) -> None:
        """End nutpie's thread; what it still tries costs nothing."""
        if not self._gate.closed:
            self._gate.close()
            try:
                self._nutpie.cancel()
            except BaseException as error:
                # nutpie panics where the thread that it ends had failed by itself; what that failed
                # with is the caller's already
                if not _is_panic(error):
                    raise

    def _require_alive(self) -> None:
        """Raise what has ended the chain, if something has."""
        try:
            if not self._nutpie.is_finished:
                return
            self._nutpie.wait()
        except TimeoutError:  # its way of saying that the chain is busy
            return
        except BaseException as error:
            # pyo3's PanicException is no Exception: it would end the caller's whole process
            if not isinstance(error, RuntimeError) and not _is_panic(error):
                raise
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise RuntimeError(f"nutpie ended the chain: {' '.join(lines[:3])}") from error
        raise RuntimeError("nutpie ended the chain before it was told to")

    def _make_expand(self, *seeds: int) -> Callable[[Array], dict[str, Array]]:
        def expand(x: Array) -> dict[str, Array]:
            self._gate.pass_through(x)
            return {"nothing": np.empty(0)}

        return expand

    def _make_log_density(self) -> Callable[[Array], tuple[float, Array]]:
        def log_density(x: Array) -> tuple[float, Array]:
            if self._gate.closed and len(self._gate.points) > self._tune:
                raise Outside  # not before: nutpie panics where it adapts without a log p̃
            try:
                found = self._evaluated(x)
            except Exception as error:  # of the user's density: seen by who asked for draws
                self._gate.fail(error)
                raise Outside from error
            if found is None:
                raise Outside
            return found

        return log_density

    def _score(self, x: Array) -> Array:
        found = self._evaluated(x)
        return np.full(len(x), np.nan) if found is None else found[1]


def _is_panic(error: BaseException) -> bool:
    """Whether it is pyo3's PanicException, which cannot be imported."""
    return type(error).__name__ == "PanicException"


class _Sampler(Protocol):
    """What is used of nutpie's background sampler."""

    @property
    def is_finished(self) -> bool: ...
    def inspect(self) -> _Trace: ...
    def wait(self) -> object: ...
    def cancel(self) -> None: ...


class _Trace(Protocol):
    """nutpie's draws and statistics, a table a chain."""

    def get_arrow_trace(self) -> tuple[Sequence[_Table], Sequence[_Table]]: ...


class _Table(Protocol):
    """Columns by name."""

    def column(self, name: str) -> NDArray: ...


def _import_nutpie() -> ModuleType:
    """nutpie, or one sentence that says how to get it."""
    try:
        import nutpie
        import nutpie.compiled_pyfunc
    except ImportError as error:
        raise ImportError(
            "this sampler needs nutpie: pip install 'trusted-posteriors[nutpie]'"
        ) from error
    return nutpie
