"""Bare calls of NumPy are PyTensor's operations: the same numbers, types and refusals."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise

from pymc_ext.density import PyMCDensity
from pymc_ext.numpy_linker import NumPyLinker, bare_function

RNG = np.random.default_rng(1)
BARE, PERFORM = Mode(NumPyLinker(), None), Mode("py", None)
x, y, n, k, s = pt.matrix("x"), pt.matrix("y"), pt.lmatrix("n"), pt.lvector("k"), pt.dscalar("s")
GIVEN = {
    x: RNG.normal(size=(3, 4)),
    y: RNG.normal(size=(3, 4)),
    n: RNG.integers(-3, 3, size=(3, 4)),
    k: np.arange(3),
    s: np.array(0.7),
}
GRAPHS = {
    "binary": x * y,
    "whole numbers": n / (n + 1),
    "of a number": pt.exp(s),
    "a number beside": x - s,
    "where": pt.switch(x > y, x, n),
    "special": pt.gammaln(pt.abs(x)),
    "not a number": pt.log(x),
    "small": pt.exp(pt.cast(x, "float32")),
    "cast": pt.cast(n, "float64"),
    "sum of all": x.sum(),
    "sum along": x.sum(axis=1),
    "sum along both": pt.stack([x, y]).sum(axis=(0, 2)),
    "sum of small numbers": pt.cast(x, "float32").sum(axis=0),
    "sum of whole numbers": n.sum(axis=0),
    "largest": x.max(axis=0),
    "all": (x > -9).all(),
    "product": x.prod(axis=1),
    "new axes": k[None, :, None],
    "turned": x.T,
    "turned, with a new axis": x.dimshuffle(1, "x", 0),
    "without an axis": x.sum(axis=1, keepdims=True).dimshuffle(0),
    "of a number again": s.dimshuffle("x", "x").dimshuffle(),
    "many": pt.add(x, y, x, s),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_numbers_and_types_are_those_of_perform(name):
    given = [v for v in GIVEN if v in pytensor.graph.traversal.ancestors([GRAPHS[name]])]
    ours, truth = (pytensor.function(given, GRAPHS[name], mode=m) for m in (BARE, PERFORM))
    own, other = (f(*(GIVEN[v] for v in given)) for f in (ours, truth))
    assert type(own) is type(other) and own.dtype == other.dtype and own.shape == other.shape
    np.testing.assert_allclose(own, other, rtol=1e-12)


def test_log_densities_take_no_checks_of_each_call(monkeypatch):
    with pm.Model() as model:
        effects = pm.Normal("effects", 0, pm.HalfNormal("tau"), shape=3)
        pm.Poisson("y", pm.math.exp(effects), observed=[1, 2, 3])
    calls = []
    for op in (CAReduce, DimShuffle, Elemwise):

        def noted(self, *args, perform=op.perform):
            calls.append(self)
            return perform(self, *args)

        monkeypatch.setattr(op, "perform", noted)
    density = PyMCDensity(model)
    density.log_density_gradient(np.ones((2, 4)))
    assert calls  # constants, while it was compiled
    calls.clear()
    density.log_density_gradient(np.ones((2, 4)))
    assert not calls


def test_numbers_are_repeated_only_where_the_graph_says_so():
    f = pytensor.function([x, y], x + y, mode=BARE)
    with pytest.raises(ValueError, match="Runtime broadcasting not allowed"):
        f(np.ones((3, 4)), np.ones((3, 1)))
    np.testing.assert_array_equal(f(np.ones((1, 4)), np.ones((1, 4))), np.full((1, 4), 2.0))
    row = pt.row("row")
    g = pytensor.function([x, row], x + row, mode=BARE)
    np.testing.assert_array_equal(g(np.ones((3, 4)), np.ones((1, 4))), np.full((3, 4), 2.0))
    with pytest.raises(ValueError, match="shapes"):
        f(np.ones((3, 4)), np.ones((2, 4)))


def test_what_is_more_than_one_call_is_left_to_perform():
    (whole,) = [v.owner for v in [pt.cast(x, "float32").sum()] if v.owner]
    assert bare_function(whole.op, whole) is None  # summed in twice as many digits
    many = pt.add(x, y, s).owner
    assert bare_function(many.op, many) is None


def test_they_are_silent():
    f = pytensor.function([x], [pt.log(x), x.sum()], mode=BARE)
    log, total = f(np.array([[0.0, -1.0], [np.inf, -np.inf]]))
    assert np.isneginf(log[0, 0]) and np.isnan(total)
