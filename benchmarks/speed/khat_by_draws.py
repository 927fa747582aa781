"""How much of a flow's k̂ is chance: k̂ of 4,096 draws and of a million.

    python -m benchmarks.speed.khat_by_draws [--seeds 3] [--results FILE]

Eight schools, not centred: the hierarchical map and its proposal with heavier tails where it has
one, the flow on it, and the flow in the coordinates of a Gaussian. Beside each k̂ stand the share
of effective draws, the ELBO by a million draws, the gradients of the fit, and the mean of log τ, in
sds from its own, over the twenty heaviest draws.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.record import Runs
from posteriordb_cases import load_case
from pymc_ext.density import CountedDensity
from pymc_ext.maths.psis import psislw
from pymc_ext.variational.bernstein.algorithm import Bernstein
from pymc_ext.variational.core.algorithm import Algorithm, Fitted, run_algorithm
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.hierarchical.algorithm import Hierarchical
from stan_models import StanProgram

Row = dict[str, float | int]
RESULTS = Path(__file__).parent / "results" / "khat_by_draws.json"
CASE = "eight_schools-eight_schools_noncentered"
LOG_TAU = 9  # its place in θ
DRAWS, HEAVIEST, TOGETHER = (4_096, 65_536, 1_048_576), 20, 8_192
FITS: dict[str, tuple[Algorithm, int | None]] = {  # algorithm and steps
    "map": (Hierarchical(), None),
    "flow on the map": (Bernstein(polish=None), None),
    "flow in a Gaussian's coordinates": (Bernstein(base="match", polish=None), 30_000),
}


def fitted(name: str, seed: int) -> tuple[CountedDensity, Fitted]:
    """A fit, and the density that it was fitted to."""
    case = load_case(CASE)
    assert case.stan_code is not None
    program = StanProgram(case.stan_code, name=case.model_name)
    density, (algorithm, n) = CountedDensity(program.density(case.data)), FITS[name]
    with Monitor.silent() as monitor:
        start = np.zeros(density.dimension)
        return density, run_algorithm(
            algorithm, density, start, n, random_seed=seed, monitor=monitor
        )


def judged(density: CountedDensity, q: Posterior) -> Row:
    """k̂ and the share of effective draws by the number of draws, all of the same stream."""
    rng, log_ratios, log_tau = np.random.default_rng(9), list[np.ndarray](), list[np.ndarray]()
    for _ in range(0, DRAWS[-1], TOGETHER):
        theta, log_q = q.forward(rng.standard_normal((TOGETHER, q.latent_dimension)))
        log_ratios.append(density.log_density(theta) - log_q)
        log_tau.append(theta[:, LOG_TAU])
    every, tau = np.concatenate(log_ratios), np.concatenate(log_tau)
    every = np.where(np.isfinite(every), every, -np.inf)
    row: Row = {}
    for draws in DRAWS:
        w = np.exp(every[:draws] - every[:draws].max())
        row[f"khat {draws}"] = round(float(psislw(every[:draws])[1]), 3)
        row[f"effective {draws}"] = round(float(w.sum() ** 2 / (w @ w) / draws), 4)
    heavy = tau[np.argsort(-every)[:HEAVIEST]]
    row["heaviest"] = round(float((heavy.mean() - tau.mean()) / tau.std()), 2)
    inside = np.isfinite(every)
    return row | ({"elbo": round(float(every.mean()), 4)} if inside.all() else {})


def made(name: str, seed: int) -> dict[str, Row]:
    """q, and the proposal beside it."""
    density, fit = fitted(name, seed)
    rows = {"q": {"gradients": density.gradients} | judged(density, fit.q)}
    if fit.proposal is not None:
        rows["proposal"] = judged(density, fit.proposal)
        rows["proposal"].pop("elbo", None)  # its rare draws far out have all of it
    return rows


def table(runs: dict[str, dict[str, Row]]) -> str:
    """A line a law."""
    head = "".join(f"  k̂ of {draws:,} (ESS/N)" for draws in DRAWS)
    lines = [f"{'fit, seed, law':48}{head}  heaviest      ELBO  gradients"]
    for key, rows in runs.items():
        for law, row in rows.items():
            cells = "".join(
                f"{row[f'khat {d}']:14.2f} ({row[f'effective {d}']:.3f})" for d in DRAWS
            )
            lines.append(
                f"{f'{key} {law}':48}{cells}{row['heaviest']:10.1f}"
                f"{row.get('elbo', np.nan):10.3f}{row.get('gradients', np.nan):11,.0f}"
            )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    runs = Runs(options.results, "runs")
    for name in FITS:
        for seed in range(1, options.seeds + 1):
            runs(f"{name}: {seed}", made, name, seed)
    print(table(runs.made))


if __name__ == "__main__":
    main()
