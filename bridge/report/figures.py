"""Tables and figures of a comparison."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from rich.box import SIMPLE_HEAD
from rich.table import Table

from bridge.errors import RecordsError
from bridge.methods import METHODS
from posteriordb_cases import load_case

_log = logging.getLogger(__name__)
_MAX_PANELS = 12
_COLOURS = [f"C{k}" for k in range(10) if k != 7]  # grey is the reference's
_KHAT_LIMITS = (0.5, 0.7)  # good, usable

# column of the summary -> (heading, digits)
COLUMNS: Mapping[str, tuple[str, int]] = {
    "khat": ("k̂", 2),
    "khat_spread": ("±sd", 2),
    "elbo": ("ELBO", 3),
    "kl_qp": ("KL(q‖p)", 3),
    "kl_pq": ("KL(p‖q)", 3),
    "mean_error": ("Δmean", 2),
    "sd_error": ("Δsd", 2),
    "ess": ("ESS", 0),
    "gradient_evaluations": ("grads", 0),
    "seconds": ("s", 1),
}


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per case and method: the median over seeds of each quantity.

    ``khat_spread`` is the standard deviation of k̂ over seeds, or of its batches where there is
    one seed. ``failed`` counts failures, ``reason`` gives the first. ``mean_error`` and
    ``sd_error`` are the worst parameter's, in posterior standard deviations.
    """
    rows = [
        {"case_name": case, "method": method, **_summarise(group)}
        for (case, method), group in frame.groupby(["case_name", "method"], sort=False)
    ]
    return pd.DataFrame(rows)


def _summarise(group: pd.DataFrame) -> dict[str, Any]:
    ok = group[group["status"] == "ok"]
    row: dict[str, Any] = {"runs": len(group), "failed": len(group) - len(ok)}
    for name in COLUMNS:
        if name in ok:
            values = pd.to_numeric(ok[name], errors="coerce").dropna()
            row[name] = float(values.median()) if len(values) else None
    if "khat" in ok:
        khats = pd.to_numeric(ok["khat"], errors="coerce").dropna()
        with np.errstate(invalid="ignore"):  # seeds with k̂ = ∞ have no spread
            spread = khats.std(ddof=1) if len(khats) > 1 else ok["khat_sd"].median()
        row["khat_spread"] = float(spread) if len(khats) else None
        row["khat_exact"] = bool(ok.get("khat_exact", pd.Series(dtype=bool)).eq(True).any())
    for name in ("kl_qp", "kl_pq"):
        if f"{name}_reliable" in ok:
            row[f"{name}_reliable"] = bool(ok[f"{name}_reliable"].dropna().eq(True).all())
    reasons = group.get("reason", pd.Series(dtype=object)).dropna()
    row["reason"] = reasons.iloc[0] if len(reasons) else None
    return row


def rich_tables(frame: pd.DataFrame) -> Iterable[Table]:
    """One table a case; a KL flagged unreliable carries a ``?``, failures their reason."""
    table_data = summary(frame)
    for case, rows in table_data.groupby("case_name", sort=False):
        table = Table(
            title=_title(frame, str(case)),
            title_justify="left",
            box=SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            collapse_padding=True,
        )
        table.add_column("method", no_wrap=True)
        for heading, _ in COLUMNS.values():
            table.add_column(heading, justify="right", no_wrap=True)
        for row in rows.to_dict("records"):
            table.add_row(row["method"], *(_cell(row, name) for name in COLUMNS))
        yield table


def _title(frame: pd.DataFrame, case: str) -> str:
    """The case with its exact log evidence, where it is known, and the bridge sampling one."""
    runs = frame[frame["case_name"] == case].reindex(columns=["log_evidence", "settings"])
    bridged = pd.to_numeric(runs["log_evidence"]).median()
    settings = runs["settings"].iloc[0]
    known = load_case(case, database=json.loads(settings)["database"]).exact or {}
    exact = f", exact {known['log_evidence']:.4f}" if "log_evidence" in known else ""
    found = "" if np.isnan(bridged) else f" {bridged:.4f} by bridge sampling"
    return f"{case}: log Z{found}{exact}" if found or exact else case


