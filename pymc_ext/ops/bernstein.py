"""The increasing Bernstein polynomial of a sigmoid as one fused PyTensor operation.

Same function as :func:`pymc_ext.maths.bernstein_basis.bernstein_polynomial`, with the softplus of
the increments, the basis, the value and the log derivative in one pass, and an analytic
vector–Jacobian product in another.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import pytensor
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import graph_replace
from pytensor.link.c.op import COp
from pytensor.tensor import TensorLike, TensorVariable

from pymc_ext.maths import bernstein_numpy
from pymc_ext.maths.bernstein_basis import bernstein_polynomial
from pymc_ext.maths.bernstein_coefficients import check_order
from pymc_ext.ops import bernstein_numba

__all__ = ["BernsteinMap", "BernsteinMapPullback", "bernstein_map"]

_C_SOURCE = Path(__file__).with_suffix(".c").read_text(encoding="utf-8")
_C_HASH = hashlib.sha256(_C_SOURCE.encode()).hexdigest()


class _RowOp(COp):
    """What the two Ops share: rows of a matrix of doubles, contiguous along the columns."""

    __props__ = ()
    c_function: str

    def c_support_code(self, **kwargs):
        return _C_SOURCE

    def c_compile_args(self, **kwargs):
        return ["-O3"]

    def c_code_cache_version(self):
        return (_C_HASH,)

    def c_code(self, node, name, inputs, outputs, sub):
        arguments = ", ".join([*inputs, *(f"&{out}" for out in outputs)])
        return f"if ({self.c_function}({arguments})) {{ {sub['fail']} }}"


class BernsteinMap(_RowOp):
    """(x (N,), raw (N, M)) -> value (N,) and log derivative (N,); float64."""

    c_function = "bernstein_forward"

    def make_node(self, *inputs):
        x, raw = map(pt.as_tensor_variable, inputs)
        _require(x, "x", 1)
        _require(raw, "raw", 2)
        out = pt.TensorType("float64", shape=(x.type.shape[0],))
        return Apply(self, [x, raw], [out(), out()])

    def perform(self, node, inputs, output_storage):
        for storage, value in zip(output_storage, bernstein_numpy.bernstein(*inputs), strict=True):
            storage[0] = value

    def infer_shape(self, *args):
        x_shape, _ = args[-1]  # (fgraph, node, shapes) in PyTensor 2, (node, shapes) in 3
        return [x_shape, x_shape]

    def pullback(self, inputs, outputs, cotangents):
        g = [
            pt.zeros_like(out) if _disconnected(g) else g
            for g, out in zip(cotangents, outputs, strict=True)
        ]
        return BernsteinMapPullback()(*inputs, *g, return_list=True)

    L_op = pullback


class BernsteinMapPullback(_RowOp):
    """Vector–Jacobian product of :class:`BernsteinMap`; (x, raw, g_value, g_log) -> (gx, graw)."""

    c_function = "bernstein_backward"

    def make_node(self, *inputs):
        x, raw, g_value, g_log = map(pt.as_tensor_variable, inputs)
        for variable, label, ndim in ((x, "x", 1), (raw, "raw", 2)):
            _require(variable, label, ndim)
        g_value, g_log = (g.astype("float64") for g in (g_value, g_log))
        return Apply(self, [x, raw, g_value, g_log], [x.type(), raw.type()])

    def perform(self, node, inputs, output_storage):
        results = bernstein_numpy.bernstein_pullback(*inputs)
        for storage, value in zip(output_storage, results, strict=True):
            storage[0] = value

    def infer_shape(self, *args):
        return list(args[-1][:2])

    def pullback(self, inputs, outputs, cotangents):
        """Second derivatives, rarely needed: those of the pure PyTensor graph."""
        # stand-ins: the real g_value may itself be a function of x
        given = [
            *inputs,
            *(outputs[i] if _disconnected(c) else c for i, c in enumerate(cotangents)),
        ]
        x, raw, g_value, g_log, c_x, c_raw = stand_ins = [v.type() for v in given]
        value, log_derivative = bernstein_polynomial(x, raw)
        inner = (value * g_value).sum() + (log_derivative * g_log).sum()
        first = cast("list[TensorVariable]", pytensor.grad(inner, [x, raw]))
        outer: TensorVariable = sum(
            (c * f).sum()
            for c, f, cotangent in zip((c_x, c_raw), first, cotangents, strict=True)
            if not _disconnected(cotangent)
        )
        second = cast(
            "list[Variable]",
            pytensor.grad(outer, stand_ins[:4], disconnected_inputs="ignore"),
        )
        return graph_replace(second, dict(zip(stand_ins, given, strict=True)), strict=False)

    L_op = pullback


def _disconnected(cotangent: Variable) -> bool:
    return isinstance(cotangent.type, DisconnectedType)


def _require(variable: TensorVariable, label: str, ndim: int) -> None:
    if variable.type.dtype != "float64" or variable.type.ndim != ndim:
        raise TypeError(
            f"{label} must be a float64 tensor with {ndim} axes, got {variable.type}; "
            "bernstein_map casts and reshapes"
        )


@cache
def _register_jax() -> None:
    """Importing JAX takes most of a second, so this waits for the first use of the Op."""
    if find_spec("jax") is not None:
        from pymc_ext.ops import bernstein_jax

        bernstein_jax.register(BernsteinMap, BernsteinMapPullback)


bernstein_numba.register(BernsteinMap, BernsteinMapPullback)


def bernstein_map(x: TensorLike, raw: TensorLike) -> tuple[TensorVariable, TensorVariable]:
    r"""Increasing Bernstein polynomial of sigmoid(x), and its log derivative, in one fused Op.

    .. math:: f(x) = \sum_{k=1}^M \mathrm{softplus}(\mathrm{raw}_k) P(\mathrm{Bin}(M, u) \ge k),
        \qquad u = \sigma(x)

    Parameters
    ----------
    x
        Logit of the polynomial's argument, shape (...), any real number.
    raw
        Unconstrained increments, shape (..., M), broadcasting with ``x`` on the leading axes.

    Returns
    -------
    tuple of TensorVariable
        f(x) and log df/dx, both of the broadcast leading shape (...). f(−∞) = 0: add the offset
        ϑ_0.

    Raises
    ------
    ValueError
        M is known and not in 1..1000.

    Examples
    --------
    >>> value, log_derivative = bernstein_map(0.0, np.zeros(1))
    >>> value.eval()  # softplus(0) / 2
    array(0.34657359)
    """
    x, raw = pt.as_tensor_variable(x), pt.as_tensor_variable(raw)
    if raw.type.shape[-1] is not None:
        check_order(raw.type.shape[-1])
    _register_jax()
    dtype = pytensor.scalar.upcast(pytensor.config.floatX, x.dtype, raw.dtype)
    x_full, row = pt.broadcast_arrays(x, raw[..., 0])
    raw_full = raw
    if None in row.type.shape or raw.type.shape[:-1] != row.type.shape:
        raw_full = pt.broadcast_to(raw, (*tuple(row.shape), raw.shape[-1]))
    flat = raw_full.reshape((-1, raw.shape[-1])).astype("float64")
    flat = pt.specify_shape(flat, (None, raw.type.shape[-1]))
    outputs = BernsteinMap()(x_full.reshape((-1,)).astype("float64"), flat)
    value, log_derivative = cast("list[TensorVariable]", outputs)
    shape = x_full.shape
    return (
        value.reshape(shape, ndim=x_full.ndim).astype(dtype),
        log_derivative.reshape(shape, ndim=x_full.ndim).astype(dtype),
    )
