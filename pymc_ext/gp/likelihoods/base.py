"""What a factorising likelihood offers to every update rule.

Notation: ℓ(f) = log p(y | f), normaliser included; ℓ', ℓ'', ℓ''' its derivatives in the latent f;
φ the likelihood's own parameters (constrained), in the order of ``names``. Arrays broadcast: f has
shape (..., n) against y (n,).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from pymc_ext.gp.errors import HyperparameterError
from pymc_ext.gp.quadrature import MIDDLE, SPAN, Nodes, gaussian_nodes, peak_nodes

Parameters = np.ndarray  # (P,), constrained
PLACE = 1e-5  # accuracy, in sd, of where the nodes are laid
DOUBLINGS = 60  # most steps, of a cavity sd times 2^k, to the bracket of a mode
FAR, PULL = 6.0, 3.0  # sd from the mean beyond which the nodes around it may miss a peak
CLIMBS = 40  # steps to the peaks of a tilted density that may have two
PEAK = 3.5  # Gauss–Hermite nodes for a cavity of at most 1 or 2 sd of p(y|f): errors below 1e-6
HELD = 6.0  # a panel of 16 Gauss–Legendre nodes resolves a peak if it is at most 6 of its sd long


class Expectations(NamedTuple):
    """E_q ℓ (n,), E_q of its first four derivatives (4, n) and E_q ∂φ of ℓ, ℓ', ℓ'' (P, 3, n)."""

    value: np.ndarray
    derivatives: np.ndarray
    parameters: np.ndarray


class Tilted(NamedTuple):
    """log Ẑ, mean and variance of p(y|f)^a q(f) / Ẑ, each (n,); E ∂φℓ under it (P, n)."""

    log_normaliser: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    parameters: np.ndarray


