"""The report of a sweep: one HTML page that opens from disk, with figures and tables beside it."""

from __future__ import annotations

import html
import json
import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bridge import html_figures, report, scores
from bridge.errors import RecordsError
from bridge.html_page import figure_html, filter_table, page, plain_table, require
from posteriordb_cases import Case, load_case

_log = logging.getLogger(__name__)
_SHARES = {
    "posteriors": "tried",
    "khat_usable": "k̂ < 0.7",
    "khat_good": "k̂ < 0.5",
    "small_errors": "errors < 0.1 sd",
    "in_time": "≤ 60 CPU s",
    "failed": "failed runs",
    "median_seconds": "CPU s",
    "median_gradient_evaluations": "gradients",
}
_DETAILS = {
    "case_name": "posterior",
    "method": "method",
    "khat": "k̂",
    "khat_spread": "± sd",
    "elbo": "ELBO",
    "kl_qp": "KL(q‖p)",
    "kl_pq": "KL(p‖q)",
    "mean_error": "Δmean",
    "sd_error": "Δsd",
    "mean_error_psis": "Δmean PSIS",
    "sd_error_psis": "Δsd PSIS",
    "mean_error_mcse_psis": "Δmean PSIS / MCSE",
    "ess": "ESS",
    "gradient_evaluations": "gradients",
    "seconds": "CPU s",
    "runs": "runs",
    "failed": "failed",
}
_WHY = {"why": "why not below 0.7"}
_BEST = (
    "case_name", "method", "khat", "khat_spread", "kl_qp", "mean_error_psis", "sd_error_psis",
    "mean_error_mcse_psis", "gradient_evaluations", "seconds", "why",
)  # fmt: skip
_FORMATS = {
    "k̂": ".2f", "± sd": ".2f", "ELBO": ".3f", "KL(q‖p)": ".3f", "KL(p‖q)": ".3f",
    "Δmean": ".3f", "Δsd": ".3f", "Δmean PSIS": ".3f", "Δsd PSIS": ".3f",
    "Δmean PSIS / MCSE": ".1f", "ESS": ".0f", "gradients": ".0f", "CPU s": ".2f",
    "k̂ < 0.7": ".0%", "k̂ < 0.5": ".0%", "errors < 0.1 sd": ".0%", "≤ 60 CPU s": ".0%",
    "failed runs": ".0f",
}  # fmt: skip


def html_report(folder: str | Path, out: str | Path | None = None) -> list[Path]:
    """Write the report of the records that a sweep or comparison left in a folder.

    Parameters
    ----------
    folder
        Where ``records.sqlite`` and the stored draws are.
    out
        Folder of the report; ``folder`` itself for None.

    Returns
    -------
    list of Path
        ``report.html``, which needs no network, first; CSV tables (``shares``, ``best``,
        ``khat``, ``failures``, ``table``, ``records``); PNG figures; and the reference draws
        as ``reference/CASE.nc``, to be read by ``arviz.from_netcdf`` as the stored draws are.

    Raises
    ------
    RecordsError
        The folder has no records.
    BridgeError
        Plotly or itables is not installed.

    Examples
    --------
    >>> html_report("results/sweep")[0]  # doctest: +SKIP
    PosixPath('results/sweep/report.html')
    """
    require()
    folder = Path(folder)
    frame = scores.read_records(folder)
    out = folder if out is None else Path(out)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "report.html"
    title = f"Approximate posteriors judged: {folder.resolve().name}"
    sections = [_header(title, folder, frame), _overview(frame)]
    sections += [_case(str(name), runs, folder, out) for name, runs in _cases(frame)]
    path.write_text(page(title, "\n".join(sections)), encoding="utf-8")
    return [path, *_write_tables(frame, out), *_write_figures(frame, folder, out)]


def _cases(frame: pd.DataFrame) -> Any:
    return frame.groupby("case_name", sort=False)


def _header(title: str, folder: Path, frame: pd.DataFrame) -> str:
    failed = int((frame["status"] == "failed").sum())
    numbers = [frame[name].nunique() for name in ("case_name", "method", "seed")]
    words = [
        f"{n} {word}{'s' * (n != 1)}"
        for n, word in zip(numbers, ("posterior", "method", "seed"), strict=True)
    ]
    counts = f"{', '.join(words)}: {len(frame)} runs, {failed} of them failed"
    missing = math.prod(numbers) - len(frame)
    partial = f" Not complete: {missing} runs are not on record." if missing else ""
    engines = frame.reindex(columns=["engine"])["engine"].dropna().unique()
    chosen = json.loads(frame["settings"].iloc[0])
    settings = "; ".join(f"{k} {v}" for k, v in chosen.items() if v is not None)
    left_out = frame.attrs["left_out"]
    others = f" {left_out} runs of other settings are left out." if left_out else ""
    made = f"Settings: {settings}. Made with {', '.join(engines)}."
    text = f"Records: {folder / 'records.sqlite'}. {made}{others}"
    links = "khat shares best errors divergences effort table failures posteriors".split()
    nav = "".join(f'<a href="#{name}">{name}</a>' for name in links)
    return (
        f"<h1>{html.escape(title)}</h1><p>{counts}.{partial}</p>"
        f'<p class="note">{html.escape(text)}</p><nav>{nav}</nav>'
    )


