"""The pairs and queries of a run for other programs: as Parquet files, or as a BEIR folder that its reader loads."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hydra.utils import get_class
from rich.console import Console

from gedbd.corpora.corpus import PARTS, TEST, VAL
from gedbd.experiments.corpus_reading import read_corpus
from gedbd.experiments.model_card import render_markdown
from gedbd.experiments.prepare import PreparedData, prepare_corpus
from gedbd.experiments.run_folder import NOT_ENCODING, PREDICTIONS, Run, check_corpus, read_saved
from gedbd.io.console import print_line, stage
from gedbd.io.files import whole_folder, write_text
from gedbd.io.table_files import write_parquet
from gedbd.retrieval.ranking_tasks import RankingTask

SECTIONS = ("labels", "pairs", "ranking")
PAIR = ["id_1", "id_2", "label", "part"]
SPLITS = {PARTS[VAL]: "dev", PARTS[TEST]: "test"}  # BEIR's names of the splits
QRELS = ["query-id", "corpus-id", "score"]
GROUPS = (
    "BEIR's metrics count documents. Those of gedbd count duplicate groups: only the best report of a group has a rank."
    " So figures of the two differ where groups have several earlier reports."
)
DOCUMENTS = "Metrics count documents, as those of gedbd do by this protocol."


@stage("export pairs and queries")
def export_pairs(folder: Path, out: Path, console: Console) -> None:
    """Writes reports, pairs, queries, their candidates, and what the run scored, with a README.

    The folder ``out`` must not exist or must be empty.

    Raises:
        ValueError: If the run is unfinished or of another kind, its corpus has changed, or other pairs are drawn now.
    """
    run, prepared = read_drawn(folder, needs_scores=True)
    ids = prepared.corpus.reports["id"].to_numpy(dtype=object)
    drawn_ids = {"id_1": ids[prepared.pairs["earlier"]], "id_2": ids[prepared.pairs["later"]]}
    pairs = prepared.pairs.assign(**drawn_ids)[PAIR]
    scores = [name for name in run.predictions if str(name).startswith("score")]
    predictions = run.predictions[[*PAIR, "predicted", *scores]]
    drawn = pairs[pairs["part"].isin(predictions["part"].unique())]
    if len(drawn) != len(predictions) or len(drawn.merge(predictions, on=PAIR)) != len(drawn):
        raise ValueError(
            f"run={folder}: other pairs are drawn now than the run has scored: export with the version of gedbd and the"
            f" feedback that it was made with ({folder}/versions.json)"
        )
    tables = {"reports": _reports(prepared), "pairs": pairs, "predictions": predictions, **query_tables(prepared, ids)}
    if run.queries is not None:
        tables["ranks"] = run.queries[["protocol", "part", "method", "id", "rank"]]
    with whole_folder(out) as fresh:
        for name, table in tables.items():
            write_parquet(fresh / f"{name}.parquet", table)
        write_text(fresh / "README.md", _readme(run))
    print_line(console, ", ".join(f"{name} {len(table):,}" for name, table in tables.items()))


def read_drawn(folder: Path, needs_scores: bool = False) -> tuple[Run, PreparedData]:
    """Reads a run, and draws its reports, pairs and queries again.

    Raises:
        ValueError: If the run draws no pairs, has scored none that are needed, or its corpus has changed.
    """
    saved = read_saved(folder, left_out=(*NOT_ENCODING, "encoder", "backend"))
    absent = [name for name in SECTIONS if name not in saved]
    if absent:
        raise ValueError(f"run={folder}: it has drawn no pairs (no section {absent[0]}): give a run of another task")
    if needs_scores and not (folder / PREDICTIONS).is_file():
        raise ValueError(f"run={folder} has scored no pairs: finish it, or give a run of task=duplicates")
    corpus = read_corpus(saved.dataset)
    check_corpus(folder, corpus)
    return Run(folder), prepare_corpus(saved, corpus)


def _reports(prepared: PreparedData) -> pd.DataFrame:
    reports = prepared.corpus.reports
    parts = np.array([*PARTS, ""], dtype=object)  # -1, which means no split, selects the last entry
    return reports[["id", "title", "description", "created_at"]].assign(
        group=reports["id"].to_numpy(dtype=object)[prepared.corpus.group], part=parts[prepared.parts]
    )


def query_tables(prepared: PreparedData, ids: np.ndarray) -> dict[str, pd.DataFrame]:
    """The tables ``queries``, ``candidates`` and ``relevant`` of all protocols and splits."""
    frames: dict[str, list[pd.DataFrame]] = {"queries": [], "candidates": [], "relevant": []}
    for part, protocols in prepared.queries.items():
        for protocol, task in protocols.items():
            keys = {"protocol": protocol, "part": part}
            query_ids = ids[task.queries]
            relevant = [task.relevant(index) for index in range(len(task))]
            repeated = np.repeat(query_ids, [len(rows) for rows in relevant])
            frames["queries"].append(pd.DataFrame({**keys, "id": query_ids, "unit": task.words.unit}))
            frames["candidates"].append(_candidates(task, query_ids).assign(**keys))
            frames["relevant"].append(pd.DataFrame({**keys, "id": repeated, "relevant": ids[np.concatenate(relevant)]}))
    order = ["protocol", "part", "id"]
    tables = {name: pd.concat(parts, ignore_index=True) for name, parts in frames.items() if parts}
    return {name: table[[*order, *table.columns.difference(order)]] for name, table in tables.items()}


def _candidates(task: RankingTask, query_ids: np.ndarray) -> pd.DataFrame:
    """The candidates of each query as ranges of rows: 0, 1, 2 and 5 are those from 0 to 3 and from 5 to 6."""
    starts = []
    stops = []
    counts = []
    for index in range(len(task)):
        rows = task.candidates(index)
        gaps = np.flatnonzero(np.diff(rows) > 1)
        starts.append(rows[np.concatenate([[0], gaps + 1])] if len(rows) else rows)
        stops.append(rows[np.concatenate([gaps, [len(rows) - 1]])] + 1 if len(rows) else rows)
        counts.append(len(starts[-1]))
    return pd.DataFrame(
        {"id": np.repeat(query_ids, counts), "start": np.concatenate(starts), "stop": np.concatenate(stops)}
    )


def _readme(run: Run) -> str:
    cfg = run.config
    own = run.results.iloc[0]
    scores = [f"F1 {own['f1']:.3f}"]
    protocol = None
    if run.ranking is not None and "rr@10" in run.ranking:
        protocol = next(iter(run.protocols))
        scores.append(f"RR@10 {run.ranking.loc[run.ranking['method'] == run.method, 'rr@10'].iloc[0]:.3f}")
    options = ", ".join(f"{key}={value}" for key, value in cfg.split.items() if key != "_target_")
    return render_markdown(
        "pairs_export.md.j2",
        corpus=run.corpus,
        label=run.label,
        method=run.method,
        split=f"{get_class(cfg.split._target_).__name__} ({options})",
        known=cfg.labels.fraction,
        part=run.part,
        protocol=protocol,
        scores=" and ".join(scores),
    )


@stage("export queries for BEIR")
def export_beir(folder: Path, out: Path, protocol: str | None, console: Console) -> None:
    """Writes the reports, queries, relevant reports and candidates of a run in BEIR's format, with a README.

    The folder ``out`` must not exist or must be empty; the default protocol is the run's first one.

    Raises:
        ValueError: If the run is of another kind, its corpus has changed, or it has no such protocol.
    """
    run, prepared = read_drawn(folder)
    reports = prepared.corpus.reports
    tables = query_tables(prepared, reports["id"].to_numpy(dtype=object))
    if "queries" not in tables:
        raise ValueError(f"run={folder} has no queries: no report of its parts has an earlier duplicate")
    names = list(dict.fromkeys(tables["queries"]["protocol"]))
    chosen = names[0] if protocol is None else protocol
    if chosen not in names:
        raise ValueError(f"queries={chosen}: run={folder} has the protocols {', '.join(names)}")
    chosen_tables = {
        name: table[(table["protocol"] == chosen) & table["part"].isin(SPLITS)] for name, table in tables.items()
    }
    text = reports.set_index("id")
    with whole_folder(out) as fresh:
        days = ["" if pd.isna(moment) else moment.isoformat() for moment in reports["created_at"]]
        documents = zip(reports["id"], reports["title"], reports["description"], days, strict=True)
        _write_lines(
            fresh / "corpus.jsonl",
            ({"_id": id_, "title": t, "text": d, "metadata": {"created_at": day}} for id_, t, d, day in documents),
        )
        query_ids = chosen_tables["queries"]["id"].drop_duplicates()
        # As BEIR's encoders join title and text of a document.
        words = (text["title"] + " " + text["description"]).str.strip()
        _write_lines(fresh / "queries.jsonl", ({"_id": query, "text": words[query]} for query in query_ids))
        for part, split in SPLITS.items():
            split_tables = {name: table[table["part"] == part] for name, table in chosen_tables.items()}
            if split_tables["queries"].empty:
                continue
            qrels = split_tables["relevant"].rename(columns={"id": QRELS[0], "relevant": QRELS[1]}).assign(score=1)
            ranges = split_tables["candidates"].rename(columns={"id": QRELS[0]})
            for name, table in (("qrels", qrels[QRELS]), ("candidates", ranges[[QRELS[0], "start", "stop"]])):
                (fresh / name).mkdir(exist_ok=True)
                table.to_csv(fresh / name / f"{split}.tsv", sep="\t", index=False)
        unit = GROUPS if (chosen_tables["queries"]["unit"] == "groups").any() else DOCUMENTS
        tasks = [prepared.queries[part][chosen] for part in SPLITS if chosen in prepared.queries.get(part, {})]
        against = "; ".join(task.against for task in tasks)
        readme = render_markdown("beir_export.md.j2", corpus=run.corpus, protocol=chosen, against=against, unit=unit)
        write_text(fresh / "README.md", readme)
    counts = {"documents": len(reports), "queries": len(query_ids), "relevant": len(chosen_tables["relevant"])}
    print_line(console, ", ".join(f"{name} {count:,}" for name, count in counts.items()))


def _write_lines(path: Path, values: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(value) + "\n" for value in values)