class Likelihood(ABC):
    """A factorising likelihood Π p(y_i | f_i, φ) with one latent per observation.

    Subclasses give ℓ and its derivatives; expectations and tilted moments come from quadrature
    unless a closed form is known.
    """

    names: ClassVar[tuple[str, ...]] = ()
    log_concave: ClassVar[bool] = True
    n_latent: int = 1

    def __init__(self, **parameters: Any):
        self.parameters = parameters

    @abstractmethod
    def check(self, y: ArrayLike) -> np.ndarray:
        """Observations as a float array (n,); raises ValueError on values outside the support."""

    @abstractmethod
    def log_prob(self, f: np.ndarray, y: np.ndarray, phi: Parameters) -> np.ndarray:
        """ℓ, normaliser included."""

    @abstractmethod
    def derivatives(
        self, f: np.ndarray, y: np.ndarray, phi: Parameters
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """ℓ', ℓ'', ℓ'''."""

    @abstractmethod
    def scale(self, y: np.ndarray, phi: Parameters) -> tuple[np.ndarray, np.ndarray]:
        """Centre and width of ℓ's features, each (n,), for quadrature only."""

    @abstractmethod
    def moments(self, f: np.ndarray, phi: Parameters) -> tuple[np.ndarray, np.ndarray]:
        """E[y | f] and Var[y | f]."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, f: np.ndarray, phi: Parameters) -> np.ndarray:
        """One y for every f."""

    def parameter_derivatives(self, f: np.ndarray, y: np.ndarray, phi: Parameters) -> np.ndarray:
        """∂φ of ℓ, ℓ', ℓ'', shape (P, 3, *f.shape)."""
        shape = f.shape if self.n_latent > 1 else np.broadcast_shapes(f.shape, y.shape)
        return np.empty((0, 3, *shape))

    def check_parameters(self, phi: Parameters) -> None:
        """Raise HyperparameterError unless φ is in its support; overridden where there is one."""
        for name, value in zip(self.names, phi, strict=True):
            if not (np.isfinite(value) and value > 0):
                raise HyperparameterError(
                    f"{name} must be positive and finite, got {float(value)!r}"
                )

    def matched(
        self, y: np.ndarray, phi: Parameters, method: str, alpha: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the Gaussian that replaces every p(y_i | f), see `Matching`."""
        raise ValueError(
            f"no Gaussian stands for {type(self).__name__} in the table of matches: use "
            "BernoulliLogit, Categorical or Poisson, or rule=CVI()"
        )

    def start(self, y: np.ndarray, phi: Parameters, prior_mean: np.ndarray) -> np.ndarray:
        """Latent values at which a mode search starts, (n,)."""
        return prior_mean.copy()

    def expectations(
        self,
        mean: np.ndarray,
        variance: np.ndarray,
        y: np.ndarray,
        phi: Parameters,
        order: int = 2,
    ) -> Expectations:
        """Expectations under N(mean, variance), derivatives up to ``order`` (the rest is zero)."""
        sd = np.sqrt(variance)
        P, n = len(self.names), len(y)
        value, deriv, par = np.empty(n), np.zeros((4, n)), np.empty((P, 3, n))
        for i, f, log_w in gaussian_nodes(mean, sd, *self.scale(y, phi)):
            w = np.exp(log_w)
            value[i] = np.sum(w * self.log_prob(f, y[i], phi), axis=0)
            d1, d2, d3 = self.derivatives(f, y[i], phi)
            deriv[0, i], deriv[1, i] = np.sum(w * d1, axis=0), np.sum(w * d2, axis=0)
            if order > 2:
                deriv[2, i] = np.sum(w * d3, axis=0)
                z = (f - mean[i]) / sd[i]
                deriv[3, i] = np.sum(w * d3 * z, axis=0) / sd[i]  # Stein: E ℓ'''' = E ℓ''' z / s
            if P:
                par[:, :, i] = np.sum(w * self.parameter_derivatives(f, y[i], phi), axis=2)
        return Expectations(value, deriv, par)

    def tilted(
        self,
        mean: np.ndarray,
        variance: np.ndarray,
        y: np.ndarray,
        phi: Parameters,
        power: float = 1.0,
    ) -> Tilted:
        """Moments of p(y|f)^power N(f | mean, variance), normalised."""
        P, n = len(self.names), len(y)
        log_z, mu, var, par = np.empty(n), np.empty(n), np.empty(n), np.empty((P, n))
        for i, f, log_w in self._tilted_nodes(mean, variance, y, phi, power):
            log_r = power * self.log_prob(f, y[i], phi) + log_w
            log_z[i] = logsumexp(log_r, axis=0)
            r = np.exp(log_r - log_z[i])
            mu[i] = np.sum(r * f, axis=0)
            var[i] = np.sum(r * (f - mu[i]) ** 2, axis=0)
            if P:
                par[:, i] = np.sum(r * self.parameter_derivatives(f, y[i], phi)[:, 0], axis=1)
        return Tilted(log_z, mu, var, par)

    def _tilted_nodes(
        self,
        mean: np.ndarray,
        variance: np.ndarray,
        y: np.ndarray,
        phi: Parameters,
        power: float,
    ) -> Iterator[Nodes]:
        """Groups (index, f, log weight): ∫ N(f | mean, variance) g(f) df ≈ Σ exp(log weight) g(f).

        The nodes cover and resolve g = p(y|f)^power times anything smooth. They are those of
        a Gaussian at the tilted mode m of a log-concave likelihood (its tilted variance is never
        larger), at the mean for others. ℓ may be smooth on a scale where p(y|f) is not, so its
        width is at most `PEAK`/√κ, κ = −power ℓ''; what is narrower yet gets panels around its
        peaks.
        """
        sd, (c, w) = np.sqrt(variance), self.scale(y, phi)
        m = self._mode(mean, variance, y, phi, power) if self.log_concave else mean
        curvature = self._curvature(m if self.log_concave else c, y, phi, power)
        w = np.minimum(w, PEAK / np.sqrt(curvature))
        if self.log_concave:
            sharp = _sharp(m, sd, c, w, curvature)
        else:
            sharp = self._remote(mean, sd, c, w, y, phi, power)
        easy, hard = np.flatnonzero(~sharp), np.flatnonzero(sharp)
        for k, f, log_w in gaussian_nodes(m[easy], sd[easy], c[easy], w[easy]):
            i = easy[k]
            if self.log_concave:  # m is not the mean
                log_w = log_w + _log_ratio(f, mean[i], variance[i], m[i], variance[i])
            yield i, f, log_w
        if not hard.size:
            return
        m, v, c, y = m[hard], variance[hard], c[hard], y[hard]
        peaks = m[None] if self.log_concave else self._peaks(m, v, c, y, phi, power)
        narrow = 1 / np.sqrt(1 / v + self._curvature(peaks, y, phi, power))
        low, high = np.minimum(m, c) - SPAN * sd[hard], np.maximum(m, c) + SPAN * sd[hard]
        places, scales = np.stack([m, c, *peaks]), np.stack([sd[hard], w[hard], *narrow])
        for k, f, log_w in peak_nodes(low, high, places, scales):
            i = hard[k]
            z2 = (f - mean[i]) ** 2 / variance[i]
            yield i, f, log_w - 0.5 * (z2 + np.log(2 * np.pi * variance[i]))

    def _curvature(self, f: np.ndarray, y: np.ndarray, phi: Parameters, power: float) -> np.ndarray:
        """−power ℓ'', at least the smallest positive number."""
        return np.maximum(-power * self.derivatives(f, y, phi)[1], np.finfo(float).tiny)

    def _remote(
        self,
        m: np.ndarray,
        sd: np.ndarray,
        c: np.ndarray,
        w: np.ndarray,
        y: np.ndarray,
        phi: Parameters,
        power: float,
    ) -> np.ndarray:
        """Where mass may lie, or vary, too far from the mean m for `gaussian_nodes`.

        A Gaussian that is narrow against the likelihood leaves the tilted density log-concave, its
        mode about m + s² power ℓ'(m); a wide one may leave peaks at both m and the centre c.
        """
        far = (np.abs(m - c) > FAR * sd) & np.isfinite(m)
        narrow = np.flatnonzero(far & (sd <= MIDDLE * w))
        if narrow.size:
            pull = sd[narrow] * power * self.derivatives(m[narrow], y[narrow], phi)[0]
            far[narrow] = np.abs(pull) > PULL
        return far

    def _peaks(
        self,
        m: np.ndarray,
        v: np.ndarray,
        c: np.ndarray,
        y: np.ndarray,
        phi: Parameters,
        power: float,
    ) -> np.ndarray:
        """The maxima of the tilted density that are first met from m and from c, (2, n).

        Every step goes to the mean of N(m, v) times the Gaussian at c with ℓ's slope in f, of
        precision ω = power ℓ'(f)/(c − f). If ω grows towards c, as a Student-t's, the steps from
        either side never pass a maximum; for a Student-t they are those of EM.
        """
        at_c = self._curvature(c, y, phi, power)
        omega = np.stack([np.zeros_like(m), at_c])
        for _ in range(CLIMBS):
            f = m + v * omega / (1 + v * omega) * (c - m)
            gap = c - f
            with np.errstate(divide="ignore", invalid="ignore"):
                slope = power * self.derivatives(f, y, phi)[0] / gap
            omega = np.where(gap == 0, at_c, np.maximum(slope, 0.0))
        return f

    def _mode(
        self,
        mean: np.ndarray,
        variance: np.ndarray,
        y: np.ndarray,
        phi: Parameters,
        power: float,
    ) -> np.ndarray:
        """The tilted mode of a log-concave likelihood to `PLACE` sd.

        Steps of 1, 2, 4, ... sd in the direction of the slope until it changes sign, then
        bisection: a Newton step, or a bound from the slope in the mean, overflows with e^f.
        """
        sd = np.sqrt(variance)
        toward = np.sign(self.derivatives(mean, y, phi)[0])

        def rises(t: np.ndarray) -> np.ndarray:
            f = mean + toward * t
            return toward * (power * self.derivatives(f, y, phi)[0]) > t / variance

        near, far = np.zeros_like(sd), sd
        for _ in range(DOUBLINGS):
            beyond = rises(far)
            if not beyond.any():
                break
            near, far = np.where(beyond, far, near), np.where(beyond, 2 * far, far)
        widest = np.nanmax((far - near) / sd, initial=1.0)
        for _ in range(int(np.ceil(np.log2(widest / PLACE)))):
            middle = (near + far) / 2
            beyond = rises(middle)
            near, far = np.where(beyond, middle, near), np.where(beyond, far, middle)
        return mean + toward * (near + far) / 2

    def predict(
        self, mean: np.ndarray, variance: np.ndarray, phi: Parameters
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of y when f ~ N(mean, variance), each (n,)."""
        total, second = np.empty_like(mean), np.empty_like(mean)
        c, w = self.scale(np.zeros_like(mean), phi)
        for i, f, log_w in gaussian_nodes(mean, np.sqrt(variance), c, w):
            m, v = self.moments(f, phi)
            weight = np.exp(log_w)
            total[i] = np.sum(weight * m, axis=0)
            second[i] = np.sum(weight * (v + (m - total[i]) ** 2), axis=0)
        return total, second

    def __repr__(self) -> str:
        inside = ", ".join(f"{k}={v!r}" for k, v in self.parameters.items())
        return f"{type(self).__name__}({inside})"


def _sharp(
    m: np.ndarray, sd: np.ndarray, c: np.ndarray, w: np.ndarray, curvature: np.ndarray
) -> np.ndarray:
    """Where the panels of `gaussian_nodes` are too long, about m, for a peak of this curvature."""
    length = np.minimum(3 * sd, np.maximum(w, 2 * np.abs(m - c)))
    return HELD / np.sqrt(1 / sd**2 + curvature) < length


def _log_ratio(
    f: np.ndarray, m: np.ndarray, v: np.ndarray, m0: np.ndarray, v0: np.ndarray
) -> np.ndarray:
    """log N(f | m, v) − log N(f | m0, v0)."""
    return 0.5 * ((f - m0) ** 2 / v0 - (f - m) ** 2 / v + np.log(v0 / v))


def check_finite(y: ArrayLike) -> np.ndarray:
    """``y`` as a float array (n,); raises ValueError unless it is one-dimensional and finite."""
    y = np.asarray(y)
    if y.dtype.kind not in "biuf":
        raise ValueError(f"y must hold numbers, got dtype {y.dtype}")
    y = y.astype(float)
    if y.ndim != 1 or y.size == 0:
        column = "; use y[:, 0]" if y.ndim == 2 and y.shape[1] == 1 else ""
        raise ValueError(f"y must be one-dimensional and not empty, got shape {y.shape}{column}")
    if not np.isfinite(y).all():
        bad = np.flatnonzero(~np.isfinite(y))
        raise ValueError(
            f"y must be finite, got {y[bad[0]].item()!r} in row {bad[0]} ({bad.size} such)"
        )
    return y


def check_counts(y: ArrayLike) -> np.ndarray:
    """``y`` as whole numbers >= 0."""
    y = check_finite(y)
    bad = (y < 0) | (y != np.floor(y))
    if bad.any():
        raise ValueError(f"y must hold counts 0, 1, 2, ..., got {float(y[bad][0])!r}")
    return y
