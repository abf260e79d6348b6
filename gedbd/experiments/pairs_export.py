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
from gedbd.experiments.prepare import PreparedData, prepare_corpus
from gedbd.experiments.run_folder import NOT_ENCODING, PREDICTIONS, Run, check_corpus, read_saved
from gedbd.io.console import print_line, stage
from gedbd.io.files import whole_folder, write_text
from gedbd.io.table_files import write_parquet
from gedbd.retrieval.ranking_tasks import RankingTask

SECTIONS = ("labels", "pairs", "ranking")
PAIR = ["id_1", "id_2", "label", "part"]
README = """\
# Pairs and queries of {corpus}

Reports, split, pairs and queries of a run of gedbd ({method}), and what the run scored: to compare another method on
the same pairs. Split: {split}. Known share of the training part's groups: {known}.

**`reports.parquet` holds the reports' texts: share it only if you may share these.**

| file | one row for each | columns |
|---|---|---|
| `reports.parquet` | report, in chronological order | id, title, description, created_at (UTC), group (id of the \
oldest report of its duplicate group), part (empty: none) |
| `pairs.parquet` | pair that was drawn | id_1 (the earlier report), id_2, label (1: duplicates), part |
| `predictions.parquet` | scored pair of the parts val and {part} | id_1, id_2, label, part, score and predicted (of \
the run's own method), scores of its other methods |
| `queries.parquet` | query of a protocol | protocol, part, id, unit (what a rank counts) |
| `candidates.parquet` | range of candidates of a query | protocol, part, id, start, stop: the rows start to stop - 1 \
of `reports.parquet`, counted from 0 |
| `relevant.parquet` | report that a query should find | protocol, part, id, relevant |
| `ranks.parquet` | query of the part {part} and method of the run | protocol, part, method, id, rank of the first \
relevant report (missing: none is among the candidates) |

Where the unit is groups, a group has the score of its best candidate, and ranks count groups. Scores are compared in
float32; of equal ones, the older report comes first.

```python
import pandas as pd

scored = pd.read_parquet("predictions.parquet").query("part == '{part}'")
hits = (scored["label"] * scored["predicted"]).sum()
print("F1", 2 * hits / (scored["label"].sum() + scored["predicted"].sum()))
{ranks}```

The run has {scores}.
"""
RANKS = """\
ranks = pd.read_parquet("ranks.parquet").query("protocol == '{protocol}' and method == '{method}'")
print("RR@10", (ranks["rank"] <= 10).mean())
"""
SPLITS = {PARTS[VAL]: "dev", PARTS[TEST]: "test"}  # BEIR's names of the parts
QRELS = ["query-id", "corpus-id", "score"]
BEIR_README = """\
# {corpus} as a BEIR data set

`corpus.jsonl`, `queries.jsonl` and `qrels/*.tsv` are those of [BEIR](https://github.com/beir-cellar/beir): documents
are bug reports, queries are reports that repeat another one, and the relevant documents of a query are its duplicates.
**The files hold the reports' texts: share them only if you may share these.**

- Reports lie in `corpus.jsonl` in chronological order. A query is a document too, under the same id.
- **`candidates/*.tsv` is not part of BEIR's format, and without it this is another task.** It says which documents a
  query may find, as ranges of rows of `corpus.jsonl` from `start` to `stop - 1`, counted from 0 (protocol
  `{protocol}`: {against}).
- {unit}
- Split by time: `dev` are older queries than `test`; methods are chosen on `dev`.

Leave out of BEIR's results, a score for each document of each query, what a query may not find:

```python
import json

import pandas as pd

ids = [json.loads(line)["_id"] for line in open("corpus.jsonl", encoding="utf-8")]
ranges = pd.read_csv("candidates/test.tsv", sep="\\t", dtype={{"query-id": str}})
allowed = {{query: set() for query in ranges["query-id"]}}
for query, start, stop in ranges.itertuples(index=False):
    allowed[query].update(ids[start:stop])
results = {{
    query: {{document: score for document, score in scores.items() if document in allowed[query]}}
    for query, scores in results.items()
}}
```
"""
GROUPS = (
    "BEIR's metrics count documents. Those of gedbd count duplicate groups: only the best report of a group has a rank."
    " So figures of the two differ where groups have several earlier reports."
)
DOCUMENTS = "Metrics count documents, as those of gedbd do by this protocol."


