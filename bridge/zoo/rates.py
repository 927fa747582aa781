"""The two rates by which a verdict is judged, and one row a target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

__all__ = ["Rates", "rates", "rows"]

HEADINGS = (
    "target", "D", "what it is", "trusted", "false", "refused", "taken", "gradients", "mean error",
    "sd ratio", "missed",
)  # fmt: skip
LEGEND = (
    "trusted: of all seeds; false: trusted although a mean is > .2 sds off, an sd outside "
    ".8-1.25, or > 5 % of the mass missed in a mode; refused: not trusted although right to .05 "
    "sds. Errors are the worst of the trusted runs, in brackets of all where none is; those of "
    "quantiles where no draws tell moments."
)


@dataclass(frozen=True)
class Rates:
    """Of all runs.

    Parameters
    ----------
    runs, targets
        How many.
    false_trust
        Runs trusted although wrong.
    false_refusal
        Runs not trusted although right.
    """

    runs: int
    targets: int
    false_trust: int
    false_refusal: int

    def __str__(self) -> str:
        return (
            f"false trust {self.false_trust} of {self.runs} runs "
            f"({self.false_trust / self.runs:.1%}), false refusal {self.false_refusal} "
            f"({self.false_refusal / self.runs:.1%}), on {self.targets} targets"
        )


def rates(frame: pd.DataFrame) -> Rates:
    """Count, in what `bridge.zoo.sweep.sweep_zoo` returns.

    Raises
    ------
    ValueError
        There is no run.
    """
    if frame.empty:
        raise ValueError("no run is on record: give more seconds")
    trusted = frame["trusted"].astype(bool)
    return Rates(
        runs=len(frame),
        targets=frame["target"].nunique(),
        false_trust=int((trusted & frame["wrong"].astype(bool)).sum()),
        false_refusal=int((~trusted & frame["right"].astype(bool)).sum()),
    )


def rows(frame: pd.DataFrame, order: list[str]) -> list[tuple[str, ...]]:
    """Cells below `HEADINGS`, targets in the order given."""
    groups = dict(iter(frame.groupby("target")))
    return [_row(name, groups[name]) for name in order if name in groups]


def _row(name: str, runs: pd.DataFrame) -> tuple[str, ...]:
    trusted = runs["trusted"].astype(bool)
    shown = runs[trusted] if trusted.any() else runs
    of_one = rates(runs)
    errors = [_worst(shown, column) for column in ("mean_error", "sd_ratio", "missed")]
    gradients = runs["gradients"].median()
    return (
        name,
        str(runs["dimension"].iloc[0]),
        str(runs["kind"].iloc[0]),
        f"{trusted.sum()}/{len(runs)}",
        str(of_one.false_trust or ""),
        str(of_one.false_refusal or ""),
        "+".join(sorted(set(runs["taken"]))),
        "–" if pd.isna(gradients) else f"{gradients:,.0f}",
        *(error if trusted.any() else f"[{error}]" for error in errors),
    )


def _worst(runs: pd.DataFrame, column: str) -> str:
    """Of one number a run, the one that is farthest off."""
    if column not in runs or runs[column].isna().all():
        return "–"
    values = runs[column].dropna().astype(float)  # infinities are kept by name
    if column == "sd_ratio":
        with np.errstate(divide="ignore"):
            return f"{values[np.abs(np.log(values)).idxmax()]:.2f}"
    return f"{values.max():.2f}"
