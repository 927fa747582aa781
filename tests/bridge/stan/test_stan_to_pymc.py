"""A Stan program as a PyMC model: its Ops against the program itself, then the methods on it."""

from __future__ import annotations

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import bridge
import pymc_ext as px
from bridge.errors import UndefinedDensityError
from bridge.stan.stan_backends import register_backends
from bridge.stan.stan_op import (
    StanConstrain,
    StanHessianProduct,
    StanLogDensity,
    StanLogDensityAlone,
)
from posteriordb_cases import load_case
from stan_models import StanCompileError, StanDataError, StanProgram
from tests.contracts import FAMILIES
from tests.needed import needs
from tests.tolerances import EXACT, NUMERIC, monte_carlo

pytestmark = pytest.mark.stan

SCHOOLS = load_case("eight_schools-eight_schools_noncentered")
GAUSSIAN = load_case("correlated_5-gaussian")
RANDOM = """
data { int<lower=1> K; }
parameters { vector[K] x; real<lower=0> s; }
model { x ~ normal(0, s); s ~ exponential(1); }
generated quantities {
  vector[K] y;
  int n = poisson_rng(3 * s);
  for (k in 1:K) y[k] = normal_rng(x[k], s);
}
"""


def program(case):
    return StanProgram(case.stan_code, name=case.model_name)


@pytest.fixture(scope="module")
def schools():
    return program(SCHOOLS).density(SCHOOLS.data)


@pytest.fixture(scope="module", autouse=True)
def backends():
    """As `bridge.stan_model` does; numba is PyTensor 3's default."""
    register_backends()


@pytest.fixture(scope="module")
def random_program():
    return StanProgram(RANDOM, name="random_quantities")


def points(density, *shape):
    return np.random.default_rng(1).normal(size=(*shape, density.dimension))


def test_log_density_and_gradient_for_every_number_of_leading_axes(schools):
    for shape in [(), (3,), (2, 3), (0,)]:
        theta = points(schools, *shape)
        x = pt.tensor("x", dtype="float64", shape=(None,) * theta.ndim)
        lp, gradient = pytensor.function([x], StanLogDensity(schools)(x))(theta)
        expected = schools.log_density_gradient(theta.reshape(-1, schools.dimension))
        np.testing.assert_array_equal(lp, expected[0].reshape(shape))
        np.testing.assert_array_equal(gradient, expected[1].reshape(theta.shape))


def test_graph_vectorises_to_one_call(schools):
    x, rows = pt.vector("x", shape=(schools.dimension,)), pt.matrix("rows")
    lp = StanLogDensity(schools)(x)[0]
    batched = pytensor.graph.replace.vectorize_graph(lp, {x: rows})
    assert isinstance(batched.owner.op, StanLogDensity)
    theta = points(schools, 4)
    np.testing.assert_array_equal(batched.eval({rows: theta}), schools.log_density(theta))


@pytest.mark.parametrize("mode", ["C", "NUMBA", "JAX"])
def test_the_gradient_is_computed_only_where_it_is_used(schools, mode):
    if mode == "JAX":
        needs("jax")
    x = pt.matrix("x", shape=(None, schools.dimension))
    lp = StanLogDensity(schools)(x)[0]
    options = {} if mode == "C" else {"mode": mode}
    alone = pytensor.function([x], lp, **options)
    both = pytensor.function([x], [lp, pt.grad(lp.sum(), x)], **options)
    used = [[type(n.op) for n in f.maker.fgraph.apply_nodes] for f in (alone, both)]
    assert StanLogDensityAlone in used[0] and StanLogDensity not in used[0]
    assert StanLogDensity in used[1] and StanLogDensityAlone not in used[1]
    theta = points(schools, 4)
    expected = schools.log_density_gradient(theta)
    np.testing.assert_allclose(alone(theta), expected[0], rtol=EXACT)
    np.testing.assert_allclose(both(theta)[1], expected[1], rtol=EXACT)


def test_density_alone_has_its_gradient(schools):
    x = pt.matrix("x", shape=(None, schools.dimension))
    slope = pt.grad(StanLogDensityAlone(schools)(x).sum(), x)
    theta = points(schools, 4)
    expected = schools.log_density_gradient(theta)[1]
    np.testing.assert_allclose(slope.eval({x: theta}), expected, rtol=EXACT)


