"""ViperVI on rows of a file: the Gaussian of all data in memory, whatever ended the first try."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import pymc_ext as px
from pymc_ext.rows.protocol import Block
from tests.needed import needs
from tests.tolerances import EXACT, NUMERIC

pa = needs("pyarrow")
pq = needs("pyarrow.parquet")

STOPPED = 1e-4  # sds: a fit that stops below 1e-10 nats is this near
ROWS, COLUMNS = 3000, {"X": ["a", "b"], "y": "y"}


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((ROWS, 2))
    y = (rng.random(ROWS) < 1 / (1 + np.exp(-(X @ [1.0, -0.5] - 0.3)))).astype(int)
    return X, y


@pytest.fixture
def rows(tmp_path: Path) -> px.ParquetRows:
    X, y = data()
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": y}), path, row_group_size=700)
    return px.ParquetRows(path, COLUMNS, block=256)


def model(X: np.ndarray, y: np.ndarray) -> pm.Model:
    with pm.Model() as made:
        x, observed = pm.Data("X", X), pm.Data("y", y)
        intercept = pm.Normal("intercept", 0, 2)
        slopes = pm.Normal("slopes", 0.1, 1, shape=2)
        pm.Bernoulli("label", logit_p=intercept + x @ slopes, observed=observed)
    return made


def empty() -> pm.Model:
    """The model with data that count for nothing."""
    return model(np.full((1, 2), 7.0), np.zeros(1, dtype=int))


def fit(made: pm.Model, covariance: str = "full", family=px.ViperVI, tol=1e-10, **options: object):
    with made:
        method = family(covariance, tolerance=tol)
        return pm.fit(method=method, progressbar=False, **options)


@pytest.mark.parametrize(
    ("family", "covariance"),
    [(px.ViperVI, "full"), (px.ViperVI, "diagonal"), (px.JaakkolaVI, "full")],
)
def test_the_gaussian_is_that_of_all_data(rows: px.ParquetRows, family, covariance: str) -> None:
    in_memory = fit(model(*data()), covariance, family)
    ours = fit(empty(), covariance, family, rows=rows)
    assert ours.result.converged and ours.result.verdict.startswith(
        "not judged: fresh draws at all"
    )
    assert ours.result.elbo == pytest.approx(in_memory.result.elbo, rel=NUMERIC)
    sd = in_memory.std.eval()
    np.testing.assert_allclose(ours.mean.eval() / sd, in_memory.mean.eval() / sd, atol=STOPPED)
    np.testing.assert_allclose(ours.cov.eval() / np.outer(sd, sd),
                               in_memory.cov.eval() / np.outer(sd, sd), atol=STOPPED)  # fmt: skip


def test_a_sample_saves_passes(rows: px.ParquetRows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pymc_ext.variational.logistic.streamed.SAMPLE", 600)
    approx = fit(empty(), tol=1e-6, rows=rows)
    exact = fit(model(*data()), tol=1e-6)
    assert approx.result.converged
    assert approx.result.gradient_evaluations < exact.result.gradient_evaluations
    errors = (approx.mean.eval() - exact.mean.eval()) / exact.std.eval()
    assert np.abs(errors).max() < 0.002


def test_the_density_is_that_of_all_rows(rows: px.ParquetRows) -> None:
    theta = np.random.default_rng(2).normal(size=(4, 3))
    ours, full = fit(empty(), rows=rows).density, fit(model(*data())).density
    for found, expected in zip(
        ours.log_density_gradient(theta), full.log_density_gradient(theta), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=EXACT)
    np.testing.assert_allclose(ours.log_density(theta), full.log_density(theta), rtol=EXACT)
    np.testing.assert_allclose(ours.hessian(theta[0]), full.hessian(theta[0]), rtol=EXACT)


class Stopping:
    """Rows of which reading ends in an error after so many blocks, counted."""

    def __init__(self, rows: px.ParquetRows, after: int) -> None:
        self.rows, self.left, self.read = rows, after, 0
        self.fingerprint, self.shapes, self.sample = rows.fingerprint, rows.shapes, rows.sample

    def __len__(self) -> int:
        return len(self.rows)

    def blocks(self, begin: int = 0) -> Iterator[Block]:
        for block in self.rows.blocks(begin):
            if self.left == 0:
                raise InterruptedError("the machine went down")
            self.left, self.read = self.left - 1, self.read + 1
            yield block


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("after", [5, 16, 29])
def test_a_stopped_fit_goes_on_in_the_middle_of_its_pass(
    rows: px.ParquetRows,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    covariance: str,
    after: int,
) -> None:
    monkeypatch.setattr("pymc_ext.rows.progress.SECONDS", 0.0)
    monkeypatch.setattr("pymc_ext.variational.logistic.streamed.SAMPLE", 600)
    kept = tmp_path / "fit.npz"
    counted = Stopping(rows, -1)
    expected = fit(empty(), covariance, rows=counted)
    with pytest.raises(InterruptedError):
        fit(empty(), covariance, rows=Stopping(rows, after), checkpoint=kept)
    rest = Stopping(rows, -1)
    approx = fit(empty(), covariance, rows=rest, checkpoint=kept)
    assert rest.read == counted.read - after  # no block was read twice
    np.testing.assert_allclose(approx.mean.eval(), expected.mean.eval(), rtol=EXACT)
    np.testing.assert_allclose(approx.std.eval(), expected.std.eval(), rtol=EXACT)
    assert approx.result.elbo == pytest.approx(expected.result.elbo, rel=EXACT)
    again = Stopping(rows, -1)
    fit(empty(), covariance, rows=again, checkpoint=kept)
    assert again.read == 0  # what was done is there


def test_a_checkpoint_of_other_options_is_refused(rows: px.ParquetRows, tmp_path: Path) -> None:
    fit(empty(), rows=rows, checkpoint=tmp_path / "fit.npz")
    with pytest.raises(ValueError, match="is of other rows, another model or other options"):
        fit(empty(), "diagonal", rows=rows, checkpoint=tmp_path / "fit.npz")
    with pytest.raises(ValueError, match="give rows= too"):
        fit(empty(), checkpoint=tmp_path / "fit.npz")


def test_the_models_own_data_are_as_before(rows: px.ParquetRows) -> None:
    made = empty()
    fit(made, rows=rows)
    np.testing.assert_array_equal(made["X"].get_value(), np.full((1, 2), 7.0))


def _no_data() -> pm.Model:
    with pm.Model() as made:
        x = pm.Normal("slopes", 0, 1, shape=2)
        pm.Bernoulli("label", logit_p=np.ones((1, 2)) @ x, observed=np.ones(1, dtype=int))
    return made


def _three() -> pm.Model:
    with pm.Model() as made:
        x, y = pm.Data("X", np.ones((1, 3))), pm.Data("y", np.ones(1, dtype=int))
        pm.Bernoulli("label", logit_p=x @ pm.Normal("slopes", 0, 1, shape=3), observed=y)
    return made


def _two_outcomes() -> pm.Model:
    with empty() as made:
        pm.Bernoulli("other", logit_p=made["intercept"], observed=1)
    return made


def _total_size() -> pm.Model:
    with pm.Model() as made:
        x, y = pm.Data("X", np.ones((1, 2))), pm.Data("y", np.ones(1, dtype=int))
        logit = x @ pm.Normal("slopes", 0, 1, shape=2)
        pm.Bernoulli("label", logit_p=logit, observed=y, total_size=100)
    return made


def _scale() -> pm.Model:
    with pm.Model() as made:
        x, y = pm.Data("X", np.ones((1, 2))), pm.Data("y", np.ones(1, dtype=int))
        slopes = pm.Normal("slopes", 0, pm.HalfNormal("scale"), shape=2)
        pm.Bernoulli("label", logit_p=x @ slopes, observed=y)
    return made


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_no_data, r"'X', which is no pm.Data of the model .* X = pm.Data\('X', np.zeros"),
        (_three, r"'X' of shape \(n, \*\(2,\)\), the model \(n, \*\(3,\)\)"),
        (_two_outcomes, "observed 'other' takes no rows"),
        (_total_size, "'label' has a total_size: leave it out"),
        (_scale, r"\['scale'\] are not: fix them, or fit all data in memory"),
    ],
)
def test_models_that_cannot_take_rows_are_refused(rows: px.ParquetRows, make, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fit(make(), rows=rows)


@pytest.mark.parametrize("family", [px.LaplaceVI, px.BernsteinVI, px.MatchingVI])
def test_families_that_take_no_rows_say_who_does(rows: px.ParquetRows, family) -> None:
    with empty(), pytest.raises(TypeError, match="takes no rows=: for rows of a file fit px"):
        pm.fit(method=family(), rows=rows, progressbar=False)


def test_a_label_that_is_no_integer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": [1.0, 2.0], "b": [0.0, 1.0], "y": [1.0, 0.5]}), path)
    with pytest.raises(ValueError, match="'y' has numbers that are no integers"):
        fit(empty(), rows=px.ParquetRows(path, COLUMNS))
