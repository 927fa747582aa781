"""What runs of `benchmarks.speed.warm_nuts` say: a line a posterior, ratios, and two rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bridge.measures.limits import MEAN_WRONG, RATIO_WRONG
from bridge.zoo.judge import MEAN_RIGHT

Numbers = dict[str, float | int | str | bool | None]


def report(made: Mapping[str, Numbers], runs: Sequence[str]) -> None:
    """Ratios of gradients and seconds, a line a posterior, and their medians."""
    names = sorted({key.rpartition("/")[0].rpartition("/")[0] for key in made})
    rows: dict[str, dict[str, float]] = {}
    for name in names:
        row = rows[name] = {}
        for run in runs:
            own = [made[key] for key in made if key.startswith(f"{name}/{run}/")]
            own = [numbers for numbers in own if "gradients" in numbers]
            if own:
                row[run] = float(np.median([float(n["gradients"] or 0) for n in own]))
                row[f"{run} s"] = float(np.median([float(n["seconds"] or 0) for n in own]))
                read = [float(n.get("seconds_with_reading") or np.nan) for n in own]
                row[f"{run} read s"] = float(np.median(read))
                wrong = [float(n["mean_error"] or 0) for n in own if "mean_error" in n]
                row[f"{run} error"] = max(wrong, default=np.nan)
                spent = [float(n.get("approximation_gradients") or 0) for n in own]
                row[f"{run} map"] = float(np.median(spent))
                row[f"{run} trusted"] = float(np.mean([bool(n.get("trusted", True)) for n in own]))
    print(f"{'posterior':52}{'answer':>9}{'warm':>9}{'stan':>11}{'nutpie':>11}{'ratios':>14}"
          f"{'answer s':>9}{'warm s':>8}{'cmdstan':>9}{'trusted':>9}{'error':>7}")  # fmt: skip
    nan = np.nan
    for name, row in rows.items():
        ratio = [row.get(k, nan) / row.get("warm", nan) for k in ("stan", "nutpie")]
        print(f"{name:52}{row.get('answer', nan):9.0f}{row.get('warm', nan):9.0f}"
              f"{row.get('stan', nan):11.0f}{row.get('nutpie', nan):11.0f}"
              f"{ratio[0]:7.1f}{ratio[1]:7.1f}{row.get('answer s', nan):9.1f}"
              f"{row.get('warm s', nan):8.1f}{row.get('cmdstan s', nan):9.1f}"
              f"{row.get('answer trusted', nan):9.0%}"
              f"{row.get('answer error', nan):7.2f}")  # fmt: skip
    for own in ("warm", "gaussian"):
        for other in ("stan", "nutpie"):
            both = [row for row in rows.values() if {other, own} <= set(row)]
            if both:
                print(_as_many_times(other, own, both))
    both = [row for row in rows.values() if {"gaussian", "warm"} <= set(row)]
    if both:
        print(_in_a_gaussian(both))
    for own in ("answer", "warm", "gaussian"):
        both = [row for row in rows.values() if {own, "cmdstan"} <= set(row)]
        if both:
            print(_beside_the_program(own, both))
    print(rates([numbers for key, numbers in made.items() if "/answer/" in key]))


def _as_many_times(other: str, own: str, rows: Sequence[Mapping[str, float]]) -> str:
    """Gradients of a sampler that adapts by itself, in those of chains in coordinates."""
    found = [row[other] / row[own] for row in rows]
    free = [row[other] / (row[own] - row[f"{own} map"]) for row in rows]
    return (
        f"{other} / {own}: median {np.median(found):.1f}, least {min(found):.1f}, "
        f"{sum(ratio < 1 for ratio in found)} of {len(rows)} below 1; were its map and search free "
        f"{np.median(free):.1f} and {min(free):.1f}"
    )


def _in_a_gaussian(rows: Sequence[Mapping[str, float]]) -> str:
    """Chains in batch and match's Gaussian, in those in the map."""
    gradients = [row["gaussian"] / row["warm"] for row in rows]
    trusted = [sum(row[f"{run} trusted"] for row in rows) for run in ("gaussian", "warm")]
    return (
        f"gaussian / warm, of {len(rows)}: gradients median {np.median(gradients):.1f}, geometric "
        f"mean {_geometric(gradients):.1f}, most {max(gradients):.0f}; seconds geometric mean "
        f"{_geometric([row['gaussian s'] / row['warm s'] for row in rows]):.2f}; trusted "
        f"{trusted[0]:.0f} and {trusted[1]:.0f}"
    )


def _beside_the_program(own: str, rows: Sequence[Mapping[str, float]]) -> str:
    """How often a run is sooner than Stan's program at its default, and by how much."""
    sooner = [row["cmdstan s"] / row[f"{own} s"] for row in rows]
    read = [row["cmdstan read s"] / row[f"{own} s"] for row in rows]
    gradients = [row["cmdstan"] / row[own] for row in rows]
    return (
        f"{own}, of {len(rows)}: {np.mean(np.array(sooner) > 1):.0%} sooner than cmdstan, "
        f"{np.mean(np.array(read) > 1):.0%} sooner than its draws are read, geometric mean "
        f"{_geometric(sooner):.1f} and {_geometric(read):.1f} times; gradients: median "
        f"{np.median([row[own] for row in rows]):.0f}, cmdstan {np.median(gradients):.0f} times "
        "as many"
    )


def rates(answers: Sequence[Numbers]) -> str:
    """How many are trusted and wrong, and how many refused and right, of those whose errors are
    known: the two rates by which the zoo judges a verdict.

    Rows hold no sign of ``sd_error``, half the relative error of a variance: such an sd is taken
    for one that is too small, for which the limit is the narrower one.
    """
    known = [numbers for numbers in answers if "sd_error" in numbers]
    false_trust = false_refusal = 0
    for numbers in known:
        mean, sd = (float(numbers[f"{name}_error"] or 0) for name in ("mean", "sd"))
        right = mean <= MEAN_RIGHT and sd <= MEAN_RIGHT
        wrong = not (mean <= MEAN_WRONG and 2 * sd <= 1 - RATIO_WRONG**-2)
        false_trust += bool(numbers["trusted"]) and wrong
        false_refusal += not numbers["trusted"] and right
    return (
        f"answer, {len(known)} runs beside reference draws (beside Stan's default where there are "
        f"none): {false_trust} trusted and wrong, {false_refusal} refused and right"
    )


def _geometric(ratios: list[float]) -> float:
    """Their geometric mean."""
    return float(np.exp(np.mean(np.log(ratios))))
