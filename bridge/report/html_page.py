"""One HTML page that holds everything it needs: scripts, styles, figures and tables inline."""

from __future__ import annotations

import html
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bridge.errors import BridgeError

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 1200px; padding: 1rem; }
h1 { font-size: 1.6rem } h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc }
table { border-collapse: collapse; font-size: 13px }
.plain { overflow-x: auto }
.plain td, .plain th { padding: .15rem .5rem; text-align: right; border-bottom: 1px solid #ddd }
.plain td:first-child, .plain th:first-child { text-align: left }
details { border: 1px solid #ccc; border-radius: 4px; margin: .4rem 0; padding: .3rem .8rem }
summary { cursor: pointer; font-weight: 600 }
.badge { font-weight: 400; border-radius: 3px; padding: 0 .4rem; margin-left: .6rem }
.good { background: #b8e186 } .usable { background: #fee08b } .bad { background: #f8965a }
.note { color: #555; overflow-wrap: anywhere }
tfoot input { width: 100%; min-width: 3.2rem; max-width: 12rem; box-sizing: border-box }
nav a { margin-right: 1rem }
"""

# Figures are drawn when they come into view: a hundred of them at once would stall the browser.
_SCRIPT = """
function draw(node) {
  if (node.dataset.drawn) return;
  node.dataset.drawn = "yes";
  const spec = JSON.parse(document.getElementById(node.id + "-data").textContent);
  const options = {responsive: true, displaylogo: false};
  Plotly.newPlot(node, spec.data, spec.layout, options).then(() => {
    if (node.id === "khat-map") node.on("plotly_click", e => { location.hash = e.points[0].y; });
  });
}
const watcher = new IntersectionObserver(entries => entries.forEach(entry => {
  if (entry.isIntersecting) { watcher.unobserve(entry.target); draw(entry.target); }
}), {rootMargin: "300px"});
document.querySelectorAll(".figure").forEach(node => watcher.observe(node));
function openAnchor() {
  const node = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (node && node.tagName === "DETAILS") { node.open = true; node.scrollIntoView(); }
}
window.addEventListener("hashchange", openAnchor);
openAnchor();
"""

# DataTables would show what does not apply as NaN
_DASHES = """function () {
  this.api().cells(null, null, {page: "current"}).nodes().each(cell => {
    if (cell.textContent === "NaN") cell.textContent = "–";
  });
}"""


def require() -> None:
    """Check that the libraries of the page are installed.

    Raises
    ------
    BridgeError
        One is missing; says which extra brings it.
    """
    for module in ("plotly", "itables"):
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise BridgeError(
                f"the report needs {module}, which is not installed: "
                "pip install 'trusted-posteriors[report]'"
            ) from error


def page(title: str, body: str) -> str:
    """The page around ``body``, with Plotly's and DataTables' scripts inline."""
    from itables.javascript import generate_init_offline_itables_html
    from itables.options import dt_bundle
    from plotly.offline import get_plotlyjs

    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # no address of the icon either: a browser would ask for favicon.ico
        '<link rel="icon" href="data:,">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n"
        f"<script>{get_plotlyjs()}</script>\n</head>\n<body>\n"
        f"{generate_init_offline_itables_html(Path(dt_bundle))}\n{body}\n"
        f"<script>{_SCRIPT}</script>\n</body>\n</html>\n"
    )


def figure_html(name: str, figure: Figure) -> str:
    """A place where the figure is drawn once it is seen, and its data; ``name`` is unique."""
    figure.update_layout(template="plotly_white")
    data = figure.to_json()  # in which Plotly escapes <: no name can end the script
    name = html.escape(name)
    height = figure.layout.height  # kept free, so that nothing moves when the figure is drawn
    return (
        f'<div class="figure" id="{name}" style="min-height: {height}px"></div>\n'
        f'<script type="application/json" id="{name}-data">{data}</script>\n'
    )


def filter_table(table: pd.DataFrame, formats: dict[str, str], *, wrap: bool = False) -> str:
    """A table that can be sorted and filtered.

    ``formats`` maps columns to how their numbers are rounded (``.2f``); ``wrap`` lets long text
    fill several lines.
    """
    from itables import JavascriptFunction, to_html_datatable

    shown = table.copy()
    for column, form in formats.items():
        if column in shown:
            rounded = pd.Series([_rounded(v, form) for v in shown[column]], index=shown.index)
            whole = form == ".0f" and not np.isinf(rounded).any()
            shown[column] = rounded.astype("Int64") if whole else rounded
    return to_html_datatable(
        shown,
        connected=False,
        display_logo_when_loading=False,
        showIndex=False,
        maxBytes=0,
        lengthMenu=[25, 100, 1000],
        pageLength=25,
        classes="display compact" + ("" if wrap else " nowrap"),
        style="width:100%",
        scrollX=not wrap,
        allow_html=False,
        column_filters="footer",
        drawCallback=JavascriptFunction(_DASHES),
    )


def plain_table(table: pd.DataFrame, formats: dict[str, str]) -> str:
    """A plain table; numbers as ``formats`` says, nothing where there is none."""
    shown = table.copy().astype(object)
    for column, form in formats.items():
        if column in shown:
            shown[column] = ["–" if pd.isna(v) else format(v, form) for v in table[column]]
    return f'<div class="plain">{shown.to_html(index=False, border=0, na_rep="–")}</div>'


def _rounded(value: float | None, form: str) -> float:
    """Numbers stay numbers, so that they are sorted as such."""
    return np.nan if value is None or pd.isna(value) else float(format(float(value), form))
