"""Measures: how far draws are from the truth. Pure functions of arrays and tables.

`khat` needs log p̃ and log q at draws of q and says whether importance weights repair them;
`moments` compares with reference draws and says how large the errors are; `evidence` gives log Z
from draws of the posterior, and `divergence` with it KL in both directions. `scores` sums up a
sweep. `limits` holds the numbers that draws are judged by. Take k̂ where there is no truth; the
errors of moments where there are reference draws, as a good k̂ says nothing of a missed mode.

Add one: a file with a function of arrays that returns a frozen dataclass, its limits in `limits`; a
line in `bridge.comparison.judge` puts it into records, a line in `bridge.report.metrics` shows it.

>>> theta = np.random.default_rng(1).normal(size=4000)
>>> k = bridge.pareto_khat(scipy.stats.norm.logpdf(theta), scipy.stats.norm.logpdf(theta))
>>> k.exact
True
"""
