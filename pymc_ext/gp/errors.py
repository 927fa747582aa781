"""What can go wrong while a Gaussian process is approximated."""

from __future__ import annotations


class ImproperPosteriorError(ValueError):
    """The sites and the prior multiply to something that is not a normalisable Gaussian."""


class HyperparameterError(ValueError):
    """The hyperparameters make a covariance or a likelihood that is none."""


class ConvergenceError(RuntimeError):
    """An update rule did not reach its fixed point; the message says why and what to try."""
