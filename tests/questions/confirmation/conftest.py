"""A tracker whose duplicates on weekends wait long: 400 reports, three a day, every fourth marked as a duplicate."""

import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.corpus import Corpus, Documents
from gedbd.corpora.readers.bug_reports import DOCUMENT_FIELDS
from gedbd.corpora.relevance import Groups, Links

NUM_REPORTS = 400
WORDS = ("parser", "index", "folder", "theme", "reply", "crash", "slow", "wrong")


@pytest.fixture(scope="session")
def waiting_corpus() -> Corpus:
    """The corpus; report 4k is a duplicate of report 4k - 3."""
    count = NUM_REPORTS
    rng = np.random.default_rng(0)
    created_at = pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(np.arange(count) * 8, unit="h")
    table = pd.DataFrame("", index=range(count), columns=list(DOCUMENT_FIELDS))
    table["id"] = [str(number) for number in range(count)]
    table["title"] = [" ".join(rng.choice(WORDS, 4)) for _ in range(count)]
    table["description"] = [" ".join(rng.choice(WORDS, 9)) for _ in range(count)]
    table["component"] = rng.choice(WORDS[:4], count)
    table["created_at"] = created_at
    query = np.arange(4, count, 4)
    waits = np.where(created_at[query].day_of_week >= 5, 300, 2) * rng.uniform(0.8, 1.2, len(query))
    made_at = created_at[query] + pd.to_timedelta(waits, unit="h")
    # Every third report stays open; a duplicate is resolved when its link is made.
    resolved_at = pd.Series(created_at + pd.to_timedelta(rng.uniform(1, 900, count), unit="h"))
    table["resolved_at"] = resolved_at.mask(np.arange(count) % 3 == 0)
    table.loc[query, "resolved_at"] = made_at
    links = Links(
        pd.DataFrame({"query": query, "document": query - 3, "source": "column", "made_at": made_at}), count, count
    )
    return Corpus(Documents("small", table), Groups.from_links(links), links)
