"""THE table of what is reported of a method on a posterior: a new number is one line of it.

Every metric is a column of the records, of which `bridge.report.summary` takes the median over
seeds; all of them are in ``table.csv``, and ``shown`` says where else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, auto

import numpy as np

from bridge.measures.limits import KHAT_GOOD, KHAT_USABLE, MOST_SECONDS, SMALL_ERROR

__all__ = ["METRICS", "SHARES", "Metric", "Share", "Shown", "label", "shown_in"]


class Shown(Flag):
    """Where a metric is shown, ``table.csv`` aside."""

    TERMINAL = auto()  # the table of a comparison
    HTML = auto()  # the page: all numbers, and each posterior's section
    BEST = auto()  # the page: the best approximation of each posterior
    NOWHERE = 0


TERMINAL, HTML, BEST = Shown.TERMINAL, Shown.HTML, Shown.BEST


@dataclass(frozen=True)
class Metric:
    """A number of a run, and how it is told.

    Parameters
    ----------
    column
        Its name in the records. Where a column ``{column}_reliable`` is False the terminal marks
        the number with ``?``.
    heading
        Of its column in tables.
    digits
        After the point.
    description
        What it is, with its unit in parentheses; also the label of an axis.
    shown
        Where.
    share
        Whether it is yes or no of a run, of which the mean over seeds is taken, failed runs
        included, and told in words.
    """

    column: str
    heading: str
    digits: int
    description: str
    shown: Shown = TERMINAL | HTML
    share: bool = False

    @property
    def format(self) -> str:
        """As ``format`` takes it."""
        return f".{self.digits}f"

    def text(self, value: float) -> str:
        """The number as tables say it, "–" for NaN.

        >>> Metric("trusted", "trusted", 0, "trusted", share=True).text(1.0)
        'yes'
        """
        if np.isnan(value):
            return "–"
        if not self.share:
            return f"{value:,{self.format}}"
        return "yes" if value == 1 else "no" if value == 0 else f"{value:.0%}"


METRICS: tuple[Metric, ...] = (
    Metric(
        "trusted", "trusted", 0, "without knowing the reference: all seeds, none, or their share",
        TERMINAL | HTML | BEST, share=True,
    ),
    Metric("khat", "k̂", 2, "Pareto k̂ of the importance ratios", TERMINAL | HTML | BEST),
    Metric("khat_spread", "±sd", 2, "spread of k̂ over seeds or batches", TERMINAL | HTML | BEST),
    Metric("elbo", "ELBO", 3, "E_q[log p̃ − log q] (nats)"),
    Metric("kl_qp", "KL(q‖p)", 3, "KL(q‖p) (nats)", TERMINAL | HTML | BEST),
    Metric("kl_pq", "KL(p‖q)", 3, "KL(p‖q) (nats)"),
    Metric("mean_error", "Δmean", 2, "worst error of a mean (posterior sd)"),
    Metric("sd_error", "Δsd", 2, "worst error of an sd (posterior sd)"),
    Metric(
        "mean_error_psis", "Δmean PSIS", 3, "worst error of a mean after PSIS (posterior sd)",
        HTML | BEST,
    ),
    Metric(
        "sd_error_psis", "Δsd PSIS", 3, "worst error of an sd after PSIS (posterior sd)",
        HTML | BEST,
    ),
    Metric(
        "mean_error_mcse", "Δmean / MCSE", 1,
        "worst error of a mean (Monte Carlo standard errors of the reference)", Shown.NOWHERE,
    ),
    Metric(
        "mean_error_mcse_psis", "Δmean PSIS / MCSE", 1,
        "worst error of a mean after PSIS (Monte Carlo standard errors of the reference)",
        HTML | BEST,
    ),
    Metric("sd_ratio", "sd ratio", 2, "sd over the reference's farthest from 1", Shown.NOWHERE),
    Metric(
        "sd_ratio_psis", "sd ratio PSIS", 2, "sd over the reference's farthest from 1 after PSIS",
        Shown.NOWHERE,
    ),
    Metric(
        "missed", "log missed", 2,
        "lower bound of log(mass of a mode outside / mass covered), of runs that miss one (nats)",
        Shown.NOWHERE,
    ),
    Metric(
        "search_gradients", "search grads", 0, "gradients spent to look for missed mass",
        Shown.NOWHERE,
    ),
    Metric("ess", "ESS", 0, "effective draws"),
    Metric("ess_per_gradient", "ESS/grad", 4, "effective draws of chains a gradient", HTML),
    Metric("gradient_evaluations", "grads", 0, "gradient evaluations", TERMINAL | HTML | BEST),
    Metric("density_evaluations", "log p̃", 0, "evaluations of log p̃", Shown.NOWHERE),
    Metric("seconds", "s", 1, "wall time of a fit without compilation (s)", TERMINAL),
    Metric("compile_seconds", "compile s", 1, "wall time of compilation (s)", HTML),
    Metric("cpu_seconds", "CPU s", 2, "CPU time of a fit (s)", HTML | BEST),
)  # fmt: skip


@dataclass(frozen=True)
class Share:
    """A column of the table of shares, a row a method: see `bridge.measures.scores.shares`."""

    column: str
    heading: str
    format: str


SHARES: tuple[Share, ...] = (
    Share("posteriors", "tried", ".0f"),
    Share("khat_usable", f"k̂ < {KHAT_USABLE:g}", ".0%"),
    Share("khat_good", f"k̂ < {KHAT_GOOD:g}", ".0%"),
    Share("small_errors", f"errors < {SMALL_ERROR:g} sd", ".0%"),
    Share("trusted", "trusted", ".0%"),
    Share("falsely_trusted", "falsely trusted", ".0%"),
    Share("in_time", f"≤ {MOST_SECONDS:g} CPU s", ".0%"),
    Share("failed", "failed runs", ".0f"),
    Share("median_seconds", "CPU s", ".2f"),
    Share("median_gradient_evaluations", "grads", ".0f"),
)


def shown_in(place: Shown) -> list[Metric]:
    """The metrics shown in a place, in their order."""
    return [metric for metric in METRICS if place in metric.shown]


def label(column: str) -> str:
    """The description of a metric, for an axis."""
    return next(metric.description for metric in METRICS if metric.column == column)
