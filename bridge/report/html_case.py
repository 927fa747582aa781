"""The section of one posterior in the page: numbers, marginals, traces, what went wrong."""

from __future__ import annotations

import html
import json
import logging
from pathlib import Path

import numpy as np
import pandas as pd

from bridge.errors import RecordsError
from bridge.measures.limits import KHAT_GOOD, KHAT_USABLE
from bridge.measures.scores import khats, trusted
from bridge.report.html_figures import loss_curves, marginals
from bridge.report.html_page import figure_html
from bridge.report.html_tables import case_table
from bridge.report.panels import shown_names
from bridge.report.stored import read_traces, scalars
from bridge.report.summary import details, failures
from posteriordb_cases import Case, load_case

__all__ = ["case_section"]

_log = logging.getLogger(__name__)


def case_section(name: str, runs: pd.DataFrame, folder: Path, out: Path) -> str:
    """The section of one posterior: table, marginals, loss curves, failures."""
    parts = [case_table(details(runs))]
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
    k = khats(runs)
    if not k.notna().to_numpy().any():
        return ""
    method, value = k.iloc[0].idxmin(), k.iloc[0].min()
    kind = "good" if value < KHAT_GOOD else "usable" if value < KHAT_USABLE else "bad"
    text = (
        f"best k̂ {value:.2f}, {method}" if np.isfinite(value) else "no approximation has a finite k̂"
    )
    if trusted(runs[runs["method"] == method]).max() == 0:
        kind, text = "bad", f"{text}, not trusted"
    return f'<span class="badge {kind}">{html.escape(text)}</span>'


def _marginals(case: Case, ok: pd.DataFrame, folder: Path, out: Path) -> str:
    draws = case.reference_draws()
    target = out / "reference" / f"{case.name}.nc"
    target.parent.mkdir(parents=True, exist_ok=True)
    draws.to_netcdf(str(target))
    reference = dict(scalars(draws["posterior"]))
    first = ok.sort_values("seed", kind="stable").drop_duplicates("method").sort_index()
    files = {
        m: folder / f for m, f in zip(first["method"], first.get("draws_file", []), strict=True)
    }
    shown, all_names = shown_names(list(reference)), list(reference)
    few = "" if len(shown) == len(all_names) else f" ({len(shown)} of {len(all_names)} parameters)"
    figure = marginals(reference, files)
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
    traces = read_traces(ok, folder)
    if not traces:
        return ""
    figure = loss_curves(traces)
    return f"<h3>Objective by iteration</h3>{figure_html(f'losses-{name}', figure)}"


def _reasons(runs: pd.DataFrame) -> str:
    """Failures in full, and what was said of runs that succeeded."""
    failed = failures(runs)
    reasons = [f"{r.method}, seed {r.seeds}: {r.reason}" for r in failed.itertuples(index=False)]
    ok = runs[runs["status"] == "ok"].reindex(columns=["method", "notes", "fit_notes", "verdict"])
    said = ok.melt("method", value_name="note").dropna(subset="note")
    notes = [f"{r.method}: {r.note}" for r in said.itertuples(index=False)]
    shown = f"<h3>What failed, and why</h3>{_list(reasons)}" if reasons else ""
    return shown + (f"<details><summary>Notes</summary>{_list(notes)}</details>" if notes else "")


def _list(items: list[str]) -> str:
    lines = (f'<li class="note">{html.escape(item)}</li>' for item in dict.fromkeys(items))
    return f"<ul>{''.join(lines)}</ul>"
