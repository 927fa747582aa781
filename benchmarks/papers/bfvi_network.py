"""What a q finds of the network's posterior, which has 48 copies, and where it is too light."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import logsumexp

from benchmarks.papers import bfvi_cases as cases
from benchmarks.papers.bfvi_fits import DRAWS, fit
from bridge.measures.khat import pareto_khat

HEAVIEST, RARE = 200, 0.01  # weights looked at; share of the draws below which a copy is rare


def predictive(backend: str, folder: Path) -> dict[str, Any]:
    """Posterior predictive of the network: flow and mean-field Gaussian beside NUTS (figure 5)."""
    x = np.linspace(-7, 7, 121)
    flow, _ = fit(cases.network, "flow", random_seed=1, backend=backend)
    mean_field, _ = fit(cases.network, "mean-field Gaussian", random_seed=1)
    posteriors = {
        "NUTS": cases.network_nuts(1000),
        "flow": flow.sample(4000, random_seed=1).posterior,
        "mean-field Gaussian": mean_field.sample(4000, random_seed=1).posterior,
    }
    bands = {name: _bands(posterior, x) for name, posterior in posteriors.items()}
    figure, axes = plt.subplots(1, 3, figsize=(12, 4), sharey=True)
    for ax, (name, (low, mean, high)) in zip(axes, bands.items(), strict=True):
        ax.fill_between(x, low, high, alpha=0.3)
        ax.plot(x, mean)
        ax.plot(cases.NETWORK_X, cases.NETWORK_Y, "k.")
        ax.set(title=name, xlabel="x")
    axes[0].set_ylabel("y: mean and 90 % of the predictive")
    figure.savefig(folder / "bfvi_predictive.png", dpi=120)
    plt.close(figure)
    truth = bands.pop("NUTS")
    error = {
        name: {"mean": float(np.abs(m - truth[1]).mean()),
               "width": float(np.mean((h - lo) / (truth[2] - truth[0])))}
        for name, (lo, m, h) in bands.items()
    }  # fmt: skip
    for name, e in error.items():
        print(
            f"network, {name}: |mean − NUTS| {e['mean']:.3f}, band width {e['width']:.2f} of NUTS"
        )
    return error


def _bands(posterior: Any, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    w1, b1, w2 = (posterior[n].values.reshape(-1, 3) for n in ("w1", "b1", "w2"))
    mean = cases.network_mean(x, w1, b1, w2, posterior["b2"].values.ravel(), np.tanh)
    y = mean + cases.NETWORK_SD * rng.standard_normal(mean.shape)
    low, high = np.quantile(y, [0.05, 0.95], axis=0)
    return low, mean.mean(axis=0), high


def symmetric(backend: str, draws: int = 2000) -> dict[str, Any]:
    """ELBO and k̂ of the network's q, and of its mean over the symmetries of the posterior.

    The three hidden units may change places, and each may change the sign of all its weights.
    Then, of `DRAWS` draws, where the heaviest weights lie.
    """
    approx, _ = fit(cases.network, "flow", random_seed=1, backend=backend)
    theta, lp, lq = approx.draws_with_logs(draws, random_seed=1001)
    names = approx.parameter_names()
    units = np.array([[names.index(f"{n}[{j}]") for n in ("w1", "b1", "w2")] for j in range(3)])
    copies = []
    for order, signs in itertools.product(
        itertools.permutations(range(3)), itertools.product((1, -1), repeat=3)
    ):
        copy = theta.copy()
        for to, (unit, sign) in enumerate(zip(order, signs, strict=True)):
            copy[:, units[to]] = sign * theta[:, units[unit]]
        copies.append(approx.log_q(copy))
    mean = logsumexp(copies, axis=0) - np.log(len(copies))
    signs_seen = len(np.unique(np.sign(theta[:, units[:, 2]]), axis=0))
    out: dict[str, Any] = {"draws": draws, "sign patterns of w2 (of 8)": signs_seen}
    for name, log_q in (("q", lq), ("symmetric q", mean)):
        ratio = lp - log_q
        out[name] = {
            "elbo": float(ratio.mean()), "khat": pareto_khat(lp, log_q).value,
            "log_marginal_is": float(logsumexp(ratio) - np.log(draws)),
        }  # fmt: skip
        print(f"network, {name}: {out[name]}", flush=True)
    theta, lp, lq = approx.draws_with_logs(DRAWS, random_seed=1001)
    out["weights"] = heavy_weights(theta[:, units], lp, lq)
    print(f"network, weights: {out['weights']}", flush=True)
    return out


def heavy_weights(units: np.ndarray, lp: np.ndarray, lq: np.ndarray) -> dict[str, float]:
    """Whether the largest importance weights lie in rare copies, or between mirror images.

    ``units`` (N, 3, 3): w1, b1, w2 of each unit. A draw's copy is the signs of w2 and the order of
    the units by w1 sign(w2); a unit and its mirror image meet where w1 is zero.
    """
    sign = np.sign(units[..., 2])
    places = np.hstack([sign, np.argsort(units[..., 0] * sign, axis=1)])
    copy, counts = np.unique(places, axis=0, return_inverse=True, return_counts=True)[1:]
    heaviest = np.argsort(lq - lp)[:HEAVIEST]
    often = [np.flatnonzero(copy == c) for c in np.argsort(-counts)[:3]]
    rare = counts[copy] < RARE * len(lp)

    def switched_off(u: np.ndarray) -> float:
        return float(np.mean(np.abs(u[..., 0]).min(axis=1) < 0.1))

    return {
        "copies held (of 48)": int(np.sum(counts >= RARE * len(lp))),
        "weight in rare copies": float(np.exp(logsumexp((lp - lq)[rare]) - logsumexp(lp - lq))),
        "share of the heaviest in rare copies": float(np.mean(rare[heaviest])),
        "khat in the three largest copies": [pareto_khat(lp[i], lq[i]).value for i in often],
        "P(smallest |w1| < 0.1), q": switched_off(units),
        "P(smallest |w1| < 0.1), heaviest": switched_off(units[heaviest]),
        "P(smallest |w1| < 0.1), NUTS": switched_off(cases.network_units(cases.network_nuts(4000))),
    }
