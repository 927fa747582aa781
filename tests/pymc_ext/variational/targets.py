"""Small models that several test files share."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats

WEIGHT = np.array([2 / 3, 1 / 3])
MEAN = np.array([[0.0, 0.0], [-1.0, -2.0]])
SD = np.sqrt([[1.0, 1.0], [3.5, 0.3]])
SCHOOLS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
CAUCHY = np.array([1.2083935, -2.7329216, 4.1769943, 1.9710574, -4.2004027, -2.384988])


def two_gaussians():
    """Gianniotis, eq. 14: the target of figure 1, normalised."""
    with pm.Model() as model:
        w = pm.Flat("w", shape=2)
        parts = [
            np.log(WEIGHT[k]) + pm.logp(pm.Normal.dist(MEAN[k], SD[k]), w).sum() for k in (0, 1)
        ]
        pm.Potential("mixture", pt.logsumexp(pt.stack(parts)))
    return model


def two_gaussians_kl(approx):
    """KL(q ‖ p) of a Gaussian q by 100 x 100 Gauss–Hermite points."""
    x, w = np.polynomial.hermite_e.hermegauss(100)
    z = np.stack(np.meshgrid(x, x), -1).reshape(-1, 2)
    weight = np.outer(w, w).ravel() / (2 * np.pi)
    L = np.linalg.cholesky(approx.cov.eval())
    theta = approx.mean.eval() + z @ L.T
    logp = np.logaddexp(
        *(np.log(WEIGHT[k]) + stats.norm(MEAN[k], SD[k]).logpdf(theta).sum(1) for k in (0, 1))
    )
    return -weight @ logp - np.log(np.linalg.det(L)) - np.log(2 * np.pi * np.e)


def eight_schools(centred):
    y, sigma = SCHOOLS
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
        if centred:
            theta = pm.Normal("theta", mu, tau, shape=8)
        else:
            theta = mu + tau * pm.Normal("z", 0, 1, shape=8)
        pm.Normal("y", theta, sigma, observed=y)
    return model


def cauchy_location():
    """Dürr et al.: bimodal, log evidence −21.430686 by quadrature."""
    with pm.Model() as model:
        xi = pm.Normal("xi", 0, 1)
        pm.Cauchy("y", xi, 0.5, observed=CAUCHY)
    return model


def ridge(rng, n=40):
    """Linear regression whose prior precision and noise are hyperparameters; and the data."""
    X = rng.normal(size=(n, 5))
    y = X @ rng.normal(size=5) * 2 + 0.7 * rng.normal(size=n)
    with pm.Model() as model:
        alpha, sigma = pm.HalfFlat("alpha"), pm.HalfFlat("sigma")
        w = pm.Normal("w", 0, 1 / pm.math.sqrt(alpha), shape=5)
        pm.Normal("y", X @ w, sigma, observed=y)
    return model, X, y


def ridge_log_evidence(X, y, alpha, sigma):
    cov = X @ X.T / alpha + sigma**2 * np.eye(len(y))
    return stats.multivariate_normal(np.zeros(len(y)), cov).logpdf(y)
