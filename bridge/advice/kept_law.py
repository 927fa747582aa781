"""Which normalised law an answer keeps: q, or the law along governors where that is nearer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bridge.advice.own_draws import OwnError, own_error
from bridge.methods.method import Fit
from pymc_ext.density.protocol import value_names
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.attributes import notes_of_draws
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.hierarchical.law import LawAlong
from pymc_ext.variational.hierarchical.law_map import LawMap

__all__ = ["KeptLaw", "kept_law"]


@dataclass(frozen=True)
class KeptLaw:
    """A law and what its own draws, without weights, are worth.

    Parameters
    ----------
    q
        The law.
    fresh
        How they judge it.
    error
        How far they are from weighted ones; None where no weights are trusted.
    along
        Quantities along which Laplace's method made it; none of a fitted q.
    """

    q: Posterior
    fresh: FreshDraws
    error: OwnError | None
    along: tuple[str, ...] = ()

    @property
    def wrong(self) -> str | None:
        """What is wrong with its own draws; None: nothing, or nobody knows."""
        return None if self.error is None else self.error.wrong

    @property
    def notes(self) -> dict[str, object]:
        """What goes with it into a file.

        Where weights are trusted they tell what its own draws are worth, whatever k̂ of its own
        weights says of its tails.
        """
        notes: dict[str, object] = {**notes_of_draws(self.fresh)}
        if self.error is not None:
            notes |= {
                "usable": self.wrong is None,
                "verdict": f"{self.fresh.verdict}; {self.error}",
            }
            notes |= {"mean_error": abs(self.error.mean), "sd_ratio": self.error.sd_ratio}
        return notes | ({"along": list(self.along)} if self.along else {})


def kept_law(fit: Fit, weights: Array | None) -> KeptLaw | None:
    """Of a fit and the weights that its :attr:`Fit.weighted` draws have, None where these are not
    trusted; None where the fit hands back no q.

    A map is fitted by KL(q‖p), and where a log scale has a tail to zero it may be half as wide as
    the posterior there. Given what governs scales the others are close to a normal: the law along
    governors, by which the map's weights are judged, is then the posterior's in all but name.

    Parameters
    ----------
    fit
        Of a density.
    weights
        As for `own_error`.
    """
    if fit.q is None or fit.lq is None:
        return None
    fresh = FreshDraws.from_log_ratios((fit.lp - fit.lq).ravel())
    if weights is None:
        return KeptLaw(fit.q, fresh, None)
    error = own_error(fit, weights)
    of_q = KeptLaw(fit.q, fresh, error)
    if error.is_small or fit.law is None or fit.law.open_ends or fit.symmetry:
        return of_q
    of_law = _judged(fit, fit.law, weights)
    assert of_law.error is not None
    nearer = of_law.error.size < error.size and of_law.fresh.elbo > fresh.elbo
    return of_law if nearer else of_q


def _judged(fit: Fit, law: LawAlong, weights: Array) -> KeptLaw:
    """The law by as many draws as q has, always the same: it is no random one."""
    q = LawMap(law)
    z = stream(0, Purpose.NECKS).standard_normal((fit.lp.size, q.latent_dimension))
    theta, lq = q.forward(z)
    lp = fit.target.log_density(theta)
    drawn = replace(
        fit, theta=theta[None], lp=lp[None], lq=lq[None], proposal=fit.weighted, more=None
    )
    names = value_names(fit.target.density)
    along = tuple(names[j] for j in law.governors)
    return KeptLaw(q, FreshDraws.from_log_ratios(lp - lq), own_error(drawn, weights), along)
