"""Leaves the merges out of a history that is replayed, as ``gedbd locate`` does."""

from dataclasses import replace

import numpy as np

from gedbd.corpora.changes import ChangeCorpus
from gedbd.corpora.documents import Documents
from gedbd.corpora.relevance import Links


def without_merges(corpus: ChangeCorpus) -> tuple[ChangeCorpus, tuple[str, ...]]:
    """The commits that are no merges, with their files, hunks and links, and counts of what is left out, in words.

    What a merge changes is changed by the commits that it merges. The rows of the tables are numbered again.
    """
    kept = {"commit": ~corpus.commits.table["is_merge"].to_numpy(dtype=bool)}
    num_merges = int((~kept["commit"]).sum())
    if not num_merges:
        return corpus, ()
    for granularity, table in (("file", corpus.files.table), ("hunk", corpus.hunks.table)):
        kept[granularity] = kept["commit"][table["commit"].to_numpy(dtype=np.int64)]
    rows = {granularity: np.cumsum(mask) - 1 for granularity, mask in kept.items()}  # kept 1 0 1: rows 0 0 1
    inducing = {name: _links(links, kept[name], rows[name]) for name, links in corpus.inducing.items()}
    fixing = None if corpus.fixing is None else _links(corpus.fixing, kept["commit"], rows["commit"])
    counts = [f"merges left out of the candidates, as gedbd locate leaves them out: {num_merges:,}"]
    for what, before, after in (
        ("inducing", corpus.inducing.get("commit"), inducing.get("commit")),
        ("fixing", corpus.fixing, fixing),
    ):
        if before is not None and after is not None and len(after) < len(before):
            counts.append(f"links to {what} commits left out, as these are merges: {len(before) - len(after):,}")
    reduced = replace(
        corpus,
        commits=_documents(corpus.commits, kept["commit"], {"commit": rows["commit"]}),
        files=_documents(corpus.files, kept["file"], {"commit": rows["commit"]}),
        hunks=_documents(corpus.hunks, kept["hunk"], {"commit": rows["commit"], "file": rows["file"]}),
        fixing=fixing,
        inducing=inducing,
    )
    return reduced, tuple(counts)


def _documents(documents: Documents, kept: np.ndarray, numbers: dict[str, np.ndarray]) -> Documents:
    """The kept rows of a table; ``numbers`` gives the new row of each old one, by the column that names them."""
    table = documents.table[kept].reset_index(drop=True)
    renumbered = {name: rows[table[name].to_numpy(dtype=np.int64)] for name, rows in numbers.items()}
    return replace(documents, table=table.assign(**renumbered))


def _links(links: Links, kept: np.ndarray, rows: np.ndarray) -> Links:
    """The links to kept documents."""
    table = links.table[kept[links.table["document"].to_numpy(dtype=np.int64)]].reset_index(drop=True)
    table = table.assign(document=rows[table["document"].to_numpy(dtype=np.int64)])
    return Links(table, links.num_queries, int(kept.sum()))
