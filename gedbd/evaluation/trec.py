"""Writes rankings as TREC files.

A run line is ``query Q0 report rank score tag``: the best report of each group, best group first. The score is
1 / rank, because tools order equal scores differently, so that their success@k and reciprocal rank equal RR@k and MRR
(down to rank 100). A qrels line is ``query 0 report 1`` for each earlier report of the query's group, in the window or
not. In a test pool each line is a report, and the query's positives in the pool are relevant.

MAP, which is over single reports at any rank, cannot be computed from such a run, see ``GUIDE``.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.io.files import write_text
from gedbd.retrieval.ranking_tasks import Ranking, RankingTask

# For ``README.txt`` beside the files.
GUIDE = """\
Files for trec_eval, ir_measures and ranx. A .run file has the 100 best groups of each query, one line each, by the best
report of the group; in a test pool, the 100 best reports. A .qrels file has the relevant reports of each query.

Figures of ranking.csv, computed by trec_eval -c (which counts queries without a line):
  rr@K        -m success.K, for K up to 100
  mrr         -m recip_rank, to rank 100; ranking.csv also counts first hits beyond it, each as less than 0.01
  map, map@K  not from these files: they rank single reports, of which a group may have several. They are the means
              of average_precision and average_precision@K in ../queries.parquet, which has a row per query and method.
"""


def write_run(path: Path, ranking: Ranking, ids: pd.Series, tag: str, document_ids: pd.Series | None = None) -> None:
    """Writes a run.

    Args:
        path: The file.
        ranking: The ranking.
        ids: ``(N,)`` id of each report; blanks become ``_``.
        tag: Name of the run; blanks become ``_``.
        document_ids: Ids of the documents if these are not reports.
    """
    report_ids = _without_blanks(ids)
    doc_ids = report_ids if document_ids is None else _without_blanks(document_ids)
    name = "_".join(tag.split())
    top = ranking.top
    rows = zip(report_ids[top["query"]], doc_ids[top["candidate"]], top["place"], strict=True)
    lines = [f"{query} Q0 {report} {rank} {1 / rank:.9g} {name}\n" for query, report, rank in rows]
    write_text(path, "".join(lines))


def write_qrels(path: Path, queries: RankingTask, ids: pd.Series, document_ids: pd.Series | None = None) -> None:
    """Writes the relevant documents of each query; see ``write_run``."""
    report_ids = _without_blanks(ids)
    doc_ids = report_ids if document_ids is None else _without_blanks(document_ids)
    lines = []
    for index, row in enumerate(queries.queries):
        lines += [f"{report_ids[row]} 0 {doc_ids[document]} 1\n" for document in queries.relevant(index)]
    write_text(path, "".join(lines))


def _without_blanks(values: pd.Series) -> np.ndarray:
    return values.str.replace(r"\s+", "_", regex=True).to_numpy(dtype=str)
