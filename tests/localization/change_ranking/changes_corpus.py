"""A small corpus of reports and changes."""

import numpy as np
import pandas as pd
from small_history import DAY, START, made_commits, tables

from gedbd.corpora.corpus import ChangeCorpus, Corpus, Documents
from gedbd.corpora.relevance import Groups, Links
from gedbd.localization.change_ranking.change_training import ChangeTrainingOptions

NUM_COMMITS, NUM_REPORTS, NUM_TRAIN = 100, 46, 28
FAST = ChangeTrainingOptions(num_seeds=1, rounds=12)


def made_corpus() -> ChangeCorpus:
    """Reports that name the class whose last change but one induced their bug; a later change of the class fixes it."""
    rng = np.random.default_rng(1)
    built = tables(made_commits(NUM_COMMITS))
    paths = built.commits.table["paths"]
    reports, fixing, inducing = [], [], []
    for number in range(NUM_REPORTS):
        before = 40 + number
        path = paths[int(rng.integers(before))]
        earlier = [row for row in range(before) if paths[row] == path]
        later = [row for row in range(before, NUM_COMMITS) if paths[row] == path]
        name = path.rpartition("/")[2].removesuffix(".java")
        fixing.append(later[0] if later else NUM_COMMITS - 1)
        inducing.append(earlier[-1])
        reports.append((str(number), f"{name} broken", f"calls handle{name} often", START + DAY * (before - 0.5)))
    table = pd.DataFrame(reports, columns=["id", "title", "description", "created_at"])
    rows = np.arange(NUM_REPORTS)
    return ChangeCorpus(
        "small",
        Corpus(Documents("small", table), Groups(rows)),
        built.commits,
        built.files,
        built.hunks,
        links(fixing, NUM_COMMITS),
        {"commit": links(inducing, NUM_COMMITS)},
    )


def links(documents, count) -> Links:
    table = pd.DataFrame({"query": np.arange(len(documents)), "document": documents})
    return Links(table.assign(source="test", made_at=pd.NaT), len(documents), count)
