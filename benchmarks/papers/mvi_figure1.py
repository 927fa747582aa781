"""Figure 1: KL(q ‖ p) of every method on the mixture of two Gaussians, to four digits.

    python -m benchmarks.papers.mvi_figure1 [--results FOLDER]

Gianniotis, section V-A. KL by 100 × 100 Gauss–Hermite points; truth is the exact optimum of each
family, found independently. The mixture's KL is minus its ELBO on 100,000 fresh draws.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats

import pymc_ext as px
from benchmarks import record

WEIGHT = np.array([2 / 3, 1 / 3])
MEAN, SD = np.array([[0.0, 0.0], [-1.0, -2.0]]), np.sqrt([[1.0, 1.0], [3.5, 0.3]])
TRUTH = {
    "laplace": 0.2446,
    "mu": 0.1808,
    "eig": 0.1275,
    "diag": 0.1283,
    "lr": 0.1231,
    "full": 0.1184,
}
FIXED_DRAWS = px.FixedDraws(draws=16_384)


def target() -> pm.Model:
    """Eq. 14."""
    with pm.Model() as model:
        w = pm.Flat("w", shape=2)
        parts = [
            np.log(WEIGHT[k]) + pm.logp(pm.Normal.dist(MEAN[k], SD[k]), w).sum() for k in (0, 1)
        ]
        pm.Potential("p", pt.logsumexp(pt.stack(parts)))
    return model


def gaussian_kl(mean: np.ndarray, cov: np.ndarray) -> float:
    """KL(N(mean, cov) ‖ p) by quadrature."""
    x, w = np.polynomial.hermite_e.hermegauss(100)
    z, weight = np.stack(np.meshgrid(x, x), -1).reshape(-1, 2), np.outer(w, w).ravel() / (2 * np.pi)
    L = np.linalg.cholesky(cov)
    parts = [
        np.log(WEIGHT[k]) + stats.norm(MEAN[k], SD[k]).logpdf(mean + z @ L.T).sum(1) for k in (0, 1)
    ]
    return float(
        -weight @ np.logaddexp(*parts) - np.log(np.linalg.det(L)) - np.log(2 * np.pi * np.e)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    model, seed = target(), {"random_seed": 1}
    methods = {
        "laplace": px.LaplaceVI(model=model, **seed),
        "mu": px.MixedVI("mu", model=model, fixed_draws=FIXED_DRAWS, **seed),
        "eig": px.MixedVI("eig", model=model, fixed_draws=FIXED_DRAWS, **seed),
        "diag": px.DiagonalVI(model=model, fixed_draws=FIXED_DRAWS, **seed),
        "lr": px.MixedVI("lr", model=model, fixed_draws=FIXED_DRAWS, **seed),
        "full": px.MixedVI("lr", rank=2, model=model, fixed_draws=FIXED_DRAWS, **seed),
        "mixture": px.MixtureVI("lr", model=model, **seed),
    }
    out = {}
    for name, inference in methods.items():
        approx = pm.fit(method=inference, model=model, progressbar=False)
        kl = gaussian_kl(approx.mean.eval(), approx.cov.eval())
        if name == "mixture":
            kl = -approx.evaluate(100_000, random_seed=2).elbo
        out[name] = {"kl": kl, "exact": TRUTH.get(name, 0.0), "seconds": approx.result.seconds}
        logging.info("%-8s KL %.4f, exact optimum %.4f", name, kl, out[name]["exact"])
    record.write(options.results / "mvi_figure1.json", out)


if __name__ == "__main__":
    main()
