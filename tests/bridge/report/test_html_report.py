"""The report of a sweep: its numbers are the records', and the page needs no network."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd
import pytest

from bridge.__main__ import main
from bridge.comparison.compare import compare
from bridge.comparison.records import Records
from bridge.errors import BridgeError, RecordsError
from bridge.measures import scores
from bridge.report.html_figures import loss_curves
from bridge.report.html_report import html_report
from bridge.report.stored import Traces, read_records
from bridge.report.summary import best, failure_lines, failures, summary
from tests.bridge.conftest import GAUSSIAN
from tests.needed import needs

# whatever a browser would fetch by itself; a link that has to be clicked is none
NETWORK = re.compile(r"""<(?!a\b)[^>]*(?:src|href|poster|data)\s*=\s*["']?(?:https?:)?//""")
BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


def add(folder: Path, **record: object) -> None:
    settings = json.dumps({"database": None, "draws": 20_000, "repetitions": 5})
    base = {"case_name": "a", "method": "laplace", "seed": 1, "settings": settings, "status": "ok"}
    spread = {"khat_sd": 0.01} if "khat" in record else {}
    Records(folder / "records.sqlite").add(base | spread | record)


@pytest.fixture
def made_up(tmp_path: Path) -> Path:
    """Two posteriors, two methods and a sampler, with numbers whose scores are known by hand."""
    nuts = {"method": "stan-nuts", "rhat": 1.0, "seconds": 2.0, "mean_error": 0.01}
    for case in "ab":
        add(tmp_path, case_name=case, **nuts)
    for seed, khat in enumerate([0.2, 0.6, 0.9], start=1):
        errors = {"mean_error_psis": 0.05, "sd_error_psis": 0.08, "seconds": 10.0 * seed}
        add(tmp_path, khat=khat, elbo=-1.0, seed=seed, **errors)
    for seed in (1, 2, 3):
        failed = {"status": "failed", "reason": "ValueError: <b>no</b> mode"}
        add(tmp_path, case_name="b", seed=seed, **(failed if seed < 3 else {"khat": 0.1}))
        errors = {"mean_error_psis": 0.3, "sd_error_psis": 0.01, "seconds": 61.0}
        add(tmp_path, case_name="b", method="bernstein", seed=seed, khat=0.4, elbo=-1.0, **errors)
    add(tmp_path, method="bernstein", khat_exact=True, elbo=-1.0, seconds=1.0,
        mean_error_psis=0.0, sd_error_psis=0.0)  # fmt: skip
    return tmp_path


def test_an_infinite_khat_has_no_spread(tmp_path: Path) -> None:
    for seed, khat in enumerate([0.2, np.inf, np.inf], start=1):
        add(tmp_path, khat=khat, elbo=-1.0, seed=seed)
    (row,) = summary(Records(tmp_path / "records.sqlite").frame()).to_dict("records")
    assert row["khat"] == np.inf and np.isnan(row["khat_spread"])


@pytest.fixture
def compared(gaussian_database: Path, gaussian_methods: list[str], tmp_path: Path) -> Path:
    """What a comparison leaves: records, stored draws and loss traces."""
    methods = ["shifted", "wide", "broken"]
    compare(GAUSSIAN, methods, 2, out=tmp_path, database=gaussian_database, draws=2000)
    return tmp_path


def test_khat_is_the_median_with_failures_infinite(made_up: Path) -> None:
    k = scores.khats(read_records(made_up))
    assert list(k.columns) == ["laplace", "bernstein"]  # in the order of METHODS, no sampler
    assert k.loc["a"].tolist() == [0.6, 0.0] and k.loc["b"].tolist() == [np.inf, 0.4]


def test_shares_count_every_posterior_on_record(made_up: Path) -> None:
    table = scores.shares(read_records(made_up))
    laplace, flow, best = table.loc["laplace"], table.loc["bernstein"], table.loc[scores.BEST]
    expected = ["khat_usable", "khat_good", "small_errors", "in_time"]
    assert laplace[expected].tolist() == [0.5, 0.0, 0.5, 0.5] and laplace["failed"] == 2
    assert flow[expected].tolist() == [1.0, 1.0, 0.5, 0.5]
    assert best[expected].tolist() == [1.0, 1.0, 0.5, 0.5]
    assert flow["median_seconds"] == 31.0  # of the two posteriors' 1 and 61


