"""Whether the hierarchical map finds the true governors, on simulated models.

    python -m benchmarks.speed.recovery [--data-sets 100]

Each model is simulated anew for every data set and given as a JAX function (extra ``jax``). Given
its log scales (and correlation), each model is Gaussian in all else, its locations, so that the
true law is known: in the map's order the conditional sd of a location depends on the log scales by
the Cholesky factor of a covariance, whose derivative in the middle of q is the exact slope. A link
is true where that slope is at least .1, strong where it is at least .25, false where its governor
is a location, or where the exact slope is below .01. A governor is a log scale with a strong link;
those of a data set are all found where each governs something in the fit. A link's slope is
compared with the exact one in its standard errors, and in absolute terms.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import Runs
from benchmarks.speed.recovery_models import MODELS, Simulated
from pymc_ext.maths.types import Array
from pymc_ext.variational.hierarchical.algorithm import Hierarchical
from pymc_ext.variational.hierarchical.map import HierarchicalMap

RESULTS = Path(__file__).parent / "results" / "recovery.json"

# Exact slopes that every map should have, that are there, and that are as good as none.
STRONG, TRUE, NONE = 0.25, 0.1, 0.01
STEP = 1e-3  # of differences
CLOSE = 0.05  # of a slope: a thousandth of a nat where the governor's sd is one


def exact_slopes(simulated: Simulated, q: HierarchicalMap) -> dict[tuple[str, str], float]:
    """∂ log sd of each location along each log scale's latent, per unit of the log scale."""
    import jax

    log_density, names = simulated.function, simulated.names
    middle = q.forward(np.zeros((1, q.dimension)))[0][0]
    places = {name: int(q.place[k]) for k, name in enumerate(names)}
    locations = np.array([k for k in q.order if names[k] not in simulated.scales])

    def log_sds(x: Array) -> Array:
        hessian = np.asarray(jax.hessian(log_density)(x))[np.ix_(locations, locations)]
        return np.log(np.diag(np.linalg.cholesky(np.linalg.inv(-hessian))))

    slopes = {}
    for name in simulated.scales:
        j = places[name]
        along = q.root.coupling[q.place, j] / q.root.diagonal[j]  # all that moves with the latent
        along[locations] = 0.0  # sds do not depend on locations
        change = (log_sds(middle + STEP * along) - log_sds(middle - STEP * along)) / (2 * STEP)
        slopes |= {(name, names[k]): float(c) for k, c in zip(locations, change, strict=True)}
    return slopes


def one(name: str, seed: int) -> dict[str, Any]:
    """One data set: true links found, false ones among the pairs that could be, slopes."""
    simulated = MODELS[name](np.random.default_rng([seed, len(name)]))
    fit = Hierarchical().fit(simulated.density, random_seed=seed)
    links = {(link.governor, link.governed): link for link in fit.result.links.links}
    exact = exact_slopes(simulated, fit.q) if isinstance(fit.q, HierarchicalMap) else {}
    true, strong = (
        {pair for pair, slope in exact.items() if abs(slope) >= least} for least in (TRUE, STRONG)
    )
    known = {pair: (link, exact[pair]) for pair, link in links.items() if pair in exact}
    governors = {governor for governor, _ in strong}
    D, H = simulated.density.dimension, len(simulated.scales)
    false = [
        pair
        for pair in links
        if pair[0] not in simulated.scales or abs(exact.get(pair, 1.0)) < NONE
    ]
    return {
        "true": len(true),
        "found": sum(pair in links for pair in true),
        "strong": len(strong),
        "strong_found": sum(pair in links for pair in strong),
        "governors": len(governors),
        "all_governors_found": int(governors <= {governor for governor, _ in links}),
        "false": len(false),
        "pairs": (D * (D - 1) - H * (H - 1)) // 2 - len(true),
        "compared": len(known),
        "within_errors": sum(abs(k.slope - s) <= 3 * k.error for k, s in known.values()),
        "close": sum(abs(k.slope - s) <= CLOSE for k, s in known.values()),
        "gradients": fit.result.gradient_evaluations,
        "relative_ess": fit.result.fresh.ess / fit.result.fresh.draws,
    }


def table(made: dict[str, dict[str, Any]]) -> str:
    """A line a model."""
    lines = [
        "model          sets  all governors   true  found    strong  found  false links  "
        "± 3 errors  ± 0.05  gradients  ESS/N"
    ]
    for name in MODELS:
        rows = [row for key, row in made.items() if key.split("/")[0] == name]
        if not rows:
            continue
        total = {k: sum(row[k] for row in rows) for k in rows[0]}
        gradients, ess = (
            np.median([row[k] for row in rows]) for k in ("gradients", "relative_ess")
        )
        lines.append(
            f"{name:14} {len(rows):4} "
            f"{share(total['all_governors_found'], len(rows) if total['governors'] else 0):>14} "
            f"{total['true']:6} {share(total['found'], total['true'])} "
            f"{total['strong']:9} {share(total['strong_found'], total['strong'])} "
            f"{total['false'] / total['pairs']:12.2%} "
            f"{share(total['within_errors'], total['compared']):>11} "
            f"{share(total['close'], total['compared']):>7} {gradients:10,.0f} {ess:6.2f}"
        )
    return "\n".join(lines)


def share(part: int, whole: int) -> str:
    """In per cent; a dash of nothing."""
    return f"{part / whole:6.1%}" if whole else f"{'–':>6}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-sets", type=int, default=100)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    runs = Runs(options.results, "runs")
    for seed in range(1, options.data_sets + 1):
        for name in MODELS:
            runs(f"{name}/{seed}", one, name, seed)
    print(table(runs.made))


if __name__ == "__main__":
    main()
