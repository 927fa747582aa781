import math

import numpy as np
import pytest
import scipy.optimize

from pymc_ext.maths.trust_region import NoModeError, curvature_scale, find_mode, newton_step

A = np.array([[2.0, 0.9, 0], [0.9, 1.0, 0.1], [0, 0.1, 3.0]])


def quadratic(scale):
    P = A / np.outer(scale, scale)
    mode = 7.0 * scale
    return (
        lambda x: (float(-0.5 * (x - mode) @ P @ (x - mode)), -P @ (x - mode)),
        lambda x: -P,
        mode,
    )


@pytest.mark.parametrize("scale", [[1, 1, 1], [1e-6, 1.0, 1e6]])
def test_quadratic_is_solved_to_rounding_whatever_the_units(scale):
    f, hessian, mode = quadratic(np.array(scale, dtype=float))
    found = find_mode(f, hessian, np.zeros(3))
    assert found.converged and found.decrement < 1e-24
    assert found.iterations < 10  # the search works in the density's own units
    np.testing.assert_allclose(found.theta, mode, rtol=1e-9)


def test_curved_valley():
    def f(x):  # −Rosenbrock
        g = np.array([2 * (1 - x[0]) + 400 * x[0] * (x[1] - x[0] ** 2), -200 * (x[1] - x[0] ** 2)])
        return -((1 - x[0]) ** 2) - 100 * (x[1] - x[0] ** 2) ** 2, g

    def hessian(x):
        return -np.array([[2 - 400 * x[1] + 1200 * x[0] ** 2, -400 * x[0]], [-400 * x[0], 200]])

    found = find_mode(f, hessian, np.array([-1.2, 1.0]))
    assert found.converged
    np.testing.assert_allclose(found.theta, [1, 1], rtol=1e-10)


@pytest.mark.parametrize(
    ("f", "hessian"),
    [
        (lambda x: (float(x[0]), np.ones(1)), lambda x: np.zeros((1, 1))),
        (lambda x: (-np.exp(-x[0]), np.exp(-x)), lambda x: -np.exp(-x)[:, None]),
        (lambda x: (float(x[0] ** 2), 2 * x), lambda x: 2 * np.eye(1)),
    ],
    ids=["linear", "rises towards a bound", "convex"],
)
def test_a_density_without_a_mode_is_not_called_converged(f, hessian):
    with np.errstate(over="ignore", invalid="ignore"):
        found = find_mode(f, hessian, np.ones(1), max_iterations=10_000)
    assert not found.converged
    assert found.iterations < 500  # the flight to infinity is stopped


def test_a_mode_at_a_hard_edge_is_not_called_converged():
    """Also: neither f nor its derivatives are finite beyond the edge."""
    calls = []

    def f(x):
        calls.append(x)
        return (float(-x[0]), -np.ones(1)) if x[0] >= 0 else (-np.inf, np.full(1, np.nan))

    def hessian(x):
        return np.full((1, 1), 0.0 if x[0] >= 0 else np.nan)

    found = find_mode(f, hessian, np.ones(1), max_iterations=10_000)
    assert not found.converged and 0 <= found.theta[0] < 1e-9
    assert len(calls) < 500


def test_a_point_without_a_hessian_is_a_wall():
    """f = −x⁴ + x² has its modes at ±√½; the first step leads to 1.7."""

    def hessian(x):
        return np.diag(2 - 12 * x**2) if abs(x[0]) < 1.5 else np.full((1, 1), np.nan)

    def f(x):
        return float(-(x[0] ** 4) + x[0] ** 2), -4 * x**3 + 2 * x

    found = find_mode(f, hessian, np.array([0.45]))
    assert found.converged and found.theta[0] == pytest.approx(np.sqrt(0.5), rel=1e-12)


def test_a_start_at_the_mode_of_an_ill_conditioned_density_is_recognised():
    """The decrement of gradients that are rounding is far from zero where −H nearly vanishes."""
    P, mode = np.diag([1e-8, 1e2]), np.array([50.0, -3.0])

    def f(x):
        d = x - mode
        return float(-0.5 * d @ P @ d) - 800, -P @ d + 1e-14 * np.sin(1e12 * x)

    found = find_mode(f, lambda x: -P, mode)
    assert found.converged and found.decrement > 1e-24
    np.testing.assert_allclose(found.theta, mode, rtol=1e-6)


def test_a_saddle_is_left():
    def f(x):  # maxima at (±1, 0)
        return -((x[0] ** 2 - 1) ** 2) - x[1] ** 2, np.array(
            [-4 * x[0] * (x[0] ** 2 - 1), -2 * x[1]]
        )

    def hessian(x):
        return np.diag([-12 * x[0] ** 2 + 4, -2.0])

    found = find_mode(f, hessian, np.array([1e-3, 0.5]))
    assert found.converged and abs(found.theta[0]) == pytest.approx(1)


def test_non_finite_start_is_refused():
    with pytest.raises(NoModeError, match="not finite at the start"):
        find_mode(lambda x: (np.nan, x), lambda x: -np.eye(1), np.zeros(1))
    with pytest.raises(NoModeError, match="Hessian is not finite"):
        find_mode(lambda x: (0.0, x), lambda x: np.full((1, 1), np.nan), np.zeros(1))


def test_newton_step_and_scale():
    g = np.array([1.0, -2.0, 0.5])
    step, decrement = newton_step(g, -A)
    np.testing.assert_allclose(A @ step, g, rtol=1e-12)
    assert decrement == pytest.approx(g @ np.linalg.solve(A, g))
    assert newton_step(g, A) is None
    np.testing.assert_allclose(curvature_scale(np.diag([-4.0, 0.0, 25.0])), [0.5, 1, 0.2])


@pytest.mark.parametrize("steps", [0, 2])
def test_a_failure_inside_scipy_ends_the_search_where_it_is(steps, monkeypatch):
    problem = scipy.optimize._trustregion.BaseQuadraticSubproblem
    intersections, calls = problem.get_boundaries_intersections, []

    def fail(self, *args):
        calls.append(1)
        if len(calls) > steps:
            math.sqrt(-1e-30)
        return intersections(self, *args)

    monkeypatch.setattr(problem, "get_boundaries_intersections", fail)
    f, hessian, mode = quadratic(np.ones(3))
    found = find_mode(f, hessian, np.zeros(3))
    assert len(calls) == steps + 1
    assert found.converged
    np.testing.assert_allclose(found.theta, mode, rtol=1e-9)
