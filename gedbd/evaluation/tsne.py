"""A map of reports in two dimensions, to look at what a model takes for alike."""

import numpy as np
import pandas as pd
from sklearn.manifold import TSNE

GROUPS, MEMBERS, LONE, FEWEST = 24, 12, 60, 10


def map_reports(
    rows: np.ndarray, vectors: np.ndarray, group: np.ndarray, tested: np.ndarray, seed: int
) -> pd.DataFrame:
    """Places some reports by t-SNE of their cosines: the largest groups that test touches, and lone test reports.

    Args:
        rows: ``(U,)`` rows of the reports that have a vector.
        vectors: ``(U, D)`` unit vectors.
        group: ``(N,)`` group of every report.
        tested: ``(N,)`` bool, the reports of the part that is shown.
        seed: Fixes the draw of lone reports and the map.

    Returns:
        ``row``, ``group`` (-1 for lone reports), ``x``, ``y``; empty if fewer than 10 of them differ.
    """
    mine = pd.DataFrame({"row": rows, "place": np.arange(len(rows)), "group": group[rows], "tested": tested[rows]})
    size = mine.groupby("group")["row"].transform("size")
    touched = mine[(size > 1) & mine.groupby("group")["tested"].transform("any")]
    largest = touched["group"].value_counts(sort=True).head(GROUPS).index
    chosen = touched[touched["group"].isin(largest)].groupby("group").tail(MEMBERS)
    lone = mine[(size == 1) & mine["tested"]].assign(group=-1)
    shown = pd.concat([chosen, lone.sample(min(LONE, len(lone)), random_state=seed)], ignore_index=True)
    distinct, place = np.unique(vectors[shown["place"].to_numpy()].round(5), axis=0, return_inverse=True)
    if len(distinct) < FEWEST:
        return pd.DataFrame({"row": np.empty(0, int), "group": [], "x": [], "y": []})
    perplexity = min(15.0, (len(distinct) - 1) / 3)
    tsne = TSNE(metric="cosine", init="pca", perplexity=perplexity, max_iter=400, random_state=seed)
    shown[["x", "y"]] = tsne.fit_transform(distinct)[place]  # equal vectors would break its tree of points
    return shown[["row", "group", "x", "y"]]
