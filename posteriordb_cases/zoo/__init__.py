"""A zoo of densities whose posteriors are known, to count how often a verdict is wrong.

``ZOO`` names its targets: separated modes, label switching, rings, bananas, funnels, horseshoes,
heavy tails, ridges, hard edges, improper posteriors. Each is a density with its score and exact
independent draws; `truth_of` gives means, sds and the masses of modes.

To add a target: one line in `table`; a kind: one file with a `ZooDensity` (a score, exact draws,
log Z). ``tests/posteriordb_cases/zoo`` checks every line of the table by itself.

>>> import numpy as np
>>> from posteriordb_cases.zoo import ZOO, truth_of
>>> density = ZOO["modes-1"].make()
>>> truth_of(density).shares.round(2)
array([0.7, 0.3])
"""

from posteriordb_cases.zoo.density import ZooDensity
from posteriordb_cases.zoo.table import ZOO, ZooTarget
from posteriordb_cases.zoo.truth import Summary, Truth, summary_of, truth_of

__all__ = ["ZOO", "Summary", "Truth", "ZooDensity", "ZooTarget", "summary_of", "truth_of"]
