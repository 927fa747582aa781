"""Mending what PyMC 5 does to a model that predictions were drawn from."""

from __future__ import annotations

import logging

import pymc as pm

logger = logging.getLogger(__name__)


def mend_observed(model: pm.Model) -> None:
    """Take out of ``model.observed_RVs`` what is listed a second time.

    ``pm.sample_posterior_predictive`` of PyMC 5.28 lists each observed variable again where the
    draws come with ``observed_data``, as those of ``pm.sample`` do. Such a model has no log p̃ any
    more: "Cannot convert None to a tensor variable".
    """
    owner: pm.Model | None = model
    while owner is not None:  # a nested model's variables are listed in those around it, too
        listed = list(owner.observed_RVs)
        again = [i for i, rv in enumerate(listed) if listed.index(rv) < i]
        if again:
            names = sorted({listed[i].name for i in again})
            logger.info("%s stood twice among the model's observed variables: mended", names)
        for i in reversed(again):
            del owner.observed_RVs[i]
        owner = owner.parent
