"""What these packages need of PyTensor beyond its documentation: they import it from here.

PyTensor moves such names between its versions. ``tests/test_versions.py`` lists the modules that
its documentation names, and asserts that no other is imported elsewhere.
"""

from importlib.util import find_spec

from pytensor.graph.replace import _vectorize_node
from pytensor.link.basic import PerformLinker
from pytensor.link.numba.dispatch import scalar as numba_scalar
from pytensor.link.numba.dispatch.basic import get_numba_type, register_funcify_and_cache_key
from pytensor.link.numba.linker import NumbaLinker
from pytensor.scan.op import Scan
from pytensor.tensor.basic import Alloc, Join, MakeVector
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.einsum import Einsum
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.rewriting.basic import register_specialize
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.sharedvar import TensorSharedVariable
from pytensor.tensor.special import Softmax
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.utils import import_func_from_string

if find_spec("pytensor.compile.rewriting") is not None:
    from pytensor.compile.rewriting import inline_ofg_node
else:  # PyTensor 2
    from pytensor.tensor.rewriting.ofg import inline_ofg_node

__all__ = [
    "Alloc",
    "Blockwise",
    "Einsum",
    "Join",
    "MakeVector",
    "NumbaLinker",
    "PerformLinker",
    "RandomType",
    "Reshape",
    "Scan",
    "Shape",
    "Shape_i",
    "Softmax",
    "SpecifyShape",
    "Subtensor",
    "TensorSharedVariable",
    "_vectorize_node",
    "get_numba_type",
    "import_func_from_string",
    "inline_ofg_node",
    "register_funcify_and_cache_key",
    "register_scalar_funcify",
    "register_specialize",
]

# PyTensor 3 also casts a scalar Op's outputs to the node's types; PyTensor 2 does so when it stores
# them.
register_scalar_funcify = getattr(
    numba_scalar, "register_scalar_funcify", register_funcify_and_cache_key
)
