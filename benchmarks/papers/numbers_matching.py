"""Numbers of Bui (2024), likelihood matching."""

from __future__ import annotations

from typing import Any

from benchmarks.papers.numbers_common import (
    MISSING,
    NOT_STORED,
    Item,
    Paper,
    number,
    pair,
    results,
    table,
)

SETS = ("eeg", "htru2", "magic", "letter")
METHODS = ("moment-ori", "moment", "laplace", "variational")
SIZE = "200/1000000000"  # inducing inputs and training rows: all of them
LEVELS = ("0.75", "0.8")
OTHER_DATA = "The data are not the paper's, so that there is no *theirs*."


def _tried(runs: dict[str, dict[str, Any]], name: str, method: str) -> dict[str, dict[str, Any]]:
    """Runs of full size by α, in the order of α."""
    found = {
        key.split("/")[2]: run
        for key, run in runs.items()
        if key.startswith(f"{name}/{method}/") and key.endswith(SIZE)
    }
    return {alpha: found[alpha] for alpha in sorted(found, key=float)}


def table3() -> Item:
    """Multiclass GPs."""
    file = "gp_matching.json"
    stored = results(file)
    rows = []
    for name in SETS:
        for method in METHODS:
            tried = _tried(stored["runs"], name, method)
            alpha = max(tried, key=lambda a: tried[a]["train_log_likelihood"])
            ours = [tried[alpha][key] for key in ("error", "nll", "ece")]
            cells = [
                pair(*both, 2) for both in zip(stored["paper"][name][method], ours, strict=True)
            ]
            rows.append([name, method, *cells, f"{alpha} (of {', '.join(tried)})"])
    return Item(
        "Tables 3 and 5: GP classification by matched Gaussians",
        "gp_matching --sets eeg htru2 magic letter --alphas 0.01 0.1",
        (file,),
        "Error in %, negative log likelihood and expected calibration error of held-out rows, "
        "theirs / ours, with 200 inducing inputs. Ours is one split: a random 10 % held out. α "
        "is that of the largest likelihood of the training rows among those tried, as in the "
        "paper.",
        table(["data", "method", "error", "NLL", "ECE", "α, ours"], rows),
    )


def table4() -> Item:
    """Losses of neural networks."""
    file = "network_losses.json"
    rows = [
        [name, method, *(f"{row[key][0]:.3f} ± {row[key][1]:.3f}" for key in _SCORES)]
        for name, found in results(file).items()
        for method, row in found["chosen"].items()
    ]
    return Item(
        "Tables 1 and 4: neural networks trained by matched losses",
        "network_losses",
        (file,),
        "Ours, mean and standard error of three seeds: accuracy, negative log likelihood, expected "
        "calibration error, and AUC of telling test data from printed capital letters. The paper's "
        f"CIFAR-10 networks are replaced by one hidden layer on digits and MNIST-5k. {OTHER_DATA}",
        table(["data", "loss", "accuracy", "NLL", "ECE", "AUC"], rows),
        ("Font style differs between digits and letters as well as content.",),
        ("network_losses.png",),
    )


_SCORES = ("accuracy", "nll", "ece", "ood_auc")


def figure3() -> Item:
    """Evidence landscapes."""
    file = "gp_matching_alpha.json"
    found = results(file)["landscape"]
    rows = []
    for method in METHODS:
        best = [found[f"{method}/{formula}"]["best"] for formula in ("sites", "elbo")]
        cells = [number(b[key], d) for b in best for key, d in _PLACE]
        rows.append([method, *cells])
    head = ["log ℓ", "log σ²", "evidence", "log ℓ", "log σ²", "ELBO"]
    return Item(
        f"Figure 3: evidence landscapes on {found['set']}",
        "gp_matching_alpha --parts landscape",
        (file,),
        "The highest point of the exact evidence of each matched model (α = 0.1) on a grid, and "
        f"of the ELBO of the same posteriors under the softmax, both a data point. {NOT_STORED}",
        table(["method", *head], rows),
        figures=("gp_matching_landscape.png",),
    )


_PLACE = (("log_ell", 2), ("log_variance", 1), ("value", 3))


def figure8() -> Item:
    """α by the ELBO."""
    file = "gp_matching_alpha.json"
    rows = [
        [
            method, number(run["alpha"]), number(run["elbo"], 1),
            number(run["test_log_likelihood"]),
        ]
        for method, run in results(file)["alpha"].items()
    ]  # fmt: skip
    return Item(
        "Figure 8: α learned by the ELBO",
        "gp_matching_alpha --parts alpha",
        (file,),
        "Ours, on four Gaussian classes in the plane that are drawn here: α, the ELBO, and the "
        "mean log likelihood of fresh rows. Full variational inference is the reference. "
        f"{OTHER_DATA}",
        table(["method", "α", "ELBO", "test log likelihood"], rows),
        figures=("gp_matching_alpha.png",),
    )


def streaming() -> Item:
    """Figures 4 and 15."""
    file = "streaming.json"
    found = results(file)
    rows = [
        [
            method,
            *(
                number(found[name][method][key][-1])
                for name in found
                for key in ("accuracy", "log_likelihood")
            ),
        ]
        for method in next(iter(found.values()))
    ]
    head = [
        f"{name}, {what}" for name in found for what in ("accuracy", "log likelihood")
    ]  # fmt: skip
    ends = ", ".join(
        f"{next(iter(by.values()))['rows'][-1]:,} of {name}" for name, by in found.items()
    )
    return Item(
        "Figures 4 and 15: streams",
        "streaming",
        (file,),
        f"Ours, on test rows after all rows of the stream ({ends}); the figure has the way there. "
        "The paper's data (FashionMNIST, CIFAR-10 with VGG features, all of MNIST) are replaced. "
        f"{OTHER_DATA}",
        table(["method", *head], rows),
        ("SGD is given its best learning rate on the test set.",),
        ("streaming.png",),
    )


def active_learning() -> Item:
    """Figures 5 and 16."""
    file = "active_learning.json"
    rows = []
    for name, found in results(file).items():
        for strategy, run in found.items():
            needed = [run["median_labels_for_accuracy"][level] for level in LEVELS]
            cells = [MISSING if count is None else f"{count:.0f}" for count in needed]
            scores = [number(run[key][-1]) for key in ("accuracy", "log_likelihood")]
            rows.append([name, strategy, *scores, *cells])
    return Item(
        "Figures 5 and 16: active learning",
        "active_learning",
        (file,),
        "Ours, after 210 labels: test accuracy and log likelihood, and the median number of "
        "labels until the accuracy is 0.75 and 0.8 (–: half of the seeds never reached it). "
        "*exact refit* is the reference: scikit-learn's logistic regression, refitted at every "
        "step. The paper's IMDB reviews with Gemma features are replaced by two binary tasks. "
        f"{OTHER_DATA}",
        table(
            [
                "data",
                "strategy",
                "accuracy",
                "log likelihood",
                *(f"labels for {x}" for x in LEVELS),
            ],
            rows,
        ),
        figures=("active_learning.png",),
    )


def paper() -> Paper:
    """The section."""
    return Paper(
        "Likelihood matching",
        "Bui (2024), Likelihood approximations via Gaussian approximate inference, "
        "[arXiv:2410.20754](https://arxiv.org/abs/2410.20754).",
        (table3(), table4(), figure3(), figure8(), streaming(), active_learning()),
        '"drive" of tables 3 and 5, table 2, figures 1, 2, 6, 7, 9 to 14, 17 and 18',
    )
