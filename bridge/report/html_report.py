"""The report of a sweep: one HTML page that opens from disk, with figures and tables beside it."""

from __future__ import annotations

import html
import json
import math
from pathlib import Path

import pandas as pd

from bridge.measures.limits import KHAT_GOOD, KHAT_USABLE, MEAN_WRONG, RATIO_WRONG, SMALL_ERROR
from bridge.measures.scores import khats, shares, trusted
from bridge.report import html_figures
from bridge.report.files import all_failed, write_figures, write_tables
from bridge.report.html_case import case_section
from bridge.report.html_page import figure_html, page, require
from bridge.report.html_tables import (
    best_table,
    failures_table,
    metrics_table,
    shares_table,
    unseen_table,
)
from bridge.report.stored import read_records
from bridge.report.summary import best, details, failures
from bridge.report.unseen import REFUSED, WRONG, unseen

__all__ = ["html_report"]


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
        ``khat``, ``unseen``, ``failures``, ``table``, ``records``); PNG figures; and the reference
        draws as ``reference/CASE.nc``, to be read by ``arviz.from_netcdf`` as the stored draws are.

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
    frame = read_records(folder)
    out = folder if out is None else Path(out)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "report.html"
    title = f"Approximate posteriors judged: {folder.resolve().name}"
    sections = [_header(title, folder, frame), _overview(frame)]
    cases = frame.groupby("case_name", sort=False)
    sections += [case_section(str(name), runs, folder, out) for name, runs in cases]
    path.write_text(page(title, "\n".join(sections)), encoding="utf-8")
    return [path, *write_tables(frame, out), *write_figures(frame, folder, out)]


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
    links = "khat shares unseen best errors divergences effort table failures posteriors".split()
    nav = "".join(f'<a href="#{name}">{name}</a>' for name in links)
    return (
        f"<h1>{html.escape(title)}</h1><p>{counts}.{partial}</p>"
        f'<p class="note">{html.escape(text)}</p><nav>{nav}</nav>'
    )


def _overview(frame: pd.DataFrame) -> str:
    k, table = khats(frame), details(frame)
    parts = [
        _heading("khat", "k̂ of every posterior and method"),
        f"<p>Median over seeds, a failed run counting as infinite. Below {KHAT_GOOD:g} good, below "
        f"{KHAT_USABLE:g} usable: the draws can be reweighted. Exact: all weights are equal; "
        "tables say 0. "
        "A click on a cell opens the posterior.</p>",
        _khat_map(frame, k),
        _heading("shares", "How many posteriors a method gets right"),
        f"<p>Shares of all {len(k)} posteriors on record. Errors: of the worst mean or sd after "
        "PSIS; time: every seed's fit. Trusted: the mean over posteriors of the share of seeds; "
        f"falsely, where {_wrong()}.</p>",
        shares_table(shares(frame)),
        _heading("unseen", "What k̂ did not see"),
        _unseen(frame),
        _heading("best", "The best approximation of each posterior"),
        best_table(best(frame)),
        _heading("errors", "Errors of the means"),
        f"<p>Right of the dashed line: {SMALL_ERROR:g} of a posterior sd. An error below about 3 "
        "Monte Carlo standard errors cannot be told from none.</p>",
        figure_html("errors-figure", html_figures.error_scatter(table)),
        _heading("divergences", "KL divergence against k̂"),
        figure_html("divergences-figure", html_figures.divergence_scatter(table)),
        _heading("effort", "Time and gradient evaluations"),
        figure_html("effort-figure", html_figures.effort_scatter(table)),
        _heading("table", "All numbers"),
        "<p>Medians over seeds; errors of the worst parameter in posterior sds.</p>",
        metrics_table(table),
        _heading("failures", "What failed, and why"),
        failures_table(failures(frame)),
        _heading("posteriors", "Posterior by posterior"),
    ]
    return "\n".join(parts)


def _wrong() -> str:
    """What may not be trusted, in words."""
    return (
        f"a mean is more than {MEAN_WRONG:g} posterior sds off or an sd not within "
        f"{1 / RATIO_WRONG:g} to {RATIO_WRONG:g} of the reference's"
    )


def _unseen(frame: pd.DataFrame) -> str:
    if trusted(frame).isna().all():
        return "<p>These records are of a version that gave no verdict.</p>"
    found = unseen(frame)
    refused, wrong = (found[found["found"] == kind] for kind in (REFUSED, WRONG))
    return (
        "<p>k̂ is of draws of the approximation itself. It says nothing of a mode that none of them "
        "reaches, and little of a quantity whose own tail is heavier than that of the weights. "
        "The verdict, which knows no reference, is that of <code>bridge.fit</code>: k̂, effective "
        "draws, an error and a k̂ of each mean and sd, a search for mass outside. That of chains "
        "is by R̂, ESS, divergences and E-FMI, which do not see a mode that no chain visits.</p>"
        f"<h3>k̂ below {KHAT_USABLE:g}, and not trusted</h3>{unseen_table(refused)}"
        f"<h3>Trusted, but wrong</h3><p>By the reference draws: {_wrong()}.</p>"
        f"{unseen_table(wrong)}"
    )


def _khat_map(frame: pd.DataFrame, k: pd.DataFrame) -> str:
    if not len(k.columns):
        return "<p>No approximation is on record.</p>"
    return figure_html("khat-map", html_figures.khat_map(k, all_failed(frame, k)))


def _heading(name: str, text: str) -> str:
    return f'<h2 id="{name}">{text}</h2>'
