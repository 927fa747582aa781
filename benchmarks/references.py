"""How reference draws were made, and how good they are: a table of a database's own.

    python -m benchmarks.references --database FOLDER   # after `python -m bridge generate`
    python -m benchmarks.references                     # the stored table

The draws stay in the database; stored is what their info files say, with the digests of the program
and the data that they are of, refusals included.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import kept, write
from posteriordb_cases import list_cases, load_case
from posteriordb_cases.files import read_json
from posteriordb_cases.writer import refusal_path

RESULTS = Path(__file__).parent / "results" / "references.json"
OURS = "python -m bridge generate"  # as info files call what made them
Row = dict[str, Any]


def row_of(info: Mapping[str, Any]) -> Row:
    """What is stored of an info file."""
    how = info["inference"]["method_arguments"]
    row: Row = {
        "seconds": info["inference"].get("seconds", 0.0),  # older files do not say
        "chains": how["chains"],
        "warmup": how["warmup"],
        "thin": how["thin"],
        "adapt_delta": how["control"]["adapt_delta"],
        "seed": how["seed"],
        "made_of": info.get("made_of"),
        "refused": info.get("refused"),
    }
    found = info["diagnostics"]
    if found is None:
        return row
    ess = [*found["effective_sample_size_bulk"], *found["effective_sample_size_tail"]]
    return row | {
        "values": len(found["r_hat"]),
        "rhat": float(np.max(found["r_hat"])),
        "ess": float(np.min(ess)),
        "divergences": int(np.sum(found["divergent_transitions"])),
        "e_fmi": float(np.min(found["expected_fraction_of_missing_information"])),
    }


def rows_of(database: Path) -> dict[str, Row]:
    """Of all posteriors of a database whose reference draws were made, or refused, here."""
    rows = {}
    for case in (load_case(name, database) for name in list_cases(database)):
        name = case.reference_name or case.name  # several may share one
        refused = refusal_path(case.database, name)
        info = case.reference_info or {}
        if case.reference_fault is None and info.get("added_by") == OURS:
            rows[name] = row_of(info)
        elif refused.is_file():
            rows[name] = row_of(read_json(refused))
    return rows


def report(rows: Mapping[str, Row]) -> None:
    """A line a posterior, and what all have in common."""
    print(f"{'posterior':52}{'values':>7}{'thin':>5}{'delta':>6}{'seconds':>9}{'R-hat':>8}"
          f"{'ESS':>8}{'div.':>5}{'E-FMI':>6}")  # fmt: skip
    for name, row in sorted(rows.items()):
        of_draws = (
            f"{row['values']:7}{row['thin']:5}{row['adapt_delta']:6}{row['seconds']:9,.0f}"
            f"{row['rhat']:8.4f}{row['ess']:8,.0f}{row['divergences']:5}{row['e_fmi']:6.2f}"
            if "rhat" in row
            else ""
        )
        print(f"{name:52}{of_draws}", *([f"refused: {row['refused']}"] * bool(row["refused"])))
    admitted = [row for row in rows.values() if not row["refused"]]
    if admitted:
        print(f"{len(admitted)} of {len(rows)} admitted; R-hat at most "
              f"{max(row['rhat'] for row in admitted):.4f}, ESS at least "
              f"{min(row['ess'] for row in admitted):,.0f} of 10,000, "
              f"{sum(row['seconds'] for row in admitted):,.0f} s in all")  # fmt: skip


def main() -> None:
    """Store a database's table, or print the stored one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", type=Path, help="stored where given")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.database is not None:
        write(arguments.out, rows_of(arguments.database))
    if not arguments.out.is_file():
        parser.error(f"no table is stored in {arguments.out}: give --database")
    report(kept(arguments.out))


if __name__ == "__main__":
    main()
