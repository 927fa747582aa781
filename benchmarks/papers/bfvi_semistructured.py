"""Semi-structured logistic regression (model M3 of Dürr et al. 2024) on bundled data.

    python -m benchmarks.papers.bfvi_semistructured [--steps 6000] [--seed 1] [--results FOLDER]

P(y = 1) = sigmoid(f(image) + β · age): f is a deterministic network trained jointly with the flow
(``more_obj_params``), β is Bayesian and gets a Bernstein flow, on minibatches. The images are
scikit-learn's 8×8 digits; age is simulated, and so is the outcome: log odds −1.5 for digits 0–4 and
+0.5 for 5–9, plus 0.8 for each standard deviation of age. The posterior of β must cover 0.8.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from sklearn.datasets import load_digits

import pymc_ext as px
from benchmarks import record

EFFECT, LOW, HIGH = 0.8, -1.5, 0.5
HIDDEN, BATCH, DECAY = 16, 128, 1.0  # DECAY: prior precision of the network's weights
INTERVAL = 0.95


def data(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images (N, 64), standardised age (N,) and outcomes (N,)."""
    rng = np.random.default_rng(seed)
    images, digits = load_digits(return_X_y=True)
    age = rng.standard_normal(len(digits))
    log_odds = np.where(digits < 5, LOW, HIGH) + EFFECT * age
    y = rng.random(len(digits)) < 1 / (1 + np.exp(-log_odds))
    return images / 16 - 0.3, age, y.astype("int32")


def network(seed: int) -> list[Any]:
    """Weights of a 64-16-1 network as shared variables."""
    rng = np.random.default_rng(seed)
    return [
        pytensor.shared(rng.standard_normal((64, HIDDEN)) / 8, "W"),
        pytensor.shared(np.zeros(HIDDEN), "b"),
        pytensor.shared(rng.standard_normal(HIDDEN) / 4, "v"),
        pytensor.shared(np.array(0.0), "c"),
    ]


def model(images: Any, age: Any, y: Any, n: int, weights: list[Any]) -> pm.Model:
    """The model on the given rows of ``n``; weight decay enters as a potential."""
    W, b, v, c = weights
    with pm.Model() as built:
        beta = pm.Normal("beta", 0.0, 2.0)
        f = pt.tanh(images @ W + b) @ v + c
        pm.Bernoulli("y", logit_p=f + beta * age, observed=y, total_size=n)
        pm.Potential("decay", -0.5 * DECAY * ((W**2).sum() + (v**2).sum()))
    return built


def run(steps: int, seed: int) -> dict[str, Any]:
    """Fit on minibatches; interval of β and whether it covers the simulated effect."""
    images, age, y = data(seed)
    weights = network(seed)
    rows = pm.Minibatch(images, age, y, batch_size=BATCH)
    begin = time.perf_counter()
    with model(*rows, len(y), weights):
        method = px.BernsteinVI(px.FlowShape(10), base="identity", random_seed=seed)
        approx = pm.fit(
            steps, method=method, more_obj_params=weights, obj_n_mc=5, progressbar=False
        )
    beta = approx.sample(4000, random_seed=seed).posterior["beta"].values.ravel()
    low, high = np.quantile(beta, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2])
    return {
        "effect": EFFECT,
        "mean": float(beta.mean()),
        "sd": float(beta.std()),
        "interval": [float(low), float(high)],
        "covered": bool(low < EFFECT < high),
        "seconds": time.perf_counter() - begin,
        "stop_reason": approx.result.stop_reason,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    result = run(given.steps, given.seed)
    low, high = result["interval"]
    print(
        f"effect {EFFECT}: posterior {result['mean']:.3f} ± {result['sd']:.3f}, "
        f"{INTERVAL:.0%} interval [{low:.3f}, {high:.3f}], "
        f"{'covers' if result['covered'] else 'misses'} it; {result['seconds']:.0f} s"
    )
    record.write(given.results / "bfvi_semistructured.json", result, "scikit-learn")


if __name__ == "__main__":
    main()
