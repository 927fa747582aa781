"""Log densities, gradients and transforms of compiled programs against closed forms."""

from __future__ import annotations

import json
import os
import pickle
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import stats

from stan_models import StanDataError, StanError, StanProgram, program_names, program_path
from tests.tolerances import EXACT, NUMERIC

pytestmark = pytest.mark.stan

COUNTS = {"N": 5, "y": [3, 1, 4, 1, 5], "shape": 2.0, "scale": 0.5}


@pytest.fixture(scope="module")
def constraints(program):
    return program("constraints").density({"K": 3})


def points(density, count=6, seed=1):
    return np.random.default_rng(seed).normal(size=(count, density.dimension))


def test_density_has_every_constant_and_the_jacobian(program):
    theta = np.linspace(-2, 3, 7)[:, None]
    rate = np.exp(theta[:, 0])
    expected = stats.gamma(COUNTS["shape"], scale=1 / COUNTS["scale"]).logpdf(rate) + theta[:, 0]
    expected += stats.poisson(rate[:, None]).logpmf(COUNTS["y"]).sum(1)
    found = program("gamma_poisson").density(COUNTS).log_density(theta)
    np.testing.assert_allclose(found, expected, rtol=EXACT)


def test_gradient_is_the_derivative_of_the_density(constraints):
    theta, h = points(constraints), 1e-5
    lp, gradient = constraints.log_density_gradient(theta)
    np.testing.assert_allclose(lp, constraints.log_density(theta), rtol=EXACT)
    for i, step in enumerate(h * np.eye(constraints.dimension)):
        slope = constraints.log_density(theta + step) - constraints.log_density(theta - step)
        np.testing.assert_allclose(slope / (2 * h), gradient[:, i], rtol=NUMERIC, atol=NUMERIC)


def test_one_point_and_many_agree(constraints):
    theta = points(constraints)
    lp, gradient = constraints.log_density_gradient(theta[0])
    assert np.shape(lp) == () and gradient.shape == (constraints.dimension,)
    assert lp == constraints.log_density_gradient(theta)[0][0]
    # bridgestan's own single call, another way into the same density
    single = constraints._model.log_density(theta[0], propto=False, jacobian=True)
    np.testing.assert_allclose(lp, single, rtol=EXACT)


def test_threads_share_the_rows_of_a_batch_and_change_no_number(program, monkeypatch):
    monkeypatch.setenv("STAN_NUM_THREADS", "3")
    shared = program("constraints").density({"K": 3})
    monkeypatch.setenv("STAN_NUM_THREADS", "1")
    alone = program("constraints").density({"K": 3})
    monkeypatch.setattr("stan_models.density.WORTH_A_THREAD", 1e-12)
    theta = points(alone, 50)
    theta[7] = np.nan  # rejected
    for _ in range(2):  # what a point takes is known the second time
        for mine, its in zip(
            shared.log_density_gradient(theta), alone.log_density_gradient(theta), strict=True
        ):
            np.testing.assert_array_equal(mine, its)
        np.testing.assert_array_equal(shared.log_density(theta), alone.log_density(theta))


def test_parameters_of_size_zero_are_left_out_and_may_be_given():
    program = StanProgram(
        "data { int K; } parameters { real x; vector[K] b; } model { x ~ normal(0, 1); }"
    )
    density = program.density({"K": 0})
    assert density.dimension == 1 and density.shapes == {"x": ()}
    values = {"x": np.ones(2), "b": np.zeros((2, 0))}
    np.testing.assert_array_equal(density.unconstrain(values), [[1], [1]])
    with pytest.raises(ValueError, match=r"unknown \['b'\]"):
        density.unconstrain({"x": np.ones(2), "b": np.zeros((2, 1))})
    alone = StanProgram("data { int K; } parameters { vector[K] b; } model { b ~ normal(0, 1); }")
    with pytest.raises(ValueError, match="has no parameters with these data"):
        alone.density({"K": 0})


@pytest.mark.parametrize("data", [[1, 2], 3])
def test_data_that_are_no_mapping_are_refused(data, tmp_path):
    program = StanProgram("parameters { real x; } model { x ~ normal(0, 1); }")
    path = tmp_path / "data.json"
    path.write_text(json.dumps(data))
    with pytest.raises(StanDataError, match=f"values by name.*JSON {type(data).__name__}"):
        program.density(path)
    with pytest.raises(StanDataError, match=f"must be a mapping.*got {type(data).__name__}"):
        program.density(data)


