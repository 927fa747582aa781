"""The file of a calibration: whose its records are, so that none goes on with those of another."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from bridge.calibration.run import ANSWER, MOST
from bridge.calibration.study import Study
from bridge.comparison.records import Records
from bridge.errors import RecordsError
from bridge.methods.method import Method
from bridge.methods.options import options_text

__all__ = ["FILE", "key_of", "opened", "seed_of"]

FILE = "calibration.sqlite"


def key_of(
    study: Study, method: Method | None, fresh_draws: int, seed: int, posterior: bool
) -> tuple[tuple[str, str], ...]:
    """Columns that all records of one calibration share."""
    settings = {
        "model": study.fingerprint,
        "options": None if method is None else options_text(run=method.run),
        "draws": MOST,
        "fresh_draws": fresh_draws,
        "posterior": posterior,
        "random_seed": seed,
    }
    return (
        ("case_name", study.name),
        ("method", ANSWER if method is None else method.name),
        ("settings", json.dumps(settings, sort_keys=True)),
    )


def seed_of(path: Path, given: int | None) -> int:
    """That given, that of the runs on record, or any."""
    if given is not None:
        return given
    if path.exists():
        frame = Records(path).frame()
        if not frame.empty:
            return int(json.loads(frame["settings"].iloc[0])["random_seed"])
    return int(np.random.default_rng().integers(2**31))


def opened(path: Path, key: tuple[tuple[str, str], ...]) -> Records:
    """The records, if they are of this model, method and seed."""
    records = Records(path)
    frame = records.frame()
    for column, wanted in key:
        others = [] if frame.empty else sorted(set(frame[column]) - {wanted})
        if others:
            raise RecordsError(
                f"{path.parent} holds the simulations of another calibration, {column} "
                f"{others[0]}, expected {wanted}: give another folder with out="
            )
    return records
