"""Comparison: cases × methods × seeds, each run fitted, judged against the truth and recorded.

`compare.compare` runs what it is told to; `sweep.sweep` runs everything on everything. Between
them: `problem` (a case with its reference draws on both unconstrained spaces), `run` (one run, a
failure being a record with its reason), `judge` (a fit to a flat record, with the verdict of
`bridge.verdict`), `settings` (what its runs have in common), `folder` and `records` (SQLite, so
that an interrupted comparison goes on), `storage` (the draws), `time_limit`, `cluster` (processes
here, Dask or Ray).

Add a number to the records: a line in `judge.judge`; it is shown by a line in
`bridge.report.metrics`. Add a place where runs go: a context manager in `cluster`.

>>> case = "correlated_5-gaussian"
>>> frame = bridge.compare(case, ["laplace"], seeds=1, draws=1000, out="results")
>>> frame["status"].tolist()
['ok']
"""
