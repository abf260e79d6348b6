"""The t-SNE projection of reports, which shows what a model considers similar."""

import numpy as np
import pandas as pd
from sklearn.manifold import TSNE

MAX_GROUPS = 24
MAX_MEMBERS = 12  # of each group
MAX_SINGLETONS = 60
MIN_DISTINCT = 10  # vectors; fewer show nothing


def project_reports(
    rows: np.ndarray, vectors: np.ndarray, group: np.ndarray, tested: np.ndarray, seed: int
) -> pd.DataFrame:
    """Projects some reports by t-SNE of their cosines: the largest groups with a test report, and test singletons.

    Args:
        rows: ``(U,)`` rows of the reports that have a vector.
        vectors: ``(U, D)`` unit vectors.
        group: ``(N,)`` group of every report.
        tested: ``(N,)`` bool, the reports of the part that is shown.
        seed: Fixes the sample of singletons and the projection.

    Returns:
        ``row``, ``group`` (-1 for singletons), ``x``, ``y``; empty if fewer than ``MIN_DISTINCT`` vectors differ.
    """
    mine = pd.DataFrame({"row": rows, "place": np.arange(len(rows)), "group": group[rows], "tested": tested[rows]})
    size = mine.groupby("group")["row"].transform("size")
    touched = mine[(size > 1) & mine.groupby("group")["tested"].transform("any")]
    largest = touched["group"].value_counts(sort=True).head(MAX_GROUPS).index
    chosen = touched[touched["group"].isin(largest)].groupby("group").tail(MAX_MEMBERS)
    singletons = mine[(size == 1) & mine["tested"]].assign(group=-1)
    sampled = singletons.sample(min(MAX_SINGLETONS, len(singletons)), random_state=seed)
    shown = pd.concat([chosen, sampled], ignore_index=True)
    # Equal vectors would break the tree of points that t-SNE builds: each is projected once.
    distinct, place = np.unique(vectors[shown["place"].to_numpy()].round(5), axis=0, return_inverse=True)
    if len(distinct) < MIN_DISTINCT:
        return pd.DataFrame({"row": np.empty(0, int), "group": [], "x": [], "y": []})
    perplexity = min(15.0, (len(distinct) - 1) / 3)
    tsne = TSNE(metric="cosine", init="pca", perplexity=perplexity, max_iter=400, random_state=seed)
    shown[["x", "y"]] = tsne.fit_transform(distinct)[place]
    return shown[["row", "group", "x", "y"]]