def _overview(frame: pd.DataFrame) -> str:
    k, details, best = scores.khats(frame), scores.details(frame), scores.best(frame)
    parts = [
        _heading("khat", "k̂ of every posterior and method"),
        "<p>Median over seeds, a failed run counting as infinite. Below 0.5 good, below 0.7 "
        "usable: the draws can be reweighted. Exact: all weights are equal; tables say 0. "
        "A click on a cell opens the posterior.</p>",
        _khat_map(frame, k),
        _heading("shares", "How many posteriors a method gets right"),
        f"<p>Shares of all {len(k)} posteriors on record. Errors: of the worst mean or sd after "
        "PSIS; time: every seed's fit.</p>",
        plain_table(_renamed(scores.shares(frame).reset_index(), _SHARES), _FORMATS),
        _heading("best", "The best approximation of each posterior"),
        _best(best),
        _heading("errors", "Errors of the means"),
        "<p>Right of the dashed line: a tenth of a posterior sd. An error below about 3 Monte "
        "Carlo standard errors cannot be told from none.</p>",
        figure_html("errors-figure", html_figures.error_scatter(details)),
        _heading("divergences", "KL divergence against k̂"),
        figure_html("divergences-figure", html_figures.divergence_scatter(details)),
        _heading("effort", "Time and gradient evaluations"),
        figure_html("effort-figure", html_figures.effort_scatter(details)),
        _heading("table", "All numbers"),
        "<p>Medians over seeds; errors of the worst parameter in posterior sds.</p>",
        filter_table(_renamed(details, _DETAILS), _FORMATS),
        _heading("failures", "What failed, and why"),
        _failures(frame),
        _heading("posteriors", "Posterior by posterior"),
    ]
    return "\n".join(parts)


def _best(best: pd.DataFrame) -> str:
    if best.empty:
        return "<p>No approximation is on record.</p>"
    shown = best.reset_index().reindex(columns=list(_BEST))
    return filter_table(_renamed(shown, _DETAILS | _WHY), _FORMATS, wrap=True)


def _khat_map(frame: pd.DataFrame, k: pd.DataFrame) -> str:
    if not len(k.columns):
        return "<p>No approximation is on record.</p>"
    return figure_html("khat-map", html_figures.khat_map(k, _all_failed(frame, k)))


def _heading(name: str, text: str) -> str:
    return f'<h2 id="{name}">{text}</h2>'


def _renamed(table: pd.DataFrame, names: dict[str, str]) -> pd.DataFrame:
    names = {"case_name": "posterior", "method": "method"} | names
    kept = [name for name in names if name in table]
    return table[kept].rename(columns=names)


def _all_failed(frame: pd.DataFrame, like: pd.DataFrame) -> pd.DataFrame:
    failed = frame["status"].eq("failed").groupby([frame["case_name"], frame["method"]]).all()
    table = failed.unstack("method").reindex(index=like.index, columns=like.columns)
    return table.eq(True)


def _failures(frame: pd.DataFrame) -> str:
    table = report.failures(frame)
    if table.empty:
        return "<p>Nothing.</p>"
    names = {"case_name": "posterior", "seeds": "seeds", "reason": "reason"}
    return filter_table(_renamed(table, names), {}, wrap=True)


def _case(name: str, runs: pd.DataFrame, folder: Path, out: Path) -> str:
    """The section of one posterior: table, marginals, loss curves, failures."""
    details = scores.details(runs)
    shown = _renamed(details.drop(columns="case_name"), _DETAILS)
    parts = [plain_table(shown, _FORMATS)]
    ok = runs[runs["status"] == "ok"]
    try:
        case = _load(name, runs)
        parts.insert(0, _description(case))
        parts.append(_marginals(case, ok, folder, out))
        parts.append(_losses(name, ok, folder))
    except (RecordsError, OSError, ValueError) as error:
        _log.warning("%s: %s", name, error)
        parts.append(f'<p class="note">No marginals or loss curves: {html.escape(str(error))}</p>')
    parts.append(_reasons(runs))
    identity = html.escape(name)
    summary = f"<summary>{identity}{_badge(runs)}</summary>"
    return f'<details id="{identity}">{summary}\n{"".join(parts)}</details>'


def _load(name: str, runs: pd.DataFrame) -> Case:
    return load_case(name, database=json.loads(runs["settings"].iloc[0])["database"])


def _description(case: Case) -> str:
    known = (case.exact or {}).get("log_evidence")
    exact = "" if known is None else f" Exact log evidence {known:.4f}."
    text = case.model_info.get("title") or case.model_name
    return f"<p>{html.escape(str(text))}.{exact}</p>"


def _badge(runs: pd.DataFrame) -> str:
    k = scores.khats(runs)
    if not k.notna().to_numpy().any():
        return ""
    method, value = k.iloc[0].idxmin(), k.iloc[0].min()
    kind = "good" if value < scores.GOOD else "usable" if value < scores.USABLE else "bad"
    text = (
        f"best k̂ {value:.2f}, {method}" if np.isfinite(value) else "no approximation has a finite k̂"
    )
    return f'<span class="badge {kind}">{html.escape(text)}</span>'


