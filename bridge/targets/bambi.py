"""Models of bambi: the PyMC model behind one, and draws as bambi's own ``fit`` hands them back.

bambi is never imported: a model is known by its class, and its own methods do the work. One of them
is private, ``backend._clean_results``, the same in bambi 0.16 to 0.21; it is called here alone.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, TypeGuard

from bridge.errors import BambiVersionError
from bridge.targets.draws import InferenceData

if TYPE_CHECKING:
    import bambi
    import pymc as pm

__all__ = ["built_model", "is_bambi", "left_out", "tidied"]

CLEANS = ["idata", "omit_offsets", "include_response_params"]  # the arguments of that method


def is_bambi(model: object) -> TypeGuard[bambi.Model]:
    """Whether it is a ``bambi.Model``, or of a class derived from it."""
    return any(
        kind.__name__ == "Model" and kind.__module__.partition(".")[0] == "bambi"
        for kind in type(model).__mro__
    )


def built_model(model: bambi.Model) -> pm.Model:
    """The PyMC model of a bambi model, which is built if it has not been.

    Raises
    ------
    BambiVersionError
        Its bambi cannot put draws into its form in the way that `tidied` asks for.

    Examples
    --------
    >>> built_model(bambi.Model("y ~ x", data)).free_RVs  # doctest: +SKIP
    [sigma, Intercept, x]
    """
    if not model.built:
        model.build()
    clean = getattr(model.backend, "_clean_results", None)
    takes = [] if clean is None else list(inspect.signature(clean).parameters)
    if takes != CLEANS:
        raise BambiVersionError(
            "the installed bambi cannot put draws into its form: expected "
            f"backend._clean_results({', '.join(CLEANS)}), as bambi 0.16 to 0.21 have it, got "
            f"{', '.join(takes) or 'no such method'}; install one of these, or give its PyMC "
            "model, model.backend.model, for draws as PyMC names them"
        )
    built: pm.Model = model.backend.model
    return built


def left_out(model: bambi.Model) -> frozenset[str]:
    """Deterministics that bambi does not draw: the likelihood's parameters, one a row of data."""
    of_likelihood = model.family.likelihood.params
    names = {variable.name for variable in model.backend.model.deterministics}
    return frozenset(names.intersection(of_likelihood))


def tidied(model: bambi.Model, idata: InferenceData) -> InferenceData:
    """Draws of :func:`built_model` in the form of ``model.fit()``; what was given is changed.

    Without `left_out` and the offsets of non-centred groups; the intercept is that of predictors as
    they are, where the PyMC model has that of centred ones; axes of groups are the last, and every
    group has bambi's attributes.
    """
    from pymc_ext.arviz_versions import without

    idata = without(idata, left_out(model))
    cleaned: InferenceData = model.backend._clean_results(
        idata, omit_offsets=True, include_response_params=False
    )
    return cleaned
