"""The models of `benchmarks.speed.recovery`, on data simulated anew, as JAX functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_ext.density import CallableDensity


@dataclass(frozen=True)
class Simulated:
    """A density, and which of its coordinates are log scales: the others are locations."""

    function: Callable[[Any], Any]
    names: Sequence[str]
    scales: tuple[str, ...]

    @property
    def density(self) -> CallableDensity:
        """Of the JAX function."""
        names = list(self.names)
        return CallableDensity(self.function, dimension=len(names), jax=True, names=names)


def grouped(rng: np.random.Generator, slope: float = 1.0, groups: int = 10) -> Simulated:
    """y_ij ~ N(θ_i, 1), θ_i ~ N(μ, τ²), centred; log τ = slope · t."""
    import jax.numpy as jnp
    from jax.scipy.stats import norm

    rows, noise = 2, 2.0
    t = rng.normal(0, 0.5)
    theta = rng.normal(1.0, np.exp(slope * t), groups)
    y = theta[:, None] + noise * rng.standard_normal((groups, rows))

    def log_density(x: Any) -> Any:
        theta, mu, t = x[:groups], x[groups], x[groups + 1]
        prior = norm.logpdf(mu, 0, 3) + norm.logpdf(t, 0, 1)
        effects = norm.logpdf(theta, mu, jnp.exp(slope * t)).sum()
        return prior + effects + norm.logpdf(y, theta[:, None], noise).sum()

    names = [f"theta[{i}]" for i in range(groups)] + ["mu", "t"]
    return Simulated(log_density, names, ("t",))


def not_centred(rng: np.random.Generator) -> Simulated:
    """y_ij ~ N(μ + τ z_i, 1), z ~ N(0, 1): where the data say much, τ shrinks each z_i's sd."""
    import jax.numpy as jnp
    from jax.scipy.stats import norm

    groups, rows = 10, 10
    effects = 1.0 + np.exp(rng.normal(0, 0.5)) * rng.standard_normal(groups)
    y = effects[:, None] + rng.standard_normal((groups, rows))

    def log_density(x: Any) -> Any:
        z, mu, t = x[:groups], x[groups], x[groups + 1]
        prior = norm.logpdf(mu, 0, 3) + norm.logpdf(t, 0, 1) + norm.logpdf(z).sum()
        return prior + norm.logpdf(y, (mu + jnp.exp(t) * z)[:, None], 1.0).sum()

    names = [f"z[{i}]" for i in range(groups)] + ["mu", "t"]
    return Simulated(log_density, names, ("t",))


def nested(rng: np.random.Generator) -> Simulated:
    """Two levels: α_k ~ N(μ, τ₁²), θ_ki ~ N(α_k, τ₂²), y ~ N(θ, 2)."""
    import jax.numpy as jnp
    from jax.scipy.stats import norm

    K, n, noise = 5, 4, 2.0
    alpha = rng.normal(0, np.exp(rng.normal(0, 0.4)), K)
    theta = alpha[:, None] + np.exp(rng.normal(0, 0.4)) * rng.standard_normal((K, n))
    y = theta[..., None] + noise * rng.standard_normal((K, n, 2))

    def log_density(x: Any) -> Any:
        theta, alpha, mu, t1, t2 = x[: K * n].reshape(K, n), x[K * n : -3], x[-3], x[-2], x[-1]
        prior = norm.logpdf(mu, 0, 2) + norm.logpdf(t1, 0, 0.7) + norm.logpdf(t2, 0, 0.7)
        upper = norm.logpdf(alpha, mu, jnp.exp(t1)).sum()
        lower = norm.logpdf(theta, alpha[:, None], jnp.exp(t2)).sum()
        return prior + upper + lower + norm.logpdf(y, theta[..., None], noise).sum()

    names = [f"theta[{i}]" for i in range(K * n)] + [f"alpha[{k}]" for k in range(K)]
    names += ["mu", "t1", "t2"]
    return Simulated(log_density, names, ("t1", "t2"))


