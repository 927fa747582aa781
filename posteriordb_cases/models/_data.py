"""What a port is given."""

from collections.abc import Mapping
from typing import Any

Data = Mapping[str, Any]  # of a Stan program, from JSON: int, np.float64 or np.ndarray by name
