"""What a run leaves behind: predictions, the table of methods, example pairs, figures."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gedbd.evaluation import figures
from gedbd.evaluation.pairwise import pairwise_metrics
from gedbd.evaluation.threshold import best_threshold

FUSED, TEXT, FROZEN, ALWAYS = "text + graph", "text alone", "frozen encoder", "always duplicate"
SCORES = {FUSED: "score", TEXT: "score_text", FROZEN: "score_frozen"}


def compare_methods(predictions: pd.DataFrame, part: str, threshold: float, with_graph: bool) -> pd.DataFrame:
    """The trained model and its rivals on the same pairs.

    Args:
        predictions: Pairs of the parts ``val`` and ``part`` with the columns named in ``SCORES``, ``label`` and
            ``part``.
        part: The part to report.
        threshold: The trained model's threshold. The others get the best on the validation pairs, likewise frozen.
        with_graph: Whether the model has a graph branch; if not, its text branch is the model.

    Returns:
        One row a method: its name, the threshold and the metrics of ``pairwise_metrics``.
    """
    chosen, val = predictions[predictions["part"] == part], predictions[predictions["part"] == "val"]
    labels = chosen["label"].to_numpy()
    rows = []
    for name, column in SCORES.items():
        if name == FUSED and not with_graph:
            continue
        trained = name == (FUSED if with_graph else TEXT)
        own = threshold if trained else best_threshold(val[column].to_numpy(), val["label"].to_numpy())
        rows.append({"method": name, "threshold": own, **pairwise_metrics(chosen[column].to_numpy(), labels, own)})
    rows.append({"method": ALWAYS, "threshold": 0.0, **pairwise_metrics(np.ones(len(labels)), labels, 0.0)})
    return pd.DataFrame(rows)


def example_pairs(predictions: pd.DataFrame, part: str, count: int = 3) -> pd.DataFrame:
    """Pairs to look at, in the shape of the paper's Table 3: ids, titles, similarity, verdict.

    Takes for each class the pairs nearest to its median score, and those the model has most wrong.
    """
    chosen = predictions[predictions["part"] == part]
    frames = []
    for label, worst in ((1, "nsmallest"), (0, "nlargest")):
        mine = chosen[chosen["label"] == label]
        typical = (mine["score"] - mine["score"].median()).abs().nsmallest(count).index
        frames.append(mine.loc[typical].assign(example="typical"))
        frames.append(getattr(mine.drop(typical), worst)(count, "score").assign(example="hardest"))
    columns = ["label", "example", "issue_id_1", "issue_id_2", "score", "predicted", "title_1", "title_2"]
    return pd.concat(frames)[columns].reset_index(drop=True)


def draw_figures(predictions: pd.DataFrame, part: str, threshold: float, with_graph: bool) -> dict[str, Figure]:
    """The figures of one part's pairs, by name."""
    chosen = predictions[predictions["part"] == part]
    scores, labels = chosen["score"].to_numpy(), chosen["label"].to_numpy()
    curves = {name: chosen[column].to_numpy() for name, column in SCORES.items() if with_graph or name != FUSED}
    return {
        "confusion_matrix": figures.confusion_matrix(scores, labels, threshold),
        "similarity_histogram": figures.similarity_histogram(scores, labels, threshold),
        "precision_recall": figures.precision_recall(curves, labels),
    }


def write_outputs(
    folder: Path, predictions: pd.DataFrame, methods: pd.DataFrame, examples: pd.DataFrame, drawn: dict[str, Figure]
) -> None:
    """Writes predictions.parquet, results.csv, results.json, examples.csv and figures/ into a folder."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    ids = ["issue_id_1", "issue_id_2", "label", "score", "score_text", "score_frozen", "predicted", "kind", "part"]
    predictions[ids].to_parquet(folder / "predictions.parquet", index=False)
    methods.to_csv(folder / "results.csv", index=False)
    (folder / "results.json").write_text(json.dumps(methods.to_dict("records"), indent=2) + "\n")
    examples.to_csv(folder / "examples.csv", index=False)
    for name, figure in drawn.items():
        figure.savefig(folder / "figures" / f"{name}.png", dpi=150)
