"""Speed of judging: bridge sampling on 2 x 10,000 draws in 10 dimensions, in under a second.

    python benchmarks/speed/bridge_sampling.py [--results FOLDER]

Times CPU seconds, the median of several runs, of (1) `bridge_sampling` with both divergences from
given log densities, (2) `log_evidence` of a PyMC model from 20,000 reference draws, density
evaluations included, and (3) k̂ of 5 x 2,000 ratios. Peer in the same run: Meng and Wong's
fixed-point iteration written out in NumPy, to the same precision, without a standard error.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import arviz
import numpy as np
import pymc as pm
import scipy
from scipy import stats

from bridge.measures.divergence import kl_from_q, kl_to_q
from bridge.measures.evidence import bridge_sampling, log_evidence
from bridge.measures.khat import pareto_khat
from bridge.targets.pymc import pymc_target

LIMIT = 1.0  # seconds, issue 2
CHAINS, DRAWS, DIMENSION = 4, 2500, 10


def cpu_seconds(function: Callable[[], object], repeats: int = 7) -> float:
    """Median CPU seconds of a call, after one call to warm up."""
    function()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return float(np.median(times))


def fixed_point(l_p: np.ndarray, l_q: np.ndarray, tolerance: float = 1e-12) -> float:
    """Meng and Wong (1996), (4.1), for equally many draws of each."""
    c, change = np.median(l_q), np.inf
    while abs(change) > tolerance:
        numerator = np.mean(1 / (1 + np.exp(c - l_q)))
        denominator = np.mean(1 / (np.exp(l_p) + np.exp(c)))
        change = np.log(numerator / denominator) - c
        c += change
    return float(c)


def measure() -> dict[str, float]:
    """CPU seconds and estimates, on a Gaussian pair and on a PyMC model of log evidence 0."""
    rng = np.random.default_rng(1)
    at_p = rng.normal(size=(CHAINS, DRAWS, DIMENSION))
    at_q = rng.normal(0.2, 1.2, size=(CHAINS * DRAWS, DIMENSION))
    lp_p, lq_p = (stats.norm.logpdf(at_p, *q).sum(axis=-1) for q in ((0, 1), (0.2, 1.2)))
    lp_q, lq_q = (stats.norm.logpdf(at_q, *q).sum(axis=-1) for q in ((0, 1), (0.2, 1.2)))
    with pm.Model() as model:
        pm.HalfNormal("tau", 1, shape=DIMENSION // 2)
        pm.Normal("x", shape=DIMENSION // 2)
    target = pymc_target(model)
    reference = rng.normal(size=(CHAINS, 2 * DRAWS, DIMENSION))
    half = DIMENSION // 2
    reference[..., :half] = np.log(np.abs(reference[..., :half]))
    ratios = (lp_q - lq_q).reshape(5, -1)
    evidence = log_evidence(target, reference)

    def divergences() -> None:
        found = bridge_sampling(lp_p, lq_p, lp_q, lq_q)
        kl_from_q(lp_q, lq_q, found), kl_to_q(lp_p, lq_p, found)

    return {
        "bridge_sampling_seconds": cpu_seconds(lambda: bridge_sampling(lp_p, lq_p, lp_q, lq_q)),
        "divergences_seconds": cpu_seconds(divergences),
        "fixed_point_seconds": cpu_seconds(lambda: fixed_point(lp_p - lq_p, lp_q - lq_q)),
        "log_evidence_seconds": cpu_seconds(lambda: log_evidence(target, reference)),
        "khat_seconds": cpu_seconds(lambda: pareto_khat(ratios, np.zeros_like(ratios))),
        "log_evidence": evidence.value,
        "log_evidence_se": evidence.se,
        "bridge_minus_fixed_point": bridge_sampling(lp_p, lq_p, lp_q, lq_q, ess_p=lp_p.size).value
        - fixed_point(lp_p - lq_p, lp_q - lq_q),
    }


def main() -> None:
    """Measure, print, and keep the numbers as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    results = parser.parse_args().results
    numbers = measure()
    versions = {m.__name__: m.__version__ for m in (np, scipy, arviz, pm)}
    record = {
        "benchmark": "bridge_sampling",
        "date": date.today().isoformat(),
        "machine": f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}",
        "versions": versions,
        "limit_seconds": LIMIT,
        **numbers,
    }
    results.mkdir(parents=True, exist_ok=True)
    path = results / "bridge_sampling.json"
    path.write_text(json.dumps(record, indent=2) + "\n")
    for name, value in numbers.items():
        ratio = f"  {value / LIMIT:6.1%} of the limit" if name.endswith("_seconds") else ""
        print(f"{name:28s} {value: .6f}{ratio}")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
