"""Discrete variables that were summed out of a model, recovered after a fit of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from pymc_ext.arviz_versions import ArvizData, as_dataset, with_posterior
from pymc_ext.maths.types import Array
from pymc_ext.models.context import context
from pymc_ext.models.observed_twice import mend_observed
from pymc_ext.seeds import check_seed

__all__ = ["recover_discrete"]

NUMBERS = 2_000_000  # log probabilities held at once, 16 MB: several arrays of them are


def recover_discrete(
    idata: ArvizData,
    *,
    model: pm.Model | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> ArvizData:
    r"""Draws and probabilities of the variables that ``pymc_extras.marginalize`` summed out.

    Given each draw θ of the other variables, a variable with independent entries (a mixture's
    assignments, presence at sites) is drawn from p(s | θ, y) ∝ p(s | θ) p(y | s, θ). The states
    of a hidden Markov model (``DiscreteMarkovChain``) are drawn as one path, by filtering forward
    and sampling backward: with α_t(s) = p(s_t = s, y_1, ..., y_t | θ) and transitions P,

    .. math:: p(s_t | s_{t+1}, ..., s_T, θ, y) ∝ α_t(s_t) P_{s_t s_{t+1}}

    Where several variables were summed out, each is drawn given the draws of those before it, so
    that together they are drawn from their joint law.

    Parameters
    ----------
    idata
        Draws of the model's posterior: of ``bridge.fit``, ``px.sample``, ``pm.sample``, ... Those
        of ``px.fit`` are q's: what is recovered is then as far from the posterior as they are.
    model
        What ``pymc_extras.marginalize`` gave and was fitted; None takes that of ``with model:``.
    random_seed
        None, an integer or a Generator.

    Returns
    -------
    InferenceData or DataTree
        ``idata`` itself. Its ``posterior`` has for each variable, ``state`` say, also its draws
        ``state`` (chain, draw, *shape) and ``lp_state`` (chain, draw, *shape, K), the logs of the
        probabilities of its K values given θ, y, and what was drawn before it. The mean of their
        exponentials over draws is P(s | y), with less Monte Carlo error than the frequencies of
        the draws. These are the names of ``pymc_extras.recover_marginals`` before 0.15.

    Raises
    ------
    ImportError
        pymc-extras is not installed, or of a version that is not known.
    TypeError
        There is no model, or ``idata`` has no posterior.
    ValueError
        Nothing was summed out of the model; the draws lack a variable, or one has another shape
        there; a variable has not finitely many values, or is a chain with more than one lag; sums
        within sums are not exact; no value is possible under some draw.

    Examples
    --------
    >>> import pymc_extras as pmx  # doctest: +SKIP
    >>> with pm.Model() as full:  # doctest: +SKIP
    ...     low = pm.Normal("low", 0, 3)
    ...     stay = pm.Beta("stay", 8, 2)
    ...     P = pm.math.stack([[stay, 1 - stay], [1 - stay, stay]])
    ...     start = pm.Categorical.dist([0.5, 0.5])
    ...     state = pmx.DiscreteMarkovChain("state", P=P, init_dist=start, shape=5)
    ...     _ = pm.Normal("y", low + 4 * state, 1, observed=[0.1, -0.3, 4.2, 3.8, 4.4])
    >>> model = pmx.marginalize(full, ["state"])  # doctest: +SKIP
    >>> idata = bridge.fit(model, random_seed=1).idata  # doctest: +SKIP
    >>> idata = px.recover_discrete(idata, model=model, random_seed=1)  # doctest: +SKIP
    >>> np.exp(idata["posterior"]["lp_state"]).mean(("chain", "draw"))  # doctest: +SKIP

    Source: Chib (1996), Calculating posterior distributions and modal estimates in Markov mixture
    models, Journal of Econometrics 75, doi:10.1016/0304-4076(95)01770-4.
    """
    check_seed(random_seed, generator=True)
    model = context(model)
    mend_observed(model)
    from pymc_ext.models.hidden import HiddenVariable  # it needs pymc-extras, which is optional
    from pymc_ext.models.summed_out import hidden_names, with_hidden

    posterior = _posterior(idata)
    names = hidden_names(model)
    if not names:
        raise ValueError(_nothing_summed(model))
    full, rng = with_hidden(model), np.random.default_rng(random_seed)
    draws = _flat_draws(posterior, model, full)
    for place, name in enumerate(names):
        first = {known: values[0] for known, values in draws.items()}
        hidden = HiddenVariable.of(full, name, names[place + 1 :], first)
        rows = NUMBERS // max(1, int(np.prod(hidden.shape)) * len(hidden.domain))
        parts = [hidden.posterior(block, rng) for block in _blocks(draws, max(1, rows))]
        log_p, draws[name] = (np.concatenate(part) for part in zip(*parts, strict=True))
        dims = list(
            full.named_vars_to_dims.get(name) or [f"{name}_dim_{i}" for i in range(log_p.ndim - 2)]
        )
        coords = {dim: full.coords.get(dim) for dim in dims} | {f"lp_{name}_dim": hidden.domain}
        posterior = _with(posterior, name, draws[name], dims, coords)
        posterior = _with(posterior, f"lp_{name}", log_p, [*dims, f"lp_{name}_dim"], coords)
    return with_posterior(idata, posterior)


def _posterior(idata: ArvizData) -> xr.Dataset:
    try:
        return as_dataset(idata["posterior"])
    except (KeyError, TypeError, AttributeError) as error:
        raise TypeError(
            "idata must be ArviZ data with a group posterior, as bridge.fit(model).idata, got "
            f"{type(idata).__name__}: give the draws of a fit"
        ) from error


def _nothing_summed(model: pm.Model) -> str:
    discrete = [rv.name for rv in model.free_RVs if not rv.dtype.startswith("float")]
    found = f"one whose discrete variables {discrete} are free" if discrete else "one without any"
    return (
        "model must be one of which pymc_extras.marginalize summed out variables, got "
        f"{found}: give what marginalize(model, names) returned, which is another model"
    )


def _flat_draws(posterior: xr.Dataset, model: pm.Model, full: pm.Model) -> dict[str, Array]:
    """Values of the model's free variables, (N, *shape), chains one after another."""
    names = [str(rv.name) for rv in model.free_RVs]
    missing = [name for name in names if name not in posterior]
    if missing:
        raise ValueError(
            f"idata must have draws of all variables {names}, got none of {missing}: give the "
            "draws of a fit of this very model"
        )
    shapes, found = full.eval_rv_shapes(), {}
    for name in names:
        values = posterior[name].transpose("chain", "draw", ...).values
        expected = tuple(int(n) for n in shapes[name])
        if values.shape[2:] != expected:
            raise ValueError(
                f"draws of {name!r} must have the shape {expected} that it has in the model, got "
                f"{values.shape[2:]}: give the draws of a fit of this very model"
            )
        found[name] = values.reshape(-1, *expected)
    return found


def _blocks(draws: Mapping[str, Array], rows: int) -> Iterator[dict[str, Array]]:
    for start in range(0, len(next(iter(draws.values()))), rows):
        yield {name: values[start : start + rows] for name, values in draws.items()}


def _with(
    posterior: xr.Dataset,
    name: str,
    values: NDArray,
    dims: Sequence[str],
    coords: Mapping[str, ArrayLike | None],
) -> xr.Dataset:
    """The draws with one more variable (N, *shape), in the place of one of that name."""
    lead = [posterior.sizes["chain"], posterior.sizes["draw"]]
    known = {
        dim: np.arange(size) if coords.get(dim) is None else np.asarray(coords[dim])
        for dim, size in zip(dims, values.shape[1:], strict=True)
    }
    shaped = values.reshape(*lead, *values.shape[1:])
    rest = posterior.drop_vars([name], errors="ignore")
    return rest.assign({name: (("chain", "draw", *dims), shaped)}).assign_coords(known)
