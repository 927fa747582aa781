"""The table of kinds of models: each is one, a refusal is a sentence, the page is made of them."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

from benchmarks import record
from benchmarks.speed import model_kinds
from benchmarks.speed.model_kinds_models import KINDS

FEWEST = 30
WITHOUT_A_DENSITY = {"discrete-latent"}  # on R^D


@pytest.fixture(scope="module", params=model_kinds.MAJORS, ids="PyMC {}".format)
def results(request) -> dict:
    return record.kept(model_kinds.results_file(request.param))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")
def test_a_kind_is_a_model_that_says_what_it_is(kind) -> None:
    model = KINDS[kind]()
    assert isinstance(model, pm.Model) and model.free_RVs
    assert KINDS[kind].__doc__ and "\n" not in KINDS[kind].__doc__
    assert all(np.all(np.isfinite(x)) for x in model.initial_point().values())


def test_every_kind_was_run_by_every_method(results) -> None:
    assert len(KINDS) >= FEWEST and list(results) == list(KINDS)
    for entry in results.values():
        assert list(entry["runs"]) == list(model_kinds.METHODS)


def test_every_refusal_is_one_sentence_of_ours_that_says_what_to_do(results) -> None:
    runs = [run for entry in results.values() for run in entry["runs"].values()]
    assert not [run for run in runs if run["state"] == "fault"]
    sentences = {run["sentence"] for run in runs if run["state"] == "refused"}
    assert sentences
    for sentence in sentences:
        assert "\n" not in sentence and ". " not in sentence.rstrip(".")
        assert any(f" {do} " in f" {sentence}" for do in ("use", "give", "fit", "build", "replace"))


def test_the_page_is_made_from_the_results() -> None:
    page = model_kinds.page(model_kinds.stored_results())
    assert model_kinds.PAGE.read_text(encoding="utf-8") == page


def test_runs_are_told_apart() -> None:
    def ours(model: object) -> dict:
        from pymc_ext.models.discrete import refuse_discrete

        refuse_discrete(KINDS["discrete-latent"]())
        return {}

    def theirs(model: object) -> dict:
        raise TypeError("unsupported operand")

    make = lambda: None  # noqa: E731
    assert model_kinds.attempted(ours, make)["state"] == "refused"
    assert model_kinds.attempted(theirs, make)["state"] == "fault"
    assert model_kinds.attempted(lambda model: {"khat": 0.3}, make)["state"] == "ran"


def test_a_cell_says_how_good_a_fit_is_and_what_a_refusal_is() -> None:
    letters: dict[str, str] = {}
    ran = {"state": "ran", "seconds": 2.4}
    assert model_kinds._cell({**ran, "usable": True}, letters) == "**2**"
    assert model_kinds._cell({**ran, "usable": False}, letters) == "2"
    assert model_kinds._cell({"state": "refused", "sentence": "no"}, letters) == "a"
    assert letters == {"no": "a"}
