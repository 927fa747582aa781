"""Figure 1 and appendix B.2 of Komodromos et al. (2024): errors of bounds on E[log(1 + e^X)].

    python -m benchmarks.papers.viper_figure1

Relative errors of the Jaakkola–Jordan bound, of the paper's bound (l = 10 and 12) and of the
accelerated series with as many or fewer terms over a grid of (ϑ, τ), judged by 40-digit
quadrature-checked series; then the l needed for 5, 2.5, 1 and 0.5 %.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import mpmath as mp
import numpy as np

from benchmarks.record import write
from pymc_ext.ops.expected_softplus_numpy import expected_softplus_derivatives
from pymc_ext.ops.expected_softplus_series import series
from pymc_ext.variational.jaakkola import jaakkola_bound

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


def terms_needed(theta, tau, truth, level: float) -> int:
    """Smallest l whose bound is within ``level`` of the truth at all points."""
    for pairs in range(1, 400):
        error = np.abs(value(theta, tau, 2 * pairs - 1, "none") - truth) / truth
        if error.max() < level:
            return pairs
    raise ValueError(f"no l below 400 reaches {level}")


def main() -> None:
    """Print and keep the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    theta, tau = (a.ravel() for a in np.meshgrid(THETA, TAU))
    truth = np.array([exact(m, s) for m, s in zip(theta, tau, strict=True)])
    candidates = {
        "Jaakkola-Jordan": jaakkola_bound(theta, tau)[0],
        "bound, l = 10 (19 terms)": value(theta, tau, 19, "none"),
        "bound, l = 12 (23 terms)": value(theta, tau, 23, "none"),
        "accelerated, 8 terms": value(theta, tau, 8, CVZ),
        "accelerated, 12 terms": value(theta, tau, 12, CVZ),
        "accelerated, 23 terms": value(theta, tau, 23, CVZ),
    }
    errors = {}
    for name, approximation in candidates.items():
        error = np.abs(approximation - truth) / truth
        worst = int(np.argmax(error))
        errors[name] = {
            "max": float(error.max()),
            "median": float(np.median(error)),
            "worst_at": [float(theta[worst]), float(tau[worst])],
            "panel_a_max (tau = 2)": float(error[np.isclose(tau, 2)].max()),
            "panel_b_max (theta = 1)": float(error[np.isclose(theta, 1)].max()),
        }
        print(f"{name:26s} max {error.max():.2e} median {np.median(error):.2e} "
              f"at ϑ = {theta[worst]:.2f}, τ = {tau[worst]:.2f}")  # fmt: skip
    needed = {}
    for smallest in (0.01, 0.1, 0.5, 1.0):
        inside = tau >= smallest
        needed[str(smallest)] = {
            str(level): terms_needed(theta[inside], tau[inside], truth[inside], level)
            for level in PAPER
        }
        print(
            f"l for 5, 2.5, 1, 0.5 % where τ >= {smallest}: {list(needed[str(smallest)].values())}"
        )
    print(f"paper: {list(PAPER.values())}")
    write(
        options.results / "viper_figure1.json",
        {"relative_errors": errors, "l_needed_by_smallest_tau": needed,
         "l_in_paper": {str(k): v for k, v in PAPER.items()}},
    )  # fmt: skip


if __name__ == "__main__":
    main()