def _cell(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if row["failed"] == row["runs"]:
        return "failed" if name == "khat" else ""
    if name == "khat" and row.get("khat_exact"):
        return "exact"
    if value is None or pd.isna(value):
        return "–"
    doubt = "?" if row.get(f"{name}_reliable") is False else ""
    return f"{value:,.{COLUMNS[name][1]}f}{doubt}"


def failures(frame: pd.DataFrame) -> pd.DataFrame:
    """Case, method, seeds and reason (its first line) of the runs that went wrong, equal together.

    Failed runs, and runs whose method itself says that it did not converge.
    """
    columns = ["case_name", "method", "seed", "reason", "converged"]
    runs = frame.reindex(columns=columns)
    wrong = runs[frame["status"].eq("failed") | runs["converged"].isin([False])].copy()
    wrong["reason"] = [
        "did not converge" if pd.isna(reason) else f"failed: {reason.splitlines()[0]}"
        for reason in wrong["reason"]
    ]
    groups = wrong.groupby(["case_name", "method", "reason"], sort=False)["seed"]
    return groups.apply(lambda seeds: ", ".join(map(str, seeds))).reset_index(name="seeds")


def failure_lines(frame: pd.DataFrame) -> Iterable[str]:
    """`failures` as text, a line for each reason."""
    for reason, runs in failures(frame).groupby("reason", sort=False):
        methods, cases = (list(dict.fromkeys(runs[name])) for name in ("method", "case_name"))
        where = f"{len(cases)} posteriors" if len(cases) > 1 else cases[0]
        seeds = f", seed {runs['seeds'].iloc[0]}" if len(runs) == 1 else ""
        some = " (not each on all)" if len(runs) < len(methods) * len(cases) else ""
        yield f"{', '.join(methods)} on {where}{seeds}{some}: {reason}"


def write(frame: pd.DataFrame, out: Path) -> list[Path]:
    """Write ``table.csv``, ``records.csv`` and the figures to ``out``; returns the paths."""
    out.mkdir(parents=True, exist_ok=True)
    summary(frame).to_csv(out / "table.csv", index=False)
    frame.drop(columns="traceback", errors="ignore").to_csv(out / "records.csv", index=False)
    paths = [out / "table.csv", out / "records.csv"]
    ok = frame[frame["status"] == "ok"]
    for case, runs in ok.groupby("case_name", sort=False):
        paths += write_case(str(case), runs, out, out)
    return paths + ([write_scores(ok, out)] if len(ok) else [])


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
    titles = (
        "Pareto k̂ (0.5 good, 0.7 usable)",
        "worst error of a mean (posterior sd)",
        "worst error of an sd (posterior sd)",
    )
    columns = ("khat", "mean_error", "sd_error")
    for row, case in zip(axes, cases, strict=True):
        runs = ok[ok["case_name"] == case]
        for axis, column, title in zip(row, columns, titles, strict=True):
            values = pd.to_numeric(runs.reindex(columns=[column])[column], errors="coerce")
            axis.plot(values, runs["method"].map(methods.index), "o", alpha=0.6, ms=5)
            axis.grid(axis="x", alpha=0.3)
            if case == cases[0]:
                axis.set_title(title)
            if column != "khat":
                axis.set_xscale("log")
                axis.xaxis.set_minor_formatter(NullFormatter())
        for limit in _KHAT_LIMITS:
            row[0].axvline(limit, color="0.6", lw=0.8, ls="--")
        row[0].set_yticks(range(len(methods)), methods)
        row[0].set_ylim(len(methods) - 0.5, -0.5)
        row[0].set_ylabel(case.replace("-", "-\n", 1), fontsize=8)
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
    columns = min(4, len(names))
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


def shown_names(names: list[str]) -> list[str]:
    """Scalars before vectors, of these the last ones: transformed parameters follow raw ones."""
    scalars = [name for name in names if "[" not in name]
    vectors = [name for name in names if "[" in name]
    return (scalars + vectors[-max(_MAX_PANELS - len(scalars), 1) :])[:_MAX_PANELS]


def _marginal(axis: Any, name: str, reference: np.ndarray, draws: Mapping[str, dict]) -> None:
    low, high = np.quantile(reference, [0.005, 0.995])
    pad = 0.1 * (high - low)
    edges = np.linspace(low - pad, high + pad, 61)
    axis.hist(reference, bins=edges, density=True, color="0.85", label="reference")
    for number, (method, values) in enumerate(draws.items()):
        if name in values:
            line = ("-", "--", ":")[number // len(_COLOURS) % 3]
            style = {"color": _COLOURS[number % len(_COLOURS)], "ls": line}
            density = np.histogram(values[name], bins=edges)[0] / values[name].size / np.diff(edges)
            axis.stairs(density, edges, lw=1.1, label=method, **style)
    axis.set_title(name, fontsize=8)
    axis.set_yticks([])


def loss_traces(case_name: str, runs: pd.DataFrame, out: Path) -> Figure | None:
    """The objective of the iterative methods against iterations, a line a seed; None if none."""
    traces = read_traces(runs, out)
    if not traces:
        return None
    figure = Figure(figsize=(3.2 * len(traces), 2.8), layout="constrained")
    axes = figure.subplots(1, len(traces), squeeze=False)[0]
    for axis, (method, lines) in zip(axes, traces.items(), strict=True):
        for iteration, loss in lines:
            axis.plot(iteration, loss, lw=0.8)
        axis.set_ylim(loss_range(lines))
        axis.set(title=method, xlabel="iteration", ylabel=loss_name(method))
    figure.suptitle(case_name, fontsize=10)
    return figure


def read_traces(runs: pd.DataFrame, folder: Path) -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
    """Stored (iterations, losses) of each seed by method, of the methods that have some."""
    traces: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for method, file in runs.reindex(columns=["method", "draws_file"]).itertuples(index=False):
        data = open_group(folder / file, "optimization_trace")
        if "loss" in data:
            values = (data["iteration"].values, data["loss"].values)
            traces.setdefault(method, []).append(values)
    return traces


def loss_name(method: str) -> str:
    """What the losses of a method are."""
    return METHODS[method].objective if method in METHODS else "loss"


def loss_range(lines: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float] | None:
    """Axis limits by the second half of the traces: first losses may be larger by orders."""
    final = np.concatenate([loss[len(loss) // 2 :] for _, loss in lines])
    final = final[np.isfinite(final)]
    if not final.size:
        return None
    low, high = np.quantile(final, [0.01, 0.99])
    spread = (high - low) or max(abs(high), 1.0)
    return float(low - 0.3 * spread), float(high + 1.5 * spread)


def open_group(path: Path, group: str) -> xr.Dataset:
    """One group of a stored run."""
    try:
        return xr.open_dataset(path, group=group, engine="h5netcdf")
    except (OSError, ValueError) as error:
        raise RecordsError(
            f"cannot read the stored draws {path}: {error}; they belong to a recorded run: give "
            "another folder with --out, or remove this one to run everything again"
        ) from error


def scalars(dataset: xr.Dataset) -> Iterable[tuple[str, np.ndarray]]:
    """(label, draws) of every scalar of a posterior group, labels as ArviZ writes them."""
    for name, variable in dataset.data_vars.items():
        values = variable.values.reshape(-1, *variable.shape[2:])
        for index in np.ndindex(values.shape[1:]):
            label = f"{name}[{', '.join(map(str, index))}]" if index else str(name)
            yield label, values[(slice(None), *index)]
