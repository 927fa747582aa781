"""The conditional laws of hierarchical models, found from scores alone.

`moments` reads from one batch who governs whom, `map` is the map with its inverse and pullback, in
compiled loops in `one_point`, `roots` its linear part, dense, or of arrow form in `arrow_root`,
`marginal` its monotone maps of single coordinates, `training` the steps, `free` what they may move
and `rows` what they solve, `necks` the same far out, `slices` what governors' marginals lack there,
`orders` says which coordinate comes first, `growth` what is free, `structure` and `arrow` serve
models beyond 300 dimensions, `links` and `result` tell a reader, `algorithm` puts them in a row,
`vi` is the method of ``pm.fit``.

Beside the map stands a `law` by Laplace's method along the governors. `maxima` finds where all
others are highest (`others` says which these are, `columns` how few scores their Hessian takes,
and `few_columns` make, `pattern` factors it), `scan` goes so along one governor, `nested` adds up
what governors say one by one (`added`), `lattice` serves those that do not add up, `law_map` is the
law as a map, and `reach` asks whether draws reach as far, else makes the law part of a proposal.

To let the map do more, give `free.Free` a mask, `training.Training` the step of what it frees,
and `growth.Growth` the round that tries it.

>>> from pymc_ext.variational.hierarchical.algorithm import Hierarchical
>>> Hierarchical().name
'hierarchical'
"""
