"""The Bernstein flow as a family: densities against autodiff, quadrature and its own inverse."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats

import pymc_ext as px
from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.variational.bernstein.graph import FlowGraph
from pymc_ext.variational.bernstein.latents import LATENTS, Normal, TruncatedNormal
from pymc_ext.variational.bernstein.polish.weighted import ImportanceWeighted
from tests.pymc_ext.variational.grouped import grouped

PYTHON = {"mode": "FAST_COMPILE"}  # no C compiler: these functions are called a few times only
FLOWS = [
    {"input_map": "f1"},
    {"input_map": "f2"},
    {"input_map": "f3"},
    {"tails": "bounded", "conditioning": "squashed"},  # the paper's
    {"latent": "logistic"},
    {"tails": "linear", "conditioning": "latent"},
    {"latent": "student-t"},
    {"latent": px.StudentT(df=2.5), "input_map": "f2"},
    {"base": (np.array([1.0, -2.0, 0.5]), np.diag([4.0, 1.0, 0.1]) + 0.05)},
    {"hidden": ()},
    {"hidden": (), "tails": "bounded", "conditioning": "squashed"},
]


def three_normals() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("x", 0.0, 1.0, shape=2)
        pm.Normal("s", 0.0, 1.0)
    return model


def flow(model: pm.Model, **options) -> px.BernsteinVI:
    """A small flow; options of its shape and of its steps may be given singly."""
    options = {"order": 4, "hidden": (5, 5), "random_seed": 1, **options}
    options = grouped(options, shape=px.FlowShape, step=px.StepOptions)
    return px.BernsteinVI(model=model, **options)


def disturbed(seed: int = 1, model: pm.Model | None = None, **options) -> px.BernsteinVI:
    """An unfitted flow whose parameters are far from their start."""
    inference = flow(model or three_normals(), random_seed=seed, **options)
    rng, q = np.random.default_rng(seed), inference.approx.q
    q.set(q.x + 0.4 * rng.standard_normal(q.x.shape))
    if isinstance(q.law, Normal):  # as a polish leaves them
        q.stretch[...] = rng.uniform(0, 3, q.stretch.shape)
    inference.approx.compile_kwargs = PYTHON
    if isinstance(options.get("base"), tuple):
        q.set_base(*options["base"])
    return inference


@pytest.mark.parametrize("options", FLOWS, ids=str)
def test_log_q_at_drawn_points_is_that_of_the_draws(options):
    approx = disturbed(**options).approx
    theta, _, lq = approx.draws_with_logs(40, random_seed=2)
    np.testing.assert_allclose(approx.log_q(theta), lq, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("options", FLOWS, ids=str)
def test_numbers_are_those_of_the_graphs_and_pull_back_right(options):
    flow = disturbed(**options).approx.q
    z = np.random.default_rng(4).standard_normal((7, flow.latent_dimension))
    normals = pt.matrix("z")
    graph = FlowGraph(flow)
    draws = graph.forward(normals)
    symbolic = [draws.theta, draws.log_q, graph.score(draws)]
    of_graph = pytensor.function([normals], symbolic, mode="FAST_COMPILE")(z)
    tape = flow.trace(z)
    for numbers, symbols in zip((tape.theta, tape.log_q, flow.score(tape)), of_graph, strict=True):
        np.testing.assert_allclose(numbers, symbols, rtol=1e-11, atol=1e-11)
    rng = np.random.default_rng(5)
    by_theta, by_log_det = rng.standard_normal(tape.theta.shape), rng.standard_normal(len(z))
    law = flow.law.log_density(tape.v).sum(-1)

    def total():
        theta, log_q = flow.forward(z)
        return np.sum(by_theta * theta) + by_log_det @ (law - log_q)

    gradient = flow.parameter_gradient(tape, tape.target_score(by_theta), by_log_det)
    for i in np.flatnonzero(flow.mask):
        before = flow.x[i]
        flow.x[i] = before + 1e-5
        above = total()
        flow.x[i] = before - 1e-5
        difference = (above - total()) / 2e-5
        flow.x[i] = before
        np.testing.assert_allclose(gradient[i], difference, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("options", [*FLOWS, {"hidden": (2,)}, {"ordering": ["x", "s"]}], ids=str)
def test_the_score_of_q_is_that_of_differences_along_its_draws(options):
    flow = disturbed(**options).approx.q
    z = np.random.default_rng(6).standard_normal((9, flow.latent_dimension))
    score, h = flow.score(flow.trace(z)), 1e-6
    for k in range(flow.latent_dimension):
        step = h * np.eye(flow.latent_dimension)[k]
        (above, up), (below, down) = flow.forward(z + step), flow.forward(z - step)
        along = flow.coordinates(above) - flow.coordinates(below)
        by_score = np.sum(score * along, axis=1)
        np.testing.assert_allclose(by_score / h, (up - down) / h, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("options", [f for f in FLOWS if "latent" not in f] + FLOWS[4:5], ids=str)
def test_log_det_is_that_of_the_jacobian(options):
    z, j = pt.matrix("z"), pt.iscalar("j")
    draws = FlowGraph(disturbed(**options).approx.q).forward(z)
    log_det = standard_normal_logp(z) - draws.log_q
    row = pytensor.function([z, j], pt.grad(draws.theta[0, j], z)[0], mode="FAST_COMPILE")
    value = pytensor.function([z], log_det[0], mode="FAST_COMPILE")
    for point in np.random.default_rng(3).standard_normal((3, 1, 3)):
        J = np.array([row(point, j) for j in range(3)])
        np.testing.assert_allclose(np.linalg.slogdet(J)[1], value(point), rtol=1e-9)


@pytest.mark.parametrize("options", FLOWS[:8], ids=str)
def test_q_integrates_to_one(options):
    with pm.Model() as model:
        pm.Normal("x")
    approx = disturbed(model=model, **options).approx
    theta = np.sort(approx.draws_with_logs(4000, random_seed=1)[0][:, 0])
    if approx.q.shape.tails == "bounded":
        grid = np.linspace(theta[0] - 1, theta[-1] + 1, 20_001)
    else:
        grid = np.sinh(np.linspace(-12, 12, 20_001))
    mass = np.trapezoid(np.exp(approx.log_q(grid[:, None])), grid)
    np.testing.assert_allclose(mass, 1, atol=3e-3)


@pytest.mark.parametrize("latent", [*LATENTS.values(), TruncatedNormal()], ids=str)
def test_latents_have_the_law_they_say(latent):
    z = np.random.default_rng(7).standard_normal((20_000, latent.normals))
    v = latent.draw(pt.constant(z), 1, pt).eval(mode="FAST_COMPILE")[:, 0]
    np.testing.assert_allclose(latent.draw(z, 1)[:, 0], v, rtol=1e-10, atol=1e-12)
    if isinstance(latent, TruncatedNormal):
        edge = (0.5 - 1e-4) / 0.15
        law = stats.truncnorm(-edge, edge, 0.5, 0.15)
    else:
        scale = getattr(latent, "scale", 1.0)
        law = {"Normal": stats.norm(), "Logistic": stats.logistic(scale=scale)}.get(
            type(latent).__name__, stats.t(5, scale=scale)
        )
    assert stats.kstest(v, law.cdf).pvalue > 1e-3
    log_density = latent.log_density(pt.constant(v[:50]), pt).eval(mode="FAST_COMPILE")
    np.testing.assert_allclose(latent.log_density(v[:50]), log_density, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(log_density, law.logpdf(v[:50]), rtol=1e-10, atol=1e-12)
    zero = latent.draw(pt.zeros((1, latent.normals)), 1, pt).eval(mode="FAST_COMPILE")
    np.testing.assert_allclose(zero, law.median(), atol=1e-12)  # what deterministic draws use


@pytest.mark.parametrize("order", [1, 10, 50, 100])
@pytest.mark.parametrize("tails", ["linear", "bounded"])
def test_flow_starts_near_the_identity(order, tails):
    with three_normals() as model:
        shape = px.FlowShape(order, tails=tails)
        approx = px.BernsteinVI(shape, model=model, random_seed=1).approx
    approx.compile_kwargs = PYTHON
    z = approx.latent_draws(2000, 1)
    fresh = approx.log_ratios(z)  # the target is N(0, I), so the mean is −KL
    limit = 0.3 if order == 1 else 0.03
    assert -np.mean(fresh) < limit


def test_moments_are_those_of_the_draws():
    approx = disturbed(latent="logistic").approx
    theta = approx.draws_with_logs(20_000, random_seed=5)[0]
    se = theta.std(0) / np.sqrt(len(theta)) + theta.std(0) / np.sqrt(1024)
    mean, std, cov = (v.eval(mode="FAST_COMPILE") for v in (approx.mean, approx.std, approx.cov))
    assert (np.abs(mean - theta.mean(0)) < 4 * se).all()
    np.testing.assert_allclose(std, theta.std(0), rtol=0.15)
    np.testing.assert_allclose(std, np.sqrt(np.diag(cov)), rtol=1e-10)


def test_small_variables_come_first_and_scales_before_locations():
    with pm.Model() as model:
        pm.Normal("x", shape=2)
        pm.Normal("mu")
        pm.HalfNormal("tau")
    q = flow(model).approx.q
    np.testing.assert_array_equal(q.base.order, [3, 2, 0, 1])
    assert [(stage.first, stage.outputs) for stage in q.layout.networks] == [(0, 2), (2, 2)]


def test_small_variables_come_first_or_as_ordered():
    with three_normals() as model:
        np.testing.assert_array_equal(flow(model).approx.q.base.order, [2, 0, 1])
        q = flow(model, ordering=["x", "s"]).approx.q
        np.testing.assert_array_equal(q.base.order, [0, 1, 2])
        with pytest.raises(ValueError, match="ordering must name each free variable once"):
            flow(model, ordering=["x"])


def test_deterministic_draw_is_the_image_of_zero():
    inference = disturbed()
    node = inference.approx.sample_node(inference.approx.model["s"], deterministic=True)
    value = node.eval(mode="FAST_COMPILE")
    np.testing.assert_allclose(value, inference.approx.q.forward(np.zeros((1, 3)))[0][0, 2])


def test_log_q_of_nan_is_refused():
    approx = disturbed().approx
    with pytest.raises(ValueError, match="theta must not hold NaN"):
        approx.log_q(np.array([[0.0, np.nan, 0.0]]))


def test_bounded_flow_has_no_density_beyond_its_ends():
    approx = disturbed(tails="bounded").approx
    assert (approx.log_q(np.full((2, 3), 1e6)) == -np.inf).all()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"order": 0}, "order must be >= 1, got 0"),
        ({"order": 5.5}, "order must be an integer"),
        ({"hidden": (0, 3)}, "hidden layer needs an integer >= 1"),
        ({"hidden": 10}, "hidden must be a sequence"),
        ({"input_map": "f4"}, "input_map must be one of"),
        ({"tails": "heavy"}, "tails must be one of"),
        ({"latent": "cauchy"}, "latent must be one of"),
        ({"conditioning": "theta"}, "conditioning must be one of"),
        ({"polish": "always"}, "polish must be one of"),
        ({"polish": True}, "polish must be one of"),
        ({"ordering": "xs"}, "ordering must be a sequence of names, got 'xs'"),
        ({"optimizer": "sgd"}, "optimizer must be one of"),
        ({"backend": "torch"}, "backend must be one of"),
        ({"base": "mode"}, "base must be one of"),
        ({"base": 3}, "base must be one of"),
        ({"learning_rate": 0.0}, "learning_rate must be > 0"),
        ({"learning_rate": np.nan}, "learning_rate must be > 0"),
        ({"learning_rate": "fast"}, "learning_rate must be > 0, got 'fast'"),
    ],
    ids=str,
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        flow(three_normals(), **options)


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ((np.zeros(2), np.eye(2)), "must have shapes"),
        ((np.zeros(3), -np.eye(3)), "positive definite"),
        ((np.zeros(2), [[1.0, 50.0], [0.0, 1.0]]), "symmetric"),
        ((np.array([0.0, np.nan, 0.0]), np.eye(3)), "must be finite, got NaN"),
    ],
)
def test_bad_bases(base, message):
    with pytest.raises(ValueError, match=message):
        flow(three_normals(), base=base).fit(1, progressbar=False)


@pytest.mark.parametrize(
    "label", ["group", "draws", "steps", "judge_draws", "learning_rate", "max_norm"]
)
def test_bad_polish_settings(label):
    with pytest.raises(ValueError, match=f"{label} must be"):
        ImportanceWeighted(**{label: 0})


def test_polish_groups_divide_the_draws():
    with pytest.raises(ValueError, match="draws must be a multiple of group, got 10 and 4"):
        ImportanceWeighted(draws=10, group=4)


def test_student_t_needs_degrees_of_freedom():
    with pytest.raises(ValueError, match="df must be > 0"):
        px.StudentT(df=0.0)


def uncompiled(model: pm.Model, **options):
    return flow(model, **options).approx


def log_p_at_start(approx) -> float:
    with np.errstate(all="ignore"):
        return float(approx.density.log_density(approx.group.start[None])[0])


def test_log_p_at_the_start_is_the_rewritten_one_where_the_plain_graph_overflows():
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1e3, initval=800.0)
        pm.Potential("p", -pt.log(1 + pt.exp(x)))
    value = log_p_at_start(uncompiled(model))
    assert value == pytest.approx(stats.norm.logpdf(800.0, 0, 1e3) - 800.0, rel=1e-9)


def test_a_start_outside_the_domain_of_a_parameter_is_refused():
    with pm.Model() as model:
        x = pm.Normal("x", 1.0, 0.3, initval=-0.5)
        pm.Normal("y", 0.0, x, observed=np.ones(3))
    method = flow(model)
    assert log_p_at_start(method.approx) == -np.inf
    with pytest.raises(ValueError, match="log p̃ is -inf at the starting point"):
        method.fit(10, progressbar=False)


class Compiled(pytensor.scalar.UnaryScalarOp):
    """Doubles a number, in C alone."""

    def c_code(self, node, name, inputs, outputs, sub):
        return f"{outputs[0]} = 2 * {inputs[0]};"

    def L_op(self, inputs, outputs, gradients):
        return [2 * gradients[0]]


def test_log_p_at_the_start_of_a_model_with_an_operation_in_c_alone():
    double = pt.elemwise.Elemwise(Compiled(pytensor.scalar.upgrade_to_float, name="double"))
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, initval=0.5)
        pm.Potential("p", -double(x))
    with pytensor.config.change_flags(linker="cvm"):  # PyMC 6 compiles by numba otherwise
        value = log_p_at_start(uncompiled(model))
    assert value == pytest.approx(stats.norm.logpdf(0.5) - 1.0)


def test_models_without_continuous_variables_are_refused():
    with pm.Model() as empty:
        pm.Normal("y", 0, 1, observed=1.0)
    with pytest.raises(ValueError, match="no free variables"):
        px.BernsteinVI(model=empty)
    with pm.Model() as discrete:
        pm.Poisson("k", 3.0)
    with pytest.raises(Exception, match="families need continuous parameters"):
        px.BernsteinVI(model=discrete)
