"""Standard normals that a fit keeps: scrambled Sobol points with exact moments, or plain draws."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from pymc_ext.maths.types import Array
from pymc_ext.options import require_count

KINDS = ("sobol", "iid")
SOBOL_RATIO = 8  # draws per dimension from which whitened Sobol points beat random ones


def fixed_normals(draws: int, dim: int, kind: str, rng: np.random.Generator) -> Array:
    """Fixed z, shape (draws, dim).

    ``"sobol"``: scrambled Sobol points through the normal quantile, then (with more draws than
    dimensions) shifted, rotated and scaled to mean 0 and covariance I exactly, so that the
    objective is exact for a Gaussian target: no direction looks narrower than it is, which a free
    covariance would exploit. With fewer than eight draws a dimension random points take the place
    of Sobol's, whose kurtosis is then up to 0.5 too low. ``"iid"``: plain normal draws, as in the
    paper.
    """
    require_count("draws", draws, least=2)
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {KINDS}, got {kind!r}")
    if kind == "iid":
        return rng.standard_normal((draws, dim))
    few = draws < SOBOL_RATIO * dim
    z = rng.standard_normal((draws, dim)) if few else _sobol_normals(draws, dim, rng)
    z -= z.mean(axis=0)
    if draws > dim:
        Q, R = np.linalg.qr(z)  # not by Cholesky: with few draws z.T @ z is nearly singular
        z = Q * np.sign(np.diag(R)) * np.sqrt(draws)
    return z


def _sobol_normals(draws: int, dim: int, rng: np.random.Generator) -> Array:
    from scipy.stats import qmc  # half a second to import, which a Laplace fit does without

    sobol = qmc.Sobol(dim, scramble=True, bits=48, rng=rng)
    u = sobol.random_base2(int(np.ceil(np.log2(draws))))[:draws]
    return ndtri(np.clip(u, 1e-15, 1 - 1e-15))  # scrambling can give 0