def test_gradient_and_hessian_agree_with_the_port():
    density, port = program(SCHOOLS).density(SCHOOLS.data), SCHOOLS.model()
    x, theta = pt.vector("x", shape=(10,)), points(density)
    loss = pt.exp(StanLogDensity(density)(x)[0] / 50)
    hessian = pytensor.gradient.hessian(loss, x)
    value, slope, curvature = pytensor.function([x], [loss, pt.grad(loss, x), hessian])(theta)

    target = bridge.pymc_target(port)

    def f(rows):
        lp, gradient = target.log_density_gradient(rows)
        return np.exp(lp[0] / 50), np.exp(lp / 50)[:, None] * gradient / 50

    expected_value, expected_slope = f(theta[None])
    # the port's normal densities differ from Stan's by 1.9e-9 each
    np.testing.assert_allclose(value, expected_value, rtol=1e-8)
    np.testing.assert_allclose(slope, expected_slope[0], rtol=1e-8)
    h, e = 1e-5, np.eye(10)
    differences = [(f(theta[None] + h * d)[1] - f(theta[None] - h * d)[1])[0] / (2 * h) for d in e]
    np.testing.assert_allclose(curvature, differences, atol=NUMERIC * np.abs(differences).max())


def test_hessian_of_a_gaussian_is_its_precision():
    density = program(GAUSSIAN).density(GAUSSIAN.data)
    x, v = pt.matrix("x"), pt.matrix("v")
    product = pytensor.function([x, v], StanHessianProduct(density)(x, v))
    precision = -product(1e3 * points(density, 1), np.eye(5))
    L = GAUSSIAN.data["scale_tril"]
    np.testing.assert_allclose(precision, np.linalg.inv(L @ L.T), rtol=1e-8, atol=1e-8)
    assert not product(points(density, 1), np.zeros((1, 5))).any()


def test_hessian_beside_a_coordinate_of_another_scale():
    """Where the intercept is 1e5 in the data's units, log sigma must not be moved by its size."""
    code = """parameters { real a; real s; }
    model { target += -exp(-2 * s) - s - 0.5 * square(a / 1e4); }"""
    x, v = pt.vector("x"), pt.vector("v")
    product = pytensor.function([x, v], StanHessianProduct(StanProgram(code).density())(x, v))
    theta = np.array([1e5, 0.2])
    curvature = [-1e-8, -4 * np.exp(-0.4)]
    np.testing.assert_allclose(product(theta, [0.0, 1.0])[1], curvature[1], rtol=1e-9)
    np.testing.assert_allclose(product(theta, [1.0, 0.0])[0], curvature[0], rtol=1e-9)
    np.testing.assert_allclose(product(theta, [1e4, 1.0]), [-1e-4, curvature[1]], rtol=1e-9)
    np.testing.assert_array_equal(product(theta, [0.0, 0.0]), 0.0)


@pytest.mark.parametrize("mode", ["NUMBA", "JAX"])
def test_backends_agree_with_c(schools, mode):
    if mode == "JAX":
        needs("jax")
    model = bridge.stan_model(program(SCHOOLS), SCHOOLS.data)
    (x,) = model.value_vars
    outputs = [
        model.logp(),
        pt.grad(model.logp(), x),
        *model.replace_rvs_by_values(model.deterministics),
    ]
    theta = points(schools)
    v = pt.vector("v", shape=(10,))
    outputs.append(StanHessianProduct(schools)(x, v))
    values = pytensor.function([x, v], outputs, mode=mode)(theta, theta[::-1])
    expected = pytensor.function([x, v], outputs, mode="FAST_COMPILE")(theta, theta[::-1])
    for value, reference in zip(values, expected, strict=True):
        np.testing.assert_allclose(value, reference, rtol=EXACT)


