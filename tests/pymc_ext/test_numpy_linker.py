"""Bare calls of NumPy are PyTensor's operations: the same numbers, types and refusals."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import Prod, ProdWithoutZeros

from pymc_ext.density import PyMCDensity
from pymc_ext.numpy_linker import NumPyLinker, bare_function, sizes_of_a_draw

try:
    from pytensor.conditional.op import ifelse
except ImportError:  # PyTensor 2
    from pytensor.ifelse import ifelse

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
    "product but for zeros": Prod(axis=0, no_zeros_in_input=True)(x),
    "the gradient of a product": pt.grad((x.prod(axis=1) + y.prod()).sum(), x),
    "product without zeros": ProdWithoutZeros(axis=0)(x),
    "sum within small whole numbers": pt.sum(
        100 * pt.cast(k, "int8"), dtype="int8", acc_dtype="int8"
    ),
    "sum of truth values": pt.sum(pt.cast(n, "bool"), dtype="bool", acc_dtype="bool"),
    "product within small whole numbers": pt.prod(
        pt.cast(n, "int32"), dtype="int32", acc_dtype="int32"
    ),
    "a choice": ifelse(s > 0, x * 2, x * 3),
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


def test_an_axis_is_dropped_only_where_it_is_one_long():
    f = pytensor.function([x], x.squeeze(1), mode=BARE)
    np.testing.assert_array_equal(f(np.ones((3, 1))), np.ones(3))
    with pytest.raises(ValueError, match="reshape"):
        f(np.ones((3, 2)))


def test_models_of_products_and_of_data_of_unknown_shape_have_the_compilers_density():
    with pm.Model() as model:
        rate = pm.HalfNormal("rate", shape=3)
        pm.Potential("product", 0.1 * pt.log(pt.prod(rate) + 1))
        pm.Potential("data", (pm.Data("d", np.arange(3.0)[:, None]).squeeze(1) * rate).sum())
    density, theta = PyMCDensity(model), RNG.normal(size=(4, 3))
    for own, other in zip(
        density.log_density_gradient(theta),
        density.for_chains.log_density_gradient(theta),
        strict=True,
    ):
        assert own.dtype == np.float64
        np.testing.assert_allclose(own, other, rtol=1e-12)


def test_what_is_counted_is_left_as_it_was():
    shared = pytensor.shared(np.zeros(3))
    rows = pt.matrix("rows", shape=(None, 3))
    f = pytensor.function([rows], [rows + shared, pt.tile(shared, (2, 1))], mode=BARE)
    sizes = [size for _, size in sizes_of_a_draw(f)]
    assert max(sizes) == 6 and sizes.count(3) >= 1
    assert f.input_storage[0].storage[0] is None and all(
        cell[0] is None for _, thunk in f.vm.steps for cell in thunk.outputs
    )
    np.testing.assert_array_equal(f(np.ones((2, 3)))[0], np.ones((2, 3)))
    counts = pytensor.function([x], x.sum(), updates=[(shared, shared + 1)], mode=BARE)
    with pytest.raises(ValueError, match="updates"):
        sizes_of_a_draw(counts)
    np.testing.assert_array_equal(shared.get_value(), np.zeros(3))


def test_what_is_more_than_one_call_is_left_to_perform():
    (whole,) = [v.owner for v in [pt.cast(x, "float32").sum()] if v.owner]
    assert bare_function(whole.op, whole) is None  # summed in twice as many digits
    many = pt.add(x, y, s).owner
    assert bare_function(many.op, many) is None


def test_they_are_silent():
    f = pytensor.function([x], [pt.log(x), x.sum()], mode=BARE)
    log, total = f(np.array([[0.0, -1.0], [np.inf, -np.inf]]))
    assert np.isneginf(log[0, 0]) and np.isnan(total)
