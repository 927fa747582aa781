"""Which map: Gaussian ⊂ links of scales ⊂ means through the gate ⊂ marginals, each where it pays.

Between rounds what is governed is trained in the necks that q's own draws seldom reach
(:mod:`.necks`), and governors get the marginals that slices show (:mod:`.slices`). Every step is
judged on the same draws as all others (:class:`~.core.course.Course`), and kept only where its ELBO
is above the last one's by more than the error of their difference; of necks, where few of these
draws are, one is kept as well that costs less than a tenth of what is missing to log Z.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import CountedDensity
from pymc_ext.variational.core.course import (
    LEAST_GAIN,
    LEAST_SHARE,
    Candidate,
    Course,
    Ended,
    block_of,
    in_doubling_blocks,
    repaired_by_weights,
)
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.hierarchical.moments import Moments
from pymc_ext.variational.hierarchical.necks import NeckTraining
from pymc_ext.variational.hierarchical.slices import Slices, governors_of
from pymc_ext.variational.hierarchical.training import Free, Training

Mask = NDArray[np.bool_]
Begun = tuple[Free, Training, Candidate[HierarchicalMap]]  # a round after its first block
FIRST_BLOCK = 20  # steps: rates fall to a fifth of the first within it
LEAST_SLOPE = 0.05  # of a log scale: below it the gate hardly moves, and no mean with it
LEAST_SHARE_OF_ROW = 0.05  # of a row of L: smaller entries stay linear
MOST_GATED = 5.0  # sds by which a mean may move through the gate
NECK_BLOCK = 8  # steps of one training far out: means are linear, two or three would do
ROUNDS = 3  # of freeing what the last training's residuals show; a fourth never paid


class Growth:
    """A map that grows on one density.

    Parameters
    ----------
    density, course, rng
        What is approximated, the fit under way, and the training's random numbers.
    q
        The Gaussian, as a map, in the order in which links are sought.
    moments
        Moments in its coordinates.
    """

    def __init__(
        self,
        density: CountedDensity,
        course: Course[HierarchicalMap],
        rng: np.random.Generator,
        q: HierarchicalMap,
        moments: Moments,
    ) -> None:
        self.density, self.course, self.rng = density, course, rng
        self.best: Candidate[HierarchicalMap] = course.offer(q)
        self.free = Free.none(q.dimension, q.governors)
        self.tried = self.free
        self.moments = moments  # in the coordinates of the best map
        self.begun: Begun | None = None
        self.unpinned: Candidate[HierarchicalMap] | None = None  # for which a pin did not pay

    @property
    def who_governs(self) -> set[int]:
        """Coordinates of θ whose links of scales count."""
        return set(self.best.q.order[np.flatnonzero(self.moments.scales.any(axis=0))].tolist())

    def begin(self) -> Candidate[HierarchicalMap]:
        """The first block of the next round, which goes on from it; the best map where no block
        pays."""
        if self.begun is None and self.pays():
            free = self._freed(self.moments)
            if free is not None:
                training = self._training(self.best.q, free)
                self.begun = free, training, block_of(training, self.course, FIRST_BLOCK)
        return self.best if self.begun is None else self.begun[2]

    def run(self, rounds: int = ROUNDS) -> str:
        """Grow in so many rounds at most; why it ended."""
        why = self._grown(rounds)
        self._pin()
        return why

    def _grown(self, rounds: int) -> str:
        why = "nothing is left that a link or a marginal could gain"
        for _ in range(rounds):
            self.begin()
            if self.begun is None:
                return why if self.pays() else repaired_by_weights(self.best)
            why, self.begun = self._round(*self.begun), None
            while governors_of(self.best.q) and self.pays() and self._far_out():
                pass
        return why

    def pays(self) -> bool:
        """Whether one more block can pay."""
        draws = self._training(self.best.q, self.free).draws
        return self.course.block_pays(self.best, FIRST_BLOCK, draws)

    def _training(self, q: HierarchicalMap, free: Free) -> Training:
        return Training(self.density, q, free, self.rng)

    def _freed(self, moments: Moments) -> Free | None:
        """What is to be free next: all that is, and what is significant and not tried yet."""
        scales = moments.scales & ~self.tried.scales
        squares = moments.squares & ~self.tried.squares
        marginal = moments.marginals & ~self.tried.marginal
        marginal &= self._not_of_a_funnel(moments, scales, marginal)
        gain = moments.gain(scales, squares, marginal)
        if gain < max(LEAST_GAIN, LEAST_SHARE * self.best.gap):
            return None
        free = replace(
            self.free,
            scales=self.free.scales | scales,
            squares=self.free.squares | squares,
            marginal=self.free.marginal | marginal,
        )
        self.tried = self.tried | free
        return free

    @staticmethod
    def _not_of_a_funnel(moments: Moments, scales: Mask, marginal: Mask) -> Mask:
        """Marginals to be freed with the links ``scales``: not of a governor whose links say more.

        A Gaussian inside a funnel makes its governor look skew to the wrong side; the next round
        sees it as it is.
        """
        governor, no_pair = np.zeros_like(marginal), np.zeros_like(scales)
        governor[: scales.shape[1]] = scales.any(axis=0)
        of_links = moments.gain(scales, no_pair, np.zeros_like(marginal))
        of_governors = moments.gain(no_pair, no_pair, marginal & governor)
        return np.logical_or(~governor, of_governors >= of_links)

    def _round(self, free: Free, training: Training, candidate: Candidate[HierarchicalMap]) -> str:
        """After a block with more freedom try the gate; the better goes on until it rests."""
        start = self.best
        gated = self._gated(candidate, free)
        if gated is not None:
            training, candidate, free = gated
        if not candidate.beats(start):
            return "more freedom did not pay"
        self.best, self.free, self.moments = candidate, free, training.moments.moments()
        ended = self._rested(training)
        if ended.best is not candidate:
            self.best, self.moments = ended.best, training.moments.moments()
        return ended.why

    def _far_out(self) -> bool:
        """Laws far out, then marginals of governors as slices show them; whether that paid."""
        start = self.best
        self._pin()
        bent = self.best.q
        for place in governors_of(bent):
            bent = Slices.along(self.density, bent, place, self.rng).fitted(bent) or bent
        if bent is not self.best.q:
            # it draws farther out than the last one did, where the law is to be right first
            candidate = self._pinned(self.course.offer(bent))
            if candidate.beats(self.best):
                self.best = candidate
                self._train_on()
        gain = self.best.gain_over(start)[0]
        return gain > max(LEAST_GAIN, LEAST_SHARE * start.gap)

    def _train_on(self) -> None:
        """One more block with all that is free."""
        training = self._training(self.best.q, self.free)
        if not self.course.block_pays(self.best, FIRST_BLOCK, training.draws):
            return
        candidate = block_of(training, self.course, FIRST_BLOCK)
        if candidate.beats(self.best):
            self.best = candidate
        self.moments = training.moments.moments()

    def _pin(self) -> None:
        """Pin the laws of the best map far out, unless that costs more than weights make up for."""
        if self.best is self.unpinned:
            return
        pinned = self._pinned(self.best)
        gain, error = pinned.gain_over(self.best)
        if gain > -max(error, LEAST_SHARE * self.best.gap):
            self.best = pinned
        else:
            self.unpinned = self.best

    def _pinned(self, of: Candidate[HierarchicalMap]) -> Candidate[HierarchicalMap]:
        """With the laws of what is governed trained far out, where slices show that they fail."""
        slices = (Slices.along(self.density, of.q, p, self.rng) for p in governors_of(of.q))
        if not any(along.law_fails for along in slices):
            return of
        training = NeckTraining(self.density, of.q, self.free, self.rng, of.elbo)
        return block_of(training, self.course, NECK_BLOCK)

    def _rested(self, training: Training) -> Ended[HierarchicalMap]:
        if not self.course.block_pays(self.best, training.steps, training.draws):
            return Ended(self.best, 0.0, 0.0, repaired_by_weights(self.best))
        return in_doubling_blocks(training, self.course, self.best, FIRST_BLOCK)

    def _gated(
        self, candidate: Candidate[HierarchicalMap], free: Free
    ) -> tuple[Training, Candidate[HierarchicalMap], Free] | None:
        """A block with means through the gate, where it is better; not tried where it cannot be."""
        if not (free.scales & ~self.free.scales).any():
            return None
        if not self.course.block_pays(
            candidate, FIRST_BLOCK, self._training(candidate.q, free).draws
        ):
            return None
        q, more = means_into_gate(candidate.q, free)
        start = self.course.candidate(q)
        change = start.gain_over(candidate)[0]
        if change == 0 or change < -candidate.gap:  # no mean to move, or another law altogether
            return None
        training = self._training(q, more)
        gated = block_of(training, self.course, FIRST_BLOCK)
        return (training, gated, more) if gated.beats(candidate) else None


def means_into_gate(q: HierarchicalMap, free: Free) -> tuple[HierarchicalMap, Free]:
    """Linear dependence of a linked coordinate on its governor moves into the gate; H is freed.

    In the neck of a funnel the mean must go to its limit as fast as the scale goes to zero, which
    L cannot say: chains get stuck there.
    """
    root, mean, g0 = q.root, q.gated_mean.copy(), q.gate_at_zero
    free_root = free.root.copy()
    for j in np.flatnonzero(free.scales.any(axis=0)).tolist():
        i = np.flatnonzero(free.scales[:, j] & (np.abs(q.scales[:, j]) > LEAST_SLOPE))
        if len(i) == 0:
            continue
        inner = root.solve_within(i, root.coupling[i, j])
        # g − g₀ ≈ 2 g₀ (1 − g₀) C_ij w_j near zero
        inner /= 2 * g0[i] * (1 - g0[i]) * q.scales[i, j]
        mean[i] += np.clip(inner, -MOST_GATED, MOST_GATED)
        root, free_root[i, j] = root.without(i, j), False
    share = np.abs(root.coupling) / root.std[:, None]
    gated = np.tril((share > LEAST_SHARE_OF_ROW) | free.scales, -1) & free.linked[:, None]
    return replace(q, root=root, gated_mean=mean), replace(free, root=free_root, gated=gated)
