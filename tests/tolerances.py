"""The three tolerances of the project: how far a number may be from the truth, and why.

``EXACT``: the same quantity by two routes of floating-point algebra (relative).
``NUMERIC``: one side comes from quadrature, finite differences or an optimiser (relative).
``monte_carlo(se)``: one side is a Monte Carlo mean with standard error ``se`` (absolute).
"""

EXACT = 1e-10
NUMERIC = 1e-5


def monte_carlo(se: float, z: float = 4.0) -> float:
    """Absolute tolerance for an estimate with standard error ``se``.

    A correct estimate leaves ``z = 4`` standard errors once in 16,000 tests; with a fixed seed it
    either always passes or never does.
    """
    return z * float(se)
