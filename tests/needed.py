"""What a test needs that an installation may lack; a skip says how to run it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

__all__ = ["needs", "needs_mark"]

EXTRAS = {  # import name to the extra of setup.cfg that installs it
    "arviz_plots": "bambi",
    "bambi": "bambi",
    "blackjax": "peers",
    "dask": "cluster",
    "distributed": "cluster",
    "flowjax": "peers",
    "itables": "report",
    "jax": "jax",
    "numpyro": "peers",
    "nutpie": "nutpie",
    "plotly": "report",
    "pyarrow": "parquet",
    "pyarrow.parquet": "parquet",
    "pymc_extras": "discrete",
    "shtab": "test",
    "sklearn": "test",
}


def needs(module: str) -> Any:
    """The module; without it the test, or at the top of a file all its tests, are skipped."""
    return pytest.importorskip(module, reason=reason(module))


def needs_mark(module: str) -> pytest.MarkDecorator:
    """A mark that skips a test without the module, which it does not import."""
    return pytest.mark.skipif(find_spec(module) is None, reason=reason(module))


def reason(module: str) -> str:
    """Why it is skipped, and what installs the module."""
    if module == "pymc_extras":
        from pymc_ext.requirements import how_to_get_pymc_extras

        return f"{module} is not installed: {how_to_get_pymc_extras()}; or make test-discrete-pymc6"
    what = f"-e '.[{EXTRAS[module]}]'" if module in EXTRAS else module
    return f"{module} is not installed: pip install {what}"
