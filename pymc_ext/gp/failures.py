"""What an evidence does where it has no value, and what it has met of that kind so far."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Literal, get_args

from pytensor.compile.sharedvalue import SharedVariable

from pymc_ext.gp.arrays import as_matrix

logger = logging.getLogger(__name__)

OnFailure = Literal["raise", "reject"]


@dataclass(frozen=True, eq=False)
class Failures:
    """A policy, and the record it keeps: one object for a GP, which its Ops hold and compare by.

    The record changes from call to call, so it is no part of an Op; that two records are equal only
    if they are the same object keeps PyTensor from merging the evidences of two GPs, or of two
    policies, into one node.

    Parameters
    ----------
    on_failure
        As of `px.gp.Approximate`.
    reasons
        Why the evaluations failed that did not raise.
    data
        The inputs, by name, that `pm.set_data` may change: faults of theirs always raise.
    """

    on_failure: OnFailure | None = None
    reasons: list[str] = field(default_factory=list)
    data: dict[str, SharedVariable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.on_failure not in (None, *get_args(OnFailure)):
            raise ValueError(
                f"on_failure must be None, 'raise' or 'reject', got {self.on_failure!r}"
            )

    def reject(self, what: str, error: Exception, known: bool) -> None:
        """Keep the reason, or raise the error; ``known``: the evidence has been found somewhere."""
        for name, data in self.data.items():
            as_matrix(data.get_value(borrow=True), name)
        if self.on_failure == "raise" or (self.on_failure is None and not known):
            raise error
        if not self.reasons:
            logger.warning(
                "%s: %s (said once a process; its failures are in the GP's `failures`)", what, error
            )
        self.reasons.append(str(error))
