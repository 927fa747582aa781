"""Speed of the expected softplus with both gradients, nanoseconds an element, one thread.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.expected_softplus

In one run: the accelerated C kernel; the paper's 23 terms in plain C with the same compiler flags,
as printed (the C library's exp and erfc) and in the stable form with erfcx; our kernel with the
plain weights, which per term costs the same, so that only accuracy differs; the numba kernel; the
NumPy kernel; 20-point Gauss–Hermite in vectorised NumPy. Limits are those of issue 3.
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
from pymc_ext.maths.expected_softplus_numpy import expected_softplus_derivatives
from pymc_ext.maths.expected_softplus_series import ERFCX, series
from pymc_ext.ops.expected_softplus import value_and_gradients

CVZ = "cohen-villegas-zagier"
LIMITS = {
    "nanoseconds of ours": 200,
    "Gauss-Hermite / ours, at least": 2.0,
    "paper's 23 terms in stable C / ours, at least": 2.5,
}
HEAD = r"""
#include <math.h>
#define ARGUMENTS int n, const double *theta, const double *tau, double *value, double *by_theta, \
                  double *by_tau
static const double INV_SQRT_2PI = 0.39894228040143267794;
"""
# Komodromos (5)-(6), 23 terms, textbook form: overflows for large k tau
PRINTED = (
    HEAD
    + r"""
static double Phi(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
void f(ARGUMENTS)
{
    for (int i = 0; i < n; i++) {
        const double m = theta[i], s = tau[i];
        const double density = exp(-0.5 * m * m / (s * s)) * INV_SQRT_2PI;
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
)
# The same with erfcx, which does not overflow, term after term
STABLE = (
    HEAD
    + "static const double C[] = {"
    + ", ".join(map(repr, ERFCX))
    + "};"
    + r"""
static double erfcx(double x)
{
    const double s = (x - 3.0) / (x + 3.0);
    double p = C[23];
    for (int i = 22; i >= 0; i--) p = p * s + C[i];
    return p / (1.0 + 2.0 * x);
}
void f(ARGUMENTS)
{
    for (int i = 0; i < n; i++) {
        const double m = theta[i], s = tau[i], t = fabs(m), z = t / s, E = exp(-0.5 * z * z);
        const double tail = 0.5 * E * erfcx(z * M_SQRT1_2); /* Phi(-z) */
        double v = s * INV_SQRT_2PI * E - t * tail, d = tail, c = -INV_SQRT_2PI * E;
        for (int k = 1; k <= 23; k++) {
            const double b = 0.5 * E * erfcx((k * s + z) * M_SQRT1_2), u = (k * s - z) * M_SQRT1_2;
            const double half = 0.5 * E * erfcx(fabs(u));
            const double a = u >= 0 ? half : exp(k * (0.5 * k * s * s - t)) - half;
            const double sign = k % 2 ? 1.0 : -1.0;
            v += sign * (a + b) / k;
            d += sign * (a - b);
            c += sign * k * s * (a + b);
        }
        value[i] = m > 0 ? v + t : v; by_theta[i] = m > 0 ? 1.0 - d : d; by_tau[i] = c;
    }
}
"""
)


def nanoseconds(f: Callable[[], object], elements: int, repeats: int) -> float:
    """Smallest CPU time of ``repeats`` calls, after one to warm up."""
    f()
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        f()
        times.append(time.process_time() - begin)
    return 1e9 * min(times) / elements


def compiled_c(code: str) -> Callable[[np.ndarray, np.ndarray], list[np.ndarray]]:
    """C code compiled with PyTensor's own compiler flags."""
    from pytensor.link.c.cmodule import GCC_compiler

    folder = Path(tempfile.mkdtemp())
    source, library = folder / "f.c", folder / "f.so"
    source.write_text(code)
    flags = [f for f in GCC_compiler.compile_args() if not f.startswith("-D")]
    command = [pytensor.config.cxx, "-x", "c", *flags, "-O3", "-shared", "-fPIC", str(source)]
    subprocess.run([*command, "-o", str(library), "-lm"], check=True)
    function = ctypes.CDLL(str(library)).f
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
        "paper's 23 terms, C, printed": compiled_c(PRINTED),
        "paper's 23 terms, C, stable": compiled_c(STABLE),
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
