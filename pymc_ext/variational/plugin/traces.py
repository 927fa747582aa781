"""Arrays of draws as PyMC's MultiTrace, from which PyMC makes InferenceData."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence

import pymc as pm
from pymc.backends import NDArray as NDArrayTrace
from pymc.backends.base import MultiTrace
from pytensor.tensor import TensorVariable

from pymc_ext.arviz_versions import ArvizData
from pymc_ext.maths.types import Array
from pymc_ext.options import require_flag


def _no_recording(*_: object) -> None:
    raise RuntimeError("draws are written as arrays, not recorded one by one")


def make_trace(
    model: pm.Model,
    variables: Sequence[TensorVariable],
    values: Sequence[Array],
    stats: Mapping[str, Array],
) -> MultiTrace:
    """Arrays with leading axes (chain, draw) as PyMC's MultiTrace."""
    chains = range(len(next(iter(stats.values()))))
    return MultiTrace([
        _one_chain(i, model, variables, [x[i] for x in values], {k: x[i] for k, x in stats.items()})
        for i in chains
    ])  # fmt: skip


def make_inference_data(
    model: pm.Model, values: Mapping[str, Array], stats: Mapping[str, Array]
) -> ArvizData:
    """Arrays (chain, draw, *shape) of a model's variables, by name, as ArviZ holds them.

    PyMC's converter adds dims, coords and the groups ``observed_data`` and ``constant_data``.
    """
    variables = [model[name] for name in values]
    return pm.to_inference_data(
        make_trace(model, variables, list(values.values()), stats), model=model
    )


def _one_chain(
    chain: int,
    model: pm.Model,
    variables: Sequence[TensorVariable],
    values: Sequence[Array],
    stats: Mapping[str, Array],
) -> NDArrayTrace:
    trace = NDArrayTrace(
        model=model,
        vars=list(variables),
        fn=_no_recording,
        var_shapes={v.name: x.shape[1:] for v, x in zip(variables, values, strict=True)},
        var_dtypes={v.name: x.dtype for v, x in zip(variables, values, strict=True)},
    )
    n = len(next(iter(stats.values())))
    trace.setup(draws=n, chain=chain, sampler_vars=[{name: x.dtype for name, x in stats.items()}])
    for variable, value in zip(variables, values, strict=True):
        trace.samples[variable.name][...] = value
    for name, x in stats.items():
        trace._stats[0][name][...] = x
    trace.draw_idx = n
    trace.close()
    return trace


def check_conversion(
    caller: str, given: Mapping[str, object], instead: str, function: Callable[..., object]
) -> None:
    """TypeError for keywords that ``pm.to_inference_data`` does not take, or would misread.

    Parameters
    ----------
    caller
        Whose keywords they are.
    given
        By name.
    instead
        What to say of ``draws``, ``tune`` and the like, which ``pm.sample`` has.
    function
        The caller, whose own keywords may be meant.
    """
    known = set(inspect.signature(pm.to_inference_data).parameters) - {"trace", "model"}
    unknown = sorted(set(given) - known)
    if unknown:
        from pymc_ext.keywords import did_you_mean  # not a file of a fit's

        own = inspect.signature(function).parameters
        meant = did_you_mean(unknown, [*known, *own], "{}=")
        said = f"{meant} " if meant else ""
        of_chains = f" ({instead})" if {"draws", "tune", "cores"} & set(unknown) else ""
        raise TypeError(
            f"{caller} does not take {unknown}{of_chains}: {said}beside its own keywords it takes "
            f"those of pm.to_inference_data, {sorted(known)}"
        )
    check_log_groups(given.get("log_likelihood", False), given.get("log_prior", False))
    for group, sampler in (
        ("prior", "pm.sample_prior_predictive"),
        ("posterior_predictive", "pm.sample_posterior_predictive"),
    ):
        if not isinstance(given.get(group), Mapping | None):
            raise TypeError(
                f"{group} must be a mapping of draws by name, got {given[group]!r}: leave it out, "
                f"and call {sampler}"
            )


def check_log_groups(log_likelihood: object, log_prior: object) -> None:
    """TypeError unless each is a bool or names of variables, as ``pm.to_inference_data`` takes
    them, which would read a text letter by letter."""
    for label, value in (("log_likelihood", log_likelihood), ("log_prior", log_prior)):
        if isinstance(value, str) or not isinstance(value, Collection):
            require_flag(label, value, "a list of names of variables")


def check_log_names(
    model: pm.Model, log_likelihood: bool | Collection[str], log_prior: bool | Collection[str]
) -> None:
    """ValueError where a name asked for is none of the model's observed, or free, variables."""
    for label, asked, variables in (
        ("log_likelihood", log_likelihood, model.observed_RVs),
        ("log_prior", log_prior, model.free_RVs),
    ):
        known = [rv.name for rv in variables]
        unknown = [] if isinstance(asked, bool) else sorted(set(asked) - set(known))
        if unknown:
            kind = "observed" if label == "log_likelihood" else "free"
            raise ValueError(
                f"{label} must name {kind} variables of the model, got {unknown}; it has {known}"
            )
