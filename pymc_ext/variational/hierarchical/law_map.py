r"""A law along governors as a continuous map of D normals: a posterior to keep, and a prior.

The law itself is constant on cells of its governors t, ends where they do, and has longer tails
than p for weights. Here each governor follows from a normal of its own by the quantiles of p(t)
given those before it,

.. math:: t_k = Q_k(\Phi(z_k) \mid t_1, \dots, t_{k-1}), \qquad
    x = m(t) + R(t)^{-\top} v, \quad R R^\top = \Lambda(t),

a triangular map (Rosenblatt 1952, doi:10.1214/aoms/1177729394): Q_k is monotone and smooth in z_k
between quantiles of the cells, linear in the earlier t between their middles, and so is q, which is
that of the map, not of the cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.maths.quantiles import Triangular
from pymc_ext.maths.types import Array
from pymc_ext.variational.hierarchical.law import Conditional, LawAlong

__all__ = ["LawMap"]

STEP = 1e-5  # by which a normal is moved for derivatives: errors of 1e-10 of these


@dataclass(frozen=True)
class LawMap:
    """θ = T(z) of z ~ N(0, I), the governors' normals first.

    Parameters
    ----------
    law
        Whose p(t) and conditional laws it has.
    """

    law: LawAlong

    @property
    def dimension(self) -> int:
        """D."""
        return self.law.dimension

    latent_dimension = dimension

    @cached_property
    def of_governors(self) -> Triangular:
        """t of normals."""
        return Triangular.of(*self.law.edges, self.law.marginal)

    def inverse(self, theta: Array) -> Array:
        """z with T(z) = θ, (N, D) -> (N, D)."""
        law, G = self.law, len(self.law.governors)
        z, t = np.empty_like(theta), theta[:, law.governors]
        z[:, :G] = self.of_governors.inverse(t)
        given = Conditional.of(law.others.pattern, law.terms_between(t))
        z[:, G:] = given.normals(theta[:, law.others.places] - law.origin)
        return z

    def log_density(self, theta: Array) -> Array:
        """Normalised log q at any θ, (N, D) -> (N,)."""
        return self.forward(self.inverse(theta))[1]

    def _at(self, z: Array) -> tuple[Array, Array, Conditional]:
        """θ, log |∂T/∂z| and the law of x, at z (N, D)."""
        law, G = self.law, len(self.law.governors)
        t, log_det = self.of_governors.forward(z[:, :G])
        given = Conditional.of(law.others.pattern, law.terms_between(t))
        theta = np.empty_like(z)
        theta[:, law.governors] = t
        theta[:, law.others.places] = law.origin + given.draws(z[:, G:])
        return theta, log_det - given.log_det, given

    def forward(self, z: Array) -> tuple[Array, Array]:
        """Draws θ and log q, (N, D) -> (N, D), (N,)."""
        theta, log_det, _ = self._at(z)
        return theta, standard_normal_logp(z) - log_det

    def pullback(self, z: Array, score: Array) -> Array:
        """Score in z of log p̃(T(z)) + log|det ∂T/∂z|, from that of log p̃ at T(z); all (N, D).

        Along the few normals of governors by central differences of T.
        """
        law, G, N = self.law, len(self.law.governors), len(z)
        moved = np.tile(z, (1 + 2 * G, 1, 1))  # where it is, then along each governor both ways
        for k in range(G):
            moved[1 + 2 * k, :, k] += STEP
            moved[2 + 2 * k, :, k] -= STEP
        theta, log_det, given = self._at(moved.reshape(-1, z.shape[1]))
        along = np.einsum("snd,nd->sn", theta.reshape(moved.shape), score)
        along += log_det.reshape(-1, N)
        by_z = np.empty_like(z)
        by_z[:, :G] = (along[1::2] - along[2::2]).T / (2 * STEP)
        root, of_x = given.root[:, :N], score[:, law.others.places].T
        by_z[:, G:] = law.others.pattern.solve(root, of_x).T
        return by_z
