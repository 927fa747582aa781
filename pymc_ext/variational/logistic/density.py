"""The density of a PyMC model whose logits are affine in β, with the numbers that its graph holds.

β are the variables with a Gaussian prior in which all logits are affine, see :mod:`.affine`. Where
they are all variables there are, prior and data are numbers, :mod:`.numbers`; where others, s, are
left, their means over β given s are another function, :mod:`.hierarchical`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.tensor import TensorVariable

from pymc_ext.density import CountedDensity
from pymc_ext.density.model import PyMCDensity
from pymc_ext.models.context import TO_THE_FAMILY, context
from pymc_ext.over_draws import over_draws
from pymc_ext.pytensor_modes import once_mode
from pymc_ext.typed_graphs import gradients
from pymc_ext.variational.core.algorithm import Algorithm, Q
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.logistic.affine import AffineSplit, AffinityError
from pymc_ext.variational.logistic.numbers import (
    GaussianPrior,
    LogisticData,
    checked_data,
    require_proper,
    require_quadratic,
)
from pymc_ext.variational.plugin.inference import AlgorithmVI
from pymc_ext.variational.plugin.types import Start

if TYPE_CHECKING:
    from pytensor.compile import Function

Built = TypeVar("Built")
Positions = NDArray[np.integer]
ROWS = 8  # design columns evaluated together: bounds memory


class LogisticDensity(PyMCDensity):
    """log p̃ of such a model; its prior and data, where all variables are linear.

    Parameters
    ----------
    split
        The model's likelihoods, and which variables they are affine in.
    model, variables, options
        As :class:`PyMCDensity`.

    Raises
    ------
    ValueError
        The data are ``pm.Minibatch``, and some variables are not linear.
    """

    read_often = False  # whether other data take their place in the graph, which is then compiled

    def __init__(
        self,
        model: pm.Model,
        variables: list[TensorVariable] | None = None,
        *,
        split: AffineSplit,
        **options: Any,
    ) -> None:
        super().__init__(model, variables, **options)
        self.split = split
        self._functions: dict[Hashable, object] = {}
        if split.given and self.noisy:
            names = [rv.name for rv in split.given]
            raise ValueError(
                f"the rows of {self.batches} are a pm.Minibatch, which needs every variable in the "
                f"linear part, but {names} are not: fix them, or use all data"
            )

    def __getstate__(self) -> dict[str, object]:
        return super().__getstate__() | {"_functions": {}}

    @cached_property
    def given(self) -> Positions:
        """Of the entries of s in θ."""
        return self._positions(self.split.given)

    @cached_property
    def linear(self) -> Positions:
        """Of the entries of β in θ."""
        return self._positions(self.split.linear)

    def _positions(self, variables: Sequence[TensorVariable]) -> Positions:
        names = {self.model.rvs_to_values[rv].name for rv in variables}
        every = np.arange(self.dimension)
        return np.concatenate([
            every[where] for name, where, *_ in self.layout if name in names
        ] or [every[:0]])  # fmt: skip

    def once(self, key: Hashable, build: Callable[[], Built]) -> Built:
        """What ``build`` compiles, which is kept: a fit that goes on, or on new data, needs it."""
        if key not in self._functions:
            with self.clock.compiling():
                self._functions[key] = build()
        return cast("Built", self._functions[key])

    def prior(self) -> GaussianPrior:
        """The Gaussian prior of all variables. AffinityError where it is none, or improper."""
        f = self.once("prior", self._prior_function)
        constant, slope = f(np.zeros(self.dimension))
        P = np.stack([slope - f(row)[1] for row in np.eye(self.dimension)])
        P = (P + P.T) / 2
        require_proper(P, [(name, where) for name, where, *_ in self.layout])
        require_quadratic(lambda beta: f(beta)[1], slope, P)
        return GaussianPrior(float(constant), slope, P)

    def _prior_function(self) -> Function:
        (logp,) = self.in_theta([self.model.varlogp])
        outputs = [logp, *gradients(logp, [self.theta])]
        return self.compile([self.theta], outputs, mode=once_mode())

    def data(self) -> LogisticData:
        """Design, offset and outcomes; with ``pm.Minibatch`` a new batch at each call."""
        f, p, k = self.once("data", self._data_function), self.dimension, len(self.split.terms)
        points = np.vstack([np.zeros(p), np.eye(p)])
        columns, offset = [], np.empty(0)
        step = p + 1 if self.noisy else ROWS  # all columns of X must be of one batch
        for i in range(0, p + 1, step):
            out = f(points[i : i + step])
            block = np.concatenate(out[:k], axis=1)
            if i == 0:
                offset, block = block[0], block[1:]
            with np.errstate(invalid="ignore"):  # checked below, by name
                columns.append(block - offset)
        X = np.ascontiguousarray(np.concatenate(columns).T)
        sizes = [v.shape[1] for v in out[:k]]
        return checked_data(self.split.terms, X, offset, out[k:], sizes)

    def _data_function(self) -> Function:
        rows, terms = pt.matrix("rows", shape=(None, self.dimension)), self.split.terms
        logits = self.in_theta([term.logit for term in terms])
        values = over_draws(logits, {self.theta: rows}, rows.shape[0], self.model.check_bounds)
        data = [x for t in terms for x in (t.observed, t.trials, t.weight)]
        mode = {} if self.noisy or self.read_often else {"mode": once_mode()}
        return self.compile([rows], [*values, *data], random_seed=self._random_seed, **mode)


class LogisticAlgorithm(Algorithm[Q]):
    """An algorithm on a :class:`LogisticDensity`, or the density of a PyMC model it can read."""

    @staticmethod
    @abstractmethod
    def read(model: pm.Model) -> AffineSplit:
        """What the graph of ``model`` says. Raises AffinityError where it is not covered."""

    def logistic(self, density: CountedDensity) -> LogisticDensity:
        """What a fit was given, or what is read in the graph of its model.

        Raises
        ------
        AffinityError
            The model is not covered, or there is none.
        """
        inner = density.density
        if isinstance(inner, LogisticDensity):
            return inner
        if not isinstance(inner, PyMCDensity):
            raise AffinityError(
                "logits are read from a model's graph: expected the density of a PyMC model, got "
                f"{type(inner).__name__}; write the model in PyMC, or use HierarchicalVI"
            )
        return LogisticDensity(inner.model, split=self.read(inner.model), clock=inner.clock)


class LogisticVI(AlgorithmVI):
    """A :class:`LogisticAlgorithm` as a method of ``pm.fit``.

    The graph is read when the method is made, so that what is not covered is refused then.
    """

    failures = ()  # an AffinityError names the variable and its data already

    def __init__(
        self,
        algorithm: LogisticAlgorithm[Posterior],
        *,
        model: pm.Model | None,
        start: Start | None = None,
        random_seed: int | None,
    ) -> None:
        model = context(model, TO_THE_FAMILY)
        density = partial(LogisticDensity, split=algorithm.read(model))
        super().__init__(
            algorithm, model=model, start=start, random_seed=random_seed, density=density
        )
