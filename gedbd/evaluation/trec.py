"""Rankings as TREC files, which every retrieval tool reads.

A run line is ``query Q0 report place score tag``: the best group's best report first, one line a group. So a tool's
success@k and reciprocal rank are RR@k and MRR here (down to rank 100). A qrels line is ``query 0 report 1`` for each
earlier report of the query's group, in the window or not.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.evaluation.ranking import Queries, Ranking


def write_run(path: Path, ranking: Ranking, issue_id: pd.Series, tag: str) -> None:
    """Writes a run.

    Args:
        path: The file.
        ranking: What to write.
        issue_id: ``(N,)`` id of every report; blanks in them become ``_``.
        tag: Name of the run; blanks become ``_``.
    """
    ids = _words(issue_id)
    top = ranking.top
    table = pd.DataFrame({"query": ids[top["query"]], "q0": "Q0", "report": ids[top["candidate"]]})
    table["place"], table["score"], table["tag"] = (
        top["place"].to_numpy(),
        top["score"].to_numpy(),
        "_".join(tag.split()),
    )
    table.to_csv(path, sep=" ", header=False, index=False, float_format="%.9g")


def write_qrels(path: Path, queries: Queries, issue_id: pd.Series) -> None:
    """Writes the relevant reports of every query."""
    ids = _words(issue_id)
    lines = []
    for row in queries.rows:
        earlier = np.flatnonzero(queries.group[:row] == queries.group[row])
        lines += [f"{ids[row]} 0 {ids[other]} 1\n" for other in earlier]
    path.write_text("".join(lines))


def _words(values: pd.Series) -> np.ndarray:
    return values.str.replace(r"\s+", "_", regex=True).to_numpy(dtype=str)
