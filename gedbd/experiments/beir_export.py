"""The queries of a run as a BEIR folder, which the reader of BEIR loads, with the candidates of each query."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from gedbd.corpora.splits import PARTS, TEST, VAL
from gedbd.experiments.pairs_export import query_tables, read_drawn
from gedbd.io.console import print_line, stage
from gedbd.io.files import whole_folder, write_text

SPLITS = {PARTS[VAL]: "dev", PARTS[TEST]: "test"}  # BEIR's names of the parts
QRELS = ["query-id", "corpus-id", "score"]
README = """\
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
    query: {{one: score for one, score in found.items() if one in allowed[query]}} for query, found in results.items()
}}
```
"""
GROUPS = (
    "BEIR's metrics count documents. Those of gedbd count duplicate groups: only the best report of a group has a rank."
    " So figures of the two differ where groups have several earlier reports."
)
DOCUMENTS = "Metrics count documents, as those of gedbd do by this protocol."


@stage("export queries for BEIR")
def export_beir(folder: Path, out: Path, protocol: str | None, console: Console) -> None:
    """Writes the reports, queries, relevant reports and candidates of a run in BEIR's format, with a README.

    Args:
        folder: The folder of a training or baseline on the pairs of one tracker.
        out: A folder that does not exist, or an empty one.
        protocol: How the queries were ranked; None for the run's first protocol.
        console: Where counts go.

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
        _write_lines(fresh / "queries.jsonl", ({"_id": one, "text": _query(text.loc[one])} for one in asked))
        for part, split in SPLITS.items():
            _write_split(fresh, split, {name: table[table["part"] == part] for name, table in own.items()})
        unit = GROUPS if (own["queries"]["unit"] == "groups").any() else DOCUMENTS
        tasks = [prepared.queries[part][chosen] for part in SPLITS if chosen in prepared.queries.get(part, {})]
        against = "; ".join(task.against for task in tasks)
        written = README.format(corpus=run.corpus, protocol=chosen, against=against, unit=unit)
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


def _write_split(folder: Path, split: str, own: Mapping[str, pd.DataFrame]) -> None:
    """Writes the relevant reports and the candidates of a part's queries; nothing of a part without queries."""
    if own["queries"].empty:
        return
    qrels = own["relevant"].rename(columns={"id": QRELS[0], "relevant": QRELS[1]}).assign(score=1)
    ranges = own["candidates"].rename(columns={"id": QRELS[0]})
    for place, table in (("qrels", qrels[QRELS]), ("candidates", ranges[[QRELS[0], "start", "stop"]])):
        (folder / place).mkdir(exist_ok=True)
        table.to_csv(folder / place / f"{split}.tsv", sep="\t", index=False)
