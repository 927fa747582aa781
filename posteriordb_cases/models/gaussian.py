"""Gaussian target with a chosen log evidence."""

from collections.abc import Mapping
from typing import Any

import pymc as pm
import pytensor.tensor as pt


def model(data: Mapping[str, Any]) -> pm.Model:
    """Return the PyMC model: a normal density times exp(log_evidence).

    ``data``: mean mu (D,), lower Cholesky factor scale_tril (D, D) of the covariance, log_evidence.
    """
    with pm.Model() as port:
        pm.MvNormal("x", data["mu"], chol=data["scale_tril"], shape=data["D"])
        pm.Potential("log_evidence", pt.constant(data["log_evidence"]))
    return port