def test_cpu_seconds_count_where_they_are_known(made_up: Path) -> None:
    add(made_up, case_name="c", khat=0.1, elbo=-1.0, seconds=500.0, cpu_seconds=2.0)
    frame = read_records(made_up)
    assert frame.loc[frame["case_name"] == "c", "cpu_seconds"].tolist() == [2.0]
    assert scores.shares(frame).loc["laplace", "in_time"] == pytest.approx(2 / 3)


def test_the_best_method_has_the_smallest_median_khat(made_up: Path) -> None:
    table = best(read_records(made_up))
    assert table["method"].to_dict() == {"a": "bernstein", "b": "bernstein"}
    assert table["khat"].to_dict() == {"a": 0.0, "b": 0.4}


def test_a_negative_khat_is_no_better_than_zero(made_up: Path) -> None:
    add(made_up, method="stan-laplace", khat=-0.1, elbo=-1.0, seconds=2.0)
    found = best(read_records(made_up))
    assert found.loc["a", "method"] == "bernstein"  # exact, and faster
    add(made_up, method="stan-laplace", khat=-0.1, elbo=-1.0, seconds=0.5)
    assert best(read_records(made_up)).loc["a", "method"] == "stan-laplace"


def test_a_posterior_that_resists_says_why(made_up: Path) -> None:
    add(made_up, case_name="c", khat=0.8, elbo=-1.0, notes="k̂ = 0.8 > 0.7; one draw")
    add(made_up, case_name="c", seed=3, khat=0.9, elbo=-1.0, notes="k̂ = 0.9 > 0.7")
    add(made_up, case_name="c", seed=2, status="failed", reason="ValueError: no mode")
    why = best(read_records(made_up))["why"]
    assert why["c"] == "k̂ = 0.8 > 0.7; one draw; ValueError: no mode"
    assert why["a"] == "" and why["b"] == ""


def test_where_no_khat_is_finite_no_method_is_best(tmp_path: Path) -> None:
    add(tmp_path, method="laplace", status="failed", reason="ValueError: no mode")
    add(tmp_path, method="bernstein", khat=float("inf"), elbo=-1.0)
    found = best(read_records(tmp_path)).loc["a"]
    assert found["method"] == scores.NONE and found["khat"] == float("inf")
    assert found["why"] == "laplace: ValueError: no mode"
    assert scores.shares(read_records(tmp_path)).loc[scores.BEST, "khat_usable"] == 0


def test_runs_of_other_settings_are_left_out(made_up: Path) -> None:
    add(made_up, settings="{}", khat=9.0)
    frame = read_records(made_up)
    assert frame.attrs["left_out"] == 1 and frame["settings"].nunique() == 1


def test_runs_before_and_after_a_case_changed_are_named(made_up: Path, caplog) -> None:
    read_records(made_up)
    add(made_up, seed=8, khat=0.2, case_sha256="one")
    read_records(made_up)
    assert "changed" not in caplog.text
    add(made_up, seed=9, khat=0.2, case_sha256="other")
    read_records(made_up)
    assert "runs of a before and after it changed are in one report" in caplog.text


@pytest.mark.parametrize(
    "record",
    [
        {"method": "stan-nuts", "rhat": 1.0, "seconds": 1.0},
        {"status": "failed", "reason": "ValueError: no"},
        {"khat": float("inf"), "elbo": float("-inf"), "seconds": 1.0},
    ],
    ids=["sampler", "failure", "infinite"],
)
def test_a_single_run_makes_a_page(tmp_path: Path, record: dict[str, object]) -> None:
    _libraries()
    add(tmp_path, **record)
    assert main(["report", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "shares.csv")
    assert (table.get("khat_usable", pd.Series(dtype=float)) == 0).all()


def test_a_posterior_that_only_nuts_has_run_counts_against_the_others(made_up: Path) -> None:
    add(made_up, case_name="c", method="stan-nuts", rhat=1.0, seconds=1.0)
    table = scores.shares(read_records(made_up))
    assert table.loc[scores.BEST, "khat_usable"] == pytest.approx(2 / 3)
    assert table.loc["laplace", "posteriors"] == 2


def test_folder_without_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "none")]) == 2
    assert "bridge sweep --out" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
    Records(tmp_path / "records.sqlite")
    with pytest.raises(RecordsError, match="holds no run yet"):
        read_records(tmp_path)


