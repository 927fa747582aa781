"""PyPI's pymc-ext (exoplanet's) has an import package `pymc_ext` too: looked for by each of ours.

pip writes its ``__init__.py`` over ours without a word, or finds it first beside an editable
install of ours: an error. Where ours came last, theirs is broken: a warning. The file of
``pymc_ext`` is looked at and not imported, as names of installed packages do not say which of them
came last; folders are listed, as `importlib.metadata` takes thirty times as long to import.

A module of its own at the top, because the packages that import it must not import one another.
"""

from __future__ import annotations

import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

OURS = "import trusted_posteriors_namesake"  # a line of our pymc_ext/__init__.py
REPAIR = (
    "`pip uninstall pymc-ext`, then "
    "`pip install --force-reinstall --no-deps trusted-posteriors` (in a clone: `.` for its name)"
)


def check() -> None:
    """Raise ImportError if ``pymc_ext`` is another project's, warn if theirs is installed too.

    Raises
    ------
    ImportError
        If the ``pymc_ext`` that Python finds is not ours; the message says how to repair it.
    """
    spec = find_spec("pymc_ext")
    if spec is None:
        return  # the import says so
    if spec.origin is None:
        raise ImportError(
            "expected this suite's package pymc_ext, got a folder without __init__.py, as "
            f"uninstalling PyPI's pymc-ext (exoplanet's) leaves it: {REPAIR}"
        )
    if OURS not in Path(spec.origin).read_text(encoding="utf-8"):
        raise ImportError(
            f"expected this suite's package pymc_ext, got another project's in {spec.origin}: "
            "PyPI's pymc-ext (exoplanet's) installs one of the same name over ours, so that only "
            f"one of them can be in an environment: {REPAIR}"
        )
    version = version_of_theirs()
    if version is not None:
        warnings.warn(
            f"PyPI's pymc-ext {version} (exoplanet's) has an import package pymc_ext too, which "
            "ours replaces: programs that use theirs fail, and uninstalling it deletes a file of "
            f"ours. Keep one: {REPAIR}",
            UserWarning,
            stacklevel=2,
        )


def version_of_theirs() -> str | None:
    """The version of PyPI's pymc-ext that is installed; None where it is not."""
    for folder in sys.path:
        for record in Path(folder).glob("pymc_ext-*.dist-info"):
            return record.name.removeprefix("pymc_ext-").removesuffix(".dist-info")
    return None


check()
