"""What the Ops of a GP are equal by: nodes that may behave differently are never merged."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

import pymc_ext as px
from pymc_ext.gp.failures import Failures
from pymc_ext.gp.ops import SiteEvidence, SiteEvidenceGradient
from pymc_ext.gp.solver import Solver
from tests.tolerances import EXACT

Y = np.array([1.0, 0.0, 1.0])
K = np.exp(-0.5 * np.subtract.outer(np.arange(3.0), np.arange(3.0)) ** 2)
NAN = np.full(3, np.nan)


@pytest.fixture
def solver() -> Solver:
    return Solver(px.gp.BernoulliProbit(), px.gp.EP())


def test_two_policies_on_one_solver_are_not_merged(solver) -> None:
    """Merged, whichever came first would decide for both."""
    mean = pt.dvector("mean")
    ops = [SiteEvidence(solver, Failures(policy)) for policy in ("reject", "raise")]
    values = [op(Y, np.empty(0), mean, K) for op in ops]
    function = pytensor.function([mean], values)
    kept = [n.op for n in function.maker.fgraph.toposort() if isinstance(n.op, SiteEvidence)]
    assert set(kept) == set(ops) and ops[0] != ops[1]
    a, b = function(np.zeros(3))
    assert a == b
    with pytest.raises(px.gp.HyperparameterError, match="NaN or infinity"):
        function(NAN)


def test_every_record_gets_its_own_failures(solver) -> None:
    mean = pt.dvector("mean")
    records = [Failures("reject"), Failures("reject")]
    values = [SiteEvidence(solver, record)(Y, np.empty(0), mean, K) for record in records]
    assert pytensor.function([mean], values)(NAN) == [-np.inf, -np.inf]
    assert [len(record.reasons) for record in records] == [1, 1]


def test_one_evidence_asked_for_twice_is_computed_once(solver) -> None:
    mean, record = pt.dvector("mean"), Failures("reject")
    values = [SiteEvidence(solver, record)(Y, np.empty(0), mean, K) for _ in range(2)]
    assert pytensor.function([mean], values)(NAN) == [-np.inf, -np.inf]
    assert len(record.reasons) == 1


def test_what_changes_leaves_the_op_as_it_was(solver) -> None:
    op = SiteEvidence(solver, Failures())
    before = hash(op)
    op.failures.data["X"] = pytensor.shared(np.zeros((3, 1)))
    op.failures.reasons.append("a reason")
    solver.solve(Y, np.empty(0), (np.zeros(3), K))
    assert hash(op) == before and op == SiteEvidence(solver, op.failures)
    assert set(vars(op)) <= {"solver", "failures"}  # nothing beside its properties


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_works_and_keeps_to_itself(solver, clone) -> None:
    mean = pt.dvector("mean")
    value = SiteEvidence(solver, Failures("reject"))(Y, np.empty(0), mean, K)
    graph = mean, value, pt.grad(value, mean)
    expected = pytensor.function([mean], graph[1:])(np.zeros(3))
    mean, value, gradient = clone(graph)
    function = pytensor.function([mean], [value, gradient])
    for found, wanted in zip(function(np.zeros(3)), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=EXACT)
    ops = [node.op for node in function.maker.fgraph.toposort()]
    ours = [op for op in ops if isinstance(op, SiteEvidence | SiteEvidenceGradient)]
    assert len({(id(op.solver), id(op.failures)) for op in ours}) == 1  # still one GP
    assert value.owner.op != graph[1].owner.op
    assert function(NAN)[0] == -np.inf
    assert value.owner.op.failures.reasons and not graph[1].owner.op.failures.reasons
