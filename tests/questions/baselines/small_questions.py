"""Six questions with tags and code, of which some are duplicates."""

import pandas as pd

from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs

ROWS = [
    ("How to sort a list", "quick sort of numbers", "sorting;list", "sorted(list)"),
    ("Graph search", "breadth first search of a tree", "graphs", "queue.pop()"),
    ("Sorting numbers", "how do I sort a list quickly", "sorting", "sorted(numbers)"),
    ("Search a tree", "graph and breadth", "graphs;trees", ""),
    ("", "", "", ""),
    ("Prove halting", "undecidable problem of numbers", "proof", "while true"),
]
TABLE = pd.DataFrame(ROWS, columns=["title", "description", "labels", "code"]).assign(component="", created_at=pd.NaT)
TRAIN = pd.DataFrame({"query": [2, 3, 3, 5], "document": [0, 1, 0, 1], "label": [1, 1, 0, 0]})


def fitted(scorer: Scorer, table: pd.DataFrame = TABLE, train: pd.DataFrame = TRAIN) -> Scorer:
    scorer.fit(ScorerInputs(table, table, train))
    return scorer
