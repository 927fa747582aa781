"""Where the mass of tilted densities lies, and the nodes that integrate it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from pymc_ext.gp.quadrature import MIDDLE, SPAN, Nodes, Places, gaussian_nodes, peak_nodes
from pymc_ext.maths.types import Array

# Counts below are of 1,000 log-concave and 2,100 Student-t densities, checked against fine panels
PLACE = 1e-5  # accuracy, in sd, of where the nodes are laid (a choice: 1e-6 to .1 err the same)
DOUBLINGS = 60  # most steps, of a cavity sd times 2^k, to the bracket of a mode; 10 do there
# sd from the mean beyond which the nodes around it may miss a peak: of the centre, and of a mode by
# the slope. Choices: half of both errs no more; 9 sd, where `SPAN` ends, by 2e-7, 12 by hundreds of
# nats; a pull of 6 by 9e-8, of 12 by 2 nats
FAR, PULL = 6.0, 3.0
CLIMBS = 40  # steps to the peaks of a tilted density that may have two (5 to 80 err the same)
PEAK = 3.5  # Gauss–Hermite nodes for a cavity of at most 1 or 2 sd of p(y|f): errors below 1e-6
HELD = 6.0  # a panel of 16 Gauss–Legendre nodes resolves a peak if it is at most 6 of its sd long


class Shape(Protocol):
    """What the nodes take from a likelihood, ℓ = log p(y|f); every `Likelihood` has it."""

    log_concave: ClassVar[bool]

    def derivatives(self, f: Array, y: Array, phi: Array) -> tuple[Array, Array, Array]:
        """The first three derivatives of ℓ in f."""

    def scale(self, y: Array, phi: Array) -> tuple[Array, Array]:
        """Centre and width of ℓ's features, each (n,)."""


