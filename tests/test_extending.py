"""docs/extending.md is run: its blocks in order, its files where they say they are."""

from __future__ import annotations

import configparser
import importlib
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import posteriordb_cases.case
import posteriordb_cases.models
from bridge.__main__ import main
from bridge.methods.table import METHODS, find_methods
from bridge.report import metrics
from bridge.report.terminal import rich_tables
from tests import contracts
from tests.pymc_ext.contracts import test_families
from tests.pymc_ext.gp import problems, test_likelihoods
from tests.tolerances import EXACT, monte_carlo

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(python|ini)\n(.*?)^```", PAGE, flags=re.M | re.S)
FILE = re.compile(r"# (\S+\.py)\n")
FAMILY = 25  # lines of code that a family may take, imports included
PORTS = "posteriordb_cases/models/"
OURS = ("natural_gradient", "natural_gradient_method", "posteriordb_cases.models.coin")


def write_block(folder: Path, language: str, block: str) -> bool:
    """Write a block that is a file, or installs its package; False for one that is to be run."""
    if language == "ini":
        install(folder, block)
    elif path := FILE.match(block):
        target = folder / path[1]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(block, encoding="utf-8")
        importlib.invalidate_caches()
    else:
        return False
    return True


def install(folder: Path, setup: str) -> None:
    """What pip leaves of a package: its metadata and entry points, beside its modules."""
    config = configparser.ConfigParser()
    config.read_string(setup)
    name, version = config["metadata"]["name"], config["metadata"]["version"]
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = config["options.entry_points"].items()
    text = "\n".join(f"[{group}]{lines}" for group, lines in groups)
    (info / "entry_points.txt").write_text(text)
    for module in config["options"]["py_modules"].split(","):
        assert (folder / f"{module.strip()}.py").is_file()
    importlib.invalidate_caches()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The names that the page's blocks leave, run where its files are."""
    folder = tmp_path_factory.mktemp("extending")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("POSTERIORDB_PATH", raising=False)
        patch.syspath_prepend(folder)
        # the port's file is in a folder of the test's, not in the package itself
        patch.setattr(posteriordb_cases.models, "__path__", [
            *posteriordb_cases.models.__path__, str(folder / PORTS)])  # fmt: skip
        names = posteriordb_cases.case._port_names
        patch.setattr(posteriordb_cases.case, "_port_names", lambda: [
            *names(), *(path.stem for path in (folder / PORTS).glob("*.py"))])  # fmt: skip
        patch.setattr(metrics, "METRICS", metrics.METRICS)
        module = types.ModuleType("extending")
        patch.setitem(sys.modules, "extending", module)
        for number, (language, block) in enumerate(BLOCKS, start=1):
            if not write_block(folder, language, block):
                code = compile(block, f"docs/extending.md, block {number}", "exec")
                exec(code, module.__dict__)
        yield module.__dict__
    for name in OURS:
        sys.modules.pop(name, None)


def test_a_family_is_short() -> None:
    (family,) = (block for _, block in BLOCKS if block.startswith("# natural_gradient.py"))
    assert len([line for line in family.splitlines()[1:] if line.strip()]) <= FAMILY


@pytest.mark.stan
class TestPage:
    """What the blocks have left is right."""

    def test_a_density_is_fitted(self, page) -> None:
        for fitted in (page["laplace"], page["flow"]):
            fresh = fitted.result.fresh
            assert abs(fresh.log_marginal_is - np.log(2 * np.pi)) < 0.1
            assert fresh.elbo < np.log(2 * np.pi) + monte_carlo(fresh.elbo_se)
        assert page["flow"].result.elbo > page["laplace"].result.elbo

    def test_the_family_is_a_method_of_pm_fit(self, page) -> None:
        approx = page["approx"]
        assert approx.result.converged and approx.result.method == "natural-gradient"
        assert {"lp", "lq"} <= set(page["idata"].sample_stats)
        assert page["idata"].posterior["beta"].shape == (1, 1000, 2)

    def test_the_family_keeps_its_contract(self, page, monkeypatch) -> None:
        monkeypatch.setitem(contracts.FAMILIES, "natural-gradient", page["family"])
        test_families.test_gaussian_target_is_fitted_exactly("natural-gradient")
        test_families.test_minibatch_is_fitted_or_refused("natural-gradient")

    def test_the_method_is_compared_and_known_by_its_name(self, page, capsys) -> None:
        judged = page["judged"]
        assert list(judged["method"]) == ["natural-gradient", "laplace"]
        assert list(judged["status"]) == ["ok", "ok"] and (judged["kl_qp"] < 0.1).all()
        assert page["advice"].method == "natural-gradient"
        assert "natural-gradient" not in METHODS
        assert find_methods(["natural-gradient"]) == [page["METHOD"]]
        assert main(["list"]) == 0
        assert "natural-gradient" in capsys.readouterr().out

    def test_the_likelihood_keeps_its_contract(self, page, monkeypatch) -> None:
        line = page["line"]
        monkeypatch.setitem(problems.LIKELIHOODS, "exponential", line)
        case = (line.likelihood, np.array(line.phi), line.y)
        monkeypatch.setitem(test_likelihoods.CASES, "exponential", case)
        test_likelihoods.test_log_prob_is_normalised("exponential")
        test_likelihoods.test_derivatives_match_differences("exponential")
        test_likelihoods.test_expectations_match_quadrature("exponential", 0.3, 0.8)

    def test_the_metric_is_reported(self, page) -> None:
        assert "ess_per_gradient" in page["summary"](page["judged"])
        (table,) = rich_tables(page["judged"])
        assert "ESS/grad" in [str(column.header) for column in table.columns]

    def test_the_case_is_found_with_its_port(self, page) -> None:
        agreement = page["agreement"]
        assert abs(agreement.constant) < EXACT and agreement.deviation < EXACT
        assert page["coin"].has_port and page["coin"].has_reference
        assert page["frame"]["mean_error"][0] < 0.2
