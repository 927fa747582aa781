"""What the figures on paper and those of the page share: which panels, labels and ranges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bridge.report.stored import Trace

__all__ = ["khat_text", "loss_range", "shown_names"]

_MAX_PANELS = 12  # marginals of a posterior: more are not looked at, and would fill the page


def khat_text(value: float, failed: bool) -> str:
    """What stands in a cell of the map of k̂."""
    if failed:
        return "failed"
    if value == 0:
        return "exact"  # as `bridge.report.summary.details` says; an estimated k̂ is never quite 0
    return "" if np.isnan(value) else ("∞" if np.isinf(value) else f"{value:.2f}")


def shown_names(names: list[str]) -> list[str]:
    """Scalars before vectors, of these the last ones: transformed parameters follow raw ones."""
    scalars = [name for name in names if "[" not in name]
    vectors = [name for name in names if "[" in name]
    return (scalars + vectors[-max(_MAX_PANELS - len(scalars), 1) :])[:_MAX_PANELS]


def loss_range(lines: Sequence[Trace]) -> tuple[float, float] | None:
    """Axis limits by the second half of the traces: first losses may be larger by orders."""
    final = np.concatenate([loss[len(loss) // 2 :] for _, loss in lines])
    final = final[np.isfinite(final)]
    if not final.size:
        return None
    low, high = np.quantile(final, [0.01, 0.99])
    spread = (high - low) or max(abs(high), 1.0)
    return float(low - 0.3 * spread), float(high + 1.5 * spread)
