"""Read several trackers as one corpus, to train one encoder on them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.auto import read_auto

Export = str | Mapping[str, Any]  # a path, or options of ``read_auto``


def read_trackers(name: str, paths: Sequence[Export], held_out: Sequence[Export] = ()) -> Corpus:
    """Reads each tracker as ``dataset=auto`` does, and appends their reports: those of one tracker stay together.

    Args:
        name: Short name of the corpus.
        paths: The trackers to train on: each a file or folder, or a mapping with ``path`` and further options, such as
            ``{path: reports.csv, links: duplicates.csv, name: askubuntu}``.
        held_out: Trackers that training does not read, likewise; they follow the others.

    Returns:
        The corpus. Its table has two more columns: ``tracker``, the tracker's name, and ``held_out``. Ids are
        ``TRACKER:ID``. There are no dates: rows are in the order of their creation within a tracker only.

    Raises:
        ValueError: If there is no tracker to train on, two have the same name, or one cannot be read.
    """
    for option, exports in (("paths", paths), ("held_out", held_out)):
        if isinstance(exports, str) or not all(isinstance(export, str) or "path" in export for export in exports):
            raise ValueError(
                f"dataset.{option}={exports} must be a list of paths, or of options with a path:"
                " [a.csv,{path: b.csv, links: duplicates.csv}]"
            )
    if not paths:
        raise ValueError("dataset.paths=[] names no tracker to train on: set it to one or more exports, [a.csv,b.csv]")
    tables: list[pd.DataFrame] = []
    groups: list[np.ndarray] = []
    warnings: list[str] = []
    sources: dict[str, str] = {}  # the export of each tracker
    for export in (*paths, *held_out):
        options = {"path": export} if isinstance(export, str) else dict(export)
        corpus = read_auto(**{"name": None, **options})
        tracker = corpus.name
        if tracker in sources:
            raise ValueError(
                f"dataset.paths and dataset.held_out name the tracker {tracker} twice, {sources[tracker]} and"
                f" {options['path']}: leave one out, or set its name, {{path: {options['path']}, name: other}}"
            )
        is_held_out = len(sources) >= len(paths)
        sources[tracker] = options["path"]
        # A group has the number of its oldest row, which moves with the rows.
        groups.append(corpus.group + sum(map(len, tables)))
        ids = f"{tracker}:" + corpus.reports["id"]
        tables.append(corpus.reports.assign(id=ids, tracker=tracker, held_out=is_held_out))
        warnings += [f"{tracker}: {warning}" for warning in corpus.warnings]
    table = pd.concat(tables, join="inner", ignore_index=True)
    undated = table["created_at"].where(np.zeros(len(table), dtype=bool))
    joined = Corpus.of_table(name, table.assign(created_at=undated), np.concatenate(groups))
    return replace(joined, documents=replace(joined.documents, warnings=tuple(warnings)))
