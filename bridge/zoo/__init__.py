"""How often a verdict of `bridge.fit` is wrong, on posteriors that are known.

`targets` finds those of `posteriordb_cases.zoo` by name, `judge` holds one answer against the
truth, `sweep` runs targets and keeps a record of each, `rates` counts false trust and false refusal
and makes the table. The command is ``python -m bridge sweep --zoo``; a target is added in
`posteriordb_cases.zoo.table`.

>>> from bridge.zoo.sweep import sweep_zoo
>>> frame = sweep_zoo(["gaussian-1"], seeds=1, out="results")
>>> frame["trusted"].tolist(), frame["wrong"].tolist()
([True], [False])
"""
