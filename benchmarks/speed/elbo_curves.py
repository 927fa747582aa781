"""ELBO against gradients and against seconds: families from scores alone beside ADVI and a flow.

    python -m benchmarks.speed.elbo_curves [--models ...] [--methods ...]

Three PyMC models, all methods on one of them in one run: eight schools without centring, a Poisson
regression whose group effects are centred, a logistic regression. Every method is shown by the
approximation that the user would have, had the fit stopped there; its ELBO is that of the same
4,000 normals each time. Seconds are CPU seconds of one thread, without compilation and without
these evaluations. `pm.fit`'s own ADVI runs at its defaults; one of its steps is one gradient.
PyMC-extras' Pathfinder runs where it is installed, and else is said not to have run: its best of
four paths, by the ELBO of its own 1,000 draws, at an iteration a gradient and its own seconds; ours
is that of :class:`pymc_ext.PathfinderVI`, from the same start as the others. Run it with
OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pymc as pm
from numpy.typing import NDArray

from benchmarks.record import Runs
from bridge.targets.pymc import model_start
from pymc_ext.density import CountedDensity, PyMCDensity
from pymc_ext.variational.bernstein.algorithm import Bernstein
from pymc_ext.variational.core.algorithm import Algorithm, run_algorithm
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.gaussian.batch_match import BatchMatch
from pymc_ext.variational.gaussian.pathfinder import Pathfinder
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian
from pymc_ext.variational.hierarchical.algorithm import Hierarchical

Row = dict[str, float]
FOLDER = Path(__file__).parent / "results"
FIGURE = Path(__file__).parents[2] / "docs" / "families" / "elbo_curves.png"
DRAWS, JUDGE = 4000, 7
POINTS_PER_DECADE = 12  # of gradients, at which an approximation is kept
ADVI_STEPS, ADVI_BLOCK = 40_000, 500
FLOW_STEPS = 20_000
Y, SIGMA = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


# ---- models ----------------------------------------------------------------------------------


def eight_schools() -> pm.Model:
    """D = 10, not centred."""
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
        pm.Normal("y", mu + tau * pm.Normal("z", 0, 1, shape=8), SIGMA, observed=Y)
    return model


def poisson_groups(group: NDArray[np.integer]) -> pm.Model:
    """Counts with a slope and an effect of each row's group, centred, as people write it."""
    rng, groups = np.random.default_rng(1), int(group.max()) + 1
    x = rng.standard_normal(len(group))
    rate = 0.5 + 0.4 * x + 0.3 * rng.standard_normal(groups)[group]
    with pm.Model() as model:
        mu, slope = pm.Normal("mu", 0, 2), pm.Normal("slope", 0, 1)
        sigma = pm.HalfNormal("sigma", 1)
        effect = pm.Normal("effect", mu, sigma, shape=groups)
        rate_of_row = pm.math.exp(effect[group] + slope * x)
        pm.Poisson("y", rate_of_row, observed=rng.poisson(np.exp(rate)))
    return model


