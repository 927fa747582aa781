"""What a calibration found: ranks, verdicts, and whether the two belong together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bridge.calibration.bands import holm, symmetry_p_values, uniformity_p_values
from bridge.calibration.figure import ecdf_figure
from bridge.calibration.run import KINDS, LOG_LIK, LP, MOST
from bridge.targets.draws import InferenceData
from pymc_ext.maths.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Calibration"]

Kind = Literal["plain", "psis"]
Fits = Literal["all", "trusted"]
LEVELS = (0.5, 0.95)  # of central intervals whose coverage is told: a box plot's, and the usual one


@dataclass(frozen=True)
class Calibration:
    """Ranks of what data were made with among the draws of fits to them.

    Attributes
    ----------
    model, method
        Their names.
    simulations
        How many were asked for.
    quantities
        What was ranked, entry by entry: parameters, ``log_lik`` (where the model has it), ``lp``.
    ranks
        By kind of draws, ``"plain"`` and ``"psis"``: (S, Q), how many of 199 draws are below the
        truth; −1 in rows without such draws, as those of fits that failed or have no weights.
        Chains have no weights, theirs are the same in both.
    runs
        One row a simulation that is on record: ``seed`` (its number), ``status``, ``reason``,
        ``trusted``, ``verdict``, ``khat``, ``gradients``, ``seconds``.
    shapes
        Of each variable ranked.
    posterior
        Whether the parameters were drawn given real data.
    """

    model: str
    method: str
    simulations: int
    quantities: tuple[str, ...]
    ranks: Mapping[str, NDArray[np.integer]] = field(repr=False)
    runs: pd.DataFrame = field(repr=False)
    shapes: Mapping[str, tuple[int, ...]] = field(repr=False)
    posterior: bool = False

    @classmethod
    def of_records(cls, frame: pd.DataFrame, simulations: int, posterior: bool) -> Calibration:
        """Read the records of `bridge.calibration.run.run_one`."""
        ok = frame[frame["status"] == "ok"]
        shapes: dict[str, tuple[int, ...]] = {}
        if len(ok):
            shapes = {n: tuple(s) for n, s in json.loads(ok["shapes"].iloc[0]).items()}
        names = tuple(entry for name, shape in shapes.items() for entry in _entries(name, shape))
        columns = [*KINDS, "shapes", "settings"]
        return cls(
            model=str(frame["case_name"].iloc[0]),
            method=str(frame["method"].iloc[0]),
            simulations=simulations,
            quantities=names,
            ranks={kind: _ranks(frame, kind, len(names)) for kind in KINDS},
            runs=frame.drop(columns=[c for c in columns if c in frame]),
            shapes=shapes,
            posterior=posterior,
        )

    @property
    def trusted(self) -> NDArray[np.bool_]:
        """By simulation, whether the fit's own verdict was that it may be taken; (S,)."""
        return self.runs["trusted"].to_numpy(dtype=bool)

    @property
    def failed(self) -> pd.DataFrame:
        """Simulations without a fit, with the reason."""
        rows = self.runs[self.runs["status"] != "ok"]
        return rows.reindex(columns=["seed", "reason"])

    def coverage(
        self, level: float, draws: Kind = "psis", fits: Fits = "all"
    ) -> tuple[float, float]:
        """Share of parameters inside the central interval of that level, and its standard error.

        The mean over parameters is one number a simulation: the error is that of independent
        simulations, however parameters hang together.
        """
        rows = self._rows(draws, fits)
        if not len(rows):
            return np.nan, np.nan
        chosen = [i for i, name in enumerate(self.quantities) if name not in (LOG_LIK, LP)]
        inside = _inside(rows[:, chosen], level).mean(axis=1)
        return _mean(inside)

    def table(self, draws: Kind = "psis", fits: Fits = "all") -> pd.DataFrame:
        """One row a quantity.

        ``coverage_50``, ``coverage_95`` with ``se_50``, ``se_95``; ``p_uniform``, by which its ECDF
        is inside the simultaneous band, and ``p_holm``, adjusted for the number of quantities;
        ``p_symmetric`` of its ranks, small where the point estimate is biased (VSBC).
        """
        rows = self._rows(draws, fits)
        if not len(rows):
            nan = np.full(len(self.quantities), np.nan)
            names = ("coverage_50", "se_50", "coverage_95", "se_95", "p_uniform", "p_holm",
                     "p_symmetric")  # fmt: skip
            return pd.DataFrame(dict.fromkeys(names, nan), index=list(self.quantities))
        columns: dict[str, NDArray] = {}
        for level in LEVELS:
            inside = _inside(rows, level)
            share = inside.mean(axis=0)
            columns[f"coverage_{100 * level:.0f}"] = share
            columns[f"se_{100 * level:.0f}"] = np.sqrt(share * (1 - share) / len(rows))
        p = uniformity_p_values(rows, MOST)
        columns |= {"p_uniform": p, "p_holm": holm(p)}
        columns["p_symmetric"] = symmetry_p_values(rows, MOST)
        return pd.DataFrame(columns, index=list(self.quantities))

    def calibrated(self, draws: Kind = "psis", fits: Fits = "all", alpha: float = 0.05) -> bool:
        """Whether every ECDF is inside its band, by Holm's method; False where nothing was ranked.

        A sound method is called uncalibrated in ``alpha`` of all calibrations.
        """
        p = self.table(draws, fits)["p_holm"]
        return len(p) > 0 and bool((p >= alpha).all())

    def summary(self, alpha: float = 0.05) -> pd.DataFrame:
        """One row a kind of draws and of fits: all that ended, and those with a verdict of trust.

        ``fits`` how many and ``share`` of the simulations made; coverage of the parameters at 50
        and 95 % with standard errors; ``worst``, the quantity whose ECDF is least uniform, its
        ``p_holm``, and ``inside``, whether that is at least ``alpha``.
        """
        rows = {}
        choices: tuple[tuple[Kind, Fits], ...] = (
            ("plain", "all"), ("plain", "trusted"), ("psis", "all"), ("psis", "trusted")
        )  # fmt: skip
        for draws, fits in choices:
            table = self.table(draws, fits)
            number = len(self._rows(draws, fits))
            row: dict[str, object] = {"fits": number, "share": number / len(self.runs)}
            for level in LEVELS:
                name = f"{100 * level:.0f}"
                row[f"coverage_{name}"], row[f"se_{name}"] = self.coverage(level, draws, fits)
            known = number > 0 and len(table) > 0
            row["worst"] = table["p_uniform"].idxmin() if known else None
            row["p_holm"] = table["p_holm"].min() if known else np.nan
            row["inside"] = known and bool(row["p_holm"] >= alpha)  # type: ignore[operator]
            rows[draws, fits] = row
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["draws", "of"])

    def inference_data(self, draws: Kind = "psis", fits: Fits = "all") -> InferenceData:
        """Ranks as fractions, (rank + ½) / 200, in the group and the shape that `simuk` returns.

        Group ``prior_sbc`` (``posterior_sbc`` where ``data`` were given), each variable (1,
        simulations, \\*shape), for ``arviz_plots.plot_ecdf_pit(found, group="prior_sbc")``.
        """
        import xarray as xr

        from stan_models.inference_data import make_inference_data

        fractions = (self._rows(draws, fits) + 0.5) / (MOST + 1)
        arrays, begin = {}, 0
        coords = {"chain": np.arange(1), "draw": np.arange(len(fractions))}
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            labels = [f"{name}_dim_{i}" for i in range(len(shape))]
            values = fractions[:, begin : begin + size].reshape(1, -1, *shape)
            arrays[name] = (("chain", "draw", *labels), values)
            begin += size
            coords |= {label: np.arange(n) for label, n in zip(labels, shape, strict=True)}
        attributes = {"inference_library": "trusted-posteriors", "method": self.method}
        group = "posterior_sbc" if self.posterior else "prior_sbc"
        return make_inference_data({group: xr.Dataset(arrays, coords=coords, attrs=attributes)})

    def plot(
        self,
        draws: Kind = "psis",
        fits: Fits = "all",
        level: float = 0.95,
        axis: Axes | None = None,
    ) -> Figure:
        """ECDFs of all quantities less that of uniform ranks, and their simultaneous band.

        The band is that of one quantity; those outside after Holm's method are named, the five
        worst of them in the legend.

        Parameters
        ----------
        draws, fits
            Which ranks.
        level
            Of the band.
        axis
            Where to draw; None: in a figure of its own.
        """
        rows, table = self._rows(draws, fits), self.table(draws, fits)
        if not len(rows):
            raise ValueError(f"no fit of {self.method} has ranks to be shown")
        outside = list(table.index[table["p_holm"] < 1 - level])
        title = f"{self.method}, {draws}, {len(rows)} fits"
        return ecdf_figure(rows, self.quantities, outside, level, title, axis)

    def write(self, folder: Path) -> list[Path]:
        """``runs.csv``, ``quantities.csv`` and, where anything was ranked, ``ecdf.png``."""
        tables = {"runs.csv": self.runs.set_index("seed"), "quantities.csv": self.table()}
        paths = [folder / name for name in tables]
        for path, table in zip(paths, tables.values(), strict=True):
            table.to_csv(path)
        if len(self._rows("psis", "all")):
            paths.append(folder / "ecdf.png")
            self.plot().savefig(paths[-1], dpi=150)
        return paths

    def __str__(self) -> str:
        made, failed = len(self.runs), int((self.runs["status"] != "ok").sum())
        lines = [
            f"{self.method} on {self.model}: {made} of {self.simulations} simulations, "
            f"{failed} failed, {self.trusted.mean():.0%} trusted"
        ]
        for (draws, fits), row in self.summary().iterrows():
            if not row["fits"]:
                lines.append(f"{draws}, {fits}: none")
                continue
            where = "inside" if row["inside"] else f"outside: {row['worst']}"
            lines.append(
                f"{draws}, {fits} {row['fits']}: 50 % {row['coverage_50']:.3f} ± "
                f"{row['se_50']:.3f}, 95 % {row['coverage_95']:.3f} ± {row['se_95']:.3f}, ECDF "
                f"{where} (p {row['p_holm']:.2g})"
            )
        if failed:
            reason, count = next(iter(self.runs["reason"].value_counts().items()))
            lines.append(f"failed most often ({count}): {reason}")
        return "\n".join(lines)

    def _rows(self, draws: Kind, fits: Fits) -> NDArray[np.integer]:
        """Ranks of the fits that have such draws."""
        if draws not in KINDS or fits not in ("all", "trusted"):
            raise ValueError(
                f"draws must be one of {KINDS} and fits 'all' or 'trusted', got {draws!r}, {fits!r}"
            )
        ranks = self.ranks[draws]
        has = (ranks >= 0).all(axis=1) if ranks.shape[1] else np.zeros(len(ranks), dtype=bool)
        return ranks[has & self.trusted] if fits == "trusted" else ranks[has]


def _ranks(frame: pd.DataFrame, kind: str, size: int) -> NDArray[np.integer]:
    """(S, Q), −1 where there are none."""
    column = frame[kind] if kind in frame else pd.Series([None] * len(frame))
    rows = [json.loads(text) if isinstance(text, str) else [-1] * size for text in column]
    return np.array(rows, dtype=int).reshape(len(frame), size)


def _entries(name: str, shape: tuple[int, ...]) -> list[str]:
    return [f"{name}[{', '.join(map(str, i))}]" if i else name for i in np.ndindex(*shape)]


def _inside(ranks: NDArray[np.integer], level: float) -> NDArray[np.bool_]:
    """Whether the truth is inside the central interval; of uniform ranks exactly ``level`` are."""
    edge = round((MOST + 1) * (1 - level) / 2)
    return (ranks >= edge) & (ranks <= MOST - edge)


def _mean(values: Array) -> tuple[float, float]:
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan
    return float(values.mean()), error
