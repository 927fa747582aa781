"""Bayesian logistic and multinomial regression in closed form, as a scikit-learn estimator."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from pymc_ext.arviz_versions import ArvizData
from pymc_ext.matching import alpha as alpha_choice
from pymc_ext.matching import streaming
from pymc_ext.matching.export import inference_data
from pymc_ext.matching.predict import N_DRAWS, log_expected_probabilities, normal_draws
from pymc_ext.matching.state import MatchingState
from pymc_ext.matching.targets import LINKS
from pymc_ext.maths.types import Array
from pymc_ext.rows.protocol import Rows


class MatchedClassifier(ClassifierMixin, BaseEstimator):
    """Bayesian logistic (two classes) or multinomial regression by likelihood matching.

    Every label becomes Gaussian pseudo-observations of the latents once
    (`pymc_ext.matching.class_sites`), so the posterior of the weights is Gaussian, exact under
    them, and updates exactly with new data. Probabilities average the exact likelihood over that
    posterior. As any linear regression on indicators, the softmax link cannot single out a class
    that lies between two others on a line of the features (iris); use richer features there.

    Parameters
    ----------
    method : {"variational", "laplace", "moment", "moment-ori"}
        Matching criterion.
    alpha : float, (n_classes,) array_like, "elbo" or "likelihood"
        Pseudo-counts α > 0 of the classes. "elbo" maximises the ELBO under the exact likelihood,
        "likelihood" the train log-likelihood; both need `fit`. On few rows a fixed value distorts
        the posterior (0.1 takes weights too large): prefer "elbo" there.
    prior_precision : float or (n_features + fit_intercept,) array_like
        Prior precision of each weight, the intercept's last.
    link : {"auto", "logit", "softmax"}
        "auto" takes one latent (logit) for two classes and softmax otherwise.
    fit_intercept : bool
        Add an intercept, which has the same prior.
    n_draws : int
        Sobol draws for averages over softmax, a power of two.

    Attributes
    ----------
    classes_ : (n_classes,) array
        Labels.
    coef_, intercept_ : (n_latents, n_features) and (n_latents,) arrays
        Posterior means.
    alpha_ : float or (n_classes,) array
        α in use.
    alpha_choice_ : AlphaChoice or None
        How α was chosen.
    state_ : MatchingState
        The posterior and the sums it rests on.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> float(MatchedClassifier().fit(X / 16, y).score(X / 16, y)) > 0.95
    True

    References
    ----------
    Bui, "Likelihood approximations via Gaussian approximate inference".
    """

    def __init__(
        self,
        method: str = "variational",
        alpha: float | str | ArrayLike = 0.1,
        prior_precision: float | ArrayLike = 1.0,
        *,
        link: str = "auto",
        fit_intercept: bool = True,
        n_draws: int = N_DRAWS,
    ) -> None:
        self.method = method
        self.alpha = alpha
        self.prior_precision = prior_precision
        self.link = link
        self.fit_intercept = fit_intercept
        self.n_draws = n_draws

    # ---- fitting -----------------------------------------------------------------------------

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> MatchedClassifier:
        """Fit to rows X (n, n_features), labels y (n,), weights (n,); forgets earlier data."""
        X, y, weight = self._checked(X, y, sample_weight, reset=True)
        state = self._new_state(np.unique(y), X.shape[1])
        state.update(X, y, weight)
        choice = None
        if isinstance(self.alpha, str):
            choice = alpha_choice.choose_alpha(state, X, y, self.alpha, weight, self.n_draws)
            state = state.replace(alpha=choice.alpha)
        return self._adopt(state, choice)

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> MatchedClassifier:
        """Update exactly with more rows; the first call names all ``classes``.

        Rows X (n, n_features), labels y (n,), ``classes`` (n_classes,), ``sample_weight`` (n,). The
        posterior does not depend on the order or the grouping of the rows. A failing call changes
        nothing. Parameters set after the first call count from the next `fit` on.

        Raises
        ------
        ValueError
            The first call lacks ``classes``, a later one names others, a label is none of them, or
            ``alpha`` is to be chosen from all data.
        """
        first = not hasattr(self, "state_")
        X, y, weight = self._checked(X, y, sample_weight, reset=first)
        if first:
            if classes is None:
                raise ValueError("classes must be given on the first call to partial_fit, got None")
            if isinstance(self.alpha, str):
                raise ValueError(
                    f"partial_fit needs a number for alpha, got {self.alpha!r}: call fit on a "
                    "first batch, then partial_fit"
                )
            state = self._new_state(np.unique(classes), X.shape[1])
            state.update(X, y, weight)
            return self._adopt(state, None)
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes must be those of the first call, {self.classes_.tolist()}, got "
                f"{np.unique(classes).tolist()}"
            )
        self.state_.update(X, y, weight)
        return self

    def fit_rows(
        self,
        rows: Rows,
        X: str = "X",
        y: str = "y",
        *,
        classes: ArrayLike | None = None,
        checkpoint: str | PathLike[str] | None = None,
    ) -> MatchedClassifier:
        """Fit to rows that are not in memory, in one pass; forgets earlier data.

        A sample of the rows names the classes, where they are not given, and chooses ``alpha``,
        where it is to be chosen, each of its rows standing for many.

        Parameters
        ----------
        rows : Rows
            Such as `pymc_ext.ParquetRows`.
        X, y : str
            Names in ``rows`` of the features (n, n_features) and of the labels (n,).
        classes : (n_classes,) array_like, optional
            All labels.
        checkpoint : path, optional
            File in which the pass is kept every few seconds; the same call goes on from there.

        Raises
        ------
        ValueError
            ``rows`` have no such names or shapes; a label is none of the classes; the checkpoint is
            of other rows or settings.
        """
        shapes = rows.shapes
        if len(shapes.get(X, ())) != 1 or shapes.get(y) != ():
            raise ValueError(
                f"rows must have X={X!r} of shape (n, n_features) and y={y!r} of shape (n,), got "
                f"rows of shapes {dict(shapes)}"
            )
        some = rows.sample(min(streaming.SAMPLE, len(rows)))
        found = some[y] if classes is None else classes
        state = self._new_state(np.unique(found), shapes[X][0])
        choice = None
        if isinstance(self.alpha, str):
            weight = np.full(len(some[y]), len(rows) / len(some[y]))
            part = state.replace()
            part.update(some[X], some[y], weight)
            choice = alpha_choice.choose_alpha(
                part, some[X], some[y], self.alpha, weight, self.n_draws
            )
            state = state.replace(alpha=choice.alpha)
        streaming.update_by_rows(state, rows, (X, y), checkpoint)
        return self._adopt(state, choice)

    def _checked(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, reset: bool
    ) -> tuple[Array, NDArray, Array | None]:
        rows, labels = validate_data(self, X, y, reset=reset, dtype=np.float64)
        check_classification_targets(labels)
        if sample_weight is None:
            return rows, labels, None
        return rows, labels, _check_sample_weight(sample_weight, rows, ensure_non_negative=True)

    def _new_state(self, classes: NDArray, n_features: int) -> MatchingState:
        if len(classes) < 2:
            raise ValueError(f"y must have at least 2 classes, got 1 class: {classes.tolist()}")
        if self.link not in ("auto", *LINKS):
            raise ValueError(f"link must be one of auto, {', '.join(LINKS)}, got {self.link!r}")
        if isinstance(self.alpha, str) and self.alpha not in alpha_choice.CRITERIA:
            raise ValueError(
                f"alpha must be a positive number or one of {', '.join(alpha_choice.CRITERIA)}, "
                f"got {self.alpha!r}"
            )
        normal_draws(self.n_draws, 2)  # refuses a bad number now, not at the first prediction
        automatic = "logit" if len(classes) == 2 else "softmax"
        return MatchingState(
            classes,
            n_features,
            alpha=0.1 if isinstance(self.alpha, str) else self.alpha,
            method=self.method,
            link=automatic if self.link == "auto" else self.link,
            prior_precision=self.prior_precision,
            fit_intercept=self.fit_intercept,
        )

    def _adopt(
        self, state: MatchingState, choice: alpha_choice.AlphaChoice | None
    ) -> MatchedClassifier:
        self.state_ = state
        self.classes_ = state.classes
        self.alpha_ = state.alpha
        self.alpha_choice_ = choice
        self.n_features_in_ = state.n_features
        return self

    # ---- prediction --------------------------------------------------------------------------

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Logarithm of `predict_proba`, (n, n_features) -> (n, n_classes).

        It is accurate where probabilities underflow.
        """
        mean, variance = self.predict_latents(X)
        return log_expected_probabilities(mean, variance, self.n_draws)

    def predict_proba(self, X: ArrayLike) -> Array:
        """Posterior predictive probabilities of classes, (n, n_features) -> (n, n_classes)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: ArrayLike) -> NDArray:
        """Most probable label of each row, (n, n_features) -> (n,)."""
        log_p = self.predict_log_proba(X)
        return self.classes_[np.argmax(log_p, axis=1)]

    def decision_function(self, X: ArrayLike) -> Array:
        """Log predictive probabilities, (n, n_features) -> (n, n_classes).

        For two classes their difference, (n,).
        """
        log_p = self.predict_log_proba(X)
        return log_p[:, 1] - log_p[:, 0] if log_p.shape[1] == 2 else log_p

    def predict_latents(self, X: ArrayLike) -> tuple[Array, Array]:
        """Posterior mean and variance of the latents (logits), each (n, n_latents).

        X is (n, n_features).

        Raises
        ------
        sklearn.exceptions.NotFittedError
            There has been no fit.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self.state_.predict_latents(X)

    @property
    def coef_(self) -> Array:
        """Posterior mean of the weights, (n_latents, n_features)."""
        return self.state_.posterior.mean[:, : self.n_features_in_]

    @property
    def intercept_(self) -> Array:
        """Posterior mean of the intercepts, (n_latents,); zero without an intercept."""
        mean = self.state_.posterior.mean
        return mean[:, -1] if self.fit_intercept else np.zeros(len(mean))

    # ---- the posterior as a whole ------------------------------------------------------------

    def elbo(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """ELBO under the exact likelihood (`matching.alpha.elbo`), in nats.

        X (n, n_features), y (n,) and ``sample_weight`` (n,) are all the data seen.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            There has been no fit.
        """
        check_is_fitted(self)
        X, y, weight = self._checked(X, y, sample_weight, reset=False)
        return alpha_choice.elbo(self.state_, X, y, weight, self.n_draws)

    def to_inference_data(
        self,
        draws: int = 1000,
        random_seed: int | None = None,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> ArvizData:
        """Posterior draws as ArviZ InferenceData (ArviZ 1: DataTree).

        Parameters
        ----------
        draws : int
            Number of independent draws of ``coef`` (and ``intercept``).
        random_seed : int, optional
            Seed of the draws.
        X, y, sample_weight : (n, n_features), (n,) and (n,) array_like, optional
            All the data seen, weighted as in the fit. With them ``sample_stats`` has, beside
            ``lq`` (log q, normalised), ``lp``: log prior plus exact log-likelihood, so that k̂ can
            be computed.

        Raises
        ------
        ValueError
            ``X`` is given without ``y``, or ``y`` without ``X``.
        """
        check_is_fitted(self)
        if (X is None) != (y is None):
            raise ValueError("give both X and y, or neither")
        data = None if X is None or y is None else self._checked(X, y, sample_weight, reset=False)
        return inference_data(self.state_, draws, random_seed, data)

    def merge(self, *others: MatchedClassifier) -> MatchedClassifier:
        """New classifier with the data of all, from shards fitted apart with the same settings.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            One of them has not been fitted.
        ValueError
            Their settings or classes differ, or one is given twice.
        """
        for one in (self, *others):
            check_is_fitted(one)
        merged = type(self)(**self.get_params())
        return merged._adopt(self.state_.merge(*(o.state_ for o in others)), None)

    def save(self, path: str | Path) -> None:
        """Write the fitted state; an interrupted save leaves the old file as it was.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            There has been no fit.
        """
        check_is_fitted(self)
        self.state_.save(path)

    @classmethod
    def load(cls, path: str | Path) -> MatchedClassifier:
        """Classifier from a file of `save`, ready for more `partial_fit`.

        The file holds the state and its settings; ``n_draws`` is the default again.
        """
        state = MatchingState.load(path)
        numbers = _one_number(state.alpha), _one_number(state.prior_precision)
        new = cls(state.method, *numbers, link=state.link, fit_intercept=state.fit_intercept)
        return new._adopt(state, None)


def _one_number(setting: ArrayLike) -> ArrayLike:
    """A float for an array of equal ones, which then suits any number of features or classes."""
    if np.issubdtype(np.asarray(setting).dtype, np.floating) and np.ptp(setting) == 0:
        return float(np.ravel(setting)[0])
    return setting
