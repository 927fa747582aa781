"""`bridge.fit` on every target of the zoo, with a record of each run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import joblib
import numpy as np
import pandas as pd

from bridge.advice.fit import LADDER, Advice, fit
from bridge.comparison.folder import ZOO_RECORDS
from bridge.comparison.records import Record, Records
from bridge.comparison.settings import Settings, versions
from bridge.comparison.shards import note_shards, part_of
from bridge.methods.named_draws import NamedDraws
from bridge.methods.table import find_approximations
from bridge.zoo.judge import judged
from bridge.zoo.targets import find_targets
from posteriordb_cases.zoo import ZOO, Truth, ZooDensity, truth_of
from pymc_ext.density.protocol import coordinate_names
from pymc_ext.maths.types import Array

__all__ = ["sweep_zoo"]

METHOD = "fit"  # under which `Records` has the runs
Listener = Callable[[Record, int, int], None]
TargetAndSeed = tuple[str, int]


def sweep_zoo(
    targets: Sequence[str] | None = None,
    seeds: int = 5,
    *,
    out: Path | str,
    methods: Sequence[str] | None = None,
    draws: int = 20_000,
    budget: float | None = None,
    shard: str | None = None,
    on_record: Listener | None = None,
) -> pd.DataFrame:
    """Fit every target with every seed, judge each answer, and keep the records.

    Parameters
    ----------
    targets
        Names of `posteriordb_cases.zoo.ZOO`; None for all.
    seeds
        Seeds 1 … ``seeds``.
    out
        Folder of ``zoo.sqlite``; runs that it holds are not made again.
    methods, draws
        ``methods`` and ``fresh_draws`` of :func:`bridge.fit`; its own if None.
    budget
        Seconds after which no further run is started.
    shard
        ``"2/8"``: the second of eight parts of the targets; all if None.
    on_record
        Called with each record, how many are made, and how many there will be.

    Returns
    -------
    pandas.DataFrame
        One row a run that is on record, of these settings.

    Raises
    ------
    KeyError
        No such target.
    UnknownMethodError, ValueError
        No such method, a sampler, or too few draws: said here, as an error of a run is an answer.

    Examples
    --------
    >>> sweep_zoo(["ring"], seeds=1, out="results")["target"].tolist()
    ['ring']
    """
    names = part_of(find_targets(targets), shard)
    chosen = tuple(method.name for method in find_approximations(methods or LADDER))
    Settings(draws=draws)
    settings = f"methods={'+'.join(chosen)} fresh_draws={draws}"
    records = Records(Path(out) / ZOO_RECORDS)
    known = records.by_key()
    runs = [(name, seed) for seed in range(1, seeds + 1) for name in names]
    missing = [run for run in runs if (run[0], METHOD, run[1], settings) not in known]
    made = joblib.Parallel(return_as="generator", pre_dispatch="n_jobs")(
        joblib.delayed(_record)(name, seed, chosen, draws, settings)
        for name, seed in _within(missing, budget)
    )
    for done, record in enumerate(made, start=1):
        records.add(record)
        if on_record is not None:
            on_record(record, done, len(missing))
    if shard is not None:
        note_shards(out, [shard])
    frame = records.frame()
    if frame.empty:
        return frame
    wanted = frame["case_name"].isin(names) & (frame["seed"] <= seeds)
    return frame[wanted & (frame["settings"] == settings)].rename(columns={"case_name": "target"})


def _within(runs: Sequence[TargetAndSeed], budget: float | None) -> Iterator[TargetAndSeed]:
    end = np.inf if budget is None else time.monotonic() + budget
    for run in runs:
        if time.monotonic() < end:
            yield run


@cache
def _known(name: str) -> tuple[ZooDensity, Truth | None]:
    """A target and its truth, once a process."""
    density = ZOO[name].make()
    return density, truth_of(density) if density.proper else None


def _record(name: str, seed: int, methods: tuple[str, ...], draws: int, settings: str) -> Record:
    density, truth = _known(name)
    begin = time.perf_counter()
    about: Record = {"case_name": name, "method": METHOD, "seed": seed, "settings": settings,
                     "versions": versions(), "dimension": density.dimension,
                     "kind": ZOO[name].kind}  # fmt: skip
    try:
        advice = fit(
            density, methods=methods, fresh_draws=draws, random_seed=seed, progressbar=False
        )
    except (ValueError, ArithmeticError, RuntimeError) as error:
        # an answer as well: nothing was given that could be trusted
        return about | {"trusted": False, "taken": "none", "gradients": None,
                        "seconds": time.perf_counter() - begin, "wrong": True, "right": False,
                        "reasons": f"{type(error).__name__}: {error}"}  # fmt: skip
    record = about | {
        "trusted": advice.trusted,
        "unknown": " ".join(advice.unknown),
        "taken": advice.method,
        "gradients": advice.gradients,
        "seconds": time.perf_counter() - begin,
        "reasons": advice.reasons,
    }
    if truth is None:  # improper: any draws are wrong
        return record | {"wrong": True, "right": False}
    found = judged(density, truth, _theta(advice), _unknown(density, advice))
    return record | {
        "wrong": found.wrong,
        "right": found.right,
        "mean_error": found.mean_error,
        "sd_ratio": found.sd_ratio,
        "missed": found.missed,
    }


def _unknown(density: ZooDensity, advice: Advice) -> list[int]:
    """Coordinates whose moments the answer does not give."""
    names = coordinate_names(density)
    return [names.index(name) for name in advice.unknown if name in names]


def _theta(advice: Advice) -> Array:
    """Draws, (N, D)."""
    if isinstance(advice.draws, NamedDraws):
        theta = advice.draws.values["theta"]
    else:
        theta = np.asarray(advice.draws["posterior"]["theta"])
    return theta.reshape(-1, theta.shape[-1])
