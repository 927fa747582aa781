"""Figures 3 and 8 of Bui: evidence landscapes of matched Gaussians, and α learned by the ELBO.

    python -m benchmarks.papers.gp_matching_alpha [--grid 21] [--parts landscape alpha]

landscape (figure 3): the two-class softmax on ionosphere, exponentiated-quadratic kernel; the exact
evidence of every matched model over log lengthscale and log variance (α = 0.1), and the same
posteriors' ELBO under the softmax itself. Without the paper's data, scikit-learn's breast-cancer
set stands in. alpha (figure 8, appendix B): four Gaussian classes in the plane; hyperparameters and
α maximise the ELBO together; beside it the ELBO of full variational inference (`CVI`).
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pymc as pm
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_breast_cancer

import pymc_ext as px
from benchmarks import record
from benchmarks.papers.gp_epvi import CORPUS
from pymc_ext.gp.solver import Solver

matplotlib.use("Agg")
import matplotlib.pyplot as plt

METHODS = ("moment-ori", "moment", "laplace", "variational")
ALPHA, LARGEST = 0.1, 2.0
CENTRES = np.array([[-1.5, -1.0], [1.5, -1.0], [-1.0, 1.5], [1.2, 1.2]])


def two_classes() -> tuple[np.ndarray, np.ndarray, str]:
    """Standardised inputs, labels 0/1, name."""
    stored = CORPUS / "ionosphere_permuted.npz"
    if stored.exists():
        with np.load(stored) as z:  # the first column is the row number
            X, y = z["X"][:, 1:], (z["Y"] > 0).astype(int).ravel()
        return X, y, "ionosphere"
    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y, "breast-cancer-wisc-diag"


def landscape(grid: int) -> dict[str, Any]:
    """Evidence a data point of every method on the grid, (log variance, log lengthscale)."""
    X, y, name = two_classes()
    square = ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    ells, variances = np.linspace(-1, 5, grid), np.linspace(-2, 6, grid)
    likelihood, none, zero = px.gp.Categorical(2), np.empty(0), np.zeros(len(y))
    out: dict[str, Any] = {
        "set": name,
        "log_ell": ells.tolist(),
        "log_variance": variances.tolist(),
    }
    for method in METHODS:
        for formula in ("sites", "elbo"):
            surface = np.empty((grid, grid))
            for i, j in np.ndindex(grid, grid):
                K = np.exp(variances[i] - 0.5 * square / np.exp(2 * ells[j]))
                solver = Solver(likelihood, px.gp.Matching(method, ALPHA), formula)
                surface[i, j] = solver.solve(y.astype(float), none, (zero, K)).value / len(y)
            i, j = np.unravel_index(surface.argmax(), surface.shape)
            best = {"log_variance": variances[i], "log_ell": ells[j], "value": surface.max()}
            out[f"{method}/{formula}"] = {"best": best, "surface": surface.round(5).tolist()}
            logging.info("%s %s %s", method, formula, best)
    return out


def landscape_figure(found: dict[str, Any], path: Path) -> None:
    fig, axes = plt.subplots(2, len(METHODS), figsize=(3.2 * len(METHODS), 6))
    for row, formula in zip(axes, ("sites", "elbo"), strict=True):
        for axis, method in zip(row, METHODS, strict=True):
            one = found[f"{method}/{formula}"]
            surface = np.array(one["surface"])
            top = surface.max()
            levels = np.linspace(top - 1, top, 21)
            axis.contourf(
                found["log_ell"], found["log_variance"], np.maximum(surface, top - 1), levels
            )
            axis.plot(one["best"]["log_ell"], one["best"]["log_variance"], "kx")
            axis.set(title=f"{method}: {formula}", xlabel="log ℓ", ylabel="log σ²")
    fig.tight_layout()
    fig.savefig(path, dpi=110)
    plt.close(fig)


def toy(n: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """n points of each of four overlapping classes."""
    rng = np.random.default_rng(4)
    y = np.repeat(np.arange(4), n)
    return CENTRES[y] + 0.7 * rng.standard_normal((4 * n, 2)), y


def learn(X: np.ndarray, y: np.ndarray, rule: Any) -> tuple[Any, Any, pm.Model]:
    """Kernel hyperparameters by the ELBO at this rule's posterior."""
    with pm.Model() as model:
        ls, variance = pm.HalfFlat("ls", initval=1.0), pm.HalfFlat("variance", initval=4.0)
        gp = px.gp.Approximate(
            cov_func=variance * pm.gp.cov.ExpQuad(2, ls=ls),
            likelihood=px.gp.Categorical(4), rule=rule, learning="elbo",
        )  # fmt: skip
        gp.marginal_likelihood("y", X=X, y=y)
        fit = px.gp.fit_hyperparameters(gp, max_iterations=60, progressbar=False)
    return fit, gp, model


