"""One model of each kind that PyMC's users write, on simulated data, a public function each.

The first line of its docstring is what the table of `benchmarks.speed.model_kinds` calls it. To add
one, write a function in the file of its sort.
"""
