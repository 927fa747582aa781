"""Second phase of a flow's training: the importance-weighted bound, and the choice by k̂."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from pymc_ext.arviz_versions import psislw

Array = NDArray[np.floating]
RELIABLE = 0.7  # k̂ beyond which importance weights are of no use (Vehtari et al. 2024)
LARGEST_PRICE = 1.0  # nats of ELBO; where polishing is of use it costs some hundredths
SCATTER = 0.05  # about one standard deviation of k̂ from 50,000 draws


@dataclass(frozen=True)
class ImportanceWeighted:
    r"""Settings of polishing by :math:`E \log \frac1K \sum_k \tilde p(\theta_k)/q(\theta_k)`.

    Reverse KL hardly sees where q is too light; this bound does, and so lowers k̂, at the price of
    a lower ELBO. The better of the two by k̂ on fresh draws is kept, by the ELBO where both k̂ are
    beyond use; one that costs more than `LARGEST_PRICE` is not.

    Parameters
    ----------
    group
        K: larger ones reach further into the tails, and lower the ELBO more.
    draws
        Draws of one step, a multiple of K.
    steps
        Steps, with a cosine decay of the learning rate.
    learning_rate
        At the start of the phase.
    max_norm
        Longer gradients are shortened to it: the weights are heavy-tailed.
    judge_draws
        Fresh draws on which both fits are judged, the same latent draws for both.

    References
    ----------
    Burda, Grosse & Salakhutdinov (2016), arXiv:1509.00519.
    """

    group: int = 16
    draws: int = 256
    steps: int = 3000
    learning_rate: float = 5e-4
    max_norm: float = 10.0
    judge_draws: int = 50_000

    def __post_init__(self) -> None:
        for label, least in (("group", 2), ("draws", 2), ("steps", 1), ("judge_draws", 1000)):
            if getattr(self, label) < least:
                raise ValueError(f"{label} must be >= {least}, got {getattr(self, label)}")
        if self.draws % self.group:
            raise ValueError(
                f"draws must be a multiple of group, got {self.draws} and {self.group}"
            )
        for label in ("learning_rate", "max_norm"):
            if not getattr(self, label) > 0:
                raise ValueError(f"{label} must be > 0, got {getattr(self, label)}")


@dataclass(frozen=True)
class Stage:
    """ELBO, k̂ and relative effective sample size of q after one phase, on fresh draws."""

    objective: str
    elbo: float
    khat: float
    relative_ess: float
    kept: bool = False

    def describe(self) -> str:
        """One sentence for ``result.notes``."""
        return (
            f"after {self.objective}: ELBO {self.elbo:.4f}, k̂ {self.khat:.2f}, "
            f"ESS {self.relative_ess:.2f} N{' (kept)' if self.kept else ''}"
        )


def pareto_khat(log_ratios: Array) -> float:
    """k̂ of log importance ratios, shape (N,); −inf where they are constant (q = p)."""
    if np.std(log_ratios) < 1e-8:
        return -np.inf
    return float(psislw(log_ratios)[1])


def judge(objective: str, approx: Any, z: Array) -> Stage:
    """Measures q on the draws made from the normals ``z``."""
    log_ratio = approx.log_ratios(z)
    inside = np.where(np.isfinite(log_ratio), log_ratio, -np.inf)
    weights = np.exp(inside - logsumexp(inside))
    finite = inside[np.isfinite(inside)]
    khat = pareto_khat(finite) if len(finite) > 100 else np.inf
    return Stage(objective, float(inside.mean()), khat, float(1 / np.sum(weights**2) / len(z)))


def keep_best(
    variable: Any,
    settings: Iterable[tuple[str, Array]],
    approx: Any,
    z: Array,
    *,
    plain: Stage,
    good: float,
    floor: float,
) -> Stage | None:
    """Set ``variable`` to the first setting with k̂ < ``good``, or to that with the lowest k̂.

    Parameters
    ----------
    variable
        Shared variable of the flow.
    settings
        Name and value of each setting, those that cost the least ELBO first.
    approx, z
        The flow, and the normals behind the draws on which ``plain`` was judged.
    plain
        The present setting, judged.
    good
        k̂ beyond which nothing more is to be gained.
    floor
        ELBO below which no setting is taken.

    Returns
    -------
    Stage or None
        The one chosen; None, with the variable as it was, if k̂ falls by less than its scatter.
    """
    before = variable.get_value()
    best, chosen = plain, before
    for name, value in settings:
        variable.set_value(np.asarray(value, dtype=before.dtype))
        stage = judge(name, approx, z)
        if stage.khat < best.khat and stage.elbo >= floor:
            best, chosen = stage, variable.get_value()
        if best.khat < good:
            break
    gained = best.khat < plain.khat - SCATTER
    variable.set_value(chosen if gained else before)
    return best if gained else None


def better(polished: Stage, plain: Stage) -> bool:
    """Whether k̂ fell by more than its own scatter; where it hardly changed the higher ESS wins.

    Where both k̂ are beyond `RELIABLE` neither they nor the ESS mean much, and the higher ELBO wins.
    A lower k̂ at the price of more than `LARGEST_PRICE` is no gain: q lies thinly over everything.
    """
    if min(polished.khat, plain.khat) > RELIABLE:
        return polished.elbo > plain.elbo
    if polished.elbo < plain.elbo - LARGEST_PRICE:
        return False
    if abs(polished.khat - plain.khat) < SCATTER:
        return polished.relative_ess > plain.relative_ess
    return polished.khat < plain.khat
