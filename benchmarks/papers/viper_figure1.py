"""Figure 1 and appendix B.2 of Komodromos et al. (2024): errors of bounds on E[log(1 + e^X)].

    python -m benchmarks.papers.viper_figure1

Relative errors of the Jaakkola–Jordan bound, of Monte Carlo with 1000 draws (the paper's VI-MC), of
the paper's bound (l = 10 and 12) and of the accelerated series with as many or fewer terms over a
grid of (ϑ, τ), judged by quadrature in 25 digits; then the l needed for 5, 2.5, 1 and 0.5 %.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import mpmath as mp
import numpy as np
from matplotlib.axes import Axes

from benchmarks.record import write
from pymc_ext.maths.expected_softplus_numpy import expected_softplus_derivatives
from pymc_ext.maths.expected_softplus_series import series
from pymc_ext.variational.logistic.jaakkola import jaakkola_bound

THETA = np.linspace(-3, 3, 25)
TAU = np.concatenate([[0.01, 0.05], np.linspace(0.1, 3, 30)])
PAPER = {0.05: 5, 0.025: 7, 0.01: 12, 0.005: 17}
CVZ = "cohen-villegas-zagier"


def exact(theta: float, tau: float) -> float:
    """By Gauss–Legendre panels in 25 digits."""
    with mp.workdps(25):
        panels = sorted({theta + k * tau for k in range(-12, 13, 2)})

        def integrand(x):
            return mp.log1p(mp.exp(x)) * mp.npdf(x, theta, tau)

        return float(mp.quad(integrand, panels, method="gauss-legendre"))


def value(theta, tau, terms: int, acceleration: str) -> np.ndarray:
    """The (bound on the) expected softplus."""
    return expected_softplus_derivatives(theta, tau, series(0, terms, acceleration))[0]


def monte_carlo(theta: np.ndarray, tau: np.ndarray, draws: int = 1000) -> np.ndarray:
    """Mean softplus of fresh draws at every point."""
    z = np.random.default_rng(1).standard_normal((draws, len(theta)))
    return np.logaddexp(0, theta + tau * z).mean(axis=0)


def terms_needed(theta, tau, truth, level: float) -> np.ndarray:
    """Smallest l at each point whose bound is within ``level`` of the truth."""
    needed = np.zeros(len(truth), dtype=int)
    for pairs in range(1, 400):
        error = np.abs(value(theta, tau, 2 * pairs - 1, "none") - truth) / truth
        needed[(needed == 0) & (error < level)] = pairs
        if needed.all():
            return needed
    raise ValueError(f"no l below 400 reaches {level}")


def plot_errors(axis: Axes, x: np.ndarray, errors: dict[str, np.ndarray], where: np.ndarray):
    """Errors along one line of the grid."""
    for name, error in errors.items():
        axis.semilogy(x[where], np.maximum(error[where], 1e-17), label=name)


def figure(theta, tau, errors: dict[str, np.ndarray], needed: dict[float, np.ndarray], path: Path):
    """Panels (a) and (b) of figure 1; the maps of figure 1 (c) and appendix B.2."""
    fig, axes = plt.subplots(2, 3, figsize=(13, 7))
    plot_errors(axes[0, 0], theta, errors, np.isclose(tau, 2))
    axes[0, 0].set(title="τ = 2", xlabel="ϑ", ylabel="relative error")
    plot_errors(axes[0, 1], tau, errors, np.isclose(theta, 1))
    axes[0, 1].set(title="ϑ = 1", xlabel="τ")
    shape = (len(TAU), len(THETA))
    for axis, (level, l_needed) in zip(axes.ravel()[2:], needed.items(), strict=True):
        image = axis.pcolormesh(THETA, TAU, l_needed.reshape(shape), vmin=1, vmax=20)
        axis.set(title=f"l for {100 * level:g} %", xlabel="ϑ", ylabel="τ")
        fig.colorbar(image, ax=axis)
    fig.tight_layout(rect=(0, 0, 1, 0.95))
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="upper center", ncols=len(labels), fontsize=8)
    fig.savefig(path, dpi=110)
    plt.close(fig)


def main() -> None:
    """Print and keep the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    theta, tau = (a.ravel() for a in np.meshgrid(THETA, TAU))
    truth = np.array([exact(m, s) for m, s in zip(theta, tau, strict=True)])
    candidates = {
        "Jaakkola-Jordan": jaakkola_bound(theta, tau)[0],
        "Monte Carlo, 1000 draws": monte_carlo(theta, tau),
        "bound, l = 10 (19 terms)": value(theta, tau, 19, "none"),
        "bound, l = 12 (23 terms)": value(theta, tau, 23, "none"),
        "accelerated, 8 terms": value(theta, tau, 8, CVZ),
        "accelerated, 12 terms": value(theta, tau, 12, CVZ),
        "accelerated, 23 terms": value(theta, tau, 23, CVZ),
    }
    errors = {name: np.abs(a - truth) / truth for name, a in candidates.items()}
    summary = {}
    for name, error in errors.items():
        worst = int(np.argmax(error))
        summary[name] = {
            "max": float(error.max()),
            "median": float(np.median(error)),
            "worst_at": [float(theta[worst]), float(tau[worst])],
            "panel_a_max (tau = 2)": float(error[np.isclose(tau, 2)].max()),
            "panel_b_max (theta = 1)": float(error[np.isclose(theta, 1)].max()),
        }
        print(f"{name:26s} max {error.max():.2e} median {np.median(error):.2e} "
              f"at ϑ = {theta[worst]:.2f}, τ = {tau[worst]:.2f}")  # fmt: skip
    maps = {level: terms_needed(theta, tau, truth, level) for level in PAPER}
    needed = {}
    for smallest in (0.01, 0.1, 0.5, 1.0):
        needed[str(smallest)] = {str(k): int(m[tau >= smallest].max()) for k, m in maps.items()}
        print(
            f"l for 5, 2.5, 1, 0.5 % where τ >= {smallest}: {list(needed[str(smallest)].values())}"
        )
    print(f"paper: {list(PAPER.values())}")
    write(
        options.results / "viper_figure1.json",
        {"relative_errors": summary, "l_needed_by_smallest_tau": needed,
         "l_in_paper": {str(k): v for k, v in PAPER.items()}},
    )  # fmt: skip
    figure(theta, tau, errors, maps, options.results / "viper_figure1.png")


if __name__ == "__main__":
    main()
