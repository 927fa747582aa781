"""Every posterior with reference draws × every method × seeds, here or on a cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any

import pandas as pd

from bridge.comparison.compare import case_names, compare
from bridge.comparison.shards import note_shards, part_of
from bridge.methods.method import Method
from bridge.methods.table import METHODS
from posteriordb_cases import list_cases, load_case

_log = logging.getLogger(__name__)


def cases_with_reference(database: str | os.PathLike[str] | None = None) -> list[str]:
    """Names of the posteriors of a database that have reference draws which can be judged by.

    Raises
    ------
    ValueError
        The database has none.
    """
    names = []
    for name in list_cases(database):
        case = load_case(name, database=database)
        if case.reference_fault is None:
            names.append(name)
        elif case.has_reference:
            _log.warning("%s left out: %s", name, case.reference_fault)
    if not names:
        raise ValueError(
            f"no posterior of the database {database or 'given by POSTERIORDB_PATH'} has "
            "reference draws: there is nothing to judge by; `python -m bridge generate NAME` "
            "makes some"
        )
    return names


def sweep(
    cases: Sequence[str] | str | None = None,
    methods: Sequence[str | Method] | str | Method | None = None,
    seeds: int | Sequence[int] = 5,
    *,
    database: str | os.PathLike[str] | None = None,
    shard: str | None = None,
    **options: Any,  # checked by `compare`, whose they are
) -> pd.DataFrame:
    """Compare all methods on all posteriors of a database; resumes where it was stopped.

    Parameters
    ----------
    cases
        Posteriors; None for all that have reference draws.
    methods
        Names, or methods of your own; None for all of ours that work on any posterior.
    seeds
        How many (seeds 1..n), or which.
    shard
        ``"2/8"``: the second of eight parts of the posteriors, as of a job array, each with an
        ``out`` of its own; :func:`bridge.merge` puts them together.
    database, options
        As :func:`bridge.compare`, ``out`` included; ``budget`` and ``run_limit`` bound the time.

    Returns
    -------
    pandas.DataFrame
        One row a run that is on record, as :func:`bridge.compare`.

    Raises
    ------
    ValueError
        As :func:`bridge.compare`; the database has no reference draws; or ``shard`` is no part of
        so many posteriors.
    TypeError
        An argument is something else than it should be.

    Examples
    --------
    >>> with joblib.parallel_config(n_jobs=2):
    ...     frame = sweep(methods=["laplace"], seeds=1, out="results")  # doctest: +SKIP
    """
    chosen = [m.name for m in METHODS.values() if m.general] if methods is None else methods
    names = cases_with_reference(database) if cases is None else case_names(cases)
    frame = compare(part_of(names, shard), chosen, seeds, database=database, **options)
    if shard is not None:
        note_shards(options["out"], [shard])
    return frame
