"""The one name for arrays of numbers; docstrings say their shapes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