@dataclass(frozen=True)
class TiltedDensity:
    """p(y|f)^power N(f | mean, variance) for every observation, not normalised.

    Parameters
    ----------
    likelihood, phi
        p(y|f) and its parameters (P,).
    mean, variance : (n,) arrays
        Of the Gaussian, called the cavity.
    y : (n,) array
    power
        Positive.
    """

    likelihood: Shape
    mean: Array
    variance: Array
    y: Array
    phi: Array
    power: float

    @cached_property
    def sd(self) -> Array:
        """Of the cavity, (n,)."""
        return np.sqrt(self.variance)

    def nodes(self) -> Iterator[Nodes]:
        """Groups (index, f, log weight): ∫ N(f | mean, variance) g(f) df ≈ Σ exp(log weight) g(f).

        The nodes cover and resolve g = p(y|f)^power times anything smooth. They are those of
        a Gaussian at the tilted mode m of a log-concave likelihood (its tilted variance is never
        larger), at the mean for others. ℓ may be smooth on a scale where p(y|f) is not, so its
        width is at most `PEAK`/√κ, κ = −power ℓ''; what is narrower yet gets panels around its
        peaks.
        """
        c, w = self.likelihood.scale(self.y, self.phi)
        if self.likelihood.log_concave:
            m = self._mode()
            curvature = self._curvature(m)
            w = np.minimum(w, PEAK / np.sqrt(curvature))
            sharp = self._too_sharp(m, c, w, curvature)
        else:
            m = self.mean
            w = np.minimum(w, PEAK / np.sqrt(self._curvature(c)))
            sharp = self._remote(c, w)
        for lay, at in ((_near_mode, np.flatnonzero(~sharp)), (_on_panels, np.flatnonzero(sharp))):
            if at.size:
                for k, f, log_w in lay(self._take(at), m[at], c[at], w[at]):
                    yield at[k], f, log_w

    def _take(self, index: Places) -> TiltedDensity:
        """Those of some observations."""
        part = {name: getattr(self, name)[index] for name in ("mean", "variance", "y")}
        return replace(self, **part)

    def _slope(self, f: Array) -> Array:
        """power ℓ'."""
        return self.power * self.likelihood.derivatives(f, self.y, self.phi)[0]

    def _curvature(self, f: Array) -> Array:
        """−power ℓ'', at least the smallest positive number."""
        second = self.likelihood.derivatives(f, self.y, self.phi)[1]
        return np.maximum(-self.power * second, np.finfo(float).tiny)

    def _mode(self) -> Array:
        """The mode for a log-concave likelihood, to `PLACE` sd.

        Steps of 1, 2, 4, ... sd in the direction of the slope until it changes sign, then
        bisection: a Newton step, or a bound from the slope in the mean, overflows with e^f.
        """
        toward = np.sign(self._slope(self.mean))

        def rises(t: Array) -> NDArray[np.bool_]:
            return toward * self._slope(self.mean + toward * t) > t / self.variance

        near, far = np.zeros_like(self.sd), self.sd
        for _ in range(DOUBLINGS):
            beyond = rises(far)
            if not beyond.any():
                break
            near, far = np.where(beyond, far, near), np.where(beyond, 2 * far, far)
        widest = np.nanmax((far - near) / self.sd, initial=1.0)
        for _ in range(int(np.ceil(np.log2(widest / PLACE)))):
            middle = (near + far) / 2
            beyond = rises(middle)
            near, far = np.where(beyond, middle, near), np.where(beyond, far, middle)
        return self.mean + toward * (near + far) / 2

    def _peaks(self, c: Array) -> Array:
        """The maxima that are first met from the mean m and from the centre c, (2, n).

        Every step goes to the mean of N(m, v) times the Gaussian at c with ℓ's slope in f, of
        precision ω = power ℓ'(f)/(c − f). If ω grows towards c, as a Student-t's, the steps from
        either side never pass a maximum; for a Student-t they are those of EM.
        """
        m, v, at_c = self.mean, self.variance, self._curvature(c)
        omega = np.stack([np.zeros_like(m), at_c])
        for _ in range(CLIMBS):
            f = m + v * omega / (1 + v * omega) * (c - m)
            gap = c - f
            with np.errstate(divide="ignore", invalid="ignore"):
                omega = np.where(gap == 0, at_c, np.maximum(self._slope(f) / gap, 0.0))
        return f

    def _remote(self, c: Array, w: Array) -> NDArray[np.bool_]:
        """Where mass may lie, or vary, too far from the mean m for `gaussian_nodes`.

        A Gaussian that is narrow against the likelihood leaves the tilted density log-concave, its
        mode about m + s² power ℓ'(m); a wide one may leave peaks at both m and the centre c.
        """
        far = (np.abs(self.mean - c) > FAR * self.sd) & np.isfinite(self.mean)
        narrow = np.flatnonzero(far & (self.sd <= MIDDLE * w))
        if narrow.size:
            those = self._take(narrow)
            far[narrow] = np.abs(those.sd * those._slope(those.mean)) > PULL
        return far

    def _too_sharp(self, m: Array, c: Array, w: Array, curvature: Array) -> NDArray[np.bool_]:
        """Where the panels of `gaussian_nodes` are too long, about m, for this curvature there."""
        length = np.minimum(3 * self.sd, np.maximum(w, 2 * np.abs(m - c)))
        return HELD / np.sqrt(1 / self.variance + curvature) < length


def _near_mode(p: TiltedDensity, m: Array, c: Array, w: Array) -> Iterator[Nodes]:
    """Nodes of N(m, variance), weighted for the cavity."""
    for i, f, log_w in gaussian_nodes(m, p.sd, c, w):
        away, back = f - p.mean[i], f - m[i]
        yield i, f, log_w + 0.5 * (back**2 - away**2) / p.variance[i]


def _on_panels(p: TiltedDensity, m: Array, c: Array, w: Array) -> Iterator[Nodes]:
    """Panels that are short around every peak and long elsewhere."""
    peaks = m[None] if p.likelihood.log_concave else p._peaks(c)
    narrow = 1 / np.sqrt(1 / p.variance + p._curvature(peaks))
    low, high = np.minimum(m, c) - SPAN * p.sd, np.maximum(m, c) + SPAN * p.sd
    places, scales = np.stack([m, c, *peaks]), np.stack([p.sd, w, *narrow])
    for i, f, log_w in peak_nodes(low, high, places, scales):
        z2 = (f - p.mean[i]) ** 2 / p.variance[i]
        yield i, f, log_w - 0.5 * (z2 + np.log(2 * np.pi * p.variance[i]))
