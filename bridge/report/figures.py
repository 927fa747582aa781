"""Figures of a comparison as files, made with Matplotlib."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from numpy.typing import NDArray

from bridge.measures.limits import KHAT_GOOD, KHAT_USABLE, KHAT_WORST_SHOWN
from bridge.report.metrics import label
from bridge.report.panels import khat_text, loss_range, shown_names
from bridge.report.stored import open_group, read_traces, scalars
from posteriordb_cases import load_case

__all__ = ["khat_map", "save", "write_case", "write_scores"]

COLUMNS = 4  # panels beside one another that can be read on a page
# Of the reference's peak, as high as a marginal is shown: one that goes on is far too narrow, and
# would flatten all others (a choice).
HIGHEST = 3.0
_COLOURS = [f"C{k}" for k in range(10) if k != 7]  # grey is the reference's


def write_case(case_name: str, runs: pd.DataFrame, folder: Path, out: Path) -> list[Path]:
    """Write marginals and loss traces of one case to ``out``; stored draws are in ``folder``."""
    with matplotlib.rc_context({"font.size": 9}):
        paths = [save(marginals(case_name, runs, folder), out / f"{case_name}-marginals.png")]
        trace = loss_traces(case_name, runs, folder)
    return paths if trace is None else [*paths, save(trace, out / f"{case_name}-loss.png")]


def write_scores(ok: pd.DataFrame, out: Path) -> Path:
    """Write k̂ and errors of all runs to ``out``."""
    with matplotlib.rc_context({"font.size": 9}):
        return save(scores(ok), out / "scores.png")


def save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=150)
    return path


def scores(ok: pd.DataFrame) -> Figure:
    """k̂ and worst moment error by method, a point a seed, a panel row a case."""
    cases = list(dict.fromkeys(ok["case_name"]))
    methods = list(dict.fromkeys(ok["method"]))
    height = 0.8 + len(cases) * (0.5 + 0.26 * len(methods))
    figure = Figure(figsize=(10, height), layout="constrained")
    axes = figure.subplots(len(cases), 3, squeeze=False, sharey=True, sharex="col")
    columns = ("khat", "mean_error", "sd_error")
    titles = [label(column) for column in columns]
    titles[0] += f"\n({KHAT_GOOD:g} good, {KHAT_USABLE:g} usable)"
    for row, case in zip(axes, cases, strict=True):
        runs = ok[ok["case_name"] == case]
        for axis, column, title in zip(row, columns, titles, strict=True):
            values = pd.to_numeric(runs.reindex(columns=[column])[column], errors="coerce")
            axis.plot(values, runs["method"].map(methods.index), "o", alpha=0.6, ms=5)
            axis.grid(axis="x", alpha=0.3)
            if case == cases[0]:
                axis.set_title(title, fontsize="medium")
            if column != "khat":
                axis.set_xscale("log")
                axis.xaxis.set_minor_formatter(NullFormatter())
        for limit in (KHAT_GOOD, KHAT_USABLE):
            row[0].axvline(limit, color="0.6", lw=0.8, ls="--")
        row[0].set_yticks(range(len(methods)), methods)
        row[0].set_ylim(len(methods) - 0.5, -0.5)
        row[0].set_ylabel(case.replace("-", "-\n", 1), fontsize=8)
    return figure


def khat_map(k: pd.DataFrame, failed: pd.DataFrame) -> Figure:
    """Heat map of k̂, posteriors × methods; ``failed`` marks cells none of whose runs succeeded."""
    height, width = 1.6 + 0.24 * len(k), 3.5 + 0.7 * len(k.columns)
    figure = Figure(figsize=(width, height), layout="constrained")
    axis = figure.subplots()
    values, top = k.to_numpy(dtype=float), KHAT_WORST_SHOWN
    image = axis.imshow(np.clip(values, 0, top), cmap="RdYlGn_r", vmin=0, vmax=top, aspect="auto")
    for row, column in np.ndindex(values.shape):
        value, none = values[row, column], failed.to_numpy()[row, column]
        text = khat_text(value, none)
        dark = not 0.1 * top < value < 0.9 * top  # the ends of the colours
        color = "white" if dark else "black"
        axis.text(column, row, text, ha="center", va="center", fontsize=7, color=color)
    axis.set_xticks(range(len(k.columns)), k.columns, rotation=35, ha="left")
    axis.xaxis.tick_top()
    axis.set_yticks(range(len(k)), k.index)
    figure.colorbar(image, label="k̂", shrink=0.6)
    return figure


def marginals(case_name: str, runs: pd.DataFrame, out: Path) -> Figure:
    """Marginal densities of each method's first seed over the histogram of the reference draws."""
    case = load_case(case_name, database=json.loads(runs["settings"].iloc[0])["database"])
    reference = dict(scalars(case.reference_draws()["posterior"]))
    first = runs.sort_values("seed", kind="stable").drop_duplicates("method")
    first = first.sort_index()
    draws = {
        method: dict(scalars(open_group(out / file, "posterior")))
        for method, file in first[["method", "draws_file"]].itertuples(index=False, name=None)
    }
    names = shown_names(list(reference))
    columns = min(COLUMNS, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(max(3 * columns, 9), 2.1 * rows + 1.2), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis, name in zip(axes.flat, names, strict=False):
        _marginal(axis, name, reference[name], draws)
    for axis in list(axes.flat)[len(names) :]:
        axis.set_visible(False)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    shown = (
        "" if len(names) == len(reference) else f" ({len(names)} of {len(reference)} parameters)"
    )
    figure.suptitle(f"{case_name}: marginals against the reference draws{shown}", fontsize=10)
    return figure


def _marginal(
    axis: Axes,
    name: str,
    reference: NDArray,
    draws: Mapping[str, Mapping[str, NDArray]],
) -> None:
    low, high = np.quantile(reference, [0.005, 0.995])
    pad = 0.1 * (high - low)
    edges = np.linspace(low - pad, high + pad, 61)
    bars = axis.hist(reference, bins=edges.tolist(), density=True, color="0.85", label="reference")
    for number, (method, values) in enumerate(draws.items()):
        if name in values:
            line = ("-", "--", ":")[number // len(_COLOURS) % 3]
            colour = _COLOURS[number % len(_COLOURS)]
            density = np.histogram(values[name], bins=edges)[0] / values[name].size / np.diff(edges)
            axis.stairs(density, edges, lw=1.1, label=method, color=colour, ls=line)
    axis.set_title(name, fontsize=8)
    axis.set_ylim(0, min(axis.get_ylim()[1], HIGHEST * float(np.max(bars[0]))))
    axis.set_yticks([])


def loss_traces(case_name: str, runs: pd.DataFrame, out: Path) -> Figure | None:
    """The objective of the iterative methods against iterations, a line a seed; None if none."""
    traces = read_traces(runs, out)
    if not traces:
        return None
    columns = min(COLUMNS, len(traces))
    rows = -(-len(traces) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.4 * rows + 0.4), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis in axes[len(traces) :]:
        axis.remove()
    for axis, (method, (objective, lines)) in zip(axes, traces.items(), strict=False):
        for iteration, loss in lines:
            axis.plot(iteration, loss, lw=0.8)
        axis.set_ylim(loss_range(lines))
        axis.set(title=method, xlabel="iteration", ylabel=objective)
    figure.suptitle(case_name, fontsize=10)
    return figure
