"""Mass that a fitted q misses, which none of its own draws can show.

:mod:`.missed_mass` is the search: from dispersed points (:mod:`.starts`) all climb together and
each goes down into its basin (:mod:`.descents`), and short chains from its edge look for mass in no
basin (:mod:`.shoulders`), of which normal :mod:`.kernels` about their points are a law;
:mod:`.outside` says where q has its mass, and whether a point lies there. What is found is a
:class:`~.missed_mass.MissedMass`, which has a sentence, and basins that
:mod:`pymc_ext.variational.basins` fits.
"""
