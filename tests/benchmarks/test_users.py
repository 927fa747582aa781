"""Answers held to a long run: what counts as an error, and what the table says of them."""

import json

import numpy as np
import pytest

from benchmarks.speed.users import RESULTS, errors, table
from benchmarks.speed.users_models import MODELS


def test_errors_are_those_of_what_the_long_run_knows_and_the_answer_tells() -> None:
    rng = np.random.default_rng(1)
    truth = rng.standard_normal((4, 2000, 3))
    ours = np.stack([truth[..., 0] + 0.3, 1.5 * truth[..., 1], 9 * truth[..., 2]], axis=2)
    found = errors(ours, truth, np.array([False, False, True]))
    assert found["compared"] == 2
    assert found["mean_error"] == pytest.approx(0.3, abs=0.02)
    assert found["sd_ratio"] == pytest.approx(1.5, abs=0.01)
    slow = np.cumsum(rng.standard_normal((4, 2000, 3)), axis=1)  # chains that do not mix
    assert errors(ours, slow, np.zeros(3, dtype=bool))["compared"] == 0


def test_the_table_counts_what_is_wrong_among_what_is_settled() -> None:
    def row(sd_ratio: float, rhat: float) -> dict[str, object]:
        answer = {"method": "hierarchical", "trusted": True, "gradients": 100, "cpu_s": 1.0}
        theirs = {"gradients": 400, "cpu_s": 2.0, "ess": 900.0, "rhat": 1.0, "divergent": 0.0}
        return {
            "dimension": 3,
            "answer": answer,
            "nutpie": theirs,
            "long": theirs | {"rhat": rhat},
            "mean_error": 0.1,
            "sd_ratio": sd_ratio,
        }

    said = table({"right": row(1.0, 1.0), "wrong": row(1.3, 1.0), "open": row(2.0, 1.2)})
    assert "3 of 3 trusted, 1 of the 2 that are settled wrong" in said
    assert "gradients over nutpie's 0.25 in median (fewer on 3)" in said
    assert "(2.00)" in said


def test_what_is_on_record_is_of_these_models() -> None:
    runs = json.loads(RESULTS.read_text(encoding="utf-8"))["results"]["runs"]
    assert runs and set(runs) <= set(MODELS)
