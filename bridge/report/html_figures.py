"""Interactive figures of the report, made with Plotly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bridge.measures.limits import KHAT_GOOD, KHAT_USABLE, KHAT_WORST_SHOWN, SMALL_ERROR
from bridge.report.metrics import label
from bridge.report.panels import khat_text, loss_range, shown_names
from bridge.report.stored import Traces, open_group, scalars
from pymc_ext.maths.types import Array

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_TOP = KHAT_WORST_SHOWN
# green is good, yellow usable, orange to red neither; the numbers stand in the cells as well
_COLOURS = [
    [0.0, "#1a9850"],
    [KHAT_GOOD / _TOP, "#b8e186"],
    [KHAT_GOOD / _TOP, "#fee08b"],
    [KHAT_USABLE / _TOP, "#fdd06b"],
    [KHAT_USABLE / _TOP, "#f8965a"],
    [1.0, "#a50026"],
]
_BINS = 60  # of a histogram between the quantiles of .5 and 99.5 % (a choice)
_POINTS = 500  # of a loss curve: more are not seen, and would fill the page


def khat_map(khats: pd.DataFrame, failed: pd.DataFrame) -> Figure:
    """Heat map of k̂, posteriors × methods; ``failed`` marks cells none of whose runs succeeded."""
    from plotly.graph_objects import Figure, Heatmap

    values = khats.to_numpy(dtype=float)
    text = np.vectorize(khat_text)(values, failed.to_numpy(dtype=bool))
    figure = Figure(
        Heatmap(
            z=np.where(np.isfinite(values), values, np.where(np.isnan(values), np.nan, _TOP)),
            x=list(khats.columns),
            y=list(khats.index),
            text=text,
            texttemplate="%{text}",
            hovertemplate="%{y}<br>%{x}<br>k̂ = %{text}<extra></extra>",
            colorscale=_COLOURS,
            zmin=0.0,
            zmax=_TOP,
            xgap=1,
            ygap=1,
            colorbar={
                "x": 1.08,
                "title": {"text": "k̂"},
                "tickvals": [0, KHAT_GOOD, KHAT_USABLE, 1, _TOP],
            },
        )
    )
    figure.update_layout(height=170 + 24 * len(khats), margin={"l": 10, "r": 10, "t": 10, "b": 10})
    figure.update_yaxes(autorange="reversed", automargin=True)
    figure.update_xaxes(side="top", tickangle=-35, automargin=True)
    return figure


def error_scatter(details: pd.DataFrame) -> Figure:
    """Worst error of a mean, in posterior sds against Monte Carlo standard errors, by method."""
    figure = _by_method(details, "mean_error_psis", "mean_error_mcse_psis")
    figure.add_vline(x=SMALL_ERROR, line={"dash": "dash", "width": 1})
    return figure


def effort_scatter(details: pd.DataFrame) -> Figure:
    """Seconds against gradient evaluations, a point a posterior."""
    return _by_method(details, "cpu_seconds", "gradient_evaluations")


def divergence_scatter(details: pd.DataFrame) -> Figure:
    """KL(q‖p) against k̂, a point a posterior."""
    return _by_method(details, "khat", "kl_qp", log_x=False)


def _by_method(details: pd.DataFrame, x: str, y: str, *, log_x: bool = True) -> Figure:
    """A point a posterior and method: the metric ``y`` against the metric ``x``."""
    from plotly.graph_objects import Figure, Scatter

    figure = Figure()
    table = details.reindex(columns=["case_name", "method", x, y])
    for method, rows in table.groupby("method", sort=False):
        values = rows[[x, y]].apply(pd.to_numeric, errors="coerce")
        kept = values.notna().all(axis=1) & (values[y] > 0) & (not log_x or values[x] > 0)
        if kept.any():
            figure.add_trace(
                Scatter(
                    x=values[x][kept].to_numpy(),
                    y=values[y][kept].to_numpy(),
                    mode="markers",
                    name=str(method),
                    text=rows["case_name"][kept],
                    hovertemplate="%{text}<br>%{x:.3g}, %{y:.3g}",
                )
            )
    figure.update_xaxes(title=label(x), type="log" if log_x else "linear")
    figure.update_yaxes(title=label(y), type="log")
    figure.update_layout(height=460, showlegend=True, margin={"t": 20, "r": 10})
    return figure


def marginals(reference: Mapping[str, NDArray], files: Mapping[str, Path]) -> Figure:
    """Marginal densities of stored draws over the histogram of the reference draws.

    Parameters
    ----------
    reference
        Draws of every scalar, by its label.
    files
        Method to stored run.
    """
    from plotly.subplots import make_subplots

    names = shown_names(list(reference))
    columns = min(4, len(names))
    rows = -(-len(names) // columns)
    figure = make_subplots(
        rows, columns, subplot_titles=names, vertical_spacing=0.35 / max(rows, 2)
    )
    draws = {method: dict(scalars(open_group(path, "posterior"))) for method, path in files.items()}
    for number, name in enumerate(names):
        place = {"row": number // columns + 1, "col": number % columns + 1}
        _marginal(figure, name, reference[name], draws, place)
    figure.update_yaxes(showticklabels=False, rangemode="tozero")
    figure.update_layout(height=120 + 190 * rows, margin={"t": 40, "l": 10, "r": 10, "b": 30})
    return figure


def _marginal(
    figure: Figure,
    name: str,
    reference: NDArray,
    draws: Mapping[str, Mapping[str, NDArray]],
    place: Mapping[str, int],
) -> None:
    from plotly.colors import qualitative
    from plotly.graph_objects import Scatter

    low, high = np.quantile(reference, [0.005, 0.995])
    pad = 0.1 * (high - low) or 0.5 * max(abs(low), 1.0)  # a constant has a bin of its own
    edges = np.linspace(low - pad, high + pad, _BINS + 1)
    first = place == {"row": 1, "col": 1}
    style: dict[str, object] = {"fill": "tozeroy", "line": {"color": "lightgrey", "shape": "hvh"}}
    lines = {"reference": (reference, style)}
    for number, (method, values) in enumerate(draws.items()):
        if name in values:
            colour = qualitative.D3[number % len(qualitative.D3)]
            dash = ("solid", "dash", "dot")[number // len(qualitative.D3) % 3]
            lines[method] = (
                values[name], {"line": {"color": colour, "dash": dash, "width": 1.5}}
            )  # fmt: skip
    for source, (sample, options) in lines.items():
        density = np.histogram(sample, bins=edges)[0] / sample.size / np.diff(edges)
        figure.add_trace(
            Scatter(
                x=_short(edges[:-1] + np.diff(edges) / 2),
                y=_short(density),
                name=source,
                legendgroup=source,
                showlegend=first,
                mode="lines",
                hoverinfo="name",
                **options,
            ),
            **place,
        )


def loss_curves(traces: Mapping[str, Traces]) -> Figure:
    """The objective against iterations: a panel a method, a line a seed."""
    from plotly.graph_objects import Scatter
    from plotly.subplots import make_subplots

    columns = min(4, len(traces))
    rows = -(-len(traces) // columns)
    figure = make_subplots(
        rows,
        columns,
        subplot_titles=[f"{name}: {found.objective}" for name, found in traces.items()],
        vertical_spacing=0.3 / max(rows, 2),
    )
    for number, (_, lines) in enumerate(traces.values()):
        place = {"row": number // columns + 1, "col": number % columns + 1}
        for iteration, loss in lines:
            x, y = _thinned(iteration, loss)
            figure.add_trace(
                Scatter(x=x, y=y, mode="lines", line={"width": 1}, showlegend=False), **place
            )
        figure.update_yaxes(range=loss_range(lines), **place)
    figure.update_layout(height=90 + 210 * rows, margin={"t": 40, "l": 10, "r": 10, "b": 30})
    return figure


def _thinned(iteration: NDArray[np.integer], loss: Array) -> tuple[NDArray[np.integer], Array]:
    """At most `_POINTS` means of blocks, each at the iteration its block starts with."""
    starts = np.arange(0, loss.size, -(-loss.size // _POINTS) or 1)
    sizes = np.diff(np.append(starts, loss.size))
    return iteration[starts], _short(np.add.reduceat(loss, starts) / sizes)


def _short(values: Array) -> Array:
    """Single precision: half the bytes in the page, and no difference to the eye."""
    largest = float(np.finfo(np.float32).max)  # ADVI that diverges has losses beyond
    return np.clip(values, -largest, largest).astype(np.float32)
