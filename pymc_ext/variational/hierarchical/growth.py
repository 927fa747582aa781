"""Which map: Gaussian ⊂ links of scales ⊂ means through the gate ⊂ marginals, each where it pays.

A round frees what the residuals ask for and takes a block of steps; where they ask for no more, or
after the last round, the map is trained until it rests. Then what is governed is trained in the
necks that q's own draws seldom reach (:mod:`.necks`), and governors get the marginals that slices
show (:mod:`.slices`). Every step is judged on the same draws as all others
(:class:`~pymc_ext.variational.core.course.Course`), and kept only where its ELBO is above the last
one's by more than the error of their difference. Of necks and tails, where few of these
draws are, one is kept as well that costs no more than this error or a tenth of what is missing to
log Z; and of two laws of a scale the one that residuals ask for, where the ELBO rises at all.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

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
from pymc_ext.variational.hierarchical.free import Free
from pymc_ext.variational.hierarchical.map import HierarchicalMap, initial_offset
from pymc_ext.variational.hierarchical.moments import Moments
from pymc_ext.variational.hierarchical.necks import NeckTraining
from pymc_ext.variational.hierarchical.slices import Slices, governors_of
from pymc_ext.variational.hierarchical.training import Training

Mask = NDArray[np.bool_]
Begun = tuple[Free, Training, Candidate[HierarchicalMap]]  # a round after its first block
FIRST_BLOCK = 20  # steps: rates fall to a fifth of the first within it
LEAST_SLOPE = 0.05  # of a log scale: below it the gate hardly moves, and no mean with it
LEAST_SHARE_OF_ROW = 0.05  # of a row of L: smaller entries stay linear
# d of a gate that training has shut to less than an eighth, and standard errors of the residuals'
# curve along its governor: a log scale made straight may want to curve the other way.
SHUT, CURVED = -1.0, 2.0
MOST_GATED = 5.0  # sds by which a mean may move through the gate
NECK_BLOCK = 3  # full Newton steps of one training far out: means are linear, two or three do
# Share of the misfit that such a training may leave: its steps halve the digits that are missing.
LEAST_REPAIR = 0.5
TAILS = 3  # more bends at the end: each reaches twice as far down an exponential tail
# Share of what an order promises by links that another excludes, from which on both are tried: that
# of a mean that its group's sd governs, among ten members.
LEAST_CONTRADICTION = 0.02
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
        self.trains_necks = True
        self.paid = False  # whether the last block did, where the longest was reached
        self.at_work: Training | None = None  # that of the best map, which does not rest yet
        self.law_tried = np.zeros(q.dimension, dtype=bool)  # rows tried in the other law so far

    def contradicts(self, other: Growth) -> bool:
        """Whether links that count have their governor last in the other's order."""
        q, m = self.best.q, self.moments
        place = other.best.q.place[q.order]
        reversed_ = place[:, None] < place[: q.governors]
        links = m.scales & reversed_, m.squares & reversed_, np.zeros_like(m.marginals)
        return m.gain(*links) > LEAST_CONTRADICTION * m.promised

    def begin(self) -> Candidate[HierarchicalMap]:
        """The first block of the next round, which goes on from it; the best map where no block
        pays."""
        if self.begun is None and self.pays():
            free = self._freed()
            if free is not None:
                self.tried = self.tried | free
                training = self._training(self.best.q, free)
                self.begun = free, training, block_of(training, self.course, FIRST_BLOCK)
        return self.best if self.begun is None else self.begun[2]

    def run(self, rounds: int = ROUNDS) -> str:
        """Grow in so many rounds at most; why it ended."""
        why, self.trains_necks = self._grown(rounds), True
        self._pin()
        for _ in range(TAILS):
            if not self._reaches_farther():
                break
        return why

    def _grown(self, rounds: int) -> str:
        why = "nothing is left that a link or a marginal could gain"
        for k in range(rounds):
            self.begin()
            if self.begun is not None:
                why, self.begun = self._round(*self.begun, is_last=k == rounds - 1), None
            elif not self.pays():
                return repaired_by_weights(self.best)
            elif self.at_work is None:
                return why
            else:
                why = self._end()
            if self.at_work is not None:
                continue
            while governors_of(self.best.q) and self.pays() and self._far_out():
                pass
        return why

    def pays(self) -> bool:
        """Whether one more block can pay."""
        draws = self._training(self.best.q, self.free).draws
        return self.course.block_pays(self.best, FIRST_BLOCK, draws)

    def _training(self, q: HierarchicalMap, free: Free) -> Training:
        return Training(self.density, q, free, self.rng)

    def _freed(self) -> Free | None:
        """What is to be free next: all that is, and what is significant and not tried yet."""
        moments = self.moments
        scales = moments.scales & ~self.tried.scales
        squares = moments.squares & ~self.tried.squares
        marginal = moments.marginals & ~self.tried.marginal
        marginal &= self._not_of_a_funnel(moments, scales, marginal)
        gain = moments.gain(scales, squares, marginal)
        if gain < max(LEAST_GAIN, LEAST_SHARE * self.best.gap):
            return None
        return replace(
            self.free,
            scales=self.free.scales | scales,
            squares=self.free.squares | squares,
            marginal=self.free.marginal | marginal,
        )

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

    def _round(
        self, free: Free, training: Training, candidate: Candidate[HierarchicalMap], is_last: bool
    ) -> str:
        """After a block with more freedom try the gate; the better goes on until it rests, or, but
        for the last round, as soon as its residuals ask for more freedom."""
        start, self.trains_necks = self.best, True
        gated = self._gated(candidate, free)
        if gated is not None:
            training, candidate, free = gated
        if not candidate.beats(start):
            return self._end() if self.at_work else "more freedom did not pay"
        self.best, self.free, self.moments = candidate, free, self._moments_of(training)
        self.law_tried = np.zeros(start.q.dimension, dtype=bool)
        self.at_work = self._in_the_other_law() or training
        if not is_last and self._freed() is not None:
            return "more freedom promises more"
        return self._end()

    def _end(self) -> str:
        """Blocks of the training at work, in whichever law its residuals ask for, until it rests;
        why it does."""
        training, self.at_work, why = self.at_work, None, ""
        while training is not None:
            ended = self._rested(training)
            self.paid, why = ended.paid, ended.why
            if ended.best is not self.best:
                self.best, self.moments = ended.best, self._moments_of(training)
            training = self._in_the_other_law()
        return why

    def _moments_of(self, training: Training) -> Moments:
        """What its averaged steps have seen; what was known before where each stepped back."""
        return training.moments.moments() if training.moments.pairs else self.moments

    def _in_the_other_law(self) -> Training | None:
        """Scales that fall to a floor in place of rising to a ceiling, or the reverse, where the
        residuals ask for that; the training behind it, None where none is better so."""
        q, moments = self.best.q, self.moments
        along = np.argmax(np.abs(q.scales), axis=1)[:, None]  # of the strongest governor
        slope, curve, error = (
            np.take_along_axis(x, along, axis=1)[:, 0]
            for x in (np.abs(q.scales), moments.scale_curve, moments.scale_curve_error)
        )
        # a ceiling's law is concave, a floor's convex, and that of a shut gate neither
        rows = (q.offset < SHUT) & (q.sense * curve > CURVED * error)
        rows &= (slope > LEAST_SLOPE) & ~self.law_tried
        self.law_tried |= rows
        if not rows.any() or not self.pays():
            return None
        training = self._training(with_other_law(q, rows), self.free)
        candidate = block_of(training, self.course, FIRST_BLOCK)
        if candidate.gain_over(self.best)[0] <= 0:
            return None  # of two laws that serve as well, the residuals' choice
        self.best, self.moments = candidate, training.moments.moments()
        return training

    def _far_out(self) -> bool:
        """Laws far out, then marginals of governors as slices show them; whether that paid."""
        start = self.best
        self._pin()
        bent = self._bent(self.best.q)
        if bent is not self.best.q:
            # it draws farther out than the last one did, where the law is to be right first
            candidate = self._pinned(self.course.offer(bent))
            if candidate.beats(self.best):
                self.best = candidate
                self._train_on()
        gain = self.best.gain_over(start)[0]
        return gain > max(LEAST_GAIN, LEAST_SHARE * start.gap)

    def _reaches_farther(self) -> bool:
        """Whether governors have tails now that slices showed to be lacking: the ELBO hardly sees
        them, and sds of posteriors do."""
        if not any(along.lacks_tail for along in self._slices(self.best.q)):
            return False
        candidate = self._pinned(self.course.offer(self._bent(self.best.q)))
        if not self._is_no_worse(candidate):
            return False
        changed, self.best = candidate.q is not self.best.q, candidate
        return changed

    def _bent(self, q: HierarchicalMap) -> HierarchicalMap:
        """q with the marginals of governors that slices ask for."""
        for place in governors_of(q):
            q = Slices.along(self.density, q, place, self.rng).fitted(q) or q
        return q

    def _is_no_worse(self, than_best: Candidate[HierarchicalMap]) -> bool:
        """Than the best map, but by the error of that or what weights make up for."""
        gain, error = than_best.gain_over(self.best)
        return gain > -max(error, LEAST_SHARE * self.best.gap)

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
        if self._is_no_worse(pinned):
            self.best = pinned
        else:
            self.unpinned = self.best

    def _pinned(self, of: Candidate[HierarchicalMap]) -> Candidate[HierarchicalMap]:
        """With the laws of what is governed trained far out, where slices show that they fail; not
        once more in a round where that hardly made them fit better: they are not a hierarchy's."""
        if not self.trains_necks:
            return of
        before = self._slices(of.q)
        if not any(along.law_fails for along in before):
            return of
        training = NeckTraining(self.density, of.q, self.free, self.rng, of.elbo)
        pinned = block_of(training, self.course, NECK_BLOCK)
        of_both = before, self._slices(pinned.q)
        was, now = (sum(along.misfit for along in slices) for slices in of_both)
        self.trains_necks = now < LEAST_REPAIR * was
        return pinned if now < was else of

    def _slices(self, q: HierarchicalMap) -> list[Slices]:
        return [Slices.along(self.density, q, place, self.rng) for place in governors_of(q)]

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
        another_law = change < -candidate.gap and start.elbo < self.best.elbo  # than without links
        if change == 0 or another_law:
            return None
        training = self._training(q, more)
        gated = block_of(training, self.course, FIRST_BLOCK)
        return (training, gated, more) if gated.beats(candidate) else None


