"""Joint densities of the embedded cases in SciPy, written apart from the Stan and PyMC programs.

Each takes the case's data and constrained values with any number of leading axes (scalars
``(...)``, vectors ``(..., n)``) and returns the log joint density, every constant included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import special, stats

from posteriordb_cases import Case

Values = Mapping[str, np.ndarray]


def eight_schools_centered(data: Mapping[str, Any], v: Values) -> np.ndarray:
    mu, tau = v["mu"][..., None], v["tau"][..., None]
    return (
        stats.norm.logpdf(v["mu"], 0, 5)
        + stats.halfcauchy.logpdf(v["tau"], scale=5)
        + stats.norm.logpdf(v["theta"], mu, tau).sum(-1)
        + stats.norm.logpdf(data["y"], v["theta"], data["sigma"]).sum(-1)
    )


def eight_schools_noncentered(data: Mapping[str, Any], v: Values) -> np.ndarray:
    theta = v["mu"][..., None] + v["tau"][..., None] * v["theta_trans"]
    return (
        stats.norm.logpdf(v["mu"], 0, 5)
        + stats.halfcauchy.logpdf(v["tau"], scale=5)
        + stats.norm.logpdf(v["theta_trans"]).sum(-1)
        + stats.norm.logpdf(data["y"], theta, data["sigma"]).sum(-1)
    )


def bernoulli_beta(data: Mapping[str, Any], v: Values) -> np.ndarray:
    prior = stats.beta.logpdf(v["p"], data["prior_successes"], data["prior_failures"])
    return prior + stats.bernoulli.logpmf(data["y"], v["p"][..., None]).sum(-1)


def cauchy_location(data: Mapping[str, Any], v: Values) -> np.ndarray:
    likelihood = stats.cauchy.logpdf(data["y"], v["xi"][..., None], data["scale"]).sum(-1)
    return stats.norm.logpdf(v["xi"]) + likelihood


def linear_regression(data: Mapping[str, Any], v: Values) -> np.ndarray:
    location = v["b"][..., None] + v["w"] @ data["x"].T
    return (
        stats.norm.logpdf(v["w"], 0, 10).sum(-1)
        + stats.norm.logpdf(v["b"], 0, 10)
        + stats.lognorm.logpdf(v["sigma"], s=1, scale=np.exp(0.5))
        + stats.norm.logpdf(data["y"], location, v["sigma"][..., None]).sum(-1)
    )


def gaussian(data: Mapping[str, Any], v: Values) -> np.ndarray:
    factor = data["scale_tril"]
    z = np.linalg.solve(factor, (v["x"] - data["mu"])[..., None])[..., 0]
    log_det = np.log(np.diag(factor)).sum()
    return stats.norm.logpdf(z).sum(-1) - log_det + data["log_evidence"]


LOG_JOINT: dict[str, Callable[[Mapping[str, Any], Values], np.ndarray]] = {
    function.__name__: function
    for function in (
        eight_schools_centered,
        eight_schools_noncentered,
        bernoulli_beta,
        cauchy_location,
        linear_regression,
        gaussian,
    )
}
DERIVED = {"eight_schools_noncentered": {"theta"}}
POSITIVE = {"tau", "sigma"}
UNIT_INTERVAL = {"p"}


def parameter_shapes(case: Case) -> dict[str, tuple[int, ...]]:
    """Name to shape of the parameters; only vectors of length >= 2 occur."""
    derived = DERIVED.get(case.model_name, set())
    shapes = {name: () if n == 1 else (n,) for name, n in case.dimensions.items()}
    return {name: shape for name, shape in shapes.items() if name not in derived}


def constrain(name: str, unconstrained: np.ndarray) -> np.ndarray:
    """The constrained value: exp for positive parameters, the logistic on (0, 1)."""
    if name in POSITIVE:
        return np.exp(unconstrained)
    return special.expit(unconstrained) if name in UNIT_INTERVAL else unconstrained


def log_jacobian(name: str, unconstrained: np.ndarray) -> np.ndarray:
    """Log |d constrained / d unconstrained|, elementwise."""
    if name in POSITIVE:
        return unconstrained
    if name in UNIT_INTERVAL:
        return special.log_expit(unconstrained) + special.log_expit(-unconstrained)
    return np.zeros_like(unconstrained)


def random_points(case: Case, number: int, seed: int) -> dict[str, np.ndarray]:
    """Unconstrained values by name, ``(number, *shape)``, spread as widely as the posterior."""
    rng = np.random.default_rng(seed)
    spread = case.exact["sd"] if case.model_name == "gaussian" else {}
    return {
        name: np.asarray(spread.get(name, 1.5)) * rng.standard_normal((number, *shape))
        for name, shape in parameter_shapes(case).items()
    }


def unconstrained_log_density(case: Case, points: Values) -> np.ndarray:
    """Log joint density with the log-Jacobian at unconstrained ``points``, (N,)."""
    values = {name: constrain(name, u) for name, u in points.items()}
    jacobian = sum(
        log_jacobian(name, u).reshape(len(u), -1).sum(axis=1) for name, u in points.items()
    )
    return LOG_JOINT[case.model_name](case.data, values) + jacobian