def _marginals(case: Case, ok: pd.DataFrame, folder: Path, out: Path) -> str:
    draws = case.reference_draws()
    target = out / "reference" / f"{case.name}.nc"
    target.parent.mkdir(parents=True, exist_ok=True)
    draws.to_netcdf(str(target))
    reference = dict(report.scalars(draws["posterior"]))
    first = ok.sort_values("seed", kind="stable").drop_duplicates("method").sort_index()
    files = {
        m: folder / f for m, f in zip(first["method"], first.get("draws_file", []), strict=True)
    }
    shown, all_names = report.shown_names(list(reference)), list(reference)
    few = "" if len(shown) == len(all_names) else f" ({len(shown)} of {len(all_names)} parameters)"
    figure = html_figures.marginals(reference, files)
    links = "".join(f"<li>{html.escape(m)}: <code>{html.escape(str(f))}</code></li>"
                    for m, f in files.items())  # fmt: skip
    return (
        f"<h3>Marginals against the reference draws{few}</h3>"
        "<p class='note'>The first seed of each method, unweighted; a click in the legend hides "
        "a method.</p>"
        + figure_html(f"marginals-{case.name}", figure)
        + f"<details><summary>Draws for arviz.from_netcdf</summary><ul>{links}"
        f"<li>reference: <code>{html.escape(str(target))}</code></li></ul></details>"
    )


def _losses(name: str, ok: pd.DataFrame, folder: Path) -> str:
    traces = report.read_traces(ok, folder)
    if not traces:
        return ""
    figure = html_figures.loss_curves(traces)
    return f"<h3>Objective by iteration</h3>{figure_html(f'losses-{name}', figure)}"


def _reasons(runs: pd.DataFrame) -> str:
    """Failures in full, and what was said of runs that succeeded."""
    failed = report.failures(runs)
    reasons = [f"{r.method}, seed {r.seeds}: {r.reason}" for r in failed.itertuples(index=False)]
    ok = runs[runs["status"] == "ok"].reindex(columns=["method", "notes", "fit_notes"])
    said = ok.melt("method", value_name="note").dropna(subset="note")
    notes = [f"{r.method}: {r.note}" for r in said.itertuples(index=False)]
    shown = f"<h3>What failed, and why</h3>{_list(reasons)}" if reasons else ""
    return shown + (f"<details><summary>Notes</summary>{_list(notes)}</details>" if notes else "")


def _list(items: list[str]) -> str:
    lines = (f'<li class="note">{html.escape(item)}</li>' for item in dict.fromkeys(items))
    return f"<ul>{''.join(lines)}</ul>"


def _write_tables(frame: pd.DataFrame, out: Path) -> list[Path]:
    records = frame.drop(columns="traceback", errors="ignore")
    tables = {
        "shares": scores.shares(frame).reset_index(),
        "best": scores.best(frame).reset_index(),
        "khat": scores.khats(frame).reset_index(),
        "failures": report.failures(frame),
        "table": scores.details(frame),
        "records": records,
    }
    for name, table in tables.items():
        table.to_csv(out / f"{name}.csv", index=False)
    return [out / f"{name}.csv" for name in tables]


def _write_figures(frame: pd.DataFrame, folder: Path, out: Path) -> list[Path]:
    """The heat map as PNG, and the figures of `bridge.report` where the draws are there."""
    k = scores.khats(frame)
    paths = []
    if len(k.columns):
        paths.append(report.save(_khat_png(k, _all_failed(frame, k)), out / "khat.png"))
    ok = frame[frame["status"] == "ok"]
    for name, runs in _cases(ok):
        try:
            paths += report.write_case(str(name), runs, folder, out)
        except (RecordsError, OSError, ValueError) as error:
            _log.warning("%s: no figures: %s", name, error)
    return paths + ([report.write_scores(ok, out)] if len(ok) else [])


def _khat_png(k: pd.DataFrame, failed: pd.DataFrame) -> Figure:
    height, width = 1.6 + 0.24 * len(k), 3.5 + 0.7 * len(k.columns)
    figure = Figure(figsize=(width, height), layout="constrained")
    axis = figure.subplots()
    values = k.to_numpy(dtype=float)
    image = axis.imshow(np.clip(values, 0, 1.4), cmap="RdYlGn_r", vmin=0, vmax=1.4, aspect="auto")
    for row, column in np.ndindex(values.shape):
        value, none = values[row, column], failed.to_numpy()[row, column]
        text = html_figures.khat_text(value, none)
        dark = not 0.15 < value < 1.25
        color = "white" if dark else "black"
        axis.text(column, row, text, ha="center", va="center", fontsize=7, color=color)
    axis.set_xticks(range(len(k.columns)), k.columns, rotation=35, ha="left")
    axis.xaxis.tick_top()
    axis.set_yticks(range(len(k)), k.index)
    figure.colorbar(image, label="k̂", shrink=0.6)
    return figure
