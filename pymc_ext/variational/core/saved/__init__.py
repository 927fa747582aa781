"""Fitted q's to keep: in a file, as a law without PyMC, as the prior of the next data.

:mod:`.codec` turns a q into numbers and names and back, :mod:`.variables` what a model's variables
are, :mod:`.file` keeps and reads them, :mod:`.posterior` is what a file gives;
:mod:`pymc_ext.variational.prior` puts that into a model.
"""