def test_data_of_the_program_are_arrays_as_declared(tmp_path):
    program = StanProgram(
        "data { int K; array[2] real x; complex z; array[0, 3] int none; } "
        "parameters { real y; } model { y ~ normal(x, 1); }"
    )
    (tmp_path / "data.json").write_text(
        '{"x": ["-Inf", 1], "K": 2, "z": [1, 2], "none": [], "more": {"a": 1}}'
    )
    found = program.density(tmp_path / "data.json").data_arrays()
    assert list(found) == ["K", "x", "none"] and found["K"].dtype.kind == "i"
    np.testing.assert_array_equal(found["x"], [-np.inf, 1.0])
    assert (
        StanProgram("parameters { real y; } model { y ~ normal(0, 1); }").density().data_arrays()
        == {}
    )


def test_shapes_and_names_are_stans(constraints):
    assert constraints.shapes == {
        "free": (), "bounded": (), "positive": (3,), "share": (3,), "cuts": (3,), "grid": (2, 3),
        "rows": (2, 3), "table": (2, 3), "L": (3, 3),
    }  # fmt: skip
    assert constraints.dimension == 1 + 1 + 3 + 2 + 3 + 6 + 6 + 6 + 3
    assert constraints.unconstrained_names[:3] == ["free", "bounded", "positive[1]"]
    assert len(constraints.unconstrained_names) == constraints.dimension


def test_a_value_is_given_beside_the_name_of_what_it_is(constraints):
    names = constraints.value_names
    assert names[:5] == [
        "free",
        "unconstrained bounded",
        *(f"log positive[{k}]" for k in (1, 2, 3)),
    ]
    by_name = dict(zip(constraints.unconstrained_names, names, strict=True))
    plain = [name for name, words in by_name.items() if words == name]
    assert {name.split("[")[0] for name in plain} == {"free", "cuts", "grid", "rows", "table"}
    assert [name for name in plain if name.startswith("cuts")] == ["cuts[1]"]
    share = StanProgram("parameters { real<lower=0, upper=1> p; real<offset=2> m; } model { }")
    assert share.density().value_names == ["logit p", "unconstrained m"]


def test_bounded_coordinates_are_those_of_nonlinear_transforms(constraints):
    bounded = set(constraints.bounded_names)
    kinds = {name: name.split("[")[0] for name in constraints.unconstrained_names}
    assert bounded == {
        name
        for name, kind in kinds.items()
        if kind in ("bounded", "positive", "share", "L") or (kind == "cuts" and name != "cuts[1]")
    }


def test_constrain_obeys_the_constraints_and_unconstrain_inverts_it(constraints):
    theta = points(constraints)
    values = constraints.constrain(theta)
    np.testing.assert_allclose(values["share"].sum(1), 1, rtol=EXACT)
    assert (np.diff(values["cuts"]) > 0).all() and (abs(values["bounded"] - 0.5) < 1.5).all()
    np.testing.assert_allclose((values["L"] ** 2).sum(2), 1, rtol=EXACT)
    np.testing.assert_array_equal(values["doubled"], 2 * values["grid"])
    parameters = {name: values[name] for name in constraints.parameter_names}
    np.testing.assert_allclose(constraints.unconstrain(parameters), theta, rtol=1e-8, atol=1e-8)


def test_containers_are_in_the_right_order(constraints):
    """Each coordinate moves the entry of its own name; Stan's JSON reader says which is which."""
    theta = np.zeros((1, constraints.dimension))
    index = constraints.unconstrained_names.index
    i, j = np.meshgrid([1, 2], [1, 2, 3], indexing="ij")
    expected = {"grid": 10 * i + j, "rows": 20 * i + j, "table": 30 * i + j}
    for name, entries in expected.items():
        for (row, column), entry in np.ndenumerate(entries):
            theta[0, index(f"{name}[{row + 1},{column + 1}]")] = entry
    values = constraints.constrain(theta)
    for name, entries in expected.items():
        np.testing.assert_array_equal(values[name][0], entries)
    nested = {name: values[name][0].tolist() for name in constraints.parameter_names}
    stans = constraints._model.param_unconstrain_json(json.dumps({**nested, "nothing": []}))
    np.testing.assert_allclose(stans, theta[0], rtol=EXACT, atol=EXACT)


