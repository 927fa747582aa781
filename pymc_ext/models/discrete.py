"""Refusing free variables that are discrete: a family is a density on R^D."""

from __future__ import annotations

import pymc as pm

MISSING = "_unobserved"  # how PyMC names the missing entries of an observed variable


def refuse_discrete(model: pm.Model) -> None:
    """ValueError where a free variable of the model is discrete; it names a way out.

    Examples
    --------
    >>> with pm.Model() as mixture:
    ...     kind = pm.Bernoulli("kind", 0.5)
    >>> refuse_discrete(mixture)
    Traceback (most recent call last):
    ...
    ValueError: families need continuous parameters, got discrete free variables ['kind']: ...
    """
    sentence = about_discrete(model)
    if sentence is not None:
        raise ValueError(sentence)


def about_discrete(model: pm.Model) -> str | None:
    """Which free variables of the model are discrete and what to do, in one sentence; None where
    there are none."""
    names = [rv.name for rv in model.free_RVs if not rv.dtype.startswith("float")]
    if not names:
        return None
    missing = [name.removesuffix(MISSING) for name in names if name.endswith(MISSING)]
    latent = [name for name in names if not name.endswith(MISSING)]
    ways = []
    if latent:
        ways.append(
            f"sum them out by pymc_extras.marginalize(model, {latent}) where they take finitely "
            "many values, or use pm.sample"
        )
    if missing:
        ways.append(f"leave out the rows in which {missing} are missing")
    return (
        f"families need continuous parameters, got discrete free variables {names}: "
        f"{'; '.join(ways)}"
    )
