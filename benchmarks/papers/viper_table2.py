"""Table 2 of Komodromos et al. (2024): VI-PER, VI-PG, VI-MC and MCMC side by side.

    python -m benchmarks.papers.viper_table2 [--data ../shared/corpus/vi_per] [--seeds 5]

Without --data (or where it does not exist) the data sets are simulated. ELBO by 10,000 draws,
KL_MC = KL(q_MC || q) on the coefficients, MSE, coverage and width of 95 % intervals of f(x_i), AUC,
seconds of the fit. Beside each: the published row of the same data set, if --data has it.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pymc as pm
from scipy.stats import norm, rankdata

import pymc_ext as px
from benchmarks.papers.viper_simulator import simulate
from benchmarks.record import write
from stan_models import StanProgram, nuts

COLUMNS = ("elbo", "kl_mc", "mse", "coverage", "width", "auc", "seconds")
# published arrays: rows of the first axis, columns of the last
ROWS = {"PER-diagonal": 0, "PER-full": 1, "PG-diagonal": 2, "PG-full": 3, "MC-diagonal": 4,
        "MC-full": 5, "MCMC": 6}  # fmt: skip
PUBLISHED = {"elbo": 0, "auc": 1, "mse": 5, "coverage": 6, "width": 7, "seconds": 8, "kl_mc": 9}
STAN = """
data { int N; int K; matrix[N, K] x; array[N] int y; }
parameters { vector[K] beta; }
model {
  target += std_normal_lpdf(beta);
  target += bernoulli_logit_glm_lpmf(y | x, 0, beta);
}
"""


@dataclass(frozen=True)
class Posterior:
    """Mean and standard deviation of f(x_i); mean and covariance of β where q is Gaussian."""

    f_mean: np.ndarray
    f_sd: np.ndarray
    seconds: float
    elbo: float = float("nan")
    mean: np.ndarray | None = None
    cov: np.ndarray | None = None
    interval: np.ndarray | None = None


def gaussian_kl(m0, S0, m1, S1) -> float:
    """KL(N(m0, S0) || N(m1, S1))."""
    P1 = np.linalg.inv(S1)
    d = m1 - m0
    log_det = np.linalg.slogdet(S1)[1] - np.linalg.slogdet(S0)[1]
    return float(0.5 * (np.trace(P1 @ S0) + d @ P1 @ d - len(d) + log_det))


def auc(score: np.ndarray, y: np.ndarray) -> float:
    """Area under the ROC curve, from ranks."""
    n1 = y.sum()
    return float((rankdata(score)[y == 1].sum() - n1 * (n1 + 1) / 2) / (n1 * (len(y) - n1)))


def variational(X, y, method, steps: int) -> Posterior:
    """Fit by one pm.fit method; seconds exclude compilation."""
    with pm.Model():
        beta = pm.Normal("beta", 0, 1, shape=X.shape[1])
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
        approx = pm.fit(steps, method=method(), progressbar=False)
    mean, cov = approx.mean.eval(), approx.cov.eval()
    sd = np.sqrt(np.einsum("ij,jk,ik->i", X, cov, X))
    elbo = approx.evaluate(10_000, random_seed=0).elbo
    return Posterior(X @ mean, sd, approx.result.seconds, elbo, mean, cov)


def mcmc(X, y, program: StanProgram, seed: int) -> Posterior:
    """NUTS, 4 chains of 1000 after 1000; intervals from quantiles."""
    program.compile()
    data = {"N": len(y), "K": X.shape[1], "x": X, "y": y}
    begin = time.perf_counter()
    idata = nuts(program, data, random_seed=seed)
    seconds = time.perf_counter() - begin
    draws = idata.posterior["beta"].to_numpy().reshape(-1, X.shape[1])
    f = draws @ X.T
    interval = np.quantile(f, [0.025, 0.975], axis=0)
    return Posterior(f.mean(0), f.std(0), seconds, interval=interval)


def metrics(q: Posterior, reference: Posterior, X, y, truth) -> dict[str, float]:
    """The table's columns."""
    f0 = X @ truth
    half = norm.ppf(0.975) * q.f_sd
    low, high = (q.f_mean - half, q.f_mean + half) if q.interval is None else q.interval
    kl = float("nan")
    if q.mean is not None and q is not reference:
        kl = gaussian_kl(reference.mean, reference.cov, q.mean, q.cov)
    return {
        "elbo": q.elbo,
        "kl_mc": kl,
        "mse": float(np.mean((q.f_mean - f0) ** 2)),
        "coverage": float(np.mean((low <= f0) & (f0 <= high))),
        "width": float(np.mean(high - low)),
        "auc": auc(q.f_mean, y),
        "seconds": q.seconds,
    }


