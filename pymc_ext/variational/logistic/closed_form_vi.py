"""The plug-in of :class:`~.algorithm.ClosedForm`: its data may be rows of a file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from os import PathLike
from typing import Any

from pymc_ext.rows.protocol import Rows
from pymc_ext.variational.core.monitor import Callback
from pymc_ext.variational.logistic.density import LogisticVI
from pymc_ext.variational.logistic.streamed import StreamedDensity
from pymc_ext.variational.plugin.approximation import VectorisedApproximation


class ClosedFormVI(LogisticVI):
    """A :class:`~.algorithm.ClosedForm` as a method of ``pm.fit``."""

    def fit(  # type: ignore[override]  # what PyMC's own loop takes, by name
        self,
        n: int | None = None,
        score: bool | None = None,
        callbacks: Sequence[Callback] | None = None,
        progressbar: bool = True,
        progressbar_theme: object = None,
        *,
        rows: Rows | None = None,
        checkpoint: str | PathLike[str] | None = None,
        **others: Any,
    ) -> VectorisedApproximation:
        """Fit and return the approximation; arguments as :meth:`pymc.Inference.fit`.

        Parameters
        ----------
        rows
            Data that are not in memory, such as :class:`pymc_ext.ParquetRows`, by the names of the
            model's ``pm.Data``, whose present values count for nothing. A sample of the rows gives
            the first Gaussian; each Newton step then is a pass over all, two or three in general.
        checkpoint
            File in which the passes are kept every few seconds. The same call goes on from there
            after whatever ended the last one, in the middle of a pass too.
        others
            As :meth:`AlgorithmVI.fit`.

        Raises
        ------
        ValueError
            A checkpoint without rows, or of other ones; the rows do not fit the model, or are
            damaged (:class:`pymc_ext.ParquetRows`).
        """
        if rows is None and checkpoint is not None:
            raise ValueError("a checkpoint is of passes over rows: give rows= too")
        if rows is not None:
            algorithm = self.algorithm
            density = partial(
                StreamedDensity,
                split=algorithm.read(self.approx.model),  # type: ignore[attr-defined]
                rows=rows,
                checkpoint=checkpoint,
                of=repr(algorithm),
            )
            self.approx.use_density(density)
        return super().fit(n, score, callbacks, progressbar, progressbar_theme, **others)