def logistic(rows: int = 400, columns: int = 20) -> pm.Model:
    """D = 21."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((rows, columns))
    logit = 0.3 + X @ (0.7 * rng.standard_normal(columns))
    with pm.Model() as model:
        slopes = pm.Normal("slopes", 0, 2, shape=columns)
        chance = pm.Normal("intercept", 0, 2) + X @ slopes
        observed = (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(int)
        pm.Bernoulli("y", logit_p=chance, observed=observed)
    return model


MODELS: dict[str, Callable[[], pm.Model]] = {
    "eight schools": eight_schools,
    "Poisson groups": lambda: poisson_groups(np.repeat(np.arange(30), 4)),  # D = 33
    "logistic": logistic,
}


# ---- curves ----------------------------------------------------------------------------------


@dataclass
class Curve:
    """Approximations with the gradients and CPU seconds they took."""

    density: PyMCDensity
    rows: list[Row] = field(default_factory=list)

    def add(self, gradients: int, seconds: float, q: Posterior) -> None:
        """Judge q."""
        z = np.random.default_rng(JUDGE).standard_normal((DRAWS, q.latent_dimension))
        theta, log_q = q.forward(z)
        with np.errstate(all="ignore"):
            elbo = float(np.mean(self.density.log_density(theta) - log_q))
        self.rows.append({"gradients": gradients, "seconds": seconds, "elbo": elbo})


def of_algorithm(algorithm: Algorithm, n: int | None = None) -> Callable[[pm.Model], list[Row]]:
    """The curve of one of ours, kept at geometrically growing numbers of gradients."""

    def run(model: pm.Model) -> list[Row]:
        density = PyMCDensity(model)
        start = model_start(model)
        logging.disable(logging.WARNING)  # the one step that compiles has not converged
        algorithm.fit(density, start, 1, random_seed=2)
        logging.disable(logging.NOTSET)
        counted, curve = CountedDensity(density), Curve(density)
        spent = _Spent()

        def show(q: Posterior) -> None:
            gradients = counted.gradients
            if not curve.rows or gradients >= curve.rows[-1]["gradients"] * growth:
                with spent.elsewhere():
                    curve.add(gradients, spent.seconds, q)

        growth = 10 ** (1 / POINTS_PER_DECADE)
        with Monitor(None, (_nothing,), 0, 0, False, show) as monitor:
            fit = run_algorithm(algorithm, counted, start, n, random_seed=1, monitor=monitor)
        curve.add(counted.gradients, spent.seconds, fit.q)
        return curve.rows

    return run


class _Spent:
    """CPU seconds since it was made, without those spent elsewhere."""

    def __init__(self) -> None:
        self.begin = time.process_time()

    @property
    def seconds(self) -> float:
        return time.process_time() - self.begin

    def __enter__(self) -> None:
        self._pause = time.process_time()

    def __exit__(self, *_: object) -> None:
        self.begin += time.process_time() - self._pause

    def elsewhere(self) -> _Spent:
        """Context whose seconds do not count."""
        return self


def _nothing(*_: object) -> None:
    """A callback that lets the monitor show q."""


def of_advi(kind: type, gaussian: Callable[..., Posterior]) -> Callable[[pm.Model], list[Row]]:
    """The curve of one of PyMC's own."""

    def run(model: pm.Model) -> list[Row]:
        inference, curve, seconds = kind(model=model, random_seed=1), Curve(PyMCDensity(model)), 0.0
        inference.fit(2, progressbar=False)  # compiles
        for done in range(ADVI_BLOCK, ADVI_STEPS + 1, ADVI_BLOCK):
            begin = time.process_time()
            inference.refine(ADVI_BLOCK, progressbar=False)
            seconds += time.process_time() - begin
            if done % (ADVI_BLOCK * max(1, done // (10 * ADVI_BLOCK))) == 0:
                curve.add(done, seconds, gaussian(inference.approx))
        return curve.rows

    return run


def of_pymc_extras(model: pm.Model) -> list[Row]:
    """The one point of `pymc_extras.fit_pathfinder`."""
    import pymc_extras

    idata = pymc_extras.fit_pathfinder(
        model=model, importance_sampling=None, concurrent=None, random_seed=1, progressbar=False,
        display_summary=False, store_diagnostics=True,
    )  # fmt: skip
    found = idata["sample_stats"]
    elbos = found["paths_logP_mean"].values - found["paths_logQ_mean"].values
    iterations, seconds = found["paths_lbfgs_niter"].values.sum(), float(found["compute_time"])
    return [{"gradients": int(iterations), "seconds": seconds, "elbo": float(elbos.max())}]


def diagonal(approx: pm.MeanField) -> DiagonalGaussian:
    """PyMC's mean field in numbers."""
    return DiagonalGaussian(approx.mean.eval(), approx.std.eval())


def full(approx: pm.FullRank) -> Gaussian:
    """PyMC's full rank in numbers."""
    return Gaussian(approx.mean.eval(), np.linalg.cholesky(approx.cov.eval()))


METHODS: dict[str, Callable[[pm.Model], list[Row]]] = {
    "PathfinderVI": of_algorithm(Pathfinder()),
    "BatchMatchVI": of_algorithm(BatchMatch()),
    "HierarchicalVI": of_algorithm(Hierarchical()),
    "BernsteinVI": of_algorithm(Bernstein(base="identity"), FLOW_STEPS),
    "pm.fit advi": of_advi(pm.ADVI, diagonal),
    "pm.fit fullrank_advi": of_advi(pm.FullRankADVI, full),
}
if find_spec("pymc_extras") is not None:
    METHODS["pymc-extras pathfinder"] = of_pymc_extras


# ---- table and figure ------------------------------------------------------------------------

CLOSE = 0.1  # nats below the best ELBO of its own within which a curve counts as arrived


def table(made: dict[str, list[Row]]) -> str:
    """By model and method: the last ELBO, and what it took to come within .1 nats of it."""
    lines = [f"{'model':15} {'method':21}       ELBO  gradients   CPU s  to its best − {CLOSE}"]
    for key, rows in made.items():
        model, method = key.split("/")
        best = max(row["elbo"] for row in rows)
        first = next(row for row in rows if row["elbo"] > best - CLOSE)
        lines.append(
            f"{model:15} {method:21} {rows[-1]['elbo']:10.3f} {rows[-1]['gradients']:10,.0f} "
            f"{rows[-1]['seconds']:7.2f}  {first['gradients']:,.0f} gradients, "
            f"{first['seconds']:.2f} s"
        )
    if find_spec("pymc_extras") is None:
        lines.append("PyMC-extras' Pathfinder did not run: it is not installed")
    return "\n".join(lines)


def draw(made: dict[str, list[Row]], path: Path) -> None:
    """A row of panels against gradients, one against seconds."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    models = list(dict.fromkeys(key.split("/")[0] for key in made))
    figure, axes = plt.subplots(2, len(models), figsize=(4.2 * len(models), 6.4), squeeze=False)
    for column, model in enumerate(models):
        curves = {key.split("/")[1]: rows for key, rows in made.items() if key.startswith(model)}
        top = max(row["elbo"] for rows in curves.values() for row in rows)
        for row_of_axes, unit in enumerate(("gradients", "seconds")):
            ax = axes[row_of_axes, column]
            for k, method in enumerate(METHODS):
                rows = curves.get(method, [])
                x, gap = ([r[unit] for r in rows], [top - r["elbo"] for r in rows])
                marker = {"marker": "o", "markersize": 4} if len(rows) < 3 else {}
                ax.plot(x, np.maximum(gap, 1e-2), label=method, color=f"C{k}", **marker)
                ax.plot(x[-1:], np.maximum(gap[-1:], 1e-2), "o", color=f"C{k}", markersize=4)
            ax.set(xscale="log", yscale="log", ylim=(8e-3, 1e3), xlabel=unit)
        axes[0, column].set_title(model)
        axes[0, column].set_xlabel("gradients")
        axes[1, column].set_xlabel("CPU seconds")
    for ax in axes[:, 0]:
        ax.set_ylabel("ELBO below the best one, nats")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, ncol=len(labels), loc="lower center", frameon=False)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table, draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--results", type=Path, default=FOLDER / "elbo_curves.json")
    parser.add_argument("--figure", type=Path, default=FIGURE)
    options = parser.parse_args(arguments)
    logging.getLogger("pymc").setLevel(logging.WARNING)
    runs = Runs(options.results, "curves")
    for model in options.models:
        for method in options.methods:
            runs(f"{model}/{method}", METHODS[method], MODELS[model]())
    print(table(runs.made))
    draw(runs.made, options.figure)


if __name__ == "__main__":
    main()
