"""Log scales and correlations as coordinates of `pm.LKJCholeskyCov`, not a factor's entries.

PyMC's own value of it is the Cholesky factor of a covariance, row by row, its diagonal as
logarithms. Where a scale goes to zero all entries of its row do, so that they govern one another.
Log scales and partial correlations, as Stan has them, do not.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import CholeskyCovPacked
from pymc.pytensorf import constant_fold
from pytensor.tensor import TensorVariable

from pymc_ext.pymc_versions import Transform, change_value_transforms

_log = logging.getLogger(__name__)


class ScalesAndCorrelations(Transform):
    r"""A packed Cholesky factor of a covariance as log sds and transformed partial correlations.

    Row i is :math:`e^{s_i} (x_{i0}, …, x_{ii})` with :math:`x_{ij} = \tanh z_{ij} \prod_{k<j}
    \operatorname{sech} z_{ik}` and what is left of length 1 on the diagonal (Lewandowski, Kurowicka
    & Joe 2009, doi:10.1016/j.jmva.2009.04.008).

    Parameters
    ----------
    n
        Rows of the factor. A value is (s_0 … s_{n−1}, z_10, z_20, z_21, …), n (n + 1) / 2.
    """

    name = "sds-and-correlations"
    ndim_supp = 1

    def __init__(self, n: int) -> None:
        self.n = n

    @property
    def labels(self) -> list[str]:
        """Of a value's entries, for a reader."""
        pairs = [(i, j) for i in range(self.n) for j in range(i)]
        return [
            *(f"log sd {i}" for i in range(self.n)),
            *(f"correlation {i}, {j}" for i, j in pairs),
        ]

    def _rows(
        self, value: TensorVariable
    ) -> Iterator[tuple[TensorVariable, list[TensorVariable], list[TensorVariable]]]:
        """Of each row s, its z, and log of what each entry has left of the squared length."""
        at = self.n
        for i in range(self.n):
            z = [value[..., at + j] for j in range(i)]
            left = [pt.zeros_like(value[..., 0])]
            for each in z:
                left.append(left[-1] + _log_rest(each))
            yield value[..., i], z, left
            at += i

    def backward(self, value: TensorVariable, *inputs: object) -> TensorVariable:
        entries: list[TensorVariable] = []
        for s, z, left in self._rows(value):
            half = [pt.exp(s + 0.5 * rest) for rest in left]
            entries += [pt.tanh(each) * length for each, length in zip(z, half, strict=False)]
            entries.append(half[-1])
        return pt.stack(entries, axis=-1)

    def forward(self, value: TensorVariable, *inputs: object) -> TensorVariable:
        sds, correlations, at = [], [], 0
        for i in range(self.n):
            length, z = value[..., at + i], []
            for j in reversed(range(i)):
                entry = value[..., at + j]
                z.append(pt.arcsinh(entry / length))
                length = pt.sqrt(length**2 + entry**2)
            sds.append(pt.log(length))
            correlations += z[::-1]
            at += i + 1
        return pt.stack([*sds, *correlations], axis=-1)

    def log_jac_det(self, value: TensorVariable, *inputs: object) -> TensorVariable:
        total = pt.zeros_like(value[..., 0])
        for i, (s, z, left) in enumerate(self._rows(value)):
            total += (i + 1) * s - 0.5 * left[-1]  # of polar coordinates, by the diagonal
            for each, rest in zip(z, left, strict=False):
                total += 0.5 * rest + _log_rest(each)
        return total


def _log_rest(z: TensorVariable) -> TensorVariable:
    """log(1 − tanh² z)."""
    return 2 * (np.log(2) - pt.logaddexp(z, -z))


def with_correlations(model: pm.Model) -> pm.Model:
    """The same posterior with `ScalesAndCorrelations` as coordinates of each `pm.LKJCholeskyCov` of
    two rows and more: another model of the same names; ``model`` itself where it has none, or PyMC
    cannot rebuild it.

    Examples
    --------
    >>> with pm.Model() as model:
    ...     _ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.Exponential.dist(1, shape=2))
    >>> [value.name for value in with_correlations(model).value_vars]
    ['chol_sds-and-correlations__']
    """
    found: dict[str, Transform] = {}
    for rv in model.free_RVs:
        transform = model.rvs_to_transforms[rv]
        if type(transform) is CholeskyCovPacked:
            (diagonal,) = constant_fold([transform.diag_idxs], raise_not_constant=False)
            if isinstance(diagonal, np.ndarray) and len(diagonal) > 1:
                found[rv.name] = ScalesAndCorrelations(len(diagonal))
    if not found:
        return model
    try:
        with warnings.catch_warnings():  # of objects of Gaussian processes, whose variables it has
            warnings.simplefilter("ignore", UserWarning)
            return change_value_transforms(model, found)
    except (NotImplementedError, ValueError):  # initial values of its own, a model within another
        _log.debug("PyMC cannot change the coordinates of %s", ", ".join(found), exc_info=True)
        return model
