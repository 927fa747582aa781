"""How a flow is trained: :mod:`.depth` on a fitted base, in blocks until one no longer pays;
:mod:`.trainer` from the identity or on batches, as :mod:`.schedule` says; :mod:`.loops` steps.

A loop takes optimiser steps on fresh draws: :class:`~.loops.DensityLoop` asks any density for
scores and pulls them back through q; :class:`~.jax_loop.JaxLoop` compiles whole blocks of steps for
a PyMC model that JAX can trace. To add one, give ``run``, ``fork``, ``vector``, ``average``,
``draws`` and ``flow`` (:class:`~.loops.Loop`).
"""
