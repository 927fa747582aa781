"""What these packages need of PyMC beyond its documentation: they import it from here.

Of ``pymc.variational``, `pymc_ext.variational.plugin.pymc_variational` is that place.
"""

from collections.abc import Callable

from pymc import pytensorf
from pymc.data import MinibatchOp
from pymc.exceptions import NotConstantValueError
from pymc.logprob.transforms import Transform
from pymc.logprob.utils import (
    CheckParameterValue,
    local_check_parameter_to_ninf_switch,
    local_remove_check_parameter,
)
from pymc.model.transform.conditioning import change_value_transforms, remove_value_transforms

__all__ = [
    "CheckParameterValue",
    "MinibatchOp",
    "NotConstantValueError",
    "Transform",
    "change_value_transforms",
    "local_check_parameter_to_ninf_switch",
    "local_remove_check_parameter",
    "remove_value_transforms",
    "resolve_backend_compile_kwargs",
]

# PyMC 5 has none: its pm.fit takes no backend=
resolve_backend_compile_kwargs: Callable[..., dict[str, object]] | None = getattr(
    pytensorf, "resolve_backend_compile_kwargs", None
)
