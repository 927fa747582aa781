"""All methods by name: those of this package, and those that installed packages register."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points

from bridge.errors import BrokenMethodError, UnknownMethodError
from bridge.methods.families import FAMILY_METHODS
from bridge.methods.method import Method
from bridge.methods.peers.blackjax import BLACKJAX_METHODS
from bridge.methods.peers.numpyro import NUMPYRO_METHODS
from bridge.methods.peers.nutpie_flow import NUTPIE_FLOW_METHODS
from bridge.methods.peers.pymc_extras import PYMC_EXTRAS_METHODS
from bridge.methods.pymc import PYMC_METHODS
from bridge.methods.samplers import SAMPLER_METHODS
from bridge.methods.stan import STAN_METHODS
from bridge.methods.warm_nuts import FLOW_NUTS, WARM_NUTS

__all__ = ["ENTRY_POINTS", "METHODS", "find_approximations", "find_methods", "installed_methods"]

ENTRY_POINTS = "trusted_posteriors.methods"
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        *STAN_METHODS,
        *PYMC_METHODS,
        *FAMILY_METHODS,
        WARM_NUTS,
        FLOW_NUTS,
        *SAMPLER_METHODS,
        *PYMC_EXTRAS_METHODS,
        *BLACKJAX_METHODS,
        *NUMPYRO_METHODS,
        *NUTPIE_FLOW_METHODS,
    )
}


OF_NUTS = ("nuts", "hmc", "mcmc")  # as users of PyMC ask for it


def find_methods(chosen: Sequence[str | Method] | str | Method | None = None) -> list[Method]:
    """The methods asked for; for None those of ours that run by default.

    Parameters
    ----------
    chosen
        Names of `METHODS`, names under which an installed package registers a method (entry point
        group ``trusted_posteriors.methods``), or methods themselves.

    Returns
    -------
    list of Method
        In this order, each once.

    Raises
    ------
    UnknownMethodError
        A name that nobody has, with the near ones.
    BrokenMethodError
        An installed package registers the name and its method cannot be loaded.
    ValueError
        Two different methods have one name.
    TypeError
        Neither a name nor a method.
    """
    if chosen is None:
        return [method for method in METHODS.values() if method.default]
    entries = [chosen] if isinstance(chosen, str | Method) else chosen
    if not isinstance(entries, Iterable):
        raise TypeError(
            "methods must be names, such as ['laplace', 'hierarchical'], or bridge.Methods, got "
            f"{chosen!r}: see `python -m bridge list` for the names"
        )
    found: dict[str, Method] = {}
    for entry in entries:
        method = _named(entry) if isinstance(entry, str) else _own(entry)
        if found.setdefault(method.name, method) != method:
            raise _twice(method.name)
    return list(found.values())


def find_approximations(chosen: Sequence[str | Method] | str | Method) -> list[Method]:
    """`find_methods` of what `bridge.fit` tries before NUTS; ValueError if one is a sampler."""
    if isinstance(chosen, str) and chosen.lower() in OF_NUTS:  # the near names are samplers
        raise _no_approximation([chosen])
    found = find_methods(chosen)
    if not found or any(method.sampler for method in found):
        raise _no_approximation([method.name for method in found])
    return found


def _no_approximation(names: list[str]) -> ValueError:
    return ValueError(
        f"methods must name approximations, got {names}: NUTS runs by itself if all fail, "
        "and what has no log q cannot be judged here"
    )


def installed_methods() -> dict[str, Method | BrokenMethodError]:
    """What installed packages register, by name; the error in place of a method that is broken."""
    found: dict[str, Method | BrokenMethodError] = {}
    for name, entry in _registered().items():
        try:
            found[name] = _load(entry)
        except BrokenMethodError as error:
            found[name] = error
    return found


def _named(name: str) -> Method:
    if name in METHODS:
        return METHODS[name]
    registered = _registered()
    if name in registered:
        return _load(registered[name])
    names = [*METHODS, *registered]
    near = difflib.get_close_matches(name, names, n=3)
    meant = f"; did you mean {', '.join(near)}?" if near else ":"
    raise UnknownMethodError(
        f"unknown method {name!r}{meant} `python -m bridge list` shows all {len(names)}"
    )


def _own(method: object) -> Method:
    """A method that the caller made; a name of ours would mix its records with theirs."""
    if not isinstance(method, Method):
        raise TypeError(
            f"a method must be a name or a bridge.Method, got {type(method).__name__}: see "
            "`python -m bridge list` for names and help(bridge.Method) for making one"
        )
    if METHODS.get(method.name, method) != method:
        raise _twice(method.name)
    return method


def _twice(name: str) -> ValueError:
    return ValueError(
        f"two methods have the name {name!r}, under which their records would be mixed: give one "
        "of them another name"
    )


def _registered() -> dict[str, EntryPoint]:
    """Entry points by name, in the order of names; a name of ours stays ours."""
    found = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    return {name: found[name] for name in sorted(found) if name not in METHODS}


def _load(entry: EntryPoint) -> Method:
    where = f"method {entry.name!r}, which an installed package registers as {entry.value!r},"
    try:
        method = entry.load()
    except Exception as error:  # importing foreign code can fail with anything
        raise BrokenMethodError(
            f"{where} cannot be loaded: {type(error).__name__}: {error}; repair or remove that "
            "package"
        ) from error
    if not isinstance(method, Method) or method.name != entry.name:
        found = repr(method.name) if isinstance(method, Method) else type(method).__name__
        raise BrokenMethodError(
            f"{where} must be a bridge.Method with this name, got {found}: mend the entry point"
        )
    return method
