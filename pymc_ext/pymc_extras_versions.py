"""What this package needs of pymc-extras beyond its documentation; imported where it is used.

pymc-extras is optional (extra ``discrete``), and from 0.10 to 0.15 moved what sums variables out.
"""

from importlib.metadata import version
from importlib.util import find_spec

from pymc_ext.requirements import how_to_get_pymc_extras

PACKAGE = "pymc-extras"

if find_spec("pymc_extras") is None:
    raise ModuleNotFoundError(
        "discrete variables are summed out, and recovered, by pymc-extras, which is not installed: "
        f"{how_to_get_pymc_extras()}",
        name="pymc_extras",
    )
try:
    from pymc_extras.distributions import DiscreteMarkovChain
    from pymc_extras.model.marginal.graph_analysis import (
        find_conditional_dependent_rvs,
        subgraph_batch_dim_connection,
    )

    if find_spec("pymc_extras.marginal") is None:  # before 0.15
        from pymc_extras.model.marginal.distributions import (
            MarginalRV,
            NonSeparableLogpWarning,
            get_domain_of_finite_discrete_rv,
            reduce_batch_dependent_logps,
        )
        from pymc_extras.model.marginal.marginal_model import marginalize, unmarginalize
    else:
        from pymc_extras.marginal import marginalize, unmarginalize
        from pymc_extras.model.marginal.distributions.core import MarginalRV
        from pymc_extras.model.marginal.distributions.enumerable import (
            NonSeparableLogpWarning,
            get_domain_of_finite_discrete_rv,
            reduce_batch_dependent_logps,
        )
except ImportError as error:
    raise ImportError(
        f"discrete variables are recovered with pymc-extras 0.10 to 0.15, got {version(PACKAGE)}, "
        f"in which something has moved ({error}): pip install 'pymc-extras>=0.10,<0.16'"
    ) from error

__all__ = [
    "DiscreteMarkovChain",
    "MarginalRV",
    "NonSeparableLogpWarning",
    "find_conditional_dependent_rvs",
    "get_domain_of_finite_discrete_rv",
    "marginalize",
    "reduce_batch_dependent_logps",
    "subgraph_batch_dim_connection",
    "unmarginalize",
]
