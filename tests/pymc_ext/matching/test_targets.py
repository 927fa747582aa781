"""Pseudo-observations of labels: the right row of the table, and nothing else."""

import numpy as np
import pytest

from pymc_ext.matching import METHODS, class_sites, match_beta, match_gamma, matched_targets
from tests.tolerances import EXACT


@pytest.mark.parametrize("method", METHODS)
def test_softmax_targets_are_gamma_rows(method):
    m, v = matched_targets([2, 0, 1, 2], 3, 0.15, method)
    on, off = match_gamma(1.15, 1.0, method), match_gamma(0.15, 1.0, method)
    assert m.shape == v.shape == (4, 3)
    one_hot = np.eye(3, dtype=bool)[[2, 0, 1, 2]]
    np.testing.assert_allclose(m, np.where(one_hot, on.mean, off.mean), rtol=EXACT)
    np.testing.assert_allclose(v, np.where(one_hot, on.variance, off.variance), rtol=EXACT)


@pytest.mark.parametrize("method", METHODS)
def test_logit_targets_are_beta_rows(method):
    m, v = matched_targets([True, False], 2, [0.3, 0.1], method, link="logit")
    positive = match_beta(1.1, 0.3, method)  # Beta(α₁ + y, α₀ + 1 − y)
    negative = match_beta(0.1, 1.3, method)
    np.testing.assert_allclose(m[:, 0], [positive.mean, negative.mean], rtol=EXACT)
    np.testing.assert_allclose(v[:, 0], [positive.variance, negative.variance], rtol=EXACT)


def test_class_prior_counts_stay_with_their_class():
    alpha = np.array([0.1, 0.2, 0.4])
    sites = class_sites(3, alpha, "laplace")
    np.testing.assert_allclose(1 / sites.variance, alpha + np.eye(3), rtol=EXACT)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], 2, 0.0), "alpha must be positive and finite, got 0.0"),
        (([0, 1], 2, -1), "alpha must be positive"),
        (([0, 1], 2, np.nan), "alpha must be positive and finite"),
        (([0, 1], 2, "small"), "alpha must be a positive number, got 'small'"),
        (([0, 1], 2, True), "alpha must be a positive number, got True"),
        (([0, 1], 2, 1e-320), r"must be in 1e-150\.\.1e\+150"),
        (([0, 1], 2, [0.1, 0.1, 0.1]), r"shape \(2,\), got \(3,\)"),
        (([0, 2], 2), r"whole numbers 0\.\.1, got 2"),
        (([0, -1], 2), "got -1"),
        (([0.0, 0.5], 2), "got .*0.5"),
        (([0.0, np.nan], 2), "got .*nan"),
        ((["a", "b"], 2), "dtype"),
        (([], 2), "not empty"),
        (([[0, 1]], 2), r"one-dimensional and not empty, got shape \(1, 2\)"),
        (([0, 0], 1), "n_classes must be a whole number >= 2, got 1"),
        (([0, 1], 2.0), "n_classes must be a whole number"),
        (([0, 1], 2, 0.1, "em"), "method must be one of"),
        (([0, 1], 2, 0.1, "moment", "probit"), "link must be one of softmax, logit"),
        (([0, 1], 3, 0.1, "moment", "logit"), "needs 2 classes, got 3"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        matched_targets(*arguments)
