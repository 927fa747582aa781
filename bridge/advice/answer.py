"""What `bridge.fit` settled on: draws, whether they are to be trusted, and all that was tried."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np

from bridge.advice.answer_html import as_html
from bridge.advice.kept_law import kept_law
from bridge.attempt import Attempt
from bridge.errors import BridgeError
from bridge.methods.method import Fit
from bridge.methods.named_draws import NamedDraws
from bridge.targets.draws import InferenceData
from pymc_ext.maths.types import Array
from pymc_ext.sampling.attempts import INTERRUPTED
from pymc_ext.sampling.heavy import Heavy, take_quantiles
from pymc_ext.variational.core.checks import Check
from pymc_ext.variational.core.result import Printer
from pymc_ext.variational.core.saved.posterior import SavedPosterior, law_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Advice", "NoAnswerError"]


@dataclass(frozen=True, repr=False)
class Advice:
    """What :func:`bridge.fit` settled on; printed, its :attr:`reasons`, in a notebook as a table.

    Attributes
    ----------
    trusted
    reasons
    idata
        The draws as ArviZ holds them, equally weighted, with the verdict in the attributes of
        ``posterior``.
    unresampled
        The same before resampling, with ``lp``, ``lq`` and log weights; None for chains.
    log_evidence
        log Z and its standard error; None for chains, and where the answer is not trusted.
    density
    unknown
    gradients
    method
        The name of the method of the draws; ``"warm-nuts"`` for chains in the coordinates of an
        approximation, ``"flow-nuts"`` in those of a flow, ``"nuts"`` for the sampler of the model's
        own package.
    attempts
        Every method tried, in order.
    fit
        Draws of the chosen approximation before resampling, with ``log_q``, and of its proposal,
        where it has one: that is what was resampled. None for chains.
    draws
        What ``idata`` is made of.
    doubts
        Why the draws of NUTS are not to be trusted, one sentence each; empty where they are.
    heavy
        Quantities with tails so heavy that no number of draws tells their sd, or their mean and sd,
        each with its k̂: what is trusted of them are quantiles.
    random_seed
        As it was given.
    options
        Of :func:`bridge.fit`, as JSON.
    effective_draws
        What the weighted draws are worth, (Σw)²/Σw²; None for chains.
    """

    method: str
    attempts: tuple[Attempt, ...]
    fit: Fit | None
    draws: NamedDraws | InferenceData
    doubts: tuple[str, ...] = ()
    heavy: tuple[Heavy, ...] = ()
    random_seed: int | None = None
    options: str = ""
    effective_draws: float | None = None
    _more: tuple[Check, ...] = field(default=(), repr=False, compare=False)
    _attempt: Attempt | None = field(default=None, repr=False, compare=False)
    _weights: Array | None = field(default=None, repr=False, compare=False)
    _weighted: Callable[[], NamedDraws] | None = field(default=None, repr=False, compare=False)
    _finish: Callable[[InferenceData], InferenceData] | None = field(
        default=None, repr=False, compare=False
    )
    _as_it_was: Callable[[], AbstractContextManager[None]] = field(
        default=nullcontext, repr=False, compare=False
    )

    def __str__(self) -> str:
        return self.reasons

    def __repr__(self) -> str:
        return f"<Advice of {self.method}, {'trusted' if self.trusted else 'not trusted'}>"

    def _repr_pretty_(self, printer: Printer, cycle: bool) -> None:
        """As IPython shows it in a terminal."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        return as_html(self.attempts, self._conclusions)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of :attr:`heavy`, whose sd, or mean and sd, no draws tell: take quantiles.

        A bounded quantity may be among them, a probability say, that is all but always next to a
        bound: the few draws away from it hold all its variance. Of a PyMC model by its coords
        (``level[oak]``), of a Stan program as in it, by indices from 1 (``lam[16]``), as in all
        that is said of them; arrays of ``idata`` count from 0.
        """
        return tuple(quantity.name for quantity in self.heavy)

    @property
    def trusted(self) -> bool:
        """Whether the draws may be taken for the posterior."""
        return not self.doubts

    @property
    def checks(self) -> tuple[Check, ...]:
        """All that the answer was judged by, each with its ``number`` and ``limit``, what it is
        (``meaning``) and what to do where it did not pass (``to_do``); `trusted` where all did."""
        checks = (*self._taken.checks, *self._more)
        ends = [doubt for doubt in self.doubts if doubt.startswith(INTERRUPTED)]
        if not ends and all(check.passed for check in checks):
            ends = ["; ".join(self.doubts)] * (not self.trusted)
        return (*checks, *(Check("end", False, doubt) for doubt in ends))

    @cached_property
    def idata(self) -> InferenceData:
        """The draws as ArviZ holds them, constrained, equally weighted: chains as they are,
        PSIS-resampled where the method is an approximation.

        Of a PyMC model with its coords and dims, ``observed_data`` and ``constant_data``, so that
        ``pm.sample_posterior_predictive``, ``pm.compute_log_likelihood`` and with it ``az.loo`` go
        on from it. Of a bambi model as its own ``fit`` hands them back, for ``model.predict``,
        ``model.compute_log_likelihood`` and ``bmb.interpret``. Of a Stan program with its generated
        quantities; ``log_lik``, where there is one, is the group ``log_likelihood``.
        ``sample_stats`` has ``lp``, and of chains what the sampler says. The attributes of
        ``posterior`` are those of :attr:`attributes`. Made when first asked for, of the data that
        the model was fitted to, whatever ``pm.set_data`` has done since.
        """
        with self._as_it_was():
            if isinstance(self.draws, NamedDraws):
                idata = self.draws.inference_data()
            else:
                idata = self.draws
            return self._finished(idata)

    @cached_property
    def unresampled(self) -> InferenceData | None:
        """What ``idata`` was resampled from, each draw once, in one chain; None for chains.

        ``sample_stats`` has ``lp``, ``lq`` and ``log_weight``, normalised and Pareto-smoothed, for
        ``az.loo_approximate_posterior`` and for weighted means without the noise of resampling.
        Made when first asked for, as :attr:`idata`; a plot or a summary is of the approximation.
        """
        if self._weighted is None:
            return None
        with self._as_it_was():
            return self._finished(self._weighted().inference_data())

    def summary(self, var_names: str | Sequence[str] | None = None) -> pd.DataFrame:
        """What is read off the draws, a row a quantity, each number with its Monte Carlo error.

        ``mean``, ``sd``, quantiles ``q5``, ``median`` and ``q95``, constrained, and ``mcse_`` of
        each, in its units. Of an approximation by its weights, before resampling, with
        ``khat_mean`` and ``khat_sd``, k̂ of their own (−∞ where weights hardly differ; a quantile's
        is that of the weights at most), from .7 on of which their error is NaN; of chains with
        ``ess_bulk``, ``ess_tail`` and ``rhat``.
        Moments of :attr:`unknown` quantities are NaN. Rows are named by coords (``level[oak]``), of
        a Stan program by indices from 1. The errors are of what draws reach: :attr:`trusted`, which
        ``attrs`` of the table has too, says whether that is the posterior. Those of weights are of
        all draws that were weighted, not of the ``draws`` that :attr:`idata` has of these.

        Parameters
        ----------
        var_names
            Variables to show, one or several; all by default.

        Raises
        ------
        ValueError
            A name that is no variable of the posterior.
        """
        from bridge.advice.summary import summary_of

        names = [var_names] if isinstance(var_names, str) else var_names
        frame = summary_of(self.unresampled or self.idata, self.heavy, names)
        frame.attrs["trusted"] = self.trusted
        return frame

    def _finished(self, idata: InferenceData) -> InferenceData:
        """In the form of those who wrote the model, with what is known of the draws."""
        if self._finish is not None:
            idata = self._finish(idata)
        idata["posterior"].attrs.update(self.attributes)
        return idata

    @property
    def gradients(self) -> int:
        """Scores of log p̃ of all attempts and searches, as far as methods count them."""
        return sum(attempt.all_gradients for attempt in self.attempts)

    @property
    def log_evidence(self) -> tuple[float, float] | None:
        """log Z from the importance weights of the approximation that was taken, and its standard
        error, nats; None for chains, which have no normaliser, and of an answer that is not
        trusted: what weights do not reach is no part of that error."""
        if self.fit is None or not self.trusted:
            return None
        return self._taken.log_marginal_is, self._taken.log_marginal_is_se

    @cached_property
    def density(self) -> SavedPosterior | None:
        """The approximation itself as a law of SciPy's kind over unconstrained θ: ``rvs``,
        ``logpdf``, ``mean``, ``cov``; ``px.save`` keeps it, ``px.prior_from`` makes it a prior.

        Its draws are q's own, without the weights that those of ``idata`` had, which may be of a
        proposal beside q, and q half as wide as the posterior: then it is the law by Laplace's
        method along the log scales that q falls short of (named in ``notes["along"]``), where that
        is nearer and has a higher ELBO. Of ``notes`` ``elbo``, ``khat`` and ``log_marginal_is``
        (log Z by its own weights, with ``_se``) are the law's, ``log_evidence`` the answer's;
        ``mean_error`` (sds) and ``sd_ratio`` are the worst of its coordinates beside the weighted
        draws. It is ``usable`` where the answer is trusted, that error is at most .2 and that ratio
        within .8 to 1.25; ``verdict`` says it in words. Where it is not usable ``want="density"``
        trains a flow, and takes it where its ELBO is higher. Names are of unconstrained
        coordinates, as the model's density has them; for a Stan program's values,
        ``program.density(data).constrain(law.rvs(1000))``.

        None for chains, of a method that hands back no law (Stan's and PyMC's own), and where modes
        are images of one by a change that is not linear in θ, as of Stan's simplex of three.
        """
        kept = None if self.fit is None else kept_law(self.fit, self._weights)
        if self.fit is None or kept is None:
            return None
        notes = {"method": self.method, **kept.notes}
        if self.log_evidence is not None:
            notes["log_evidence"], notes["log_evidence_se"] = self.log_evidence
        if doubts := [*self.doubts, *([kept.wrong] if kept.wrong else [])]:
            notes |= {"usable": False, "verdict": "; ".join(doubts)}
        target = self.fit.target
        with self._as_it_was():
            return law_of(kept.q, target.density, notes, getattr(target, "model", None))

    @property
    def _taken(self) -> Attempt:
        """The attempt of the draws; of several by one method it is not always the last."""
        if self._attempt is not None:
            return self._attempt
        return next(a for a in reversed(self.attempts) if a.method == self.method)

    @property
    def attributes(self) -> dict[str, str | int | float]:
        """What goes with the draws wherever they are kept, as NetCDF can hold it."""
        of_draws = self.draws.attributes if isinstance(self.draws, NamedDraws) else {}
        found: dict[str, str | int | float] = {
            **of_draws,
            "inference_library": "trusted-posteriors",
            "inference_library_version": version("trusted-posteriors"),
            "method": self.method,
            "trusted": int(self.trusted),
            "reasons": self.reasons,
            "seconds": sum(attempt.seconds for attempt in self.attempts),
        }
        if self._taken.gradients is not None:  # PyMC's own sampler does not count them
            found["gradient_evaluations"] = self.gradients
        if self.options:
            found["options"] = self.options
        if self.unknown:
            found["unknown"] = ", ".join(self.unknown)
        if self.random_seed is not None:
            found["random_seed"] = self.random_seed
        return found | self._of_weights

    @property
    def _of_weights(self) -> dict[str, str | int | float]:
        """What is known of the importance weights, and of the fit that they are of."""
        if self.fit is None:
            return {}
        best = self._taken
        found: dict[str, str | int | float] = {"exact": int(best.exact)}
        if self.log_evidence is not None:
            found["log_evidence"], found["log_evidence_se"] = self.log_evidence
        if np.isfinite(best.khat):  # it is NaN where weights are constant
            found |= {"khat": best.khat, "khat_sd": best.khat_sd}
        if self.effective_draws is not None:
            found["effective_draws"] = self.effective_draws
        if "options" in self.fit.info:
            found["method_options"] = str(self.fit.info["options"])
        return found

    @property
    def reasons(self) -> str:
        """One line a method tried, what was taken in the end, and whether it is to be trusted."""
        return "\n".join([*map(str, self.attempts), *self._conclusions])

    @property
    def _conclusions(self) -> list[str]:
        """What was taken in the end, and what is known of it."""
        lines = [f"taken: {self.method} ({'trusted' if self.trusted else 'not trusted'})"]
        lines += [f"not trusted: {doubt}" for doubt in self.doubts]
        if self.unknown and self.fit is not None:  # of chains the attempt says so
            lines.append(take_quantiles([str(quantity) for quantity in self.heavy]))
        if self.log_evidence is not None:
            lines.append("log evidence: {:.3f} ± {:.3f}".format(*self.log_evidence))
        if self.options and json.loads(self.options).get("want") == "density":
            lines.append(f"density: {self._of_density}")
        return lines

    @property
    def _of_density(self) -> str:
        """What :attr:`density` is worth, in words."""
        if self.fit is None:
            return (
                "none, as chains are draws alone: train a q by pm.fit(method=px.BernsteinVI()) and "
                "hold it against these, or by px.diagnose"
            )
        if self.density is None:
            return f"none, as {self.method} hands back no law: choose another of methods"
        notes = self.density.notes
        worth = f"ELBO {notes['elbo']:.3f}; {notes['verdict']}"
        if "along" in notes:
            worth = f"by Laplace's method along {' and '.join(notes['along'])}: {worth}"
        return worth if notes["usable"] else f"not usable: {worth}"


class NoAnswerError(BridgeError, RuntimeError):
    """`bridge.fit` has no draws to hand back: no approximation served, and NUTS gave none.

    Parameters
    ----------
    why
        What NUTS failed with.
    attempts
        Every method tried, in order.
    """

    def __init__(self, why: str, attempts: tuple[Attempt, ...]) -> None:
        super().__init__(why, attempts)
        self.why, self.attempts = why, attempts

    def __str__(self) -> str:
        return "\n".join([*map(str, self.attempts), f"not trusted: no draws: {self.why}"])
