"""PyPI's pymc-ext (exoplanet's) has an import package `pymc_ext` too: seen before it is imported.

pip writes its ``__init__.py`` over ours without a word, or finds it first beside an editable
install of ours. Where ours came last, `pymc_ext.requirements` warns.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

OURS = "import pymc_ext.requirements"  # a line of our __init__.py
REPAIR = (
    "`pip uninstall pymc-ext`, then "
    "`pip install --force-reinstall --no-deps trusted-posteriors` (in a clone: `.` for its name)"
)


def check() -> None:
    """Raise ImportError if ``pymc_ext`` is another project's; imports nothing.

    Its file is looked at, as names of installed packages do not say which of them came last.
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


check()
