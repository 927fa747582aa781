"""Speed of the expected softplus with both gradients, nanoseconds an element, one thread.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.expected_softplus

In one run: the accelerated C kernel; the same kernel with the paper's plain series; equation (5) of
the paper as printed, 23 terms in C with the C library's exp and erfc; the numba kernel; the NumPy
kernel; 20-point Gauss–Hermite in vectorised NumPy. Limits are those of issue 3.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytensor
import pytensor.tensor as pt
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import expit

from benchmarks.record import write
from pymc_ext.ops.expected_softplus import value_and_gradients
from pymc_ext.ops.expected_softplus_numpy import expected_softplus_derivatives
from pymc_ext.ops.expected_softplus_series import series

CVZ = "cohen-villegas-zagier"
LIMITS = {
    "nanoseconds of ours": 200,
    "Gauss-Hermite / ours, at least": 2.0,
    "printed series in C / ours, at least": 2.5,
}
PRINTED = r"""
#include <math.h>
static double Phi(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
/* Komodromos (5)-(6), 23 terms, textbook form (overflows for large k tau) */
void printed(int n, const double *theta, const double *tau, double *value, double *by_theta,
             double *by_tau)
{
    for (int i = 0; i < n; i++) {
        const double m = theta[i], s = tau[i];
        const double density = exp(-0.5 * m * m / (s * s)) / sqrt(2 * M_PI);
        double v = s * density + m * Phi(m / s), d = Phi(m / s), c = -density;
        for (int k = 1; k <= 23; k++) {
            const double a = exp(k * m + 0.5 * k * k * s * s) * Phi(-m / s - k * s);
            const double b = exp(-k * m + 0.5 * k * k * s * s) * Phi(m / s - k * s);
            const double sign = k % 2 ? 1.0 : -1.0;
            v += sign * (a + b) / k;
            d += sign * (a - b);
            c += sign * k * s * (a + b);
        }
        value[i] = v; by_theta[i] = d; by_tau[i] = c;
    }
}
"""


def nanoseconds(f: Callable[[], object], elements: int, repeats: int) -> float:
    """Smallest CPU time of ``repeats`` calls, after one to warm up."""
    f()
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        f()
        times.append(time.process_time() - begin)
    return 1e9 * min(times) / elements


def printed_series() -> Callable[[np.ndarray, np.ndarray], list[np.ndarray]]:
    """Equation (5) compiled with PyTensor's own compiler flags."""
    from pytensor.link.c.cmodule import GCC_compiler

    folder = Path(tempfile.mkdtemp())
    source, library = folder / "printed.c", folder / "printed.so"
    source.write_text(PRINTED)
    flags = [f for f in GCC_compiler.compile_args() if not f.startswith("-D")]
    command = [pytensor.config.cxx, "-x", "c", *flags, "-O3", "-shared", "-fPIC", str(source)]
    subprocess.run([*command, "-o", str(library), "-lm"], check=True)
    function = ctypes.CDLL(str(library)).printed
    pointer = np.ctypeslib.ndpointer(np.float64)
    function.argtypes = [ctypes.c_int, *[pointer] * 5]

    def run(theta, tau):
        out = [np.empty_like(theta) for _ in range(3)]
        function(len(theta), theta, tau, *out)
        return out

    return run


def gauss_hermite(points: int) -> Callable[[np.ndarray, np.ndarray], list[np.ndarray]]:
    """Value and both gradients by quadrature, vectorised over elements and nodes."""
    nodes, weights = hermegauss(points)
    weights = weights / weights.sum()

    def run(theta, tau):
        x = theta[:, None] + tau[:, None] * nodes
        s = expit(x)
        value = (np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))) @ weights
        return [value, s @ weights, (s * nodes) @ weights]

    return run


def compiled(terms: int, acceleration: str, mode: str | None = None) -> Callable:
    """The Op as a PyTensor function."""
    theta, tau = pt.dvectors("theta", "tau")
    outputs = value_and_gradients(theta, tau, series(0, terms, acceleration))
    return pytensor.function([theta, tau], outputs, mode=mode, trust_input=True)


def main() -> None:
    """Measure, print, and keep the numbers as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--elements", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    theta = rng.uniform(-10, 10, options.elements)
    tau = np.exp(rng.uniform(np.log(0.05), np.log(20), options.elements))
    methods = {
        "ours, C": compiled(23, CVZ),
        "ours, C, 12 terms": compiled(12, CVZ),
        "ours, numba": compiled(23, CVZ, "NUMBA"),
        "same kernel, plain 23 terms": compiled(23, "none"),
        "printed series in C, 23 terms": printed_series(),
        "Gauss-Hermite 20, NumPy": gauss_hermite(20),
        "ours, NumPy": lambda m, s: expected_softplus_derivatives(m, s, series(0, 23, CVZ)),
    }
    truth = expected_softplus_derivatives(theta, tau, series(0, 40, CVZ))
    results = {}
    for name, f in methods.items():
        with np.errstate(all="ignore"):
            ns = nanoseconds(lambda f=f: f(theta, tau), options.elements, options.repeats)
            out = f(theta, tau)
            errors = [
                float(np.nanmax(np.abs(a - b) / np.abs(b))) for a, b in zip(out, truth, strict=True)
            ]
        lost = int(np.sum(~np.isfinite(out[0])))
        results[name] = {
            "ns": ns,
            "ratio_to_ours": ns / results["ours, C"]["ns"] if results else 1.0,
            "worst_relative_error": errors,
            "not_finite": lost,
        }
        print(
            f"{name:32s}{ns:9.1f} ns {results[name]['ratio_to_ours']:7.2f}x  errors "
            + " ".join(f"{e:.0e}" for e in errors)
            + f"  not finite {lost}"
        )
    record = {"limits": LIMITS, "methods": results}
    write(options.results / "expected_softplus.json", record, "numba")


if __name__ == "__main__":
    main()
