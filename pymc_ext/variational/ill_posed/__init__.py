"""Densities that no fit serves, told by their scores: improper ones, and those that jump.

:mod:`.runaway` refuses a fit whose ELBO rises for ever, :mod:`.endless` finds directions in which
log p̃ never falls, :mod:`.jumps` places where it changes without a score that says so.
"""
