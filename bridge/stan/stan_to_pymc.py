"""Any Stan program as a PyMC model: what ``pm.fit`` and ``pm.sample`` offer runs on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pymc as pm

from bridge.stan.stan_backends import register_backends
from bridge.stan.stan_op import StanConstrain, StanLogDensity
from bridge.stan.start import stan_start
from pymc_ext.seeds import check_seed
from pymc_ext.variational.core.variable_order import blocks_of

if TYPE_CHECKING:
    from os import PathLike

    from pytensor.tensor import TensorVariable

    from stan_models import StanProgram
    from stan_models.density import Data


def stan_model(
    program: StanProgram | str | PathLike[str],
    data: Data = None,
    *,
    generated: bool = False,
    random_seed: int | None = None,
    name: str = "unconstrained",
) -> pm.Model:
    """Return a PyMC model with the log density of a Stan program.

    The model has one free variable, the flat unconstrained vector of the program,

    .. math:: p(\\theta) \\propto 1, \\quad
        \\text{potential } \\log \\tilde p(\\theta) \\text{ with Jacobian and constants},

    and a deterministic of its own for every parameter, transformed parameter and, on request,
    generated quantity, under its Stan name and on the constrained space. ``pm.fit`` with every
    family, ``pm.sample`` and ``pm.find_MAP`` work on it, on PyTensor's C, numba and JAX backends
    (the latter two call back to the compiled program). A flow's ``ordering`` takes the names of the
    program's parameters. Families that read a model's graph
    (ViperVI, JaakkolaVI, MatchingVI) need a model written in PyMC.

    Parameters
    ----------
    program
        A `stan_models.StanProgram`, Stan source, or the path of a ``.stan`` file.
    data
        Values of the data block by name, the path of a JSON file, or None.
    generated
        Whether generated quantities become deterministics too. Their random numbers are a
        function of θ and ``random_seed``.
    random_seed
        Needed with ``generated``: integer >= 0.
    name
        Name of the free variable, shape (D,).

    Raises
    ------
    StanCompileError, StanDataError
        The program is not valid, or the data do not fit it.
    UndefinedDensityError
        The density is zero at every start tried, or its gradient is not finite where it is not.
    ValueError
        ``name`` is also the name of a Stan variable; ``generated`` without ``random_seed``.

    Examples
    --------
    >>> model = stan_model("parameters { real x; } model { x ~ normal(1, 2); }")
    >>> model.compile_logp()({"unconstrained": [1.0]})  # -log(2 sqrt(2 pi))
    array(-1.61208571)
    """
    check_seed(random_seed)
    density = _program(program).density(data)
    if generated and random_seed is None:
        raise ValueError("generated=True needs random_seed, got None")
    constrain = StanConstrain(density, random_seed if generated else None)
    if name in constrain.shapes:
        raise ValueError(
            f"{name!r} is a variable of the Stan program: give the flat vector another name=..."
        )
    register_backends()
    with pm.Model() as model:
        theta = pm.Flat(name, shape=density.dimension, initval=stan_start(density))
        theta.tag.blocks = {block.name: block.size for block in blocks_of(density)}
        lp, _ = cast("list[TensorVariable]", StanLogDensity(density)(theta))
        pm.Potential(f"{density.program.name}_log_density", lp)
        values = cast("list[TensorVariable]", constrain(theta, return_list=True))
        for variable, value in zip(constrain.shapes, values, strict=True):
            pm.Deterministic(variable, value)
    return model


def _program(program: StanProgram | str | PathLike[str]) -> StanProgram:
    from stan_models import StanProgram

    return program if isinstance(program, StanProgram) else StanProgram(program)
