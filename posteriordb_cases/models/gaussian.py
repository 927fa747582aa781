"""Gaussian target with a chosen log evidence."""

import pymc as pm
import pytensor.tensor as pt

from posteriordb_cases.models._data import Data


def model(data: Data) -> pm.Model:
    """Return the PyMC model: a normal density times exp(log_evidence).

    ``data``: mean mu (D,), lower Cholesky factor scale_tril (D, D) of the covariance, log_evidence.
    """
    with pm.Model() as port:
        pm.MvNormal("x", data["mu"], chol=data["scale_tril"], shape=data["D"])
        pm.Potential("log_evidence", pt.constant(data["log_evidence"]))
    return port
