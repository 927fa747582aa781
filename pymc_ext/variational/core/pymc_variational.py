"""What the rooms beside this one need of ``pymc.variational``: they import it from here.

PyMC moves these names between its versions, and ``tests/test_architecture.py`` asserts that only
``core`` imports that package. To use another of its names in a family, add it here.
"""

from pymc.variational.minibatch_rv import MinibatchRandomVariable, get_scaling
from pymc.variational.opvi import Approximation, Group, node_property

__all__ = ["Approximation", "Group", "MinibatchRandomVariable", "get_scaling", "node_property"]
