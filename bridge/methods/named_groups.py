"""Groups beside the posterior that only the user can name: predictions of a program, and its data.

A Stan program does not say which of its data are observed, nor which generated quantities are
predictions of them; neither is guessed from names. ``az.from_cmdstanpy`` asks for both, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bridge.methods.problems import BambiProblem, GivenProblem, ModelProblem, StanProblem
from bridge.targets.draws import InferenceData
from pymc_ext.keywords import did_you_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Finish",
    "Names",
    "finish_of",
    "in_turn",
    "moved_there",
    "require_generated",
    "require_shapes",
]

Finish = Callable[[InferenceData], InferenceData]
Names = Sequence[str] | str | Mapping[str, str]  # or what each is to be called, to what it is
LOG_LIK = "log_lik"  # which is the group log_likelihood, as in `bridge.methods.named_draws`


def finish_of(
    problem: GivenProblem, predictive: Names = (), observed: Sequence[str] | str = ()
) -> Finish | None:
    """What brings draws into the form of those who wrote the model; None where they are in it.

    Parameters
    ----------
    problem
        Whose posterior it is.
    predictive
        Generated quantities of a Stan program that go to the group ``posterior_predictive``; by the
        names of the data that they predict, they are called as these are, which are observed.
    observed
        Its data that go to ``observed_data``; where some are named, the others go to
        ``constant_data``.

    Raises
    ------
    ValueError
        It generates, or was given, nothing of a name; the names do not belong to a Stan program.
    """
    names, observed = _by_name(predictive), _as_names(observed)
    if isinstance(problem, StanProblem):
        require_generated(problem, names, "posterior_predictive")
        if isinstance(predictive, Mapping):
            of = _data_groups(problem, list(names), "posterior_predictive, by the names of data,")
            shapes = {name: value.shape for name, value in of.get("observed_data", {}).items()}
            require_shapes(problem, names, shapes, "posterior_predictive")
            observed = list(dict.fromkeys([*observed, *names]))
        data = _data_groups(problem, observed, "observed_data") if observed else {}
        return partial(_with_groups, predictive=names, data=data) if names or data else None
    if names:
        raise ValueError(
            "posterior_predictive names generated quantities of a Stan program, got "
            f"{list(names.values())} and {_predicts(problem)}"
        )
    if observed:
        raise ValueError(
            f"observed_data names data of a Stan program, got {observed} and {_observes(problem)}"
        )
    return problem.finish if isinstance(problem, BambiProblem) else None


def in_turn(*steps: Finish | None) -> Finish | None:
    """One after the other those that there are; None where there is none."""
    there = [step for step in steps if step is not None]

    def finish(idata: InferenceData) -> InferenceData:
        for step in there:
            idata = step(idata)
        return idata

    return finish if there else None


def _by_name(names: Names) -> dict[str, str]:
    """What each is to be called, to what it is called in the program."""
    if isinstance(names, Mapping):
        return dict(names)
    return {name: name for name in _as_names(names)}


def _as_names(names: Sequence[str] | str) -> list[str]:
    if isinstance(names, str):
        return [names]
    if isinstance(names, Sequence) and all(isinstance(name, str) for name in names):
        return list(names)
    raise TypeError(
        "posterior_predictive and observed_data are names in the Stan program, such as 'y_rep', "
        f"['y_rep'] or {{'y': 'y_rep'}}, got {names!r}"
    )


def require_generated(problem: StanProblem, names: Mapping[str, str], option: str) -> None:
    """ValueError unless these are generated quantities, beside ``log_lik``, each named once."""
    known = [name for name in problem.density.generated_names if name != LOG_LIK]
    unknown = [name for name in names.values() if name not in known]
    if unknown:
        raise ValueError(
            f"{option} must name generated quantities of the program, got "
            f"{unknown}; it generates {known}{_near(unknown, known)}"
        )
    if len(set(names.values())) < len(names):
        raise ValueError(f"{option} must name each generated quantity once, got {dict(names)}")


def _data_groups(
    problem: StanProblem, observed: Sequence[str], option: str
) -> dict[str, dict[str, NDArray]]:
    """``observed_data`` and ``constant_data``."""
    arrays = problem.density.data_arrays()
    unknown = [name for name in observed if name not in arrays]
    if unknown:
        raise ValueError(
            f"{option} must name integers or real numbers of the program's data block, got "
            f"{unknown}; it has {list(arrays)}{_near(unknown, list(arrays))}"
        )
    constant = {name: value for name, value in arrays.items() if name not in observed}
    groups = {"observed_data": {name: arrays[name] for name in observed}, "constant_data": constant}
    return {name: group for name, group in groups.items() if group}


def require_shapes(
    problem: StanProblem,
    names: Mapping[str, str],
    shapes: Mapping[str, tuple[int, ...]],
    option: str,
) -> None:
    """ValueError unless generated quantities have the shapes of what they are draws of."""
    found = problem.density.generated_shapes
    for of, name in names.items():
        if found[name] != shapes[of]:
            raise ValueError(
                f"{option}={{{of!r}: {name!r}}} must name draws of {of}, which has shape "
                f"{shapes[of]}, got {name} of shape {found[name]}"
            )


def _near(unknown: Sequence[str], known: Sequence[str]) -> str:
    """A question, where names are like those that are known."""
    meant = did_you_mean(unknown, known)
    return meant and f"; {meant}"


def _predicts(problem: GivenProblem) -> str:
    """How draws of what is not a program make predictions."""
    if isinstance(problem, BambiProblem):
        return 'a bambi model: call model.predict(advice.idata, kind="response")'
    if isinstance(problem, ModelProblem):
        return "a PyMC model: call pm.sample_posterior_predictive(advice.idata)"
    return "a density, which generates none: leave it out"


def _observes(problem: GivenProblem) -> str:
    """Where the data are of what is not a program."""
    if isinstance(problem, ModelProblem):
        return "a model whose own data come with its draws: leave it out"
    return "a density, which holds none that are known: leave it out"


def _with_groups(
    idata: InferenceData, predictive: Mapping[str, str], data: dict[str, dict[str, NDArray]]
) -> InferenceData:
    import xarray as xr

    from pymc_ext.arviz_versions import add_group

    idata = moved_there(idata, predictive, "posterior_predictive")
    for name, values in data.items():
        add_group(idata, name, xr.Dataset({k: _array(k, x) for k, x in values.items()}))
    return idata


def moved_there(idata: InferenceData, names: Mapping[str, str], group: str) -> InferenceData:
    """Generated quantities in a group of their own, as far as Stan has not refused them."""
    from pymc_ext.arviz_versions import moved

    there = {new: name for new, name in names.items() if name in idata["posterior"]}
    return moved(idata, there, group) if there else idata


def _array(name: str, value: NDArray) -> object:
    """With dimensions named as ArviZ names them."""
    import xarray as xr

    coords = {f"{name}_dim_{i}": np.arange(length) for i, length in enumerate(value.shape)}
    return xr.DataArray(value, dims=list(coords), coords=coords)