def with_other_law(q: HierarchicalMap, rows: Mask) -> HierarchicalMap:
    """q with the other law of the scales of some rows, to first order what they were."""
    offset = initial_offset(q.root)
    g0, first = q.gate_at_zero, expit(2 * offset)
    slope, mean = np.where(rows, -(1 - g0) / (1 - first), 1.0), np.where(rows, -g0 / first, 1.0)
    gated = mean[:, None] * q.gated
    gated_mean = np.clip(mean * q.gated_mean, -MOST_GATED, MOST_GATED)
    gated_mean = np.where(rows, gated_mean, q.gated_mean)
    made = replace(
        q,
        sense=np.where(rows, -q.sense, q.sense),
        scales=slope[:, None] * q.scales,
        offset=np.where(rows, offset, q.offset),
        gated_mean=gated_mean,
        gated=gated,
    )
    # what the gates hold in the middle stays
    shift = np.where(rows, g0 * q.gated_mean - first * gated_mean, 0.0)
    linear = np.where(rows[:, None], g0[:, None] * q.gated - first * gated, 0.0)
    unmoved = np.ones(q.dimension)
    made = made.with_root(made.root.changed(unmoved, linear), linear[: q.governors])
    return made.moved(shift, unmoved[: q.governors])


def means_into_gate(q: HierarchicalMap, free: Free) -> tuple[HierarchicalMap, Free]:
    """Linear dependence of a linked coordinate on its governor moves into the gate; H is freed.

    In the neck of a funnel the mean must go to its limit as fast as the scale goes to zero, which
    L cannot say: chains get stuck there.
    """
    root, mean, g0 = q.root, q.gated_mean.copy(), q.gate_at_zero
    shift = np.zeros(q.dimension)
    free_root = free.root.copy()
    for j in np.flatnonzero(free.scales.any(axis=0)).tolist():
        i = np.flatnonzero(free.scales[:, j] & (np.abs(q.scales[:, j]) > LEAST_SLOPE))
        if len(i) == 0:
            continue
        inner = root.solve_within(i, root.coupling[i, j])
        # g − g₀ ≈ 2 g₀ (1 − g₀) C_ij w_j near zero
        inner /= 2 * g0[i] * (1 - g0[i]) * q.scales[i, j]
        inner = np.clip(inner, -MOST_GATED, MOST_GATED)
        mean[i] += inner
        shift[i] -= g0[i] * inner
        root, free_root[i, j] = root.without(i, j), False
    share = np.abs(root.coupling) / root.std[:, None]
    gated = np.tril((share > LEAST_SHARE_OF_ROW) | free.scales, -1) & free.linked[:, None]
    made = replace(q, root=root, gated_mean=mean).moved(shift, np.ones(q.governors))
    return made, replace(free, root=free_root, gated=gated)
