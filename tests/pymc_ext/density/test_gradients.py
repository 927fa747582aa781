"""Log densities that cannot be differentiated once, or twice: a sentence, not PyTensor's error."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op

import bridge
import pymc_ext as px
from pymc_ext.density import PyMCDensity
from pymc_ext.density.check import NoGradientError
from tests.contracts import FAMILIES

pytestmark = pytest.mark.filterwarnings(  # what PyTensor 3 says of Ops of others, pm.ode's included
    "ignore:Numba will use object mode:UserWarning",
    "ignore:DifferentialEquation should implement:FutureWarning",
)
Y = np.array([0.5, 1.5, 1.0])
LOGISTIC = {"viper", "viper-diagonal", "jaakkola", "matching"}  # these read the graph


class Ones(Op):
    """1 where x is anything, without a gradient of its own."""

    itypes: ClassVar = [pt.dscalar]
    otypes: ClassVar = [pt.dscalar]

    def perform(self, node: Apply, inputs: list, outputs: list) -> None:
        outputs[0][0] = np.ones_like(inputs[0])


class Once(Op):
    """x, which can be differentiated once."""

    itypes: ClassVar = [pt.dscalar]
    otypes: ClassVar = [pt.dscalar]

    def perform(self, node: Apply, inputs: list, outputs: list) -> None:
        outputs[0][0] = np.array(inputs[0])

    def pullback(self, inputs: list, outputs: list, cotangents: list) -> list[Variable]:
        return [cotangents[0] * Ones()(inputs[0])]

    L_op = pullback  # its name in PyTensor 2


class Never(Ones):
    """An Op of the user's own that nobody differentiated."""


def model_of(op: Op) -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 3)
        pm.Normal("y", op(mu), 1, observed=Y)
    return model


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in LOGISTIC])
def test_families_say_which_op_has_no_gradient(name) -> None:
    message = r"has no gradient \(.*Never.*\): give that Op one .* or use pm.sample"
    with pytest.raises(NoGradientError, match=message):
        px.fit(FAMILIES[name].make(model=model_of(Never()), random_seed=1), n=20)


def test_bridge_fit_hands_it_to_the_models_own_sampler() -> None:
    advice = bridge.fit(model_of(Never()), random_seed=1, progressbar=False, draws=400)
    assert advice.method == "nuts" and "has no gradient" in advice.attempts[0].verdict
    assert advice.idata["posterior"]["mu"].shape[0] == 4


@pytest.mark.parametrize("kind", ["truncated-gamma", "ode"])
def test_what_pymc_cannot_differentiate_twice_is_said(kind) -> None:
    from benchmarks.speed.model_kinds_models import KINDS

    density = PyMCDensity(KINDS[kind]())
    with pytest.raises(NoGradientError, match=r"differentiated twice \(.*MixedVI\('eig'"):
        density.hessian(np.full(density.dimension, 0.1))


def test_laplace_goes_on_where_an_exact_hessian_is_wanted_and_cannot_be_had() -> None:
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("kink", -3 * pt.abs(Once()(x)))
    laplace = px.LaplaceVI(model=model, random_seed=1)
    px.fit(laplace, progressbar=False)
    assert any("the score jumps" in note for note in laplace.approx.result.notes)
    idata = px.fit("batch-match", model=model_of(Once()), random_seed=1, progressbar=False)
    assert idata["posterior"].attrs["verdict"].startswith("exact")
