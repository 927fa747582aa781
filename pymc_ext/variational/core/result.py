"""What a fit reports: frozen records, and the Monte Carlo estimates they carry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.special import logsumexp

from pymc_ext.maths.psis import psislw
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.weights import (
    ESS_SHARE_ENOUGH,
    EXACT,
    KHAT_GOOD,
    NO_DENSITY,
    are_constant,
    described,
    effective_draws,
    serve,
)


class Printer(Protocol):
    """What IPython shows a result with."""

    def text(self, text: str, /) -> None: ...


@dataclass(frozen=True)
class FreshDraws:
    """Estimates from draws of q that the fit has not seen.

    Parameters
    ----------
    elbo, elbo_se
        E_q[log p̃ − log q], a lower bound on log Z, and its standard error.
    log_marginal_is, log_marginal_is_se
        Importance-sampling estimate log (1/N) Σ p̃/q of log Z and its standard error (delta method).
    ess
        Effective sample size (Σw)²/Σw² of the importance weights.
    draws
        Number of draws N.
    outside
        How many of them have log p̃ = −∞ or undefined: the ELBO is then −∞.
    infinite
        How many have log p̃ = +∞: p̃ is no density then, and there are no weights.
    khat
        Pareto k̂ of the importance weights; −∞ where they are constant, so that q is the posterior,
        +∞ where it cannot be had.
    log_ratios, generator
        log p̃ − log q of each draw (N,), and what the draws were made with, as it was before: they
        can be made again without a value of log p̃. None where that is not known.
    drawn
        The draws themselves with their log q, (N, D) and (N,); None where these are many numbers.
    """

    elbo: float
    elbo_se: float
    log_marginal_is: float
    log_marginal_is_se: float
    ess: float
    draws: int
    outside: int = 0
    infinite: int = 0
    khat: float = np.inf
    log_ratios: Array | None = field(default=None, repr=False, compare=False)
    generator: np.random.Generator | None = field(default=None, repr=False, compare=False)
    drawn: tuple[Array, Array] | None = field(default=None, repr=False, compare=False)

    @property
    def chi_square(self) -> float:
        r"""χ²(p‖q) = E_q[(p/q)²] − 1, from the effective draws; infinite where k̂ ≥ ½.

        It bounds every error of a mean of q: |E_p[h] − E_q[h]| ≤ sd_q(h) √χ² for any h, by
        Cauchy–Schwarz (Hammersley 1950, doi:10.1111/j.2517-6161.1950.tb00056.x).
        """
        if not self.khat < KHAT_GOOD or self.ess == 0:
            return np.inf
        return max(self.draws / self.ess - 1, 0.0)

    @property
    def cubo(self) -> float:
        """½ log E_q[(p̃/q)²], an upper bound on log Z where the ELBO is a lower one, nats.

        Infinite where k̂ ≥ ½, as the weights then have no variance. Dieng, Tran, Ranganath, Paisley
        and Blei (2017), arXiv:1611.00328.
        """
        return self.log_marginal_is + 0.5 * float(np.log1p(self.chi_square))

    @property
    def usable(self) -> bool:
        """Whether importance weights make draws of the posterior of it, as far as q reaches."""
        return serve(self.khat, self.ess / self.draws)

    @property
    def holds_alone(self) -> bool:
        """Whether they are usable and hardly differ, so that a proposal for their tails alone whose
        own weights are not usable does not refute them.

        Fewer effective draws do not do: of a Gaussian of too few factors they were .05 of their
        number with a k̂ of .64 by chance, where that of its proposal said .93.
        """
        return self.usable and self.ess >= ESS_SHARE_ENOUGH * self.draws

    @property
    def verdict(self) -> str:
        """The same in words."""
        if self.khat == -np.inf:
            return EXACT
        if self.infinite:
            return f"log p̃ is +∞ at {self.infinite:,} of {self.draws:,} draws of q: {NO_DENSITY}"
        if self.ess == 0:
            return f"log p̃ is −∞ or undefined at all of {self.draws:,} draws of q"
        return described(self.khat, self.ess / self.draws, self.draws)

    @classmethod
    def from_log_ratios(cls, log_ratio: Array) -> FreshDraws:
        """Estimates from log p̃(θ_s) − log q(θ_s), shape (N,); +∞ of them are of log p̃."""
        n = len(log_ratio)
        infinite = int(np.sum(log_ratio == np.inf))
        if infinite:
            return cls(-np.inf, np.inf, np.inf, np.inf, 0.0, n, infinite=infinite)
        inside = np.isfinite(log_ratio)
        if not inside.any():
            return cls(-np.inf, np.inf, -np.inf, np.inf, 0.0, n, n)
        log_ratio = np.where(inside, log_ratio, -np.inf)
        with np.errstate(over="ignore", invalid="ignore"):  # of one of −1e200, or −∞
            spread = float(np.std(log_ratio, ddof=1))
        log_total = logsumexp(log_ratio)
        weight = np.exp(log_ratio - log_total)
        return cls(
            elbo=float(np.mean(log_ratio)),
            elbo_se=spread / float(np.sqrt(n)) if inside.all() else np.inf,
            log_marginal_is=float(log_total - np.log(n)),
            log_marginal_is_se=float(np.sqrt(max(np.sum(weight**2) - 1 / n, 0.0))),
            ess=effective_draws(log_ratio),
            draws=n,
            outside=int(n - inside.sum()),
            khat=-np.inf if are_constant(log_ratio) else float(psislw(log_ratio)[1]),
        )


OF_BATCHES = (
    "log p̃ of a pm.Minibatch is an estimate: approx.save(path), and give px.diagnose what "
    "px.load(path, model=...) makes of it on the model of all rows"
)


@dataclass(frozen=True)
class FitResult:
    """How a fit went, held by ``approx.result``; printed, the short of it.

    Parameters
    ----------
    method
        Name of the method, as in records (``"mixed-lr"``).
    converged, stop_reason
        Whether the optimiser's own test was met, and why it stopped, in words.
    iterations, density_evaluations, gradient_evaluations
        Work done, in every phase: searches, bases, judging and the final fresh draws included. One
        evaluation is one log p̃ or one gradient at one θ; a Hessian counts as the 4D gradients of
        its differences, an exact one as D. In closed form, a pass over all data counts as one.
    seconds, compile_seconds
        Wall time of the fit without graph compilation, and of the compilation.
    random_seed
        Seed the method was given, None if it was not given one.
    train_elbo
        Objective reached on the fit's own draws; None where the method has none.
    train_draws
        Number of those draws.
    fresh
        Estimates on fresh draws of q; None where none were taken, as ``unjudged`` says.
    fresh_proposal
        The same of the proposal, where the fit has one for importance weights.
    exact_elbo
        ELBO of q in closed form; None for methods without one.
    log_marginal_laplace
        Laplace estimate log p̃(θ*) + ½ log|2πΣ| of log Z; None for other methods.
    notes
        What a user must know about this fit, one sentence each.
    unjudged
        Why there are no fresh draws, where there are none; else None.
    missed
        What draws of q are known to miss and those of its proposal have.
    tails_alone
        Whether the proposal has longer tails than q and no mass that q lacks: where its weights are
        not usable and q's own are and hardly differ, q is judged by these.
    """

    method: str
    converged: bool
    stop_reason: str
    iterations: int
    seconds: float = 0.0
    compile_seconds: float = 0.0
    density_evaluations: int = 0
    gradient_evaluations: int = 0
    random_seed: int | None = None
    train_elbo: float | None = None
    train_draws: int | None = None
    fresh: FreshDraws | None = None
    fresh_proposal: FreshDraws | None = None
    exact_elbo: float | None = None
    log_marginal_laplace: float | None = None
    notes: tuple[str, ...] = ()
    unjudged: str | None = None
    missed: str | None = None
    tails_alone: bool = False

    def __post_init__(self) -> None:
        why = None if self.weighted else self.unjudged or "no fresh draws were taken"
        object.__setattr__(self, "unjudged", why)

    def __str__(self) -> str:
        """What a reader asks first: did it end well, how good is it, what did it cost."""
        state = "converged" if self.converged else "not converged"
        lines = [
            f"{self.method}: {state} ({self.stop_reason}), {self.gradient_evaluations:,} gradients "
            f"in {self.seconds:.1f} s"
        ]
        if self.elbo is not None:
            lines.append(f"ELBO: {self.elbo:.3f} ± {self.elbo_se:.3f}")
        if self.log_marginal_is is not None and np.isfinite(self.log_marginal_is):
            error = f" ± {self.log_marginal_is_se:.3f}"
            if not self.usable:  # of weights without a variance no error is known
                error = ", more or less: its error is not known"
            lines.append(f"log evidence by weights: {self.log_marginal_is:.3f}{error}")
        whose = " by its proposal" if self.of_proposal else ""
        lines.append(f"as a posterior{whose}: {self.verdict}")
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Printer, cycle: bool) -> None:
        """As notebooks show it."""
        printer.text(str(self))

    @property
    def elbo(self) -> float | None:
        """ELBO of q: in closed form where the method has one, otherwise on fresh draws."""
        if self.exact_elbo is not None:
            return self.exact_elbo
        return None if self.fresh is None else self.fresh.elbo

    @property
    def elbo_se(self) -> float | None:
        """Standard error of :attr:`elbo`, 0 in closed form."""
        if self.exact_elbo is not None:
            return 0.0
        return None if self.fresh is None else self.fresh.elbo_se

    @property
    def weighted(self) -> FreshDraws | None:
        """What importance weights are judged by: the proposal's draws where there is one, unless
        these are not usable and q's own hold alone; else q's."""
        return self.fresh_proposal if self.of_proposal else self.fresh

    @property
    def of_proposal(self) -> bool:
        """Whether :attr:`khat`, :attr:`usable` and the others are of the proposal's weights."""
        if self.fresh_proposal is None:
            return False
        own_hold = self.tails_alone and self.fresh is not None and self.fresh.holds_alone
        return self.fresh_proposal.usable or not own_hold

    @property
    def khat(self) -> float | None:
        """Pareto k̂ of the importance weights of fresh draws, those of :attr:`weighted`."""
        return None if self.weighted is None else self.weighted.khat

    @property
    def usable(self) -> bool | None:
        """Whether those weights make draws of the posterior, as far as q reaches.

        Mass that no draw of q comes near is not seen: `pymc_ext.diagnose` looks for it.
        """
        return None if self.weighted is None else self.weighted.usable

    @property
    def verdict(self) -> str:
        """The same in words."""
        if self.weighted is None:
            return f"not judged: {self.unjudged}"
        return self.weighted.verdict

    @property
    def log_marginal_is(self) -> float | None:
        """Importance-sampling estimate of the log evidence, by the draws of :attr:`weighted`."""
        return None if self.weighted is None else self.weighted.log_marginal_is

    @property
    def log_marginal_is_se(self) -> float | None:
        """Its standard error."""
        return None if self.weighted is None else self.weighted.log_marginal_is_se
