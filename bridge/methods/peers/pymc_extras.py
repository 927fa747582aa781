"""Methods of pymc-extras: its Pathfinder, DADVI and Laplace approximation, on the PyMC model."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from bridge.methods.gaussian import gaussian_mixture_log_q
from bridge.methods.method import Fit, Problem
from bridge.methods.peers.shared import fit_of, imported, peer, quiet
from pymc_ext.maths.types import Array

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["PYMC_EXTRAS_METHODS", "Dadvi", "Laplace", "Pathfinder"]

PACKAGE = "pymc-extras"


@dataclass(frozen=True)
class Pathfinder:
    """Run of a method: ``fit_pathfinder``, multi-path Pathfinder.

    Defaults are its own: four paths jittered by 2 around the model's initial point, L-BFGS of 1,000
    iterations at most, 10 draws for each ELBO. Two things differ: its importance resampling is left
    out, whose draws have no density, so that weights are taken here; and paths run one after
    another, which changes no number. log q of a draw is that of its own path, as in its weights.
    Gradients are not counted: it tells iterations, not evaluations (``lbfgs_iterations``).

    Parameters
    ----------
    paths
        How many; those that fail are left out, with their draws.

    References
    ----------
    Zhang, Carpenter, Gelman & Vehtari (2022), JMLR 23(306).
    https://github.com/pymc-devs/pymc-extras
    """

    paths: int = 4

    def __call__(self, problem: Problem, draws: int, seed: int) -> Fit:
        """Fit q and make ``draws`` draws of it.

        Raises
        ------
        ImportError
            pymc-extras is not installed.
        NoModelError
            The posterior has no PyMC model.
        ValueError
            All paths failed.
        """
        inference = imported("pymc_extras.inference", PACKAGE)
        model, target = problem.model, problem.target
        with quiet("pymc_extras"):
            idata = inference.fit_pathfinder(
                model, num_paths=self.paths, num_draws_per_path=-(-draws // self.paths),
                importance_sampling=None, concurrent=None, progressbar=False, random_seed=seed,
                display_summary=False, store_diagnostics=True,
            )  # fmt: skip
        told = idata["sample_stats"]
        theta = np.asarray(told["diagnostics_samples_full"].values, dtype=float)
        lq = np.asarray(told["diagnostics_logQ_full"].values, dtype=float)
        best = ", ".join(str(int(i)) for i in told["paths_elbo_argmax"].values)
        # in random order, so that every batch that is judged has draws of all paths
        order = np.random.default_rng(seed).permutation(lq.size)[:draws]
        return fit_of(
            target,
            theta.reshape(lq.size, -1)[order],
            lq.ravel()[order],
            package=PACKAGE,
            seconds=float(told["compute_time"]),
            compile_seconds=float(told["compile_time"]),
            options=asdict(self),
            info={
                "paths": len(lq),
                "fit_notes": f"best ELBO of its paths at iterations {best}",  # 0 is the start
                "lbfgs_iterations": int(np.sum(told["paths_lbfgs_niter"].values)),
            },
        )


@dataclass(frozen=True)
class Dadvi:
    """Run of a method: ``fit_dadvi``, mean-field VI on fixed draws.

    Defaults are its own: 30 draws, ``trust-ncg`` with products of the Hessian. Gradients are those
    at every one of the draws, a product with the Hessian counting as one.

    Parameters
    ----------
    n_fixed_draws
        Draws on which the ELBO is raised.

    References
    ----------
    Giordano, Ingram & Broderick (2024), JMLR 25(18).
    https://github.com/pymc-devs/pymc-extras
    """

    n_fixed_draws: int = 30

    def __call__(self, problem: Problem, draws: int, seed: int) -> Fit:
        """Fit q and make ``draws`` draws of it.

        Raises
        ------
        ImportError
            pymc-extras is not installed.
        NoModelError
            The posterior has no PyMC model.
        """
        inference = imported("pymc_extras.inference", PACKAGE)
        model, begin = problem.model, time.perf_counter()
        with quiet("pymc_extras"):
            idata = inference.fit_dadvi(
                model, n_fixed_draws=self.n_fixed_draws, n_draws=1, progressbar=False,
                random_seed=seed,
            )  # fmt: skip
        seconds = time.perf_counter() - begin
        found = idata["optimizer_result"]
        mean, log_sd = np.split(np.asarray(found["x"].values, dtype=float), 2)
        evaluations = sum(int(found[name]) for name in ("njev", "nhev") if name in found)
        cov = np.diag(np.exp(2 * log_sd))
        return _gaussian(
            problem, mean, cov, found, draws=draws, seed=seed, seconds=seconds,
            gradients=self.n_fixed_draws * evaluations, options=asdict(self),
        )  # fmt: skip


@dataclass(frozen=True)
class Laplace:
    """Run of a method: ``fit_laplace``, a Gaussian at the mode that it finds.

    Defaults are its own: BFGS from the model's initial point, whose own estimate of the inverse
    Hessian is the covariance; it stays the identity where it starts at the mode. The mode is of the
    density without the Jacobian of the transforms, while the Gaussian is of the transformed
    variables; log p̃ here has the Jacobian. The model is not frozen before (``freeze_model=False``),
    which would change the order of its variables.

    Parameters
    ----------
    optimize_method
        The optimiser.

    References
    ----------
    https://github.com/pymc-devs/pymc-extras
    """

    optimize_method: str = "BFGS"

    def __call__(self, problem: Problem, draws: int, seed: int) -> Fit:
        """Fit q and make ``draws`` draws of it.

        Raises
        ------
        ImportError
            pymc-extras is not installed.
        NoModelError
            The posterior has no PyMC model.
        LinAlgError
            What it gives as a covariance is none.
        """
        inference = imported("pymc_extras.inference", PACKAGE)
        model, begin = problem.model, time.perf_counter()
        with quiet("pymc_extras"):
            idata = inference.fit_laplace(
                self.optimize_method, model=model, draws=1, freeze_model=False, progressbar=False,
                random_seed=seed,
            )  # fmt: skip
        seconds = time.perf_counter() - begin
        fitted, found = idata["fit"], idata["optimizer_result"]
        mean = np.asarray(fitted["mean_vector"].values, dtype=float)
        cov = np.asarray(fitted["covariance_matrix"].values, dtype=float)
        return _gaussian(
            problem, mean, cov, found, draws=draws, seed=seed, seconds=seconds,
            gradients=int(found["njev"]), options=asdict(self),
        )  # fmt: skip


def _gaussian(
    problem: Problem,
    mean: Array,
    cov: Array,
    found: xr.Dataset,
    *,
    draws: int,
    seed: int,
    seconds: float,
    gradients: int,
    options: dict[str, object],
) -> Fit:
    """A Fit of q = N(mean (D,), cov (D, D)), drawn here: DADVI would draw one after another.

    ``found`` is what the optimiser said; ``seconds`` are with the compilation of its graphs, which
    is not told apart.
    """
    rng = np.random.default_rng(seed)
    try:
        log_q = gaussian_mixture_log_q(np.ones(1), mean[None], cov[None])
        theta = rng.multivariate_normal(mean, cov, size=draws, method="cholesky")
        lq = log_q(theta)
    except ValueError as error:  # of SciPy or, LinAlgError, of NumPy
        sd = np.sqrt(np.abs(np.diag(cov)))
        raise np.linalg.LinAlgError(
            f"the covariance that {PACKAGE} gave is not positive definite in double precision, sds "
            f"from {sd.min():.3g} to {sd.max():.3g} ({error}): its optimiser has not come to a "
            "mode; try another method"
        ) from error
    return fit_of(
        problem.target,
        theta,
        lq,
        package=PACKAGE,
        seconds=seconds,
        compile_seconds=None,
        options=options,
        log_q=log_q,
        gradients=gradients,
        info={
            "converged": bool(found["success"]),
            "stop_reason": str(found["message"].item()),
        },
    )


PYMC_EXTRAS_METHODS = (
    peer("pymcx-pathfinder", "Pathfinder of pymc-extras, 4 paths", PACKAGE, Pathfinder()),
    peer("pymcx-dadvi", "DADVI of pymc-extras, 30 fixed draws", PACKAGE, Dadvi()),
    peer("pymcx-laplace", "Laplace of pymc-extras, by BFGS", PACKAGE, Laplace()),
)
