"""Every Op on every backend: compiled, or a declared callback; object mode is never fallen into."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

import pymc_ext as px
from pymc_ext.gp.failures import Failures
from pymc_ext.gp.ops import SiteEvidence, SiteEvidenceGradient, SiteWeights
from tests.needed import needs_mark
from tests.tolerances import NUMERIC

# numba on PyMC's own matrix products of slices; seen only when its kernels are not cached yet
pytestmark = pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaPerformanceWarning")

JAX = pytest.param(
    "JAX",
    marks=needs_mark("jax"),
)


def own_ops() -> list[type]:
    """Every concrete Op class of pymc_ext."""
    for module in pkgutil.walk_packages(px.__path__, "pymc_ext."):
        if module.name.endswith("_jax"):
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:  # what recovers discrete variables, which has no Op
            if error.name != "pymc_extras":
                raise
    found, todo = [], [Op]
    while todo:
        children = todo.pop().__subclasses__()
        todo += children
        own = [c for c in children if c.__module__.startswith("pymc_ext.")]
        found += [c for c in own if not inspect.isabstract(c)]
    return sorted({c for c in found if not c.__name__.startswith("_")}, key=lambda c: c.__name__)


def test_every_op_is_known_to_numba() -> None:
    from pytensor.link.numba.dispatch import basic
    from pytensor.link.numba.dispatch.scalar import numba_funcify_ScalarOp

    registries = [basic.numba_funcify_and_cache_key, basic.numba_funcify, numba_funcify_ScalarOp]
    assert {c.__name__ for c in own_ops()} >= {"BernsteinMap", "ExpectedSoftplus", "SiteEvidence"}
    for op in own_ops():
        assert any(op in r.registry for r in registries if hasattr(r, "registry")), op


@pytest.mark.filterwarnings("error")
def test_an_op_without_a_kernel_is_an_error() -> None:
    """PyTensor warns when it falls to object mode, and warnings are errors in these tests."""

    class Unknown(Op):
        __props__ = ()

        def make_node(self, *inputs):
            return Apply(self, [pt.as_tensor_variable(inputs[0])], [pt.dvector()])

        def perform(self, node, inputs, output_storage):
            output_storage[0][0] = 2 * inputs[0]

    x = pt.dvector("x")
    with pytest.raises(UserWarning, match="object mode"):
        pytensor.function([x], Unknown()(x), mode="NUMBA")(np.ones(2))


@pytest.fixture(scope="module")
def process() -> tuple[pm.Model, object]:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 1)), (rng.random(12) < 0.5).astype(float)
    with pm.Model() as model:
        scale = pm.HalfNormal("scale")
        cov = pm.gp.cov.ExpQuad(1, ls=scale)
        gp = px.gp.Approximate(cov_func=cov, likelihood=px.gp.BernoulliLogit())
        gp.marginal_likelihood("y", X=X, y=y)
    return model, gp


def compiled(model, outputs, mode):
    (value,) = model.value_vars
    outputs = model.replace_rvs_by_values(outputs)
    f = pytensor.function([value], outputs, mode=mode, on_unused_input="ignore")
    ops = {type(node.op) for node in f.maker.fgraph.toposort()}
    return [np.asarray(x) for x in f(0.3)], ops


@pytest.mark.parametrize("mode", ["NUMBA", JAX])
def test_evidence_gradient_and_weights_agree_on_all_backends(process, mode) -> None:
    model, gp = process
    logp = model.logp()
    outputs = [logp, pt.grad(logp, model.value_vars[0]), *SiteWeights(gp.solver)(*gp.inputs)]
    reference, ops = compiled(model, outputs, "CVM")
    assert {SiteEvidence, SiteEvidenceGradient, SiteWeights} <= ops
    found, _ = compiled(model, outputs, mode)
    for a, b in zip(found, reference, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=NUMERIC, atol=NUMERIC)


@needs_mark("jax")
def test_jax_differentiates_the_evidence(process) -> None:
    """As PyMC's JAX samplers do."""
    import jax
    from pymc.sampling.jax import get_jaxified_graph

    model, _ = process
    logp = model.logp()
    (reference,), _ = compiled(model, [pt.grad(logp, model.value_vars[0])], "CVM")
    f = get_jaxified_graph(model.value_vars, [logp])
    np.testing.assert_allclose(jax.grad(lambda x: f(x)[0])(0.3), reference, rtol=NUMERIC)


@pytest.mark.parametrize("mode", ["NUMBA", JAX])
def test_errors_of_the_computation_reach_the_caller(process, mode) -> None:
    model, gp = process
    y, phi, mean, K = gp.inputs
    evidence = SiteEvidence(gp.solver, Failures("raise"))
    with pytest.raises(Exception, match="holds NaN or infinity"):
        compiled(model, [evidence(y, phi, mean + np.nan, K)], mode)