@stage("export pairs and queries")
def export_pairs(folder: Path, out: Path, console: Console) -> None:
    """Writes reports, pairs, queries, their candidates, and what the run scored, with a README.

    The folder ``out`` does not exist or is empty.

    Raises:
        ValueError: If the run is unfinished or of another kind, its corpus has changed, or other pairs are drawn now.
    """
    run, prepared = read_drawn(folder, needs_scores=True)
    ids = prepared.corpus.reports["id"].to_numpy(dtype=object)
    pairs = pd.DataFrame(
        {
            "id_1": ids[prepared.pairs["earlier"]],
            "id_2": ids[prepared.pairs["later"]],
            "label": prepared.pairs["label"].to_numpy(),
            "part": prepared.pairs["part"].to_numpy(),
        }
    )
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
    """A run, and the reports, pairs and queries that its options draw.

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
    parts = np.array([*PARTS, ""], dtype=object)  # the part -1, which is none, is the last
    return reports[["id", "title", "description", "created_at"]].assign(
        group=reports["id"].to_numpy(dtype=object)[prepared.corpus.group], part=parts[prepared.parts]
    )


def query_tables(prepared: PreparedData, ids: np.ndarray) -> dict[str, pd.DataFrame]:
    """The tables ``queries``, ``candidates`` and ``relevant`` of all protocols and parts."""
    frames: dict[str, list[pd.DataFrame]] = {"queries": [], "candidates": [], "relevant": []}
    for part, protocols in prepared.queries.items():
        for protocol, task in protocols.items():
            about = {"protocol": protocol, "part": part}
            query_ids = ids[task.queries]
            relevant = [task.relevant(index) for index in range(len(task))]
            repeated = np.repeat(query_ids, [len(rows) for rows in relevant])
            frames["queries"].append(pd.DataFrame({**about, "id": query_ids, "unit": task.words.unit}))
            frames["candidates"].append(_candidates(task, query_ids).assign(**about))
            frames["relevant"].append(
                pd.DataFrame({**about, "id": repeated, "relevant": ids[np.concatenate(relevant)]})
            )
    order = ["protocol", "part", "id"]
    tables = {name: pd.concat(parts, ignore_index=True) for name, parts in frames.items() if parts}
    return {name: table[[*order, *table.columns.difference(order)]] for name, table in tables.items()}


def _candidates(task: RankingTask, named: np.ndarray) -> pd.DataFrame:
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
        {"id": np.repeat(named, counts), "start": np.concatenate(starts), "stop": np.concatenate(stops)}
    )


def _readme(run: Run) -> str:
    cfg = run.config
    own = run.results.iloc[0]
    scores = [f"F1 {own['f1']:.3f}"]
    ranks = ""
    if run.ranking is not None and "rr@10" in run.ranking:
        protocol = next(iter(run.protocols))
        ranks = RANKS.format(protocol=protocol, method=run.method)
        scores.append(f"RR@10 {run.ranking.loc[run.ranking['method'] == run.method, 'rr@10'].iloc[0]:.3f}")
    options = ", ".join(f"{key}={value}" for key, value in cfg.split.items() if key != "_target_")
    return README.format(
        corpus=run.corpus,
        method=run.label,
        split=f"{get_class(cfg.split._target_).__name__} ({options})",
        known=cfg.labels.fraction,
        part=run.part,
        ranks=ranks,
        scores=" and ".join(scores),
    )


@stage("export queries for BEIR")
def export_beir(folder: Path, out: Path, protocol: str | None, console: Console) -> None:
    """Writes the reports, queries, relevant reports and candidates of a run in BEIR's format, with a README.

    The folder ``out`` does not exist or is empty; the protocol is the run's first by default.

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
    own = {name: table[(table["protocol"] == chosen) & table["part"].isin(SPLITS)] for name, table in tables.items()}
    text = reports.set_index("id")
    with whole_folder(out) as fresh:
        _write_lines(fresh / "corpus.jsonl", (_document(row) for row in reports.itertuples(index=False)))
        asked = own["queries"]["id"].drop_duplicates()
        _write_lines(fresh / "queries.jsonl", ({"_id": query, "text": _query(text.loc[query])} for query in asked))
        for part, split in SPLITS.items():
            of_part = {name: table[table["part"] == part] for name, table in own.items()}
            if of_part["queries"].empty:
                continue
            qrels = of_part["relevant"].rename(columns={"id": QRELS[0], "relevant": QRELS[1]}).assign(score=1)
            ranges = of_part["candidates"].rename(columns={"id": QRELS[0]})
            for name, table in (("qrels", qrels[QRELS]), ("candidates", ranges[[QRELS[0], "start", "stop"]])):
                (fresh / name).mkdir(exist_ok=True)
                table.to_csv(fresh / name / f"{split}.tsv", sep="\t", index=False)
        unit = GROUPS if (own["queries"]["unit"] == "groups").any() else DOCUMENTS
        tasks = [prepared.queries[part][chosen] for part in SPLITS if chosen in prepared.queries.get(part, {})]
        against = "; ".join(task.against for task in tasks)
        written = BEIR_README.format(corpus=run.corpus, protocol=chosen, against=against, unit=unit)
        write_text(fresh / "README.md", written)
    counts = {"documents": len(reports), "queries": len(asked), "relevant": len(own["relevant"])}
    print_line(console, ", ".join(f"{name} {count:,}" for name, count in counts.items()))


def _document(row: Any) -> dict[str, Any]:
    day = "" if pd.isna(row.created_at) else row.created_at.isoformat()
    return {"_id": row.id, "title": row.title, "text": row.description, "metadata": {"created_at": day}}


def _query(report: pd.Series) -> str:
    """The text of a query, as BEIR's encoders join title and text of a document."""
    return f"{report['title']} {report['description']}".strip()


def _write_lines(path: Path, values: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(value) + "\n" for value in values)
