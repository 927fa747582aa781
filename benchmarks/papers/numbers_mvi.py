"""Numbers of Gianniotis (2019), mixed variational inference."""

from __future__ import annotations

from typing import Any

from benchmarks.papers.mvi_data import MULTICLASS, PAPER
from benchmarks.papers.numbers_common import MISSING, Item, Paper, number, pair, results, table

METHODS = {
    "laplace": "Laplace",
    "mu": "MVI-μ",
    "eig": "MVI-eig",
    "lr": "MVI-lr",
    "diag": "VI-diag",
}
NAMES = {**METHODS, "full": "full covariance", "mixture": "mixture (outlook, section VI)"}
SPLITS = (
    "Tables III to VI: most splits are not the original ones, and ours are ten, not a hundred, so "
    "that medians are comparable, not equal. The original ones of heart are at hand."
)
SOLAR = (
    "Solar is missing: it is a random partition of the flare data's classes that is not recorded "
    "(`benchmarks/papers/mvi_data.py`)."
)
UNIT_OF_R = (
    "Start values of r are uniform on (0, 1), as in the paper. Where the winner's features "
    "vanish, for in 60 dimensions all distances are about 10, r is in units of the median "
    "distance."
)


def figure1() -> Item:
    """KL on the mixture of two Gaussians."""
    file = "mvi_figure1.json"
    rows = [
        [NAMES[name], MISSING, number(run["kl"], 4), number(run["exact"], 4)]
        for name, run in results(file).items()
    ]
    return Item(
        "Figure 1: KL(q ‖ p) on a mixture of two Gaussians",
        "mvi_figure1",
        (file,),
        "Ours by 100 × 100 Gauss–Hermite points, of the mixture minus its ELBO on 100,000 draws. "
        "The truth is the optimum of each family, found independently. The values in the legend of "
        "the paper's figure are not stored.",
        table(["family", "theirs", "ours", "truth"], rows),
    )


def table2() -> Item:
    """Cauchy regression."""
    files = tuple(f"mvi_cauchy_regression/{name}.json" for name in ("even20", "even20-held"))
    joint, held = map(results, files)
    rows = []
    for method, name in METHODS.items():
        cells = [
            number(stored[measure][source][method])
            for measure in ("lpd", "mse")
            for stored, source in ((joint, "paper"), (joint, "ours"), (held, "ours"))
        ]
        rows.append([name, *cells])
    head = ["LPD theirs", "ours", "ours, held", "MSE theirs", "ours", "ours, held"]
    return Item(
        "Table II: Cauchy regression",
        "mvi_cauchy_regression --settings even20 even20-held",
        files,
        "Median log predictive density of a test point (higher is better) and median squared "
        f"error (lower is better) over {joint['data_sets']} simulated data sets. *held*: r, α and "
        f"γ held at Laplace's values, {held['data_sets']} data sets.",
        table(["method", *head], rows),
        (
            "The paper does not state M, r, α and γ. Ours: M = 20 centres evenly spaced on [-10, "
            "10]; r, α and γ start at 1.5, 1 and 0.3 and are set by empirical Bayes.",
            "The order by LPD is the paper's. By MSE VI-diag is last where the paper has it "
            "third; the others are in the paper's order but for the tie of eig and lr.",
            "The reason is the width r. A factorised q gains ELBO where neighbouring features "
            "hardly overlap, so that VI-diag moves r to 0.68 (the others stay near 1.7) and "
            "interpolates worse. With r, α and γ held, VI-diag has the lowest MSE and the "
            "highest LPD: its rank says how the hyperparameters were set, not how good q is.",
        ),
    )


def classification(title: str, measure: str, multiclass: bool, text: str, *notes: str) -> Item:
    """Logistic or softmax regression on RBF features."""
    names = [name for name in PAPER if (name in MULTICLASS) == multiclass]
    files = tuple(f"mvi_classification/{name}.json" for name in names)
    rows = []
    for name, file in zip(names, files, strict=True):
        found: dict[str, Any] = results(file)[measure]
        cells = [pair(found["paper"][m], found["ours"][m], 2) for m in METHODS]
        rows.append([name, *cells, str(found["ours"]["runs"])])
    return Item(
        title,
        "mvi_classification",
        files,
        f"{text} Medians over splits, theirs / ours; ours over as many as the last column says.",
        table(["data", *METHODS.values(), "splits"], rows),
        notes,
    )


def paper() -> Paper:
    """The section."""
    lpd = "Log predictive density, summed over the test set (higher is better)."
    error = "Error rate in % (lower is better)."
    return Paper(
        "Mixed variational inference",
        "Gianniotis (2019), Mixed Variational Inference, IJCNN, "
        "[doi:10.1109/IJCNN.2019.8852348](https://doi.org/10.1109/IJCNN.2019.8852348).",
        (
            figure1(),
            table2(),
            classification(
                "Table III: logistic regression, LPD", "lpd", False, lpd, SPLITS, SOLAR, UNIT_OF_R
            ),
            classification("Table IV: logistic regression, errors", "error", False, error),
            classification("Table V: softmax regression, LPD", "lpd", True, lpd),
            classification("Table VI: softmax regression, errors", "error", True, error),
        ),
        "figure 2, and the row of solar in tables III and IV",
    )
