"""What the rooms beside this one need of ``pymc.variational``: they import it from here.

PyMC moves these names between its versions, and ``tests/test_versions.py`` asserts that no other
file imports that package. To use another of its names in a family, add it here.
"""

from pymc.variational.inference import Inference
from pymc.variational.minibatch_rv import MinibatchRandomVariable, get_scaling
from pymc.variational.operators import KL
from pymc.variational.opvi import Approximation, Group, ObjectiveFunction, node_property

__all__ = [
    "KL",
    "Approximation",
    "Group",
    "Inference",
    "MinibatchRandomVariable",
    "ObjectiveFunction",
    "get_scaling",
    "node_property",
]