def test_jax_differentiates_through_the_callback(schools):
    jax = needs("jax")
    from pymc.sampling.jax import get_jaxified_logp

    model = bridge.stan_model(program(SCHOOLS), SCHOOLS.data)
    theta = points(schools, 3)
    log_density = get_jaxified_logp(model)
    value, gradient = jax.vmap(jax.value_and_grad(lambda t: log_density([t])))(theta)
    expected = schools.log_density_gradient(theta)
    np.testing.assert_allclose(np.abs(value), np.abs(expected[0]), rtol=EXACT)
    sign = np.sign(value / expected[0])[:, None]  # PyMC 5 and 6 differ in it
    np.testing.assert_allclose(gradient, sign * expected[1], rtol=EXACT)


def test_model_has_the_stan_variables(schools):
    model = bridge.stan_model(program(SCHOOLS), SCHOOLS.data)
    assert [d.name for d in model.deterministics] == ["theta_trans", "mu", "tau", "theta"]
    theta = points(schools)
    expected = schools.constrain(theta[None])
    values = pytensor.function(model.value_vars, model.replace_rvs_by_values(model.deterministics))(
        theta
    )
    for variable, value in zip(model.deterministics, values, strict=True):
        np.testing.assert_array_equal(value, expected[variable.name][0])


def test_flows_condition_on_the_scalars_of_a_program_first(random_program):
    model = bridge.stan_model(random_program, {"K": 3})
    q = px.BernsteinVI(px.FlowShape(3), model=model).approx.q
    np.testing.assert_array_equal(q.base.order, [3, 0, 1, 2])  # s, then x
    assert q.leading == 1
    shape = px.FlowShape(3, ordering=["x", "s"])
    assert px.BernsteinVI(shape, model=model).approx.q.leading == 0


def test_generated_quantities_are_a_function_of_theta_and_seed(random_program):
    density = random_program.density({"K": 2})
    op = StanConstrain(density, random_seed=3)
    theta = points(density, 4)
    x = pt.matrix("x")
    f = pytensor.function([x], op(x))
    first, again = f(theta), f(theta[::-1])
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b[::-1])
    found = dict(zip(op.shapes, first, strict=True))
    noise = found["y"] - found["x"]
    assert len(np.unique(noise)) == noise.size
    other = StanConstrain(density, random_seed=4).compute(theta)
    assert not np.allclose(other[list(op.shapes).index("y")], found["y"])
    many = StanConstrain(density, random_seed=5)
    rows = np.random.default_rng(2).normal(size=(4_000, 3))
    values = dict(zip(many.shapes, many.compute(rows), strict=True))
    z = ((values["y"] - values["x"]) / values["s"][:, None]).ravel()
    assert abs(z.mean()) < monte_carlo(1 / np.sqrt(z.size))
    assert abs(z.var() - 1) < monte_carlo(np.sqrt(2 / z.size))


def test_model_survives_pickling(schools):
    model = cloudpickle.loads(cloudpickle.dumps(bridge.stan_model(program(SCHOOLS), SCHOOLS.data)))
    theta = points(schools)
    lp = model.compile_logp()({"unconstrained": theta})
    np.testing.assert_allclose(lp, schools.log_density(theta), rtol=EXACT)


