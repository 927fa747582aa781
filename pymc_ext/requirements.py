"""Refuses, when imported, versions that do not work together."""

from __future__ import annotations

import re
from importlib import metadata, util

OLDEST = (5, 28)  # PyMC that is tested, as in setup.cfg
PARTNERS = {  # major version of PyMC to the major versions it works with
    5: {"arviz": 0, "pytensor": 2},
    6: {"arviz": 1, "pytensor": 3},
}
PYMC_EXTRAS = "0.15.1"  # the newest in November 2026
PYMC_ABOVE_EXTRAS = (6, 4)  # the first PyMC that it does not take


def installed(package: str) -> tuple[str, tuple[int, int]]:
    """Version of a package as text and as (major, minor).

    Raises
    ------
    ImportError
        If it is not installed.
    """
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        raise ImportError(
            f"pymc_ext needs {package}, which is not installed: pip install trusted-posteriors"
        ) from None
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None:
        raise ImportError(f"expected a version such as 5.28.5 of {package}, got {version!r}")
    return version, (int(numbers[1]), int(numbers[2]))


def check() -> None:
    """Raise ImportError unless PyMC, ArviZ, PyTensor and numba fit together."""
    version, found = installed("pymc")
    if found < OLDEST or found[0] not in PARTNERS:
        raise ImportError(
            f"pymc_ext needs PyMC 5.28 or newer, below 7, got PyMC {version}: "
            "pip install 'pymc>=5.28,<7'"
        )
    for package, major in PARTNERS[found[0]].items():
        partner, (got, _) = installed(package)
        if got != major:
            raise ImportError(
                f"PyMC {version} works with {package} {major}.x, got {package} {partner}: "
                f"pip install 'pymc=={version}' '{package}>={major},<{major + 1}'"
            )
    if util.find_spec("numba") is None:
        raise ImportError(
            "pymc_ext needs numba, which comes with PyTensor but is not installed: "
            "pip install numba"
        )


def how_to_get_pymc_extras() -> str:
    """What to type where it is missing; on a newer PyMC than it takes, what pip does then."""
    version, found = installed("pymc")
    if found < PYMC_ABOVE_EXTRAS:
        return "pip install pymc-extras"
    return (
        f"pip install pymc-extras, whose {PYMC_EXTRAS} takes PyMC below "
        f"{'.'.join(map(str, PYMC_ABOVE_EXTRAS))}: pip puts such a one in the place of {version}"
    )


check()