def test_generated_quantities_follow_the_seed(constraints):
    theta = points(constraints)
    first, again, other = (
        constraints.constrain(theta, generated=True, random_seed=seed)["noisy"]
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()
    with pytest.raises(ValueError, match="random_seed"):
        constraints.constrain(theta, generated=True)


def test_rejected_points_have_no_density(constraints):
    theta = points(constraints, count=3)
    theta[1, 0] = 51.0  # `free`, which the program rejects above 50
    lp, gradient = constraints.log_density_gradient(theta)
    assert lp[1] == -np.inf and np.isnan(gradient[1]).all()
    np.testing.assert_array_equal(constraints.log_density(theta), lp)
    assert np.isfinite(lp[[0, 2]]).all() and np.isfinite(gradient[[0, 2]]).all()


def test_threads_share_a_density(constraints):
    theta = points(constraints, count=2000)
    expected = constraints.log_density_gradient(theta)
    with ThreadPoolExecutor(4) as threads:
        for lp, gradient in threads.map(constraints.log_density_gradient, [theta] * 8):
            np.testing.assert_array_equal(lp, expected[0])
            np.testing.assert_array_equal(gradient, expected[1])


def test_density_and_program_survive_pickling(constraints):
    theta = points(constraints)
    copy = pickle.loads(pickle.dumps(constraints))
    np.testing.assert_array_equal(copy.log_density(theta), constraints.log_density(theta))
    assert copy.program.path == constraints.program.path


def test_data_may_be_a_json_file(program, tmp_path):
    path = tmp_path / "counts.json"
    path.write_text(json.dumps(COUNTS))
    density = program("gamma_poisson").density(path)
    assert density.log_density([0.3]) == program("gamma_poisson").density(COUNTS).log_density([0.3])


@pytest.mark.parametrize(
    ("change", "field"),
    [({"y": [3, 1, 4]}, "y"), ({"shape": -1.0}, "shape"), ({"y": [3.5] * 5}, "y"),
     ({"N": "five"}, "N")],
)  # fmt: skip
def test_wrong_data_name_the_field(program, change, field):
    with pytest.raises(StanDataError, match=rf"(?s)do not fit.*'gamma_poisson'.*\b{field}\b"):
        program("gamma_poisson").density({**COUNTS, **change})


@pytest.mark.parametrize("wrong", [3.5, 1.0, np.nan, "NaN", "five", None])
def test_an_entry_that_is_no_integer_is_named(program, wrong):
    """1.0 is none to Stan: JSON keeps it apart from 1."""
    with pytest.raises(StanDataError, match=rf"\nno integers: y\[4\] = {wrong}\nStan said"):
        program("gamma_poisson").density({**COUNTS, "y": [3, 1, 4, wrong, 5]})


def test_missing_data_name_the_field(program):
    data = {name: value for name, value in COUNTS.items() if name != "scale"}
    with pytest.raises(StanDataError, match="scale"):
        program("gamma_poisson").density(data)
    with pytest.raises(StanDataError, match=r"missing: N \(int\), y \(int, 1-dimensional\), "):
        program("gamma_poisson").density(None)
    with pytest.raises(StanDataError, match=r"missing: y \(int, 1-dimensional\)\n.*given: N, "):
        program("gamma_poisson").density({k: v for k, v in COUNTS.items() if k != "y"})


def test_wrong_dimensions_name_the_field(program):
    with pytest.raises(StanDataError, match=r"dimensions: y \(int, 1-dimensional\) was given 0"):
        program("gamma_poisson").density({**COUNTS, "y": 3})
    with pytest.raises(StanDataError, match=r"dimensions: scale \(real\) was given 2"):
        program("gamma_poisson").density({**COUNTS, "scale": [[1.0]]})


def test_program_without_parameters(program):
    with pytest.raises(ValueError, match="'empty' has no parameters"):
        program("empty").density({"K": 0})
    assert program("empty").density({"K": 1}).dimension == 1


def test_unreadable_data(program, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        program("gamma_poisson").density(tmp_path / "nowhere.json")
    (tmp_path / "cut.json").write_text('{"N": 5, "y": [3, 1')
    with pytest.raises(StanDataError, match="not JSON"):
        program("gamma_poisson").density(tmp_path / "cut.json")
    with pytest.raises(StanDataError, match="cannot be written"):
        program("gamma_poisson").density({**COUNTS, "y": object()})


def test_wrong_points_and_values(constraints):
    with pytest.raises(ValueError, match=r"shape \(N, 31\).*got \(2, 3\)"):
        constraints.log_density(np.zeros((2, 3)))
    values = constraints.constrain(points(constraints), transformed=False)
    with pytest.raises(ValueError, match=r"missing \['grid'\]"):
        constraints.unconstrain({k: v for k, v in values.items() if k != "grid"})
    with pytest.raises(ValueError, match=r"grid must have shape \(N, 2, 3\)"):
        constraints.unconstrain({**values, "grid": values["grid"].swapaxes(1, 2)})
    with pytest.raises(StanError, match=r"Lower bounded.*line 8"):
        constraints.unconstrain({**values, "positive": -values["positive"]})
    with pytest.raises(ValueError, match=r"columns must have shape \(N, \d+\), got \(2, 3\)"):
        constraints.unconstrain_columns(np.zeros((2, 3)))


def regression(seed=3, observations=20, predictors=2):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(observations, predictors))
    return {"N": observations, "K": predictors, "x": x, "alpha_scale": 5.0, "beta_scale": 2.0}, rng


def test_linear_regression_is_normalised(toolchain):
    data, rng = regression()
    data |= {"y": rng.normal(size=data["N"]), "sigma_scale": 1.5}
    theta = rng.normal(size=(4, 4))
    alpha, beta, log_sigma = theta[:, 0], theta[:, 1:3], theta[:, 3]
    mean = alpha[:, None] + beta @ data["x"].T
    expected = stats.norm(0, 5).logpdf(alpha) + stats.norm(0, 2).logpdf(beta).sum(1)
    expected += stats.halfnorm(0, 1.5).logpdf(np.exp(log_sigma)) + log_sigma
    expected += stats.norm(mean, np.exp(log_sigma)[:, None]).logpdf(data["y"]).sum(1)
    density = StanProgram(program_path("linear_regression")).density(data)
    np.testing.assert_allclose(density.log_density(theta), expected, rtol=EXACT)


def test_logistic_regression_is_normalised(toolchain):
    data, rng = regression()
    data |= {"y": rng.integers(0, 2, size=data["N"])}
    theta = rng.normal(size=(4, 3))
    logit = theta[:, :1] + theta[:, 1:] @ data["x"].T
    expected = stats.norm(0, 5).logpdf(theta[:, 0]) + stats.norm(0, 2).logpdf(theta[:, 1:]).sum(1)
    expected += stats.bernoulli(1 / (1 + np.exp(-logit))).logpmf(data["y"]).sum(1)
    density = StanProgram(program_path("logistic_regression")).density(data)
    np.testing.assert_allclose(density.log_density(theta), expected, rtol=EXACT)


def test_unknown_program_lists_the_near_ones():
    names = ["gp_classification", "gp_student_t", "linear_regression", "logistic_regression"]
    assert program_names() == names
    with pytest.raises(ValueError, match="did you mean linear_regression"):
        program_path("linear_regresion")


@pytest.mark.parametrize("threads", ["1", "2"])
def test_ctrl_c_is_heard_within_a_long_batch(program, monkeypatch, threads) -> None:
    monkeypatch.setenv("STAN_NUM_THREADS", threads)
    density = program("slow").density({"K": 200_000})
    theta = np.linspace(-1, 1, 4_000)[:, None]
    lp = density.log_density(theta[:3])
    np.testing.assert_allclose(lp, stats.norm.logpdf(theta[:3, 0]), rtol=1e-9)
    pressed = []

    def press() -> None:
        pressed.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.5, press)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        density.log_density_gradient(theta)
    assert time.perf_counter() - pressed[0] < 2
