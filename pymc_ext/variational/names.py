"""The families by name, as ``px.fit(method="laplace")`` takes them and records call them.

A family's name is that of its class: ``BatchMatchVI`` is ``"batch-match"``. Which families there
are is read from the stub that exports them, so that a new one has its name by its export; a variant
of a family is one line of :data:`VARIANTS`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import numpy as np
import pymc as pm

from pymc_ext.exports import homes_of
from pymc_ext.models.context import context
from pymc_ext.variational.plugin.inference import AlgorithmVI

__all__ = ["VARIANTS", "family", "family_names"]

PACKAGE = Path(__file__).parents[1]
SUFFIX = "VI"
NO_FAMILIES = {"AlgorithmVI"}  # what they are made of
VARIANTS: Mapping[str, tuple[str, Mapping[str, object]]] = {  # name: class, its options
    "mixed-mu": ("MixedVI", {"variant": "mu"}),
    "mixed-eig": ("MixedVI", {"variant": "eig"}),
    "mixed-lr": ("MixedVI", {"variant": "lr"}),
    # the rank of the method of this name; a model of fewer parameters has that of all of them
    "batch-match-lr": ("BatchMatchVI", {"rank": 10}),
    "bernstein-laplace": ("BernsteinVI", {"base": "laplace"}),
    "bernstein-match": ("BernsteinVI", {"base": "match"}),
    "viper-full": ("ViperVI", {"covariance": "full"}),
    "viper-diagonal": ("ViperVI", {"covariance": "diagonal"}),
}
OF_PYMC = "call pm.fit(method={name!r}), PyMC's own"
CHAINS = "chains are run by pm.sample() and by px.sample(approx)"
ELSEWHERE = {  # what users of PyMC ask for that is no family of this package
    **dict.fromkeys(("advi", "fullrank_advi", "svgd", "asvgd", "nfvi"), OF_PYMC),
    **dict.fromkeys(("nuts", "hmc", "mcmc"), CHAINS),
}


def family_names() -> list[str]:
    """All names that :func:`family` knows, in alphabetical order."""
    return sorted({*_classes(), *VARIANTS})


def family(
    name: str, *, model: pm.Model | None = None, random_seed: int | None = None
) -> AlgorithmVI:
    """The family of this name, with its own defaults, as an inference for ``pm.fit``.

    Parameters
    ----------
    name
        One of :func:`family_names`.
    model, random_seed
        As :class:`pymc_ext.LaplaceVI`.

    Raises
    ------
    ValueError
        No family has the name; with the near ones.

    Examples
    --------
    >>> family("batch-match", model=model).algorithm.name
    'batch-match'
    """
    classes = _classes()
    of_class, options = VARIANTS.get(name, ("", {}))
    if name in classes:
        of_class = classes[name]
    if not of_class:
        raise ValueError(_unknown(name))
    home = homes_of(PACKAGE / "__init__.pyi")[of_class]
    cls = getattr(import_module(f"{PACKAGE.name}.{home}"), of_class)
    rank = options.get("rank")
    if isinstance(rank, int):
        sizes = (np.size(value) for value in context(model).initial_point().values())
        options = {**options, "rank": min(rank, sum(sizes))}
    made: AlgorithmVI = cls(**options, model=model, random_seed=random_seed)
    return made


def class_name(name: str) -> str | None:
    """The class of the family of this name; None where there is none.

    >>> class_name("mixed-eig")
    'MixedVI'
    """
    return VARIANTS[name][0] if name in VARIANTS else _classes().get(name)


def _classes() -> dict[str, str]:
    """Names of exported classes by the names of their families."""
    exported = homes_of(PACKAGE / "__init__.pyi")
    classes = [name for name in exported if name.endswith(SUFFIX) and name not in NO_FAMILIES]
    return {_hyphenated(name.removesuffix(SUFFIX)): name for name in classes}


def _hyphenated(name: str) -> str:
    """``"BatchMatch"`` as ``"batch-match"``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def _unknown(name: str) -> str:
    known = family_names()
    elsewhere = ELSEWHERE.get(name.lower())
    if elsewhere:
        return f"{name!r} is no family of px: {elsewhere.format(name=name.lower())}; px has {known}"
    # users come with names of classes, and with underscores
    asked = _hyphenated(name.removesuffix(SUFFIX)).replace("_", "-")
    near = difflib.get_close_matches(asked, known, n=3)
    instead = f"did you mean {', '.join(map(repr, near))}?" if near else f"px has {known}"
    return f"no family has the name {name!r}: {instead}"