@pytest.mark.filterwarnings("ignore:.find_MAP. will:FutureWarning")  # PyMC 6: a choice there
def test_find_map_and_sample_work(random_program):
    with bridge.stan_model(random_program, {"K": 1}, generated=True, random_seed=1):
        idata = pm.sample(
            500, tune=500, chains=2, cores=1, random_seed=1, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    posterior = idata["posterior"]
    assert posterior["y"].shape == (2, 500, 1)
    s = posterior["s"].values.ravel()  # exponential(1), apart from its divergences near zero
    assert (s > 0).all()
    with bridge.stan_model(program(GAUSSIAN), GAUSSIAN.data):
        mode = pm.find_MAP(progressbar=False)
    np.testing.assert_allclose(mode["x"], GAUSSIAN.exact["mean"]["x"], atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", [k for k, f in FAMILIES.items() if f.gaussian_target])
def test_every_gaussian_family_fits_a_stan_gaussian(name):
    family = FAMILIES[name]
    with bridge.stan_model(program(GAUSSIAN), GAUSSIAN.data) as model:
        approx = pm.fit(method=family.make(model=model, random_seed=1), progressbar=False)
    elbo, se = approx.result.elbo, approx.result.elbo_se
    log_evidence = GAUSSIAN.exact["log_evidence"]
    assert elbo < log_evidence + monte_carlo(se) + 1e-6
    if family.gaussian_target == "full":
        assert elbo > log_evidence - monte_carlo(se) - 1e-6
    assert set(approx.sample(10, random_seed=1)["posterior"].data_vars) >= {"x"}


@pytest.mark.slow
def test_laplace_and_mixed_fits_equal_the_ports():
    for method in (px.LaplaceVI, lambda **k: px.MixedVI("eig", **k)):
        with bridge.stan_model(program(SCHOOLS), SCHOOLS.data):
            stan = pm.fit(method=method(random_seed=1), progressbar=False)
        with SCHOOLS.model():
            port = pm.fit(method=method(random_seed=1), progressbar=False)
        np.testing.assert_allclose(stan.result.elbo, port.result.elbo, atol=1e-3)


def test_bad_input(random_program):
    with pytest.raises(StanDataError, match="missing: K"):
        bridge.stan_model(random_program, {})
    with pytest.raises(ValueError, match="needs random_seed"):
        bridge.stan_model(random_program, {"K": 1}, generated=True)
    with pytest.raises(ValueError, match="'x' is a variable of the Stan program"):
        bridge.stan_model(random_program, {"K": 1}, name="x")
    with pytest.raises(StanCompileError, match=r"(?i)int"):
        bridge.stan_model("parameters { int x; } model { x ~ poisson(1); }\n")
    with pytest.raises(ValueError, match="scalar"):
        StanLogDensity(random_program.density({"K": 1}))(pt.scalar())


@pytest.mark.parametrize(
    ("statement", "message"),
    [("target += log(-1 - square(x));", r"no finite log density.*or the declared constraints$"),
     ('reject("no count of ", x);', r"constraints; Stan said: .*no count of 0 .*line 2, column"),
     ("target += -x^2 + atan2(0 * x, 0 * x);", "no finite gradient with respect to x")],
)  # fmt: skip
def test_undefined_densities_are_refused(statement, message):
    source = f"parameters {{ real x; }}\nmodel {{ {statement} }}\n"
    with pytest.raises(UndefinedDensityError, match=message):
        bridge.stan_model(StanProgram(source, name="undefined_density"))


def test_data_that_are_not_finite_are_named_where_the_density_is_undefined() -> None:
    """And not refused: programs mark what is missing by NaN, and bounds that are none by inf."""
    source = """
        data { int N; vector[N] y; array[2] row_vector[N] x; real s; }
        parameters { real mu; }
        model { for (n in 1:N) if (!is_nan(y[n])) y[n] ~ normal(mu + x[1, n], s); }
    """
    program = StanProgram(source, name="missing_values")
    data = {"N": 3, "y": [0.1, np.nan, np.nan], "x": np.ones((2, 3)), "s": 1.0}
    assert np.isfinite(bridge.stan_target(program.density(data)).log_density([[0.0]])).all()
    assert bridge.stan_model(program, data).compile_logp()({"unconstrained": [0.0]}) < 0
    data["x"] = [[1, 2, np.nan], [np.inf, 0, 0]]
    named = r"not finite in the data: y\[2\] = nan, x\[1, 3\] = nan$"
    with pytest.raises(UndefinedDensityError, match=named):
        bridge.stan_model(program, {**data, "y": [0.1, np.nan, 0.2]})
    with pytest.raises(UndefinedDensityError, match=r"in the data: s = inf$"):
        bridge.stan_model(program, {**data, "y": [0, 0, 0], "x": np.ones((2, 3)), "s": np.inf})


def test_programs_that_reject_the_origin() -> None:
    """A unit vector has no value there."""
    code = "parameters { unit_vector[3] u; } model { u ~ normal([1, 0, 0]', 1); }"
    sphere = StanProgram(code, name="sphere")
    target = bridge.stan_target(sphere.density())
    assert target.parameter_names == ("u",)
    model = bridge.stan_model(sphere)
    theta = np.array([0.3, -0.4, 1.2])
    assert model.compile_logp()({model.value_vars[0].name: theta}) == pytest.approx(
        target.log_density(theta[None])[0], rel=EXACT
    )
