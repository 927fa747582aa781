"""Whether the hierarchical map finds the true governors, on simulated models.

    python -m benchmarks.speed.recovery [--data-sets 100]

Each model is simulated anew for every data set and given as a JAX function (extra ``jax``). A link
counts as found where the true governor is among those of the effect, as false where a coordinate is
linked that the model's law does not link. Slopes are compared with the model's law at the middle of
q, s (1 − g): s is ±1 or ±½ by how the scale is parametrised.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import Runs
from pymc_ext.density import CallableDensity
from pymc_ext.variational.hierarchical.algorithm import Hierarchical

RESULTS = Path(__file__).parent / "results" / "recovery.json"


@dataclass(frozen=True)
class Simulated:
    """A density with what is true of it: pairs (governor, governed), and slopes of log scale."""

    density: CallableDensity
    links: frozenset[tuple[str, str]]
    slope: float


def _density(log_density: Callable[[Any], Any], names: Sequence[str]) -> CallableDensity:
    return CallableDensity(log_density, dimension=len(names), jax=True, names=list(names))


def grouped(rng: np.random.Generator, slope: float = 1.0, groups: int = 10) -> Simulated:
    """y_ij ~ N(θ_i, 1), θ_i ~ N(μ, τ²), centred; log τ = slope · t."""
    import jax.numpy as jnp
    from jax.scipy.stats import norm

    rows, noise = 2, 2.0
    t = rng.normal(0, 0.5)
    theta = rng.normal(1.0, np.exp(slope * t), groups)
    y = theta[:, None] + noise * rng.standard_normal((groups, rows))

    def log_density(x: Any) -> Any:
        theta, mu, t = x[:groups], x[groups], x[groups + 1]
        prior = norm.logpdf(mu, 0, 3) + norm.logpdf(t, 0, 1)
        effects = norm.logpdf(theta, mu, jnp.exp(slope * t)).sum()
        return prior + effects + norm.logpdf(y, theta[:, None], noise).sum()

    names = [f"theta[{i}]" for i in range(groups)] + ["mu", "t"]
    links = frozenset(("t", f"theta[{i}]") for i in range(groups))
    return Simulated(_density(log_density, names), links, slope)


def nested(rng: np.random.Generator) -> Simulated:
    """Two levels: α_k ~ N(μ, τ₁²), θ_ki ~ N(α_k, τ₂²), y ~ N(θ, 2)."""
    import jax.numpy as jnp
    from jax.scipy.stats import norm

    K, n, noise = 5, 4, 2.0
    alpha = rng.normal(0, np.exp(rng.normal(0, 0.4)), K)
    theta = alpha[:, None] + np.exp(rng.normal(0, 0.4)) * rng.standard_normal((K, n))
    y = theta[..., None] + noise * rng.standard_normal((K, n, 2))

    def log_density(x: Any) -> Any:
        theta, alpha, mu, t1, t2 = x[: K * n].reshape(K, n), x[K * n : -3], x[-3], x[-2], x[-1]
        prior = norm.logpdf(mu, 0, 2) + norm.logpdf(t1, 0, 0.7) + norm.logpdf(t2, 0, 0.7)
        upper = norm.logpdf(alpha, mu, jnp.exp(t1)).sum()
        lower = norm.logpdf(theta, alpha[:, None], jnp.exp(t2)).sum()
        return prior + upper + lower + norm.logpdf(y, theta[..., None], noise).sum()

    names = [f"theta[{i}]" for i in range(K * n)] + [f"alpha[{k}]" for k in range(K)]
    names += ["mu", "t1", "t2"]
    links = frozenset(
        [("t2", f"theta[{i}]") for i in range(K * n)] + [("t1", f"alpha[{k}]") for k in range(K)]
    )
    return Simulated(_density(log_density, names), links, 1.0)


def crossed(rng: np.random.Generator) -> Simulated:
    """y_ij ~ N(a_i + b_j, 2), a ~ N(0, τ_a²), b ~ N(0, τ_b²)."""
    import jax.numpy as jnp
    from jax.scipy.stats import norm

    n, noise = 8, 2.0
    a, b = (np.exp(rng.normal(0, 0.4)) * rng.standard_normal(n) for _ in range(2))
    y = a[:, None] + b + noise * rng.standard_normal((n, n))

    def log_density(x: Any) -> Any:
        a, b, ta, tb = x[:n], x[n : 2 * n], x[-2], x[-1]
        prior = norm.logpdf(ta, 0, 0.7) + norm.logpdf(tb, 0, 0.7)
        effects = norm.logpdf(a, 0, jnp.exp(ta)).sum() + norm.logpdf(b, 0, jnp.exp(tb)).sum()
        return prior + effects + norm.logpdf(y, a[:, None] + b, noise).sum()

    names = [*(f"a[{i}]" for i in range(n)), *(f"b[{i}]" for i in range(n)), "ta", "tb"]
    links = frozenset([("ta", f"a[{i}]") for i in range(n)] + [("tb", f"b[{i}]") for i in range(n)])
    return Simulated(_density(log_density, names), links, 1.0)


def gaussian(rng: np.random.Generator) -> Simulated:
    """No hierarchy: nothing may be linked."""
    import jax.numpy as jnp

    A = rng.standard_normal((20, 20))
    P = A @ A.T / 20 + np.eye(20)
    names = [f"x[{i}]" for i in range(20)]
    return Simulated(_density(lambda x: -0.5 * x @ jnp.asarray(P) @ x, names), frozenset(), 0.0)


MODELS: dict[str, Callable[[np.random.Generator], Simulated]] = {
    "sd": grouped,
    "log variance": lambda rng: grouped(rng, 0.5),
    "log precision": lambda rng: grouped(rng, -0.5),
    "nested": nested,
    "crossed": crossed,
    "gaussian": gaussian,
}


def one(name: str, seed: int) -> dict[str, Any]:
    """One data set: true links found, false ones among the pairs that could be, slopes."""
    simulated = MODELS[name](np.random.default_rng([seed, len(name)]))
    fit = Hierarchical().fit(simulated.density, random_seed=seed)
    found = {(link.governor, link.governed): link.slope for link in fit.result.links.links}
    D = simulated.density.dimension
    true = [pair for pair in found if pair in simulated.links]
    return {
        "links": len(simulated.links),
        "found": len(true),
        "false": len(found) - len(true),
        "pairs": D * (D - 1) // 2 - len(simulated.links),
        "median_slope": float(np.median([found[pair] for pair in true])) if true else None,
        "gradients": fit.result.gradient_evaluations,
        "relative_ess": fit.result.fresh.ess / fit.result.fresh.draws,
    }


def table(made: dict[str, dict[str, Any]]) -> str:
    """A line a model."""
    lines = ["model          sets  all found   links found  false links  slope (median)  ESS/N"]
    for name in MODELS:
        rows = [row for key, row in made.items() if key.split("/")[0] == name]
        if not rows:
            continue
        links, pairs = (sum(row[k] for row in rows) for k in ("links", "pairs"))
        found, false = (sum(row[k] for row in rows) for k in ("found", "false"))
        slopes = [row["median_slope"] for row in rows if row["median_slope"] is not None]
        every = np.mean([row["found"] == row["links"] for row in rows])
        share = f"{found / links:11.1%}" if links else f"{'–':>11}"
        slope = f"{np.median(slopes):15.2f}" if slopes else f"{'–':>15}"
        ess = np.median([row["relative_ess"] for row in rows])
        head = f"{name:14} {len(rows):4} {every:10.0%} {share}"
        lines.append(f"{head} {false / pairs:12.2%} {slope} {ess:6.2f}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-sets", type=int, default=100)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    runs = Runs(options.results, "runs")
    for name in MODELS:
        for seed in range(1, options.data_sets + 1):
            runs(f"{name}/{seed}", one, name, seed)
    print(table(runs.made))


if __name__ == "__main__":
    main()
