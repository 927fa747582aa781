import json
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.papers import mvi_classification as mvi
from benchmarks.papers import mvi_common as common
from benchmarks.papers.mvi_data import BUNDLED, norm_data, splits


@pytest.mark.parametrize("name", [*BUNDLED, "ringnorm", "twonorm"])
def test_splits_without_the_corpus(name, tmp_path):
    (X, y, X_test, y_test), (X_2, *_) = splits(name, 2, tmp_path)
    assert len(X) == len(y) and len(X_test) == len(y_test) and X.shape[1] == X_test.shape[1]
    np.testing.assert_allclose(X.mean(0), 0, atol=1e-12)
    assert set(np.unique(X.std(0).round(9))) <= {0.0, 1.0}
    assert set(y_test) <= set(range(max(y) + 1)) and not np.array_equal(X, X_2)


def test_ringnorm_and_twonorm_have_breimans_moments():
    rng = np.random.default_rng(0)
    X, y = norm_data("ringnorm", 40_000, rng)
    np.testing.assert_allclose(X[y == 1].std(0), 2, atol=0.05)  # N(0, 4I) against N(a/2, I)
    np.testing.assert_allclose(X[y == 0].mean(0), 1 / np.sqrt(20), atol=0.04)
    X, y = norm_data("twonorm", 40_000, rng)
    np.testing.assert_allclose(X[y == 1].mean(0), 2 / np.sqrt(20), atol=0.04)
    np.testing.assert_allclose(X[y == 0].mean(0), -2 / np.sqrt(20), atol=0.04)


@pytest.mark.slow
def test_bundled_iris_is_run_recorded_resumed_and_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(mvi, "SIZES", (4,))
    monkeypatch.setattr(mvi, "PAIRS", 1)
    monkeypatch.setattr(common, "PREDICTIVE_DRAWS", 500)
    path = tmp_path / "mvi_classification" / "iris.json"
    experiment = mvi.Experiment("iris", 2, tmp_path / "no-corpus", path)
    experiment.run()
    results = json.loads(path.read_text())["results"]
    assert results["splits"] == 2 and not results["failures"]
    for run in results["runs"]:
        assert set(run) == set(common.METHODS)
        assert all(-60 < scores["lpd"] < 0 and scores["error"] < 40 for scores in run.values())
        assert run["mu"]["elbo"] > run["laplace"]["elbo"]

    laplace = experiment.study.inferences["laplace"].approx
    *_, (X, y, _, _) = splits("iris", 2, tmp_path)
    centres = mvi.KMeans(4, n_init=1, random_state=1).fit(X).cluster_centers_
    h = laplace.hyperparameters
    evidence, _ = mvi.laplace_evidence(
        common.rbf(X, centres, h["r"]), np.eye(3)[y], h["alpha"], np.zeros(15)
    )
    assert evidence == pytest.approx(laplace.result.log_marginal_laplace, rel=1e-8)

    monkeypatch.setattr(common.Study, "run", None)  # nothing is left to run
    mvi.Experiment("iris", 2, tmp_path / "no-corpus", path).run()
    table = mvi.show(tmp_path / "mvi_classification")
    assert "iris" in table and "paper" in table and table.count("lpd") == 2


def test_predictive_density_of_known_weights(monkeypatch):
    """Degenerate q: every draw the same, so that the score is that of one logistic regression."""
    rng = np.random.default_rng(3)
    X, centres, w, y = (
        rng.normal(size=(6, 2)),
        rng.normal(size=(3, 2)),
        rng.normal(size=4),
        [0, 1] * 3,
    )

    known = SimpleNamespace(hyperparameters={"r": 1.3})
    monkeypatch.setattr(common, "PREDICTIVE_DRAWS", 50)
    monkeypatch.setattr(common, "weights", lambda approx: np.tile(w, (50, 1)))
    out = mvi.score(known, 1, centres, X, np.array(y))
    p = 1 / (1 + np.exp(-common.rbf(X, centres, 1.3) @ w))
    assert out["lpd"] == pytest.approx(np.log(np.where(y, p, 1 - p)).sum())
    assert out["error"] == pytest.approx(100 * np.mean((p > 0.5) != y))


def test_significance_needs_sign_test_and_interval():
    runs = [
        {
            m: {"lpd": value + 0.01 * i}
            for m, value in zip(common.METHODS, (0, 1, 2, 3, 4), strict=True)
        }
        for i in range(10)
    ]
    test = common.significance(runs, "lpd", higher=True)
    assert test["best"] == "diag" and test["significant"]
    assert test["rivals"]["laplace"]["sign_test_p"] == pytest.approx(2 / 2**10)
    runs[0]["lr"]["lpd"] = runs[1]["lr"]["lpd"] = 9.0
    assert not common.significance(runs, "lpd", higher=True)["significant"]  # p = .11
    runs.append({"laplace": {"failure": "no mode"}})
    assert common.median_table(runs, "lpd")["runs"] == 10