@pytest.mark.parametrize("module", ["plotly", "itables"])
def test_a_missing_library_names_the_extra(made_up: Path, monkeypatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BridgeError, match=rf"{module}.*\[report\]"):
        html_report(made_up)
    assert not (made_up / "report.html").exists()


def test_page_and_tables_are_written_from_a_comparison(compared: Path, tmp_path: Path) -> None:
    _libraries()
    assert main(["report", str(compared), "--out", str(tmp_path / "page")]) == 0
    out = tmp_path / "page"
    names = {path.name for path in out.iterdir()}
    assert {"report.html", "shares.csv", "best.csv", "khat.csv", "table.csv", "records.csv"} < names
    assert {"khat.png", "scores.png", f"{GAUSSIAN}-marginals.png", f"{GAUSSIAN}-loss.png"} < names
    page = (out / "report.html").read_text()
    assert "no fit on purpose" in page
    assert "1 posterior, 3 methods, 2 seeds: 6 runs, 2 of them failed.</p>" in page
    frame = Records(compared / "records.sqlite").frame()
    wide = frame[frame["method"] == "wide"]["khat"].astype(float).median()
    drawn = _figure(page, "khat-map")["data"][0]
    at = drawn["x"].index("wide")
    assert drawn["text"][0][at] == f"{wide:.2f}" and drawn["text"][0][-1] == "failed"
    assert pd.read_csv(out / "khat.csv")["wide"][0] == pytest.approx(wide)
    labels = {trace["name"] for trace in _figure(page, f"marginals-{GAUSSIAN}")["data"]}
    assert labels == {"reference", "shifted", "wide"}
    assert len(_figure(page, f"losses-{GAUSSIAN}")["data"]) == 4  # two methods, two seeds


def test_long_loss_curves_are_thinned_to_means_of_blocks() -> None:
    _libraries()
    iteration = np.arange(0, 10_010, 10)
    (line,) = loss_curves({"m": Traces("−ELBO", [(iteration, 2.0 * iteration)])}).data
    assert len(line.x) == 334 and line.x[1] == 30  # blocks of three of 1,001 values
    assert line.y[0] == 20 and line.y[-1] == 2 * np.mean(iteration[-2:])


def test_page_asks_for_nothing_beyond_itself(compared: Path) -> None:
    _libraries()
    assert main(["report", str(compared)]) == 0
    page = (compared / "report.html").read_text()
    bodies = re.sub(r"<script\b[^>]*>.*?</script>", "<script></script>", page, flags=re.DOTALL)
    assert not NETWORK.search(bodies)
    assert not re.search(r"<script[^>]*\ssrc=", bodies) and "@import" not in bodies


def test_draws_and_reference_open_in_arviz(compared: Path) -> None:
    _libraries()
    assert main(["report", str(compared)]) == 0
    reference = az.from_netcdf(str(compared / "reference" / f"{GAUSSIAN}.nc"))
    assert reference["posterior"]["x"].shape == (10, 1000, 5)
    row = Records(compared / "records.sqlite").frame().query("status == 'ok'").iloc[0]
    run = az.from_netcdf(str(compared / row["draws_file"]))
    assert run["posterior"]["x"].dims[:2] == ("chain", "draw") and "lq" in run["sample_stats"]


def test_lost_draws_leave_a_note_in_place_of_the_marginals(compared: Path, caplog) -> None:
    _libraries()
    shutil.rmtree(compared / "draws")
    assert main(["report", str(compared)]) == 0
    page = (compared / "report.html").read_text()
    assert "No marginals or loss curves: cannot read the stored draws" in page
    assert "khat-map" in page and not (compared / f"{GAUSSIAN}-marginals.png").exists()


def test_names_and_reasons_are_text_not_tags(made_up: Path) -> None:
    _libraries()
    add(made_up, method="</script><b>", khat=0.3, elbo=-1.0)
    page = html_report(made_up)[0].read_text()  # cases no database knows: sections without draws
    assert "</script><b>" in _figure(page, "khat-map")["data"][0]["x"]
    assert "</script><b>" not in page
    assert "exact" in _figure(page, "khat-map")["data"][0]["text"][0]
    assert "<b>no</b> mode" not in page and "&lt;b&gt;no&lt;/b&gt; mode" in page


