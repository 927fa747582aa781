"""Options of PyTensor's compilation, as PyMC 5 and 6 take them."""

from __future__ import annotations

from pymc_ext.pymc_versions import resolve_backend_compile_kwargs
from pymc_ext.variational.plugin.types import CompileOptions


def resolve_compile_kwargs(
    backend: str | None, compile_kwargs: CompileOptions | None
) -> dict[str, object]:
    """Keyword arguments of PyTensor's compilation; ``backend`` as in PyMC 6."""
    kwargs = dict(compile_kwargs or {})
    if backend is None:
        return kwargs
    if resolve_backend_compile_kwargs is None:
        raise TypeError(
            "backend= of pm.fit needs PyMC 6; on PyMC 5 pass compile_kwargs={'mode': ...} "
            "(BernsteinVI has a backend= of its own)"
        )
    return resolve_backend_compile_kwargs(backend, kwargs)