def one_data_set(X, y, truth, seed, options, program) -> dict[str, dict[str, float]]:
    """Every method on one data set."""
    fits = {}
    for covariance in ("diagonal", "full"):
        fits[f"PER-{covariance}"] = variational(X, y, lambda c=covariance: px.ViperVI(c), 1000)
        fits[f"PG-{covariance}"] = variational(X, y, lambda c=covariance: px.JaakkolaVI(c), 5000)
        fits[f"MC-{covariance}"] = variational(
            X, y, lambda c=covariance: px.MonteCarloVI(c, draws=options.mc_draws, random_seed=seed),
            options.mc_steps,
        )  # fmt: skip
    if not options.no_mcmc:
        fits["MCMC"] = mcmc(X, y, program, seed)
    table = {}
    for name, q in fits.items():
        family = "diagonal" if name.endswith("diagonal") else "full"
        table[name] = metrics(q, fits[f"MC-{family}"], X, y, truth)
    return table


def load(options) -> list[tuple]:
    """(seed, X, y, β, published rows or None) of each data set."""
    sets = []
    generated = options.data / "generated" / "gen_2_1_2.npz" if options.data else None
    if generated is not None and generated.is_file():
        stored = np.load(generated)
        published = np.load(options.data / "results" / "res_2_1_2.npz")["metrics"]
        for seed in range(1, min(options.seeds, 5) + 1):
            X, y, b = (stored[f"{key}{seed}"] for key in "Xyb")
            sets.append((seed, X, y.astype(int), b, published[:, seed - 1]))
        return sets
    for seed in range(1, options.seeds + 1):
        X, y, b = simulate(options.n, options.p, options.setting, random_seed=seed)
        sets.append((seed, X, y, b, None))
    return sets


def main() -> None:
    """Run, print medians beside the published ones, and keep every seed as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--setting", type=int, default=3)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--p", type=int, default=25)
    parser.add_argument("--mc-steps", type=int, default=2000)
    parser.add_argument("--mc-draws", type=int, default=100)
    parser.add_argument("--no-mcmc", action="store_true")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    program = StanProgram(STAN, name="viper_table2")
    rows = []
    for seed, X, y, truth, published in load(options):
        for name, ours in one_data_set(X, y, truth, seed, options, program).items():
            paper = None
            if published is not None:
                paper = {c: float(published[ROWS[name], PUBLISHED[c]]) for c in COLUMNS}
            rows.append({"seed": seed, "method": name, "ours": ours, "published": paper})
            print(seed, name, {c: round(v, 4) for c, v in ours.items()}, flush=True)
    print(f"\nmedians over {options.seeds} data sets, ours | published")
    print(f"{'':14s}" + "".join(f"{c:>20s}" for c in COLUMNS))
    for name in ROWS:
        mine = [r for r in rows if r["method"] == name]
        if not mine:
            continue
        cells = []
        for c in COLUMNS:
            value = np.median([r["ours"][c] for r in mine])
            theirs = [r["published"][c] for r in mine if r["published"]]
            cells.append(f"{value:10.4g}|{np.median(theirs) if theirs else np.nan:<9.4g}")
        print(f"{name:14s}" + "".join(cells))
    source = "corpus" if options.data else "simulated"
    settings = {k: str(v) if isinstance(v, Path) else v for k, v in vars(options).items()}
    settings.pop("results"), settings.pop("data")
    write(
        options.results / f"viper_table2_{source}.json",
        {"settings": {**settings, "source": source}, "rows": rows},
        "cmdstanpy",
    )


if __name__ == "__main__":
    main()