def alpha_by_elbo(X: np.ndarray, y: np.ndarray, method: str) -> float:
    """α that maximises the ELBO with the hyperparameters at their best for it."""

    def loss(log_alpha: float) -> float:
        return -learn(X, y, px.gp.Matching(method, float(np.exp(log_alpha))))[0].evidence

    bounds = (np.log(1e-3), np.log(LARGEST))
    return float(np.exp(minimize_scalar(loss, bounds=bounds, options={"xatol": 0.05}).x))


def alphas(path: Path) -> dict[str, Any]:
    """α, ELBO and seconds of every method and of full VI; draws the probabilities."""
    X, y = toy()
    fresh = toy(200)
    side = np.linspace(-3.5, 3.5, 40)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    fig, axes = plt.subplots(1, len(METHODS) + 1, figsize=(3.3 * (len(METHODS) + 1), 3.4))
    out: dict[str, Any] = {}
    for axis, method in zip(axes, (*METHODS, "full VI"), strict=True):
        begin = time.perf_counter()
        alpha = alpha_by_elbo(X, y, method) if method in METHODS else None
        rule = px.gp.CVI(tolerance=1e-6) if alpha is None else px.gp.Matching(method, alpha)
        fit, gp, model = learn(X, y, rule)
        seconds = time.perf_counter() - begin
        p = gp.predict(grid, point=fit.point, diag=True, pred_noise=True, model=model)[0]
        test = gp.log_predictive(*fresh, point=fit.point, model=model).mean()
        out[method] = {
            "alpha": alpha, "elbo": fit.evidence, "test_log_likelihood": float(test),
            "seconds": round(seconds, 1),
            **{k: round(float(fit.point[k]), 4) for k in ("ls", "variance")},
        }  # fmt: skip
        logging.info("%s %s", method, out[method])
        colours = plt.get_cmap("tab10")(np.arange(4))[:, :3]
        image = (p @ colours).reshape(40, 40, 3)
        axis.imshow(image, origin="lower", extent=(-3.5, 3.5, -3.5, 3.5), aspect="equal")
        axis.scatter(*X.T, c=colours[y], edgecolor="k", s=14)
        name = method if alpha is None else f"{method}, α = {alpha:.3g}"
        axis.set_title(f"{name}\nELBO {fit.evidence:.2f}", fontsize=9)
    fig.tight_layout()
    fig.savefig(path, dpi=110)
    plt.close(fig)
    return out


def main() -> None:
    """Run the parts asked for; write JSON and figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ["landscape", "alpha"]
    parser.add_argument("--parts", nargs="+", default=parts, choices=parts)
    parser.add_argument("--grid", type=int, default=21)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("pymc_ext").setLevel(logging.ERROR)
    path = arguments.results / "gp_matching_alpha.json"
    done = json.loads(path.read_text())["results"] if path.exists() else {}
    for part in arguments.parts:
        name = f"gp_matching_{part}.png"
        if part == "alpha":
            done[part] = alphas(arguments.results / name)
        else:
            done[part] = landscape(arguments.grid)
            landscape_figure(done[part], arguments.results / name)
        record.write(path, done)


if __name__ == "__main__":
    main()
