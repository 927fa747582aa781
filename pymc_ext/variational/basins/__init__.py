"""A map for every basin of the posterior that paths find, weighted by the mass there.

`algorithm` fits any density, `weights` is what a component is worth, `links` who governs whom
in each, `vi` the method of ``pm.fit``.
"""