def test_a_partial_sweep_says_how_much_is_missing(made_up: Path) -> None:
    _libraries()
    page = html_report(made_up)[0].read_text()  # bernstein has one seed on a, NUTS one on both
    assert "Not complete: 6 runs are not on record." in page


@pytest.mark.skipif(BROWSER is None, reason="no Chromium to open the page in")
def test_a_browser_draws_the_page_without_any_request(compared: Path, tmp_path: Path) -> None:
    _libraries()
    assert main(["report", str(compared)]) == 0
    page = (compared / "report.html").read_text()
    dom, requests = _opened(page, tmp_path / "copy.html")
    for name in ("khat-map", "errors-figure", f"marginals-{GAUSSIAN}", f"losses-{GAUSSIAN}"):
        (tag,) = re.findall(rf'<div[^>]*\bid="{name}"[^>]*>', dom)
        assert "js-plotly-plot" in tag
    # DataTables drew what k̂ did not see, best, table and failures
    assert dom.count('class="dt-container') == 4
    assert all(address.startswith(("data:", "blob:")) for address in requests)
    image = '<img src="http://127.0.0.1:9/image.png">'
    _, requests = _opened(page.replace("<h1>", image + "<h1>"), tmp_path / "loud.html")
    assert "http://127.0.0.1:9/image.png" in requests  # the check sees what there is


def _opened(page: str, copy: Path) -> tuple[str, list[str]]:
    """The document a browser makes of the page, and the addresses the page asked for."""
    listed = "JSON.stringify(performance.getEntriesByType('resource').map(e => e.name))"
    script = f"setTimeout(() => {{ document.body.dataset.requests = {listed} }}, 5000)"
    copy.write_text(page.replace("</body>", f"<script>{script}</script></body>"))
    options = "--headless --no-sandbox --disable-gpu --no-first-run --disable-component-update"
    options += " --disable-background-networking --disable-sync --disable-quic"
    options += " --virtual-time-budget=20000 --window-size=1200,9000 --dump-dom"
    profile = f"--user-data-dir={copy.with_suffix('')}"
    command = [str(BROWSER), *options.split(), profile, f"{copy.as_uri()}#{GAUSSIAN}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'data-requests="([^"]*)"', done.stdout)
    assert found is not None
    return done.stdout, json.loads(html.unescape(found[1]))


def _libraries() -> None:
    for module in ("plotly", "itables"):
        needs(module)


def _figure(page: str, name: str) -> dict:
    found = re.search(
        rf'<script type="application/json" id="{name}-data">(.*?)</script>', page, re.DOTALL
    )
    assert found is not None
    return json.loads(found[1])


def test_failures_are_told_apart_from_runs_that_did_not_converge(tmp_path: Path) -> None:
    for case in "ab":
        add(tmp_path, case_name=case, status="failed", reason="ValueError: no mode\nat all")
    add(tmp_path, method="bernstein", khat=0.3, elbo=-1.0, converged=False)
    add(tmp_path, method="stan-advi-full", khat=0.3, elbo=-1.0, converged=True)
    frame = read_records(tmp_path)
    table = failures(frame).set_index(["case_name", "method"])["reason"].to_dict()
    assert table == {
        ("a", "laplace"): "failed: ValueError: no mode",
        ("b", "laplace"): "failed: ValueError: no mode",
        ("a", "bernstein"): "did not converge",
    }


def test_what_fails_everywhere_for_one_reason_is_said_once(tmp_path: Path) -> None:
    for case in "ab":
        for method in ("laplace", "mixed-eig"):
            add(tmp_path, case_name=case, method=method, status="failed", reason="E: no compiler")
    add(tmp_path, method="bernstein", khat=0.3, elbo=-1.0, converged=False)
    for case, method in (("a", "mixture"), ("b", "mixture"), ("b", "mixed-mu")):
        add(tmp_path, case_name=case, method=method, status="failed", reason="E: diverged")
    lines = list(failure_lines(read_records(tmp_path)))
    assert lines == [
        "laplace, mixed-eig on 2 posteriors: failed: E: no compiler",
        "mixture, mixed-mu on 2 posteriors (not each on all): failed: E: diverged",
        "bernstein on a, seed 1: did not converge",
    ]
