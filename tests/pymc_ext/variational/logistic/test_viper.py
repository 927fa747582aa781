"""ViperVI: exact Gaussian VI as judge, every way to write a logistic model, and bad input."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm

from pymc_ext.density import CallableDensity, PyMCDensity
from pymc_ext.variational.logistic.affine import AffinityError
from pymc_ext.variational.logistic.hierarchical import AveragedElbo, conditional, first_family
from pymc_ext.variational.logistic.matching import MatchingVI
from pymc_ext.variational.logistic.viper import Viper, ViperVI
from tests.tolerances import NUMERIC, monte_carlo

SEED = 4
PRIOR_SD = 1.5


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(120, 3)) @ np.array([[1, 0.6, 0], [0, 1, -0.4], [0, 0, 1]])
    y = rng.binomial(1, expit(X @ [1.2, -0.8, 0.3] + 0.4))
    return X, y


def fit(build, method=ViperVI, n=200, **options):
    with pm.Model():
        build()
        return pm.fit(n, method=method(**options), progressbar=False)


def basic(data, sd=PRIOR_SD):
    X, y = data

    def build():
        beta = pm.Normal("beta", 0, sd, shape=X.shape[1])
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)

    return build


def gauss_hermite_optimum(X, y, sd, full):
    """Gaussian VI by quadrature and L-BFGS, sharing nothing with the package."""
    nodes, weights = hermegauss(64)
    weights = weights / weights.sum()
    p = X.shape[1]
    lower = np.tril_indices(p, -1) if full else (np.zeros(0, int),) * 2

    def unpack(x):
        L = np.diag(np.exp(x[p : 2 * p]))
        L[lower] = x[2 * p :]
        return x[:p], L

    def loss(x):
        mu, L = unpack(x)
        XL = X @ L
        tau = np.sqrt((XL**2).sum(1))
        f = (X @ mu)[:, None] + tau[:, None] * nodes
        value = y @ X @ mu - (np.logaddexp(0, f) @ weights).sum()
        slope, curvature = expit(f) @ weights, (expit(f) * expit(-f)) @ weights
        g_mu = X.T @ (y - slope) - mu / sd**2
        g_L = -(X * curvature[:, None]).T @ XL - L / sd**2
        kl = 0.5 * ((L**2).sum() + mu @ mu) / sd**2 - 0.5 * p + p * np.log(sd) - x[p : 2 * p].sum()
        g_diag = np.diag(g_L) * np.diag(L) + 1
        return kl - value, -np.concatenate([g_mu, g_diag, g_L[lower]])

    x = np.zeros(2 * p + len(lower[0]))
    out = minimize(loss, x, jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9})
    mu, L = unpack(out.x)
    return -out.fun, mu, L @ L.T


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_reaches_the_optimum_of_quadrature(data, covariance):
    approx = fit(basic(data), covariance=covariance)
    elbo, mean, cov = gauss_hermite_optimum(*data, PRIOR_SD, covariance == "full")
    assert approx.result.converged
    assert abs(approx.result.train_elbo - elbo) < 1e-7
    np.testing.assert_allclose(approx.mean.eval(), mean, atol=NUMERIC)
    np.testing.assert_allclose(approx.cov.eval(), cov, atol=NUMERIC)
    np.testing.assert_allclose(approx.std.eval(), np.sqrt(np.diag(cov)), atol=NUMERIC)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_elbo_is_what_draws_of_q_say(data, covariance):
    approx = fit(basic(data), covariance=covariance)
    fresh = approx.evaluate(20_000, random_seed=1)
    assert abs(fresh.elbo - approx.result.train_elbo) < monte_carlo(fresh.elbo_se)
    assert fresh.log_marginal_is > approx.result.train_elbo


@pytest.mark.corpus
@pytest.mark.parametrize(("covariance", "elbo"), [("full", -237.297), ("diagonal", -245.457)])
def test_published_data_set_reaches_the_converged_elbo(corpus, covariance, elbo):
    stored = np.load(corpus / "vi_per" / "generated" / "gen_2_1_2.npz")
    approx = fit(basic((stored["X1"], stored["y1"].astype(int)), 1.0), covariance=covariance)
    assert abs(approx.result.train_elbo - elbo) < 0.002


def test_papers_bound_is_below_the_elbo(data):
    exact = fit(basic(data)).result.train_elbo
    bound = fit(basic(data), terms=23, acceleration="none")
    tighter = fit(basic(data), terms=201, acceleration="none").result.train_elbo
    assert bound.result.train_elbo < tighter < exact
    assert "lower bound" in bound.result.notes[0]


# ---- every way to write the same model ----------------------------------------------------------


def categorical_softmax(X, y, beta):
    eta = X @ beta
    pm.Categorical(
        "y", logit_p=pt.stack([pt.zeros_like(eta) + 0.7, eta + 0.7], axis=-1), observed=y
    )


def categorical_probabilities(X, y, beta):
    p = pm.math.sigmoid(X @ beta)
    pm.Categorical("y", p=pt.stack([1 - p, p], axis=-1), observed=y)


def deterministic_between(X, y, beta):
    eta = pm.Deterministic("eta", X @ beta)
    p = pm.Deterministic("p", pm.math.sigmoid(eta))
    pm.Bernoulli("y", p=p, observed=y)


def in_two_parts(X, y, beta):
    half = len(y) // 2
    pm.Bernoulli("y1", logit_p=X[:half] @ beta, observed=y[:half])
    pm.Binomial("y2", n=1, p=pm.math.invlogit(X[half:] @ beta), observed=y[half:])


def with_data_containers(X, y, beta):
    pm.Bernoulli("y", logit_p=pm.Data("X", X) @ beta, observed=pm.Data("outcome", y))


def as_matrix(X, y, beta):
    eta = (X @ beta).reshape((12, 10))
    pm.Bernoulli("y", logit_p=eta, observed=y.reshape(12, 10))


def guarded(X, y, beta):
    """As bambi writes it: off 0 and 1, to which the logistic function is rounded."""
    eps = np.finfo(float).eps
    p = pm.math.sigmoid(X @ beta)
    p = pt.switch(pt.eq(p, 0), eps, p)
    pm.Bernoulli("y", p=pt.switch(pt.eq(p, 1), 1 - eps, p), observed=y)


SPELLINGS = {
    "sigmoid": lambda X, y, b: pm.Bernoulli("y", p=pm.math.sigmoid(X @ b), observed=y),
    "written out": lambda X, y, b: pm.Bernoulli("y", p=1 / (1 + pt.exp(-X @ b)), observed=y),
    "complement": lambda X, y, b: pm.Bernoulli("y", p=1 - pm.math.sigmoid(-X @ b), observed=y),
    "complement written out": lambda X, y, b: pm.Bernoulli(
        "y", p=1 - 1 / (1 + pt.exp(X @ b)), observed=y
    ),
    "sum": lambda X, y, b: pm.Bernoulli(
        "y", logit_p=sum(X[:, j] * b[j] for j in range(3)), observed=y
    ),
    "bool": lambda X, y, b: pm.Bernoulli("y", logit_p=pm.math.dot(X, b), observed=y.astype(bool)),
    "deterministic": deterministic_between,
    "binomial": in_two_parts,
    "softmax": categorical_softmax,
    "stacked probabilities": categorical_probabilities,
    "containers": with_data_containers,
    "matrix": as_matrix,
    "einsum": lambda X, y, b: pm.Bernoulli("y", logit_p=pt.einsum("ij,j->i", X, b), observed=y),
    "guarded": guarded,
    "clipped": lambda X, y, b: pm.Bernoulli(
        "y", p=pm.math.clip(pm.math.sigmoid(X @ b), 1e-15, 1 - 1e-15), observed=y
    ),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spelling_does_not_matter(data, spelling):
    X, y = data

    def build():
        SPELLINGS[spelling](X, y, pm.Normal("beta", 0, PRIOR_SD, shape=3))

    elbo, mean, _ = gauss_hermite_optimum(X, y, PRIOR_SD, True)
    approx = fit(build)
    assert abs(approx.result.train_elbo - elbo) < 1e-7
    # the prior is symmetric: a logit of the wrong sign has the same ELBO
    np.testing.assert_allclose(approx.mean.eval(), mean, atol=1e-4)


CUSTOM = {  # a normal prior, by its density and by what it is made of
    "logp": lambda: pm.CustomDist(
        "beta", logp=lambda v: pm.logp(pm.Normal.dist(0, PRIOR_SD), v), shape=3
    ),
    "dist": lambda: pm.CustomDist(
        "beta", PRIOR_SD, dist=lambda sd, size: pm.Normal.dist(0, sd, size=size), shape=3
    ),
}


@pytest.mark.parametrize("made_of", CUSTOM)
@pytest.mark.filterwarnings("ignore:Numba will use object mode")  # PyMC 6, of the CustomDist
def test_a_prior_of_the_users_own_is_read(data, made_of):
    X, y = data

    def build():
        pm.Bernoulli("y", logit_p=X @ CUSTOM[made_of](), observed=y)

    elbo, mean, _ = gauss_hermite_optimum(X, y, PRIOR_SD, True)
    approx = fit(build)
    assert abs(approx.result.train_elbo - elbo) < 1e-6
    np.testing.assert_allclose(approx.mean.eval(), mean, atol=1e-4)


def with_correlated_prior(X, y):
    S = np.array([[1, 0.5, 0], [0.5, 2, 0.3], [0, 0.3, 0.7]])
    beta = pm.MvNormal("beta", mu=[0.3, 0, -0.2], cov=S)
    pm.Bernoulli("y", logit_p=X @ beta - 0.7, observed=y)


def with_groups(X, y):
    group = np.arange(len(y)) % 6
    mean = pm.Normal("mean", 0.5, 1)
    effect = pm.Normal("effect", mean, 0.8, shape=6)
    slope = pm.Normal("slope", 0, 1, shape=(3, 1))
    offset = np.linspace(-1, 1, len(y))
    pm.Bernoulli("y", logit_p=effect[group] + (X @ slope)[:, 0] + offset, observed=y)


def with_trials(X, y):
    beta = pm.Normal("beta", 0, 1, shape=3)
    pm.Binomial("y", n=np.where(y == 1, 5, 3), logit_p=X @ beta, observed=2 * y + 1)


def with_intercept_only(X, y):
    pm.Bernoulli("y", logit_p=pm.Normal("a", 0, 3), observed=y)


def with_gp(X, y):
    gp = pm.gp.Latent(cov_func=0.8**2 * pm.gp.cov.ExpQuad(1, ls=0.7))
    f = gp.prior("f", X=np.sort(X[:40, :1], axis=0))
    pm.Bernoulli("y", logit_p=f, observed=y[:40])


MODELS = [with_correlated_prior, with_groups, with_trials, with_intercept_only, with_gp]


@pytest.mark.parametrize("model", MODELS)
def test_elbo_holds_for_other_linear_models(data, model):
    approx = fit(lambda: model(*data))
    assert approx.result.converged
    fresh = approx.evaluate(20_000, random_seed=2)
    assert abs(fresh.elbo - approx.result.train_elbo) < monte_carlo(fresh.elbo_se)


def test_total_size_counts_each_row_more(data):
    X, y = data

    def scaled():
        beta = pm.Normal("beta", 0, PRIOR_SD, shape=3)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y, total_size=3 * len(y))

    twice = np.concatenate([X] * 3), np.concatenate([y] * 3)
    expected = gauss_hermite_optimum(*twice, PRIOR_SD, True)
    approx = fit(scaled)
    assert abs(approx.result.train_elbo - expected[0]) < 1e-6
    np.testing.assert_allclose(approx.mean.eval(), expected[1], atol=NUMERIC)


# ---- hierarchical models ------------------------------------------------------------------------


def centred(X, y):
    scale = pm.HalfNormal("scale", 2)
    intercept = pm.Normal("intercept", 0, 2)
    beta = pm.Normal("beta", 0, scale, shape=3)
    pm.Bernoulli("y", logit_p=intercept + X @ beta, observed=y)


def non_centred(X, y):
    scale = pm.HalfNormal("scale", 2)
    z = pm.Normal("z", 0, 1, shape=3)
    pm.Bernoulli("y", logit_p=X @ (scale * z) - 0.2, observed=y)


@pytest.mark.parametrize(
    ("model", "covariance"),
    [
        (centred, "full"),
        pytest.param(centred, "diagonal", marks=pytest.mark.slow),
        pytest.param(non_centred, "full", marks=pytest.mark.slow),
    ],
)
def test_hierarchical_elbo_is_what_draws_of_q_say(data, model, covariance):
    approx = fit(lambda: model(*data), n=500, covariance=covariance, random_seed=1)
    result = approx.result
    assert result.converged and result.fresh is not None
    assert "scale" in result.notes[0]
    fresh = approx.evaluate(40_000, random_seed=3)
    assert abs(fresh.elbo - result.train_elbo) < monte_carlo(fresh.elbo_se) + 5e-3
    draws = approx.sample(200, random_seed=1).posterior
    assert float(draws["scale"].min()) > 0


@pytest.fixture(scope="module")
def hierarchical(data):
    with pm.Model():
        centred(*data)
        approx = ViperVI("full").approx
    density = approx.density
    expected = conditional(density, Viper().graph)
    family = first_family(density, approx.group.start, full=True)
    return approx, family, lambda eps: AveragedElbo(density, expected, family, eps)


@pytest.mark.parametrize("full", [True, False])
def test_hierarchical_objective_has_the_gradient_of_finite_differences(hierarchical, full):
    approx, _, averaged = hierarchical
    objective = averaged(np.random.default_rng(1).normal(size=(8, 1)))
    objective.family = first_family(approx.density, approx.group.start, full)
    x = 0.2 * np.random.default_rng(0).normal(size=len(objective.family.x))
    _, gradient = objective(x)
    for i in range(len(x)):
        h = 1e-5 * np.eye(len(x))[i]
        slope = (objective(x + h)[0] - objective(x - h)[0]) / 2e-5
        np.testing.assert_allclose(gradient[i], slope, rtol=1e-5, atol=1e-5)


def test_hierarchical_objective_is_the_elbo_of_any_q(hierarchical):
    """At a q away from the optimum, whose scale and coefficients are correlated."""
    approx, family, averaged = hierarchical
    x = 0.3 + 0.2 * np.random.default_rng(0).normal(size=len(family.x))
    D = family.dimension
    rows, columns = np.tril_indices(D)
    x[D:][rows == columns] -= 1.5  # narrow: a small standard error is the power of this test
    elbo = -averaged(norm.ppf((np.arange(256) + 0.5) / 256)[:, None])(x)[0]
    approx.group.hold(family.posterior())
    fresh = approx.evaluate(40_000, random_seed=1)
    cov = approx.cov.eval()
    assert abs(cov[0, 2]) > 0.01 * np.sqrt(cov[0, 0] * cov[2, 2])
    assert fresh.elbo_se < 0.1
    assert abs(elbo - fresh.elbo) < monte_carlo(fresh.elbo_se) + 0.02


def test_product_of_two_normals_keeps_one_linear(data):
    X, y = data

    def build():
        scale = pm.Normal("scale", 1, 0.3)
        beta = pm.Normal("beta", 0, 1, shape=3)
        pm.Bernoulli("y", logit_p=scale * (X @ beta), observed=y)

    with pm.Model():
        build()
        split = ViperVI().approx.density.split
    assert [rv.name for rv in split.linear] == ["beta"]
    assert [rv.name for rv in split.given] == ["scale"]


@pytest.mark.slow
def test_kernel_hyperparameters_are_given_and_the_process_is_linear():
    rng = np.random.default_rng(0)
    x = np.linspace(0, 5, 12)[:, None]
    y = rng.binomial(1, expit(-4.5 * np.sin(np.pi / 2 * x[:, 0])))

    def build():
        lengthscale = pm.InverseGamma("lengthscale", 3, 2)
        gp = pm.gp.Latent(cov_func=4 * pm.gp.cov.ExpQuad(1, ls=lengthscale))
        pm.Bernoulli("y", logit_p=gp.prior("f", X=x), observed=y)

    approx = fit(build, n=300, draws=16, random_seed=1)
    assert "lengthscale" in approx.result.notes[0]
    fresh = approx.evaluate(10_000, random_seed=2)
    assert abs(fresh.elbo - approx.result.train_elbo) < monte_carlo(fresh.elbo_se) + 0.05


# ---- minibatches --------------------------------------------------------------------------------


def test_minibatches_approach_the_optimum_on_all_data():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 3))
    y = rng.binomial(1, expit(X @ [1, -1, 0.5])).astype("int32")

    def build():
        X_batch, y_batch = pm.Minibatch(X, y, batch_size=200)
        beta = pm.Normal("beta", 0, PRIOR_SD, shape=3)
        pm.Bernoulli("y", logit_p=X_batch @ beta, observed=y_batch, total_size=len(y))

    approx = fit(build, n=1500, random_seed=2)
    _, mean, cov = gauss_hermite_optimum(X, y, PRIOR_SD, True)
    sd = np.sqrt(np.diag(cov))
    assert np.all(np.abs(approx.mean.eval() - mean) < sd)
    np.testing.assert_allclose(approx.std.eval(), sd, rtol=0.05)
    assert approx.result.train_elbo is None and len(approx.hist) == 1500
    again = fit(build, n=20, random_seed=5).hist
    np.testing.assert_array_equal(again, fit(build, n=20, random_seed=5).hist)
    assert not np.array_equal(again, fit(build, n=20, random_seed=6).hist)


def test_minibatches_with_scales_are_refused(data):
    X, y = data

    def build():
        X_batch, y_batch = pm.Minibatch(X, y.astype("int32"), batch_size=20)
        beta = pm.Normal("beta", 0, pm.HalfNormal("scale"), shape=3)
        pm.Bernoulli("y", logit_p=X_batch @ beta, observed=y_batch, total_size=len(y))

    with pytest.raises(ValueError, match=r"rows of \['y'\] are .*Minibatch, which .* \['scale'\]"):
        fit(build)


# ---- input that must work -----------------------------------------------------------------------


def hard_inputs():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(40, 3))
    flat = X.copy()
    flat[:, 1] = 0
    return {
        "separable": (X * 20, (X[:, 0] > 0).astype(int)),
        "more columns than rows": (rng.normal(size=(15, 40)), rng.integers(0, 2, 15)),
        "rank deficient": (X[:, [0, 1, 0, 1, 2]], rng.integers(0, 2, 40)),
        "zero column": (flat, rng.integers(0, 2, 40)),
        "zero row": (np.vstack([X, np.zeros((2, 3))]), rng.integers(0, 2, 42)),
        "constant outcome": (X, np.ones(40, int)),
        "huge predictors": (1e6 * X, rng.integers(0, 2, 40)),
    }


@pytest.mark.parametrize("case", hard_inputs())
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_hard_inputs_converge(case, covariance):
    X, y = hard_inputs()[case]
    approx = fit(basic((X, y), 10.0), n=2000, covariance=covariance)
    assert approx.result.converged, approx.result.stop_reason
    assert np.all(np.diff(approx.hist) <= 1e-9 * np.abs(approx.hist[:-1]))
    sd = approx.std.eval()
    assert np.all((sd > 0) & (sd <= 10.0 + 1e-9))
    if case == "zero column":
        assert abs(sd[1] - 10.0) < 1e-9


# ---- input that must be refused -----------------------------------------------------------------


def bernoulli(make_logit, observed=None, prior=lambda: pm.Normal("beta", 0, 1, shape=3)):
    def build(X, y):
        beta = prior()
        pm.Bernoulli("y", logit_p=make_logit(X, beta), observed=y if observed is None else observed)

    return build


def linear(X, beta):
    return X @ beta


def with_nan(X, beta):
    bad = X.copy()
    bad[3, 1] = np.nan
    return bad @ beta


def student(X, y):
    pm.Bernoulli("y", logit_p=X @ pm.StudentT("beta", 4, shape=3), observed=y)


def potential(X, y):
    beta = pm.Normal("beta", 0, 1, shape=3)
    pm.Potential("extra", -(beta**4).sum())
    pm.Bernoulli("y", logit_p=X @ beta, observed=y)


def second_likelihood(X, y):
    beta = pm.Normal("beta", 0, 1, shape=3)
    pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    pm.Normal("w", beta.sum(), 1, observed=0.3)


def three_classes(X, y):
    beta = pm.Normal("beta", 0, 1, shape=(3, 3))
    pm.Categorical("y", logit_p=X @ beta, observed=y)


def probit(X, y):
    pm.Bernoulli("y", p=pm.math.invprobit(X @ pm.Normal("beta", 0, 1, shape=3)), observed=y)


def lapsing(X, y):
    """Some answers are guesses: the probability is not the logistic function of anything."""
    p = pm.math.sigmoid(X @ pm.Normal("beta", 0, 1, shape=3))
    pm.Bernoulli("y", p=pm.math.clip(p, 0.05, 0.95), observed=y)


def switched(edge, instead):
    """A jump where the probability is ``edge``: no guard of the logistic function."""

    def build(X, y):
        p = pm.math.sigmoid(X @ pm.Normal("beta", 0, 1, shape=3))
        pm.Bernoulli("y", p=pt.switch(pt.eq(p, edge), instead, p), observed=y)

    return build


def missing(X, y):
    outcome = np.ma.masked_array(y, mask=np.arange(len(y)) == 2)
    with pytest.warns(UserWarning, match="missing values"):
        pm.Bernoulli("y", logit_p=X @ pm.Normal("beta", 0, 1, shape=3), observed=outcome)


def scaled(prior):
    """A coefficient under a scale: the hierarchical route."""

    def build(X, y):
        pm.Bernoulli("y", logit_p=X @ prior() * pm.HalfNormal("s"), observed=y)

    return build


def laplace():
    return pm.Laplace("beta", 0, 1, shape=3)


def uniform():
    return pm.Uniform("beta", -3, 3, shape=3, default_transform=None)


def trials(n):
    def build(X, y):
        pm.Binomial("y", n=n, logit_p=X @ pm.Normal("beta", 0, 1, shape=3), observed=y)

    return build


def half_an_outcome(X, y):
    y = y.astype(float)
    y[3] = 0.5  # as an array PyMC would make it 0 itself
    beta = pm.Normal("beta", 0, 1, shape=3)
    pm.Bernoulli("y", logit_p=X @ beta, observed=pm.Data("outcome", y))


def softmax_over(axis):
    def build(X, y):
        eta = X @ pm.Normal("beta", shape=X.shape[1])
        p = pm.math.softmax(pm.math.stack([0 * eta, eta], axis=-1), axis=axis)
        pm.Categorical("y", p=p, observed=y)

    return build


REFUSED = {
    "exponential": (bernoulli(lambda X, b: X @ pt.exp(b)), r"not affine in beta"),
    "square": (bernoulli(lambda X, b: (X @ b) ** 2), r"not affine in beta"),
    "absolute": (bernoulli(lambda X, b: pt.abs(X @ b)), r"not affine in beta"),
    "step": (bernoulli(lambda X, b: X @ pt.switch(b > 0, 1.0, -1.0)), r"not affine in beta"),
    "rounding": (bernoulli(lambda X, b: pt.floor(X @ b)), r"not affine in beta"),
    "rectifier": (bernoulli(lambda X, b: pt.maximum(X @ b, 0)), r"not affine in beta"),
    "laplace prior": (bernoulli(linear, prior=laplace), r"prior of \['beta'\] is not Gaussian"),
    "uniform prior": (bernoulli(linear, prior=uniform), r"prior of \['beta'\] is not Gaussian"),
    "scaled laplace": (scaled(laplace), r"prior of \['beta'\] is not Gaussian"),
    "scaled uniform": (scaled(uniform), r"prior of \['beta'\] is not Gaussian"),
    "infinite scale": (
        bernoulli(linear, prior=lambda: pm.Normal("beta", 0, [1, 1, np.inf], shape=3)),
        r"prior of \['beta'\] is improper",
    ),
    "student prior": (student, r"prior of \['beta'\] is not Gaussian"),
    "flat prior": (bernoulli(linear, prior=lambda: pm.Flat("beta", shape=3)), r"improper Flat"),
    "half-normal": (
        bernoulli(linear, prior=lambda: pm.HalfNormal("beta", shape=3)),
        "beta: its support is not the real line",
    ),
    "potential": (potential, r"Potentials \['extra'\]"),
    "second likelihood": (second_likelihood, r"'w' is observed with Normal"),
    "three classes": (three_classes, r"3 classes"),
    "probit": (probit, r"'y' is not the logistic function"),
    "clipped far from 0": (lapsing, r"'y' is not the logistic function"),
    "switched to another value": (switched(0, 0.1), r"'y' is not the logistic function"),
    "switched at another value": (switched(0.5, 0.5), r"'y' is not the logistic function"),
    "missing outcome": (missing, r"leave out the rows in which"),
    "outcome 2": (
        bernoulli(linear, observed=np.full(120, 2)),
        r"between 0 and 1, got 2 at index 0",
    ),
    "outcome 0.5": (half_an_outcome, r"between 0 and 1, got 0.5 at index 3"),
    "negative trials": (trials(-3), r"trials n of 'y' must be whole numbers >= 0, got -3 at index"),
    "trials 2.5": (trials(pt.constant(2.5)), r"trials n of 'y' must be whole .* got 2.5"),
    "more successes than trials": (trials(0), r"between 0 and 0, got 1 at index"),
    "nan predictor": (bernoulli(with_nan), r"not finite at 1 of 120 rows, first at row 3"),
    "infinite offset": (bernoulli(lambda X, b: X @ b + np.inf), r"not finite at 120 of 120 rows"),
    "remainder of the coefficients": (bernoulli(lambda X, b: X @ (b % 1.5)), r"not affine in beta"),
    "softmax over everything": (softmax_over(None), r"must run over the last axis, axis=-1"),
    "nothing observed": (lambda X, y: pm.Normal("beta"), r"no observed variable"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_uncovered_models_are_refused_by_name(data, case):
    build, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        fit(lambda: build(*data))


def test_bad_options_are_refused(data):
    for options, message in [
        ({"covariance": "banded"}, "covariance must be one of"),
        ({"terms": 12, "acceleration": "none"}, "terms must be odd"),
        ({"terms": 0}, "terms must be >= 1"),
        ({"tolerance": 0.0}, "tolerance must be > 0"),
        ({"draws": 1}, "draws must be an integer >= 2"),
    ]:
        with pytest.raises(ValueError, match=message):
            fit(basic(data), **options)
    for terms in ([1], "3", 1.5, None):
        with pytest.raises(TypeError, match="terms must be an integer, got "):
            fit(basic(data), terms=terms)
    assert issubclass(AffinityError, ValueError)


def test_kinked_priors_beside_a_linear_part_are_averaged_over(data):
    X, y = data
    with pm.Model():
        logit = X @ laplace() + pm.Normal("intercept")
        pm.Bernoulli("y", logit_p=logit, observed=y)
        split = ViperVI().approx.density.split
    assert [rv.name for rv in split.linear] == ["intercept"]
    assert [rv.name for rv in split.given] == ["beta"]
    assert split.why == {"beta": "the prior of ['beta'] is not Gaussian given the rest"}


# ---- on a density, and the interface of pm.fit --------------------------------------------------


@pytest.mark.parametrize("build", [basic, lambda data: lambda: centred(*data)])
def test_the_algorithm_reads_the_density_of_any_model(data, build):
    approx = fit(build(data), n=40, random_seed=1)
    fitted = Viper().fit(PyMCDensity(approx.model), approx.group.start, 40, random_seed=1)
    assert fitted.result.elbo == approx.result.elbo and fitted.result.notes == approx.result.notes
    np.testing.assert_array_equal(fitted.q.mean, approx.q.mean)
    on = Viper().fit(approx.density, n=40, random_seed=1, state=fitted.state)
    assert on.result.iterations < fitted.result.iterations


def test_densities_without_logits_are_refused():
    nothing = CallableDensity(lambda x: -0.5 * (x**2).sum(1), lambda x: -x, dimension=2)
    with pytest.raises(AffinityError, match="expected the density of a PyMC model, got Callable"):
        Viper().fit(nothing)
    with pm.Model():
        pm.Categorical("y", logit_p=np.eye(3) @ pm.Normal("beta", shape=(3, 3)), observed=[0, 1, 2])
        density = MatchingVI().approx.density
    with pytest.raises(AffinityError, match="is a softmax"):
        Viper().fit(density)


def test_iterations_callbacks_refine_and_samples(data):
    seen = []
    with pm.Model():
        basic(data)()
        inference = ViperVI()
        approx = pm.fit(
            2,
            method=inference,
            callbacks=[lambda approx, losses, i: seen.append((i, losses[-1]))],
            progressbar=False,
        )
    assert not approx.result.converged and "after 2 iterations" in approx.result.stop_reason
    assert [i for i, _ in seen] == [1, 2]
    inference.refine(100, progressbar=False)
    assert approx.result.converged and len(approx.hist) > 2
    assert abs(-approx.hist[-1] - gauss_hermite_optimum(*data, PRIOR_SD, True)[0]) < 1e-7
    posterior = approx.sample(4000, random_seed=1)
    draws = posterior.posterior["beta"].to_numpy()[0]
    assert draws.shape == (4000, 3)
    se = approx.std.eval() / np.sqrt(4000)
    assert np.all(np.abs(draws.mean(0) - approx.mean.eval()) < monte_carlo(1) * se)
    np.testing.assert_allclose(np.cov(draws.T), approx.cov.eval(), rtol=0.2, atol=0.01)
    np.testing.assert_allclose(
        approx.log_q(draws), posterior.sample_stats["lq"].to_numpy()[0], rtol=1e-8
    )


@pytest.mark.parametrize("batch", [False, True], ids=["newton", "minibatch"])
def test_a_callback_may_stop_it(data, batch):
    X, y = data

    def enough(approx, losses, i):
        if i == 2:
            raise StopIteration

    with pm.Model():
        options = {}
        if batch:
            X, y = pm.Minibatch(X, y.astype("int32"), batch_size=20)
            options = {"total_size": len(data[1])}
        beta = pm.Normal("beta", 0, PRIOR_SD, shape=3)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y, **options)
        approx = pm.fit(30, method=ViperVI(), callbacks=[enough], progressbar=False)
    assert approx.result.stop_reason == "stopped by a callback"
    assert not approx.result.converged
    assert approx.result.iterations == len(approx.hist) == 2


def test_a_restart_forgets_the_fit(data):
    with pm.Model():
        basic(data)()
        inference = ViperVI(random_seed=1)
        first = pm.fit(method=inference, progressbar=False).result
        losses = inference.hist
        inference.restart()
        again = inference.fit(progressbar=False).result
    assert again.iterations == first.iterations > 2
    np.testing.assert_array_equal(inference.hist, losses)
