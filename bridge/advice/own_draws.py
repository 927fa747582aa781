"""Whether draws of q itself, without their weights, are those of the posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bridge.measures.limits import MEAN_WRONG, RATIO_WRONG, SMALL_ERROR
from bridge.methods.method import Fit
from pymc_ext.density.protocol import value_names
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.weights import weighted_moments

__all__ = ["OwnError", "own_error"]


@dataclass(frozen=True)
class OwnError:
    """Of the coordinates whose mean, and whose sd, is farthest from that of weighted draws.

    Parameters
    ----------
    mean, mean_of
        Error of the mean in weighted sds, and what it is of.
    sd_ratio, sd_of
        The sd by the weighted one, and what it is of.
    """

    mean: float
    mean_of: str
    sd_ratio: float
    sd_of: str

    @property
    def size(self) -> float:
        """The larger of |mean| and |log sd_ratio|; infinite where either is not known."""
        size = float(np.max(np.abs([self.mean, self._log_ratio])))
        return size if np.isfinite(size) else np.inf

    @property
    def _log_ratio(self) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.log(self.sd_ratio))

    @property
    def is_small(self) -> bool:
        """Whether nobody would see it: below `SMALL_ERROR`."""
        return self.size < SMALL_ERROR

    @property
    def wrong(self) -> str | None:
        """In words, where a mean is more than ``MEAN_WRONG`` sds off, or an sd by more than
        ``RATIO_WRONG``; None else."""
        if not abs(self._log_ratio) <= np.log(RATIO_WRONG):
            what, times = f"an sd of {self.sd_of}", f"{self.sd_ratio:.2f} times"
            return f"its own draws have {what} of {times} the weighted ones'"
        if not abs(self.mean) <= MEAN_WRONG:
            what = f"a mean of {self.mean_of} {self.mean:+.2f} sds"
            return f"its own draws have {what} from the weighted ones'"
        return None

    def __str__(self) -> str:
        return (
            f"its own means are within {abs(self.mean):.2f} sds of the weighted ones' "
            f"({self.mean_of}), its sds {self.sd_ratio:.2f} times theirs at worst ({self.sd_of})"
        )


def own_error(found: Fit, weights: Array) -> OwnError:
    """How far means and sds of q's own draws are from those of weighted ones.

    Weights repair q, and are often of a proposal with heavier tails beside it: the draws that they
    give may be trusted where q is half as wide as the posterior.

    Parameters
    ----------
    found
        The fit; coordinates are unconstrained.
    weights
        Of its :attr:`Fit.weighted` draws, trusted, of any shape, summing to 1.
    """
    drawn = found.weighted
    assert drawn is not None  # it has weights
    D, w = found.theta.shape[-1], weights.ravel()
    q, theta = found.theta.reshape(-1, D), drawn.theta.reshape(-1, D)
    mean, sd = weighted_moments(theta, w)
    with np.errstate(divide="ignore", invalid="ignore"):  # one draw may have all the weight
        off, ratio = (q.mean(axis=0) - mean) / sd, q.std(axis=0) / sd
        widths = np.abs(np.log(ratio))
    names = value_names(found.target.density)
    i, j = int(np.argmax(np.abs(off))), int(np.argmax(widths))
    return OwnError(float(off[i]), names[i], float(ratio[j]), names[j])
