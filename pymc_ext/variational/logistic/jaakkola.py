r"""Jaakkola and Jordan's quadratic bound (= Pólya–Gamma mean field), for comparison with VI-PER."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor import TensorVariable

from pymc_ext.maths.jaakkola import jaakkola_bound
from pymc_ext.variational.logistic.algorithm import ClosedForm
from pymc_ext.variational.logistic.closed_form_vi import ClosedFormVI
from pymc_ext.variational.logistic.density import LogisticDensity
from pymc_ext.variational.logistic.newton import Softplus
from pymc_ext.variational.plugin.types import Start


@dataclass(frozen=True)
class Jaakkola(ClosedForm):
    """Algorithm of :class:`JaakkolaVI`, for densities of logistic models; options as there."""

    label: ClassVar[str] = "jaakkola"
    bound = "quadratic bound"

    def graph(self, theta: TensorVariable, tau: TensorVariable) -> TensorVariable:
        t = pt.sqrt(theta**2 + tau**2)
        return pt.softplus(-t) + 0.5 * (theta + t)

    def softplus(self, density: LogisticDensity) -> Softplus:
        return jaakkola_bound


class JaakkolaVI(ClosedFormVI):
    r"""Gaussian variational inference with the Jaakkola–Jordan bound, the paper's VI-PG.

    .. math:: \log(1 + e^x) \le -\log\sigma(t) + \tfrac12 (x + t)
              + \tfrac12 a(t) (x^2 - t^2), \qquad a(t) = (\sigma(t) - \tfrac12)/t

    Closed-form updates (t, then q), the same models and interface as :class:`ViperVI`. Its bound is
    not tight: q is too narrow.

    Parameters
    ----------
    covariance
        ``"full"`` or ``"diagonal"``.
    tolerance
        Updates stop when the natural gradient promises less than this, in nats.
    draws, model, start, random_seed
        As in :class:`ViperVI`.

    Raises
    ------
    AffinityError
        As :class:`ViperVI`.

    Examples
    --------
    >>> with model:
    ...     approx = pm.fit(method=px.JaakkolaVI("full"))

    References
    ----------
    Jaakkola & Jordan (2000), doi:10.1023/A:1008932416310; Durante & Rigon (2019),
    doi:10.1214/19-STS712.
    """

    def __init__(
        self,
        covariance: str = "full",
        *,
        tolerance: float = 1e-10,
        draws: int = 128,
        model: pm.Model | None = None,
        start: Start | None = None,
        random_seed: int | None = None,
    ) -> None:
        algorithm = Jaakkola(covariance, tolerance, draws)
        super().__init__(algorithm, model=model, start=start, random_seed=random_seed)