def crossed(rng: np.random.Generator) -> Simulated:
    """y_ij ~ N(a_i + b_j, 2), a ~ N(0, τ_a²), b ~ N(0, τ_b²)."""
    import jax.numpy as jnp
    from jax.scipy.stats import norm

    n, noise = 8, 2.0
    a, b = (np.exp(rng.normal(0, 0.4)) * rng.standard_normal(n) for _ in range(2))
    y = a[:, None] + b + noise * rng.standard_normal((n, n))

    def log_density(x: Any) -> Any:
        a, b, ta, tb = x[:n], x[n : 2 * n], x[-2], x[-1]
        prior = norm.logpdf(ta, 0, 0.7) + norm.logpdf(tb, 0, 0.7)
        effects = norm.logpdf(a, 0, jnp.exp(ta)).sum() + norm.logpdf(b, 0, jnp.exp(tb)).sum()
        return prior + effects + norm.logpdf(y, a[:, None] + b, noise).sum()

    names = [*(f"a[{i}]" for i in range(n)), *(f"b[{i}]" for i in range(n)), "ta", "tb"]
    return Simulated(log_density, names, ("ta", "tb"))


def correlated(rng: np.random.Generator) -> Simulated:
    """y_ij ~ N(a_i + b_i x_ij, 1), (a_i, b_i) normal with sds e^ta, e^tb and correlation tanh r."""
    import jax.numpy as jnp
    from jax.scipy.stats import norm

    groups, rows = 10, 4
    (sa, sb), rho = np.exp(rng.normal(-0.3, 0.4, 2)), np.tanh(rng.normal(0, 0.5))
    z, x = rng.standard_normal((2, groups)), rng.standard_normal((groups, rows))
    a, b = sa * z[0], sb * (rho * z[0] + np.sqrt(1 - rho**2) * z[1])
    y = a[:, None] + b[:, None] * x + rng.standard_normal((groups, rows))

    def log_density(theta: Any) -> Any:
        a, b = theta[:groups], theta[groups : 2 * groups]
        ta, tb, r = theta[-3], theta[-2], theta[-1]
        rho = jnp.tanh(r)
        prior = norm.logpdf(ta, 0, 1) + norm.logpdf(tb, 0, 1) + norm.logpdf(r, 0, 0.5)
        mean = rho * jnp.exp(tb - ta) * a
        effects = norm.logpdf(a, 0, jnp.exp(ta)).sum()
        effects += norm.logpdf(b, mean, jnp.exp(tb) * jnp.sqrt(1 - rho**2)).sum()
        return prior + effects + norm.logpdf(y, a[:, None] + b[:, None] * x, 1.0).sum()

    names = [*(f"a[{i}]" for i in range(groups)), *(f"b[{i}]" for i in range(groups))]
    return Simulated(log_density, [*names, "ta", "tb", "r"], ("ta", "tb", "r"))


def horseshoe(rng: np.random.Generator) -> Simulated:
    """y ~ N(X β, 1), β_j ~ N(0, (λ_j τ)²) with half-Cauchy λ_j and τ: two of eight are not zero."""
    import jax.numpy as jnp
    from jax.scipy.stats import norm

    p, rows = 8, 40
    X, beta = rng.standard_normal((rows, p)), np.r_[2.0, -1.5, np.zeros(p - 2)]
    y = X @ beta + rng.standard_normal(rows)

    def log_density(x: Any) -> Any:
        beta, logs = x[:p], x[p:]  # log λ, then log τ
        prior = jnp.sum(logs - jnp.log1p(jnp.exp(2 * logs)))
        effects = norm.logpdf(beta, 0, jnp.exp(logs[:p] + logs[p])).sum()
        return prior + effects + norm.logpdf(y, X @ beta, 1.0).sum()

    names = [f"beta[{j}]" for j in range(p)]
    scales = (*(f"l[{j}]" for j in range(p)), "t")
    return Simulated(log_density, [*names, *scales], scales)


def gaussian(rng: np.random.Generator) -> Simulated:
    """No hierarchy: nothing may be linked."""
    import jax.numpy as jnp

    A = rng.standard_normal((20, 20))
    P = A @ A.T / 20 + np.eye(20)
    names = [f"x[{i}]" for i in range(20)]
    return Simulated(lambda x: -0.5 * x @ jnp.asarray(P) @ x, names, ())


MODELS: dict[str, Callable[[np.random.Generator], Simulated]] = {
    "sd": grouped,
    "log variance": lambda rng: grouped(rng, 0.5),
    "log precision": lambda rng: grouped(rng, -0.5),
    "not centred": not_centred,
    "nested": nested,
    "crossed": crossed,
    "correlated": correlated,
    "horseshoe": horseshoe,
    "gaussian": gaussian,
}
