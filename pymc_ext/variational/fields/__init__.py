"""Time series and fields on maps: the nested Laplace law as a map, from scores alone.

Where each coordinate has few neighbours, and some globals have all of them, `neighbours` says who
has whom, `conditional` finds the field's maximum and its precision given the globals, a banded
matrix with the root of `precision`, `evidence` climbs the globals' own posterior, `map` is the law
of both as a map of normals, from conditionals along axes (`curves`) or, of groups, on a grid
(`on_grid`), and `found` puts them in a row for :class:`~pymc_ext.HierarchicalVI`.

>>> from pymc_ext.variational.fields.map import FieldMap
>>> FieldMap.__name__
'FieldMap'
"""
