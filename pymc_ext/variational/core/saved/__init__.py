"""Fitted q's to keep: in a file, as a law without PyMC, as the prior of the next data.

:mod:`.codec` turns a q into numbers and names and back, :mod:`.file` keeps them, :mod:`.posterior`
is what a file gives, :mod:`.prior` a q in a model.
"""
