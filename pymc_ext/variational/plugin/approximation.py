"""q of one group, joined to a model: draws, logs, InferenceData; what ``pm.fit`` returns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

from pymc_ext.arviz_versions import ArvizData, add_group, add_variables
from pymc_ext.density.counted import noise_of
from pymc_ext.maths.types import Array
from pymc_ext.options import require_count, require_flag, require_memory
from pymc_ext.pytensor_modes import run_or_compile
from pymc_ext.seeds import check_seed
from pymc_ext.variational.core.attributes import attributes_of, notes_of
from pymc_ext.variational.core.posterior import LogDensity, Posterior
from pymc_ext.variational.core.result import FitResult, FreshDraws
from pymc_ext.variational.core.seeds import Seed
from pymc_ext.variational.core.weights import log_ratios_of
from pymc_ext.variational.plugin.graph_approximation import GraphApproximation
from pymc_ext.variational.plugin.groups import FittedGroup
from pymc_ext.variational.plugin.traces import check_conversion, check_log_names, make_trace

if TYPE_CHECKING:
    from pymc.backends.base import MultiTrace
    from pytensor.compile import Function
    from pytensor.tensor import TensorVariable

    from pymc_ext.variational.core.saved.posterior import SavedPosterior

CHUNK = 1024  # draws evaluated together: bounds memory at CHUNK times one log density


class VectorisedApproximation(GraphApproximation):
    """q of one :class:`FittedGroup`, evaluated over all draws at once.

    Parameters
    ----------
    family
        The group class; ``options`` go to it.
    model
        The model; None takes the one of the ``with`` context.
    hyperparameters
        Free variables (or names) held at a point value that the fit optimises. Their prior counts
        on the constrained scale, without Jacobian, as in ``pm.find_MAP``.
    start
        Initial values by variable name, as ``pm.sample(initvals=)``.
    random_seed
        Seeds the group's generator, from which draws without a seed of their own are seeded.
    density
        Makes :attr:`density`; takes what :class:`PyMCDensity` takes.
    """

    result: FitResult | None = None
    options: str = ""  # what fitted q, with its options
    proposal: Posterior | None = None  # what importance weights are taken of, where it is not q

    def __init__(self, family: type[FittedGroup], **options: Any) -> None:
        super().__init__(family, **options)
        self.hist: Array = np.asarray(())
        self._terms = terms_of(self.model)

    @property
    def q(self) -> Posterior:
        """q at the present parameters, in numbers."""
        return self.group.held.q

    def __getstate__(self) -> dict[str, object]:
        state = super().__getstate__()
        state.pop("_constrained", None)  # compiled again on demand
        return state

    def latent_draws(self, n: int, random_seed: Seed = None, of: Posterior | None = None) -> Array:
        """z ~ N(0, I), shape (n, K), of q or another; without a seed the next from the
        approximation's generator."""
        require_count("draws", n)
        check_seed(random_seed, generator=True)
        if random_seed is None:
            random_seed = int(self.rng.randint(2**30))
        K = (self.q if of is None else of).latent_dimension
        require_memory("draws", n, K)
        z = np.random.default_rng(random_seed).standard_normal((n, K))
        return z.astype(pytensor.config.floatX)

    def require_same_model(self) -> None:
        """Raise ValueError where the model has got or lost a variable or a potential."""
        if changed := sorted(terms_of(self.model) ^ self._terms):
            raise ValueError(
                f"the model has changed since it was fitted ({', '.join(changed)}), so that these "
                "are not draws of its posterior: fit it again"
            )

    def require_exact_logp(self) -> None:
        """Raise ValueError where the model's data are ``pm.Minibatch``, or it has changed."""
        self.require_same_model()
        if self.density.noisy:
            raise ValueError(
                f"{noise_of(self.density)}: build the model on all data to evaluate it"
            )

    def _theta_rows(self, theta: Array) -> Array:
        rows = np.asarray(theta, dtype=pytensor.config.floatX)
        if rows.ndim != 2 or rows.shape[1] != self.group.ddim:
            raise ValueError(f"theta must have shape (N, {self.group.ddim}), got {rows.shape}")
        return rows

    def log_p(self, theta: Array) -> Array:
        """log p̃ on the unconstrained space, Jacobian included; (N, D) -> (N,)."""
        self.require_exact_logp()
        return self.density.log_density(self._theta_rows(theta))

    def log_q(self, theta: Array) -> Array:
        """Normalised log q at any θ; (N, D) -> (N,). Raises TypeError if the family lacks it."""
        q = self.q
        if not hasattr(q, "log_density"):
            raise TypeError(
                f"{type(q).__name__} has no log q at arbitrary points, only at its own draws: use "
                "draws_with_logs"
            )
        return cast("LogDensity", q).log_density(self._theta_rows(theta))

    def draws_with_logs(self, n: int, random_seed: Seed = None) -> tuple[Array, Array, Array]:
        """``n`` independent draws θ (n, D) with log p̃ (n,) and log q (n,)."""
        self.require_exact_logp()
        theta, log_q = self.q.forward(self.latent_draws(n, random_seed))
        return theta, self.density.log_density(theta), log_q

    def weighted_draws(self, n: int, random_seed: Seed = None) -> tuple[Array, Array, Array]:
        """As :meth:`draws_with_logs`, for importance weights: of the proposal where there is one.

        θ (n, D), log p̃ (n,), log q (n,); ``exp(log p̃ − log q)`` are weights of these draws and of
        no others. Where log p̃ is undefined, as of a θ so far out that it is no number, it is −∞:
        the draw has no weight.
        """
        self.require_exact_logp()
        q = self.q if self.proposal is None else self.proposal
        with np.errstate(all="ignore"):
            theta, log_q = q.forward(self.latent_draws(n, random_seed, self.proposal))
            log_p = self.density.log_density(theta)
        return theta, np.where(np.isnan(log_p), -np.inf, log_p), log_q

    def evaluate(self, draws: int = 4096, random_seed: Seed = None) -> FreshDraws:
        """ELBO and importance-sampling evidence from fresh draws of q."""
        _, lp, lq = self.draws_with_logs(draws, random_seed)
        return FreshDraws.from_log_ratios(log_ratios_of(lp, lq))

    def sample(
        self,
        draws: int = 500,
        *,
        chains: int = 1,
        random_seed: Seed = None,
        logs: bool = True,
        prior: bool = False,
        return_inferencedata: bool = True,
        **kwargs: Any,
    ) -> ArvizData | MultiTrace:
        """Draws of q as InferenceData (PyMC 6: DataTree), as ``pm.sample`` gives it.

        ``sample_stats`` has ``lp`` and ``lq``, as ``az.loo_approximate_posterior`` takes them, and
        ``log_weight``, what weighs these draws to make them draws of the posterior: lp − lq,
        Pareto-smoothed and normalised over all chains. The attributes of ``posterior`` say what
        fitted q, how good it is and what it has cost; weights do not serve where k̂ is above 0.7.

        Parameters
        ----------
        draws
            Number of independent draws of q in a chain; no weights have made draws of the
            posterior of them.
        chains
            How many, for summaries and plots that want several. R̂ is 1 whatever q is, as all draws
            are independent.
        random_seed
            None, an integer from 0 to 2³² − 1, or a NumPy Generator.
        logs
            Whether ``lp`` and ``log_weight`` are wanted. They are evaluated when either is first
            read, or written to a file: on a million rows log p̃ of a draw takes a tenth of a second,
            and the draw next to nothing. They are of the data that the model has now, whatever
            ``pm.set_data`` does until then. With ``pm.Minibatch`` data, where they would be noisy
            estimates, they are left out, too.
        prior
            Whether to draw from the model's prior, too, as many: the group ``prior``, in one chain.
        return_inferencedata
            False returns PyMC's MultiTrace.
        kwargs
            Go to ``pm.to_inference_data``: ``log_likelihood=True`` for ``az.loo``,
            ``log_prior=True`` for power scaling, ``include_transformed=True``, ``coords``, ...

        Raises
        ------
        ValueError
            ``log_likelihood`` is asked for and the model's data are ``pm.Minibatch``; ``prior``
            is, and cannot be drawn from (``pm.Flat``, a ``pm.CustomDist`` without ``random=``,
            potentials); ``log_likelihood`` or ``log_prior`` names what the model has not; or
            ``draws`` or ``chains`` is not a positive integer; or the model has got or lost a
            variable or a potential since.
        TypeError
            A flag is no bool, ``log_likelihood`` or ``log_prior`` neither a bool nor names, or a
            keyword is unknown.
        """
        require_count("draws", draws)
        require_count("chains", chains)
        require_flag("logs", logs)
        require_flag("prior", prior)
        require_flag("return_inferencedata", return_inferencedata)
        self.require_same_model()
        check_conversion("approx.sample", kwargs, "for chains call px.sample(approx)", self.sample)
        asked = (kwargs.get(group, False) for group in ("log_likelihood", "log_prior"))
        check_log_names(self.model, *asked)
        if self.density.noisy and kwargs.get("log_likelihood"):
            raise ValueError(
                f"the rows of {self.density.batches} are a pm.Minibatch, so that log_likelihood "
                "would be of other rows for every draw: build the model on all data, take the "
                "draws from here, and call "
                "pm.compute_log_likelihood(idata, model=that_model)"
            )
        theta, log_q = self.q.forward(self.latent_draws(chains * draws, random_seed))
        stats = {"lq": log_q.reshape(chains, -1)}
        theta = theta.reshape(chains, -1, theta.shape[-1])
        deferred = None
        if logs and not self.density.noisy:
            from pymc_ext.variational.plugin.deferred import DeferredLogs  # not a file of a fit's

            deferred = DeferredLogs(self.density, theta, stats["lq"])
        if not return_inferencedata:
            if deferred is not None:
                stats |= {"lp": deferred.lp, "log_weight": deferred.log_weight}
            return self.trace_of(theta, stats)
        trace = self.trace_of(theta, stats)
        idata = pm.to_inference_data(trace, model=self.model, **{"log_likelihood": False, **kwargs})
        if deferred is not None:
            add_variables(idata, "sample_stats", deferred.variables())
        if self.result is not None:
            idata["posterior"].attrs.update(attributes_of(self.result, self.options))
        if prior:
            from pymc_ext.models.prior import prior_draws  # not a file of a fit's

            seed = self.rng if random_seed is None else random_seed
            add_group(idata, "prior", prior_draws(self.model, chains * draws, seed))
        return idata

    def as_law(self) -> SavedPosterior:
        """q as a law of SciPy's kind, which is what :meth:`save` keeps.

        Raises
        ------
        ValueError
            There are hyperparameters, which have no law.
        """
        if self.point_group is not None:
            raise ValueError(
                f"q is a law given the hyperparameters {sorted(self.hyperparameters)}, which a "
                "file does not keep: fix them in the model and fit again"
            )
        from pymc_ext.variational.core.saved.posterior import law_of

        notes = {} if self.result is None else notes_of(self.result)
        return law_of(self.q, self.density, notes, self.model, self.proposal)

    def save(self, path: str | PathLike[str]) -> Path:
        """Keep q, and the proposal beside it, in a file, from which :func:`pymc_ext.load` takes
        them; see `pymc_ext.save`."""
        from pymc_ext.variational.core.saved.posterior import save

        return save(path, self.as_law())

    def trace_of(self, theta: Array, stats: Mapping[str, Array]) -> MultiTrace:
        """PyMC's trace of points θ (chains, draws, D) with statistics (chains, draws) by name."""
        flat = theta.reshape(-1, theta.shape[-1])
        values = [x.reshape(*theta.shape[:2], *x.shape[1:]) for x in self._constrain(flat)]
        return make_trace(self.model, self.model.unobserved_value_vars, values, stats)

    def constrain(self, theta: Array) -> dict[str, Array]:
        """Values of all variables and deterministics by name, (N, D) -> (N, *shape)."""
        names = [variable.name for variable in self.model.unobserved_value_vars]
        return dict(zip(names, self._constrain(theta), strict=True))

    @cached_property
    def _constrained(self) -> tuple[list[TensorVariable], Function]:
        """What the model had when it was compiled, and that as a function of rows."""
        asked = list(self.model.unobserved_value_vars)
        with self.building():
            rows = pt.matrix("rows", shape=(None, self.group.ddim))
            nodes = self._at_point(self.to_flat_input(asked))
            several = self.over_draws(nodes, rows)

            def compiled(**mode: object) -> Function:
                return self.compile([rows], several, on_unused_input="ignore", **mode)

            given = "mode" in self.compile_kwargs
            return asked, compiled() if given else run_or_compile(compiled)

    def _constrain(self, theta: Array) -> list[Array]:
        asked, f = self._constrained
        if asked != self.model.unobserved_value_vars:  # a pm.Deterministic has come since
            del self._constrained
            f = self._constrained[1]
        parts = [f(theta[i : i + CHUNK]) for i in range(0, len(theta), CHUNK)]
        return [np.concatenate(column) for column in zip(*parts, strict=True)]


def terms_of(model: pm.Model) -> frozenset[str]:
    """Names of what its density is made of."""
    return frozenset(str(term.name) for term in (*model.basic_RVs, *model.potentials))
