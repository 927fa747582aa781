"""The package imports without scikit-learn; only the estimator asks for it."""

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["sklearn"] = None  # any import of it fails as if it were not installed
import pymc_ext as px
px.matched_targets([0, 1], 2)
try:
    px.MatchedClassifier
except ImportError as error:
    assert "pip install scikit-learn" in str(error), error
else:
    raise AssertionError("no error")
assert not hasattr(px, "MatchedRegressor")
"""


def test_import_without_scikit_learn():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
