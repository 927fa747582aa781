"""Graphs that NumPy runs: the compiler's numbers, no operation number by number, only if small."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise

import pymc_ext as px
from pymc_ext.density import PyMCDensity
from pymc_ext.pytensor_modes import numpy_mode, run_by_numpy, serves
from tests.needed import needs
from tests.tolerances import EXACT

RNG = np.random.default_rng(1)
X, COUNTS = RNG.normal(size=40), RNG.poisson(3.0, size=40)
FAR = [-800.0, -40.0, -1.0, -1e-12, 0.0, 1e-12, 1.0, 40.0, 800.0]


def logistic():
    pm.Bernoulli("y", logit_p=pm.Normal("a") + pm.Normal("b") * X, observed=COUNTS > 3)


def negative_binomial():
    mu = pm.math.exp(pm.Normal("a") + 0.3 * X)
    pm.NegativeBinomial("y", mu, pm.Gamma("phi", 2, 1), observed=COUNTS)


def robust():
    nu, mu, sigma = pm.Gamma("nu", 2, 0.1), pm.Normal("a"), pm.HalfCauchy("s", 1)
    pm.StudentT("y", nu=nu, mu=mu, sigma=sigma, observed=X)


def weibull_censored():
    law = pm.Weibull.dist(pm.HalfNormal("k"), pm.HalfNormal("scale"))
    pm.Censored("y", law, lower=None, upper=2.0, observed=np.minimum(np.abs(X), 2.0))


def groups():
    effects = pm.Normal("effects", 0, pm.HalfNormal("tau"), shape=8)
    pm.Poisson("y", pm.math.exp(effects[np.arange(40) % 8]), observed=COUNTS)


def zero_inflated():
    pm.ZeroInflatedPoisson("y", pm.Beta("psi", 1, 1), pm.Gamma("rate", 2, 1), observed=COUNTS)


def truncated():
    pm.Truncated("y", pm.Normal.dist(pm.Normal("m"), pm.HalfNormal("s")), lower=0,
                 observed=np.abs(X))  # fmt: skip


MODELS = [logistic, negative_binomial, robust, weibull_censored, groups, zero_inflated, truncated]


@pytest.mark.parametrize("make", MODELS)
def test_numbers_are_the_compilers(make):
    with pm.Model() as model:
        make()
    density = PyMCDensity(model)
    theta = np.concatenate([0.5 * RNG.normal(size=(20, density.dimension)),
                            2.0 * RNG.normal(size=(10, density.dimension))])  # fmt: skip
    ours, truth = (d.log_density_gradient(theta) for d in (density, density.for_chains))
    assert not density.for_chains.interpreted
    for own, other in zip(ours, truth, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("make", MODELS)
def test_nothing_is_done_number_by_number(make):
    with pm.Model() as model:
        make()
    density = PyMCDensity(model)
    rows = pt.matrix("rows", shape=(None, density.dimension))
    lp = density.logp_of_rows(rows)
    f = density.compile([rows], [lp, pt.grad(lp.sum(), rows)], mode=numpy_mode())
    for node in f.maker.fgraph.apply_nodes:
        if isinstance(node.op, Elemwise):
            name, inputs, _ = node.op.scalar_op.nfunc_spec
            assert inputs == len(node.inputs), (name, node)
    one_by_one = any(isinstance(node.op, Blockwise) for node in f.maker.fgraph.apply_nodes)
    assert serves(f) or one_by_one  # matrices, which numba has in its loop


@pytest.mark.parametrize(
    "graph, points",
    [
        (pt.softplus, FAR),
        (lambda x: pt.log1mexp(x), [-800.0, -40.0, -1.0, -np.log(2.0), -0.1, -1e-12]),
        (lambda x: pt.clip(x, -1.0, 2.0), FAR),
        (lambda x: x + pt.exp(-pt.abs(x)) + pt.sin(x) + 3.0, FAR),
        (lambda x: x * pt.exp(-pt.abs(x)) * pt.sin(x) * pt.cos(x), FAR),
        (lambda x: x**3, FAR),
    ],
)
def test_functions_of_arrays_are_those_of_numbers(graph, points):
    x, at = pt.matrix("x"), np.array(points)[:, None]
    f, truth = (pytensor.function([x], graph(x), mode=m) for m in (numpy_mode(), None))
    assert serves(f)
    np.testing.assert_allclose(f(at), truth(at), rtol=EXACT, atol=1e-300)


def compiled_with(**options):
    x = pt.matrix("x", shape=(None, options.pop("width", 3)))
    return lambda **mode: pytensor.function([x], options.get("graph", pt.exp)(x), **mode)


def test_many_numbers_loops_and_modes_of_the_users_are_left_to_the_compiler(monkeypatch):
    assert run_by_numpy(compiled_with()) is not None
    assert run_by_numpy(compiled_with(width=100_000)) is None
    many = pytensor.shared(np.ones(100_000), shape=(None,))  # rows of unknown number
    graph = lambda x: pt.exp(many * x[:, :1]).sum(1)  # noqa: E731
    assert run_by_numpy(compiled_with(graph=graph)) is None

    def loop(x):
        return pytensor.scan(lambda r, before: pt.exp(r - before), sequences=[x],
                             outputs_info=[x[0]], return_updates=False)  # fmt: skip

    assert run_by_numpy(compiled_with(graph=loop)) is None
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        assert run_by_numpy(compiled_with()) is None


def test_numpy_is_as_silent_as_a_compiler():
    with pm.Model() as model:
        x = pm.Normal("x", shape=2)
        pm.Potential("p", pm.math.sum(pt.exp(x) * np.array([1.0, -1.0])))
    lp, score = PyMCDensity(model).log_density_gradient(np.full((1, 2), 800.0))  # warnings: errors
    assert not np.isfinite(lp[0]) and not np.isfinite(score).all()


def test_a_mode_that_is_asked_for_is_taken(monkeypatch):
    with pm.Model() as model:
        groups()
    asked = []
    monkeypatch.setattr("pymc_ext.density.model.run_by_numpy", lambda f: asked.append(f))
    zeros = np.zeros((1, 9))
    PyMCDensity(model, compile_kwargs={"mode": "FAST_COMPILE"}).log_density_gradient(zeros)
    PyMCDensity(model, interpreted=False).log_density_gradient(zeros)
    assert not asked
    PyMCDensity(model).log_density_gradient(zeros)
    assert len(asked) == 1


def test_chains_of_one_point_a_call_take_the_compiler_and_those_in_step_what_is_compiled():
    needs("nutpie")
    from pymc_ext.sampling.nutpie import NutpieNUTS

    with pm.Model():
        groups()
        approx = pm.fit(method=px.BatchMatchVI(random_seed=1), progressbar=False)
    options = {"ess": 100, "search": False, "random_seed": 1, "progressbar": False}
    assert px.sample(approx, **options).posterior.attrs["sampler"] == "hmc"
    assert "for_chains" not in vars(approx.density)
    idata = px.sample(approx, sampler=NutpieNUTS(), **options)
    assert idata.posterior.sizes["chain"] == 4
    chains = vars(approx.density)["for_chains"]
    assert "_both" in vars(chains) and not chains.interpreted


def test_what_numpy_cannot_run_is_compiled(monkeypatch):
    def fails(**mode):
        if mode:
            raise NotImplementedError("no NumPy code")
        return "compiled"

    assert (run_by_numpy(fails) or fails()) == "compiled"

    def warns(**mode):
        raise UserWarning("an error by the user's own filters")

    with pytest.raises(UserWarning):
        run_by_numpy(warns)
