"""A variable that was summed out of a model: what its values weigh, given all others."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.tensor import TensorVariable

from pymc_ext.maths import hidden_markov as hmm
from pymc_ext.maths.types import Array
from pymc_ext.models.summed_out import summed_out
from pymc_ext.pymc_extras_versions import (
    DiscreteMarkovChain,
    NonSeparableLogpWarning,
    find_conditional_dependent_rvs,
    get_domain_of_finite_discrete_rv,
    reduce_batch_dependent_logps,
    subgraph_batch_dim_connection,
)

__all__ = ["HiddenVariable", "InexactSumError"]

FINITE = (pm.Bernoulli, pm.Categorical, pm.DiscreteUniform)
Draws = Mapping[str, Array]
Terms = tuple[Array, Array | None, Array | None]


class InexactSumError(ValueError):
    """A variable was summed out as if its entries were independent, which they are not."""


@dataclass(frozen=True)
class HiddenVariable:
    """One variable s with finitely many values, given all others of a model.

    Attributes
    ----------
    name
        As the model has it.
    given
        Names of the other variables, in the order in which ``evaluate`` takes them.
    domain
        Its values, (K,).
    shape
        Of the variable; of a chain the last axis is time.
    chain
        Whether it is a Markov chain. Otherwise its entries are independent, given the others.
    evaluate
        From values of the others and of s: the weights, ``shape``, which are log p of what depends
        on s, and of s itself where it is no chain; of a chain also log π of its first state, and P.
    """

    name: str
    given: tuple[str, ...]
    domain: NDArray
    shape: tuple[int, ...]
    chain: bool
    evaluate: Callable[..., Sequence[Array]]

    @classmethod
    def of(cls, full: pm.Model, name: str, summed: Sequence[str], point: Draws) -> HiddenVariable:
        """Compile it.

        Parameters
        ----------
        full
            The model with all hidden variables, of `summed_out.with_hidden`.
        name
            Of this one.
        summed
            Those that stay summed out; all others are given.
        point
            A value of each that is given.

        Raises
        ------
        ValueError
            It has not finitely many values, or is a chain with more than one lag or with
            transitions that change with time.
        InexactSumError
            What was summed out within it makes its entries dependent.
        """
        with warnings.catch_warnings():
            # which of several dependents the sum is written under does not matter to their total
            warnings.simplefilter("ignore", NonSeparableLogpWarning)
            model = summed_out(full, summed)
            variable = model[name]
            _refuse(name, variable)
            chain = isinstance(variable.owner.op, DiscreteMarkovChain)
            others = [rv for rv in model.free_RVs if rv is not variable]
            given = tuple(str(rv.name) for rv in others)
            values = [model.rvs_to_values[rv] for rv in others]
            value = model.rvs_to_values[variable]
            evaluate = _compiled(model, _graphs(model, variable, chain), [*values, value])
            domain = _compiled(model, [_domain(variable, chain)], values, mode="FAST_COMPILE")
            hidden = cls(
                name,
                given,
                np.asarray(domain(*(point[other] for other in given))[0]),
                tuple(int(n) for n in full.eval_rv_shapes()[name]),
                chain,
                evaluate,
            )
            if summed:
                hidden._check(model, point, summed)
        return hidden

    def posterior(self, draws: Draws, rng: np.random.Generator) -> tuple[Array, NDArray]:
        """Log probabilities (N, *shape, K) of the values given N draws of the others, and one value
        for each draw, (N, *shape), of all entries jointly.

        Raises
        ------
        ValueError
            No value is possible given one of the draws.
        """
        weights, initial, P = self._terms(draws)
        if initial is None or P is None:
            self._check_possible(weights)
            return hmm.normalized(weights), self.domain[hmm.sample_categorical(weights, rng)]
        log_P = _log(P)
        alpha = hmm.filtered(initial, log_P, weights)
        self._check_possible(alpha[..., -1, :])
        return hmm.smoothed(alpha, log_P, weights), self.domain[
            hmm.sample_states(alpha, log_P, rng)
        ]

    def _check_possible(self, weights: Array) -> None:
        finite = np.isfinite(np.logaddexp.reduce(weights, axis=-1)).reshape(len(weights), -1)
        impossible = int(np.sum(~np.all(finite, axis=1)))
        if impossible:
            raise ValueError(
                f"some value of {self.name!r} must be possible given each draw, got none under "
                f"{impossible} of {len(weights)}: give draws of a fit of this very model, with its "
                "data"
            )

    def _terms(self, draws: Draws) -> Terms:
        """Weights (N, *shape, K); of a chain log π (N, *batch, K) and P (N, *batch, K, K), too."""
        rows = [
            [self.evaluate(*row, np.full(self.shape, value)) for value in self.domain]
            for row in zip(*(draws[name] for name in self.given), strict=True)
        ]

        def stacked(place: int, shape: tuple[int, ...]) -> Array:
            each = [[np.broadcast_to(terms[place], shape) for terms in row] for row in rows]
            return np.moveaxis(np.array(each, dtype=float), 1, -1)

        weights = stacked(0, self.shape)
        if not self.chain:
            return weights, None, None
        batch, k = self.shape[:-1], len(self.domain)
        P = np.array([np.broadcast_to(row[0][2], (*batch, k, k)) for row in rows])
        return weights, stacked(1, batch), P

    def log_density(self, point: Draws, index: NDArray) -> float:
        """log p of s and of what depends on it, given the others, at places of s in its domain."""
        terms = self._terms({name: np.asarray(point[name])[None] for name in self.given})
        weights, initial, P = (None if term is None else term[0] for term in terms)
        assert weights is not None
        total = np.take_along_axis(weights, index[..., None], axis=-1).sum()
        if initial is not None and P is not None:
            total += np.take_along_axis(initial, index[..., :1], axis=-1).sum()
            rows = np.take_along_axis(_log(P), index[..., :-1, None], axis=-2)
            total += np.take_along_axis(rows, index[..., 1:, None], axis=-1).sum()
        return float(total)

    def _check(self, model: pm.Model, point: Draws, summed: Sequence[str]) -> None:
        """Raise unless log p of the model changes with s as that of its entries, one by one.

        Of sums within sums pymc-extras 0.10 takes entries for independent that are not: of two
        chains with the same emissions, or of indicators of steps that are summed after their chain.
        """
        log_p, rng = model.compile_logp(), np.random.default_rng(0)
        places = [rng.integers(len(self.domain), size=self.shape) for _ in range(4)]
        known = {name: point[name] for name in self.given}
        truth = np.array([log_p({**known, self.name: self.domain[index]}) for index in places])
        ours = np.array([self.log_density(known, index) for index in places])[np.isfinite(truth)]
        truth = truth[np.isfinite(truth)]
        if truth.size and not np.ptp(truth - ours) <= 1e-6 * max(1.0, np.ptp(truth)):
            raise InexactSumError(
                f"the sum over {self.name!r} must be exact, got one in which pymc-extras takes its "
                f"entries for independent given {list(summed)} summed out, so that it is "
                f"another model: sum {self.name!r} out before, as in pymc_extras.marginalize("
                f"pymc_extras.marginalize(model, [{self.name!r}]), {list(summed)}), or leave it "
                "free and use pm.sample"
            )


def _log(x: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(x)


def _refuse(name: str, variable: TensorVariable) -> None:
    op = variable.owner.op
    way = "draw it by pymc_extras.marginal.recover"
    if isinstance(op, DiscreteMarkovChain):
        varying = getattr(op, "time_varying_P", False)  # pymc-extras 0.10 has none
        if op.n_lags > 1 or varying:
            raise ValueError(
                f"{name!r} must be a Markov chain of one lag whose transitions are the same at "
                f"each step, got n_lags={op.n_lags}, time_varying_P={varying}: {way}"
            )
    elif not isinstance(op, FINITE):
        raise ValueError(
            f"{name!r} must be a Bernoulli, Categorical, DiscreteUniform or DiscreteMarkovChain, "
            f"got {type(op).__name__}: {way}"
        )


def _domain(variable: TensorVariable, chain: bool) -> TensorVariable:
    if chain:
        return pt.arange(variable.owner.inputs[0].shape[-1])
    return pt.as_tensor_variable(get_domain_of_finite_discrete_rv(variable))


def _graphs(model: pm.Model, variable: TensorVariable, chain: bool) -> list[TensorVariable]:
    """What ``evaluate`` of `HiddenVariable` computes."""
    dependents = find_conditional_dependent_rvs(variable, model.basic_RVs)
    weights = reduce_batch_dependent_logps(
        subgraph_batch_dim_connection(variable, dependents),
        [rv.owner.op for rv in dependents],
        model.logp(vars=dependents, sum=False),
    )
    if not chain:
        return [weights + model.logp(vars=[variable], sum=False)[0]]
    P, _, first, *_ = variable.owner.inputs
    value = model.rvs_to_values[variable]
    return [weights, pm.logp(first, value[..., :1])[..., 0], P]


def _compiled(
    model: pm.Model,
    graphs: Sequence[TensorVariable],
    inputs: Sequence[TensorVariable],
    **options: str,
) -> Callable[..., Sequence[Array]]:
    function = model.compile_fn(
        model.replace_rvs_by_values(graphs),
        inputs=inputs,
        point_fn=False,
        on_unused_input="ignore",
        **options,
    )

    def typed(*values: Array) -> Sequence[Array]:
        pairs = zip(values, inputs, strict=True)
        return function(*(np.asarray(value, dtype=x.dtype) for value, x in pairs))

    return typed
