"""Data that are not held in memory: rows of a file, read a block at a time.

- :class:`~.parquet.ParquetRows`: named arrays from columns of Parquet files, checked as they come.
- :mod:`.progress`: where a pass over them is, in a file, from which a killed one goes on.

``pm.fit(method=px.ViperVI(), rows=...)`` and ``MatchedClassifier.fit_rows`` take them. To add a
source, give ``__len__``, ``shapes``, ``fingerprint``, ``blocks`` and ``sample`` as
:class:`~.parquet.ParquetRows` does (:class:`~.protocol.Rows`).

>>> columns = {"X": ["age", "visits"], "y": "clicked"}
>>> rows = px.ParquetRows("clicks.parquet", columns)  # doctest: +SKIP
>>> next(rows.blocks())["X"].shape  # doctest: +SKIP
(65536, 2)
"""
