"""The files of a run's rankings."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.evaluation.run_folders import PROTOCOLS
from gedbd.evaluation.trec import write_qrels, write_run
from gedbd.experiments.evaluation_result import EvaluationResult
from gedbd.io.files import write_text
from gedbd.io.tables import write_parquet
from gedbd.retrieval.protocol_words import file_suffix


def write_rankings(folder: Path, result: EvaluationResult) -> None:
    """Writes ``queries.parquet``, TREC files of the rankings, and the words about each protocol."""
    ids = result.corpus.reports["id"].to_numpy(dtype=object)
    document_ids = result.corpus.reports["id"]
    frames = []
    (folder / "trec").mkdir(exist_ok=True)
    for protocol, rankings in result.rankings.items():
        stem = f"{result.part}{file_suffix(protocol)}"
        write_qrels(folder / "trec" / f"{stem}.qrels", result.queries[protocol], document_ids)
        for method, ranking in rankings.items():
            write_run(folder / "trec" / f"{stem}.{method}.run", ranking, document_ids, method)
            table = ranking.queries
            rows = table["query"].to_numpy()
            named = table.drop(columns=["query", "found"]).assign(
                protocol=protocol,
                method=method,
                part=result.part,
                id=ids[rows],
                group=ids[result.corpus.group[rows]],
                found=np.where(table["found"] >= 0, ids[table["found"]], ""),
            )
            frames.append(named)
    write_parquet(folder / "queries.parquet", pd.concat(frames, ignore_index=True))
    _write_protocols(folder, result)


def _write_protocols(folder: Path, result: EvaluationResult) -> None:
    """Writes ``protocols.json``: what reports call each protocol, and what its queries were ranked against."""
    words = {name: {**asdict(task.words), "against": task.against} for name, task in result.queries.items()}
    write_text(folder / PROTOCOLS, json.dumps(words, indent=2) + "\n")
