import numpy as np
import pandas as pd
import pytest

from gedbd.retrieval.scorers.scorer_contract import ScorerInputs
from gedbd.retrieval.scorers.simple_scorers import KnownDuplicates

TABLE = pd.DataFrame({"title": list("abcdef")})
# Groups 0 0 2 0 4 4: documents 0, 1 and 3 are duplicates, and so are 4 and 5.
TRAIN = pd.DataFrame({"query": [1, 3, 5, 5], "document": [0, 1, 4, 2], "label": [1, 1, 1, 0]})


def fitted() -> KnownDuplicates:
    scorer = KnownDuplicates()
    scorer.fit(ScorerInputs(TABLE, TABLE, TRAIN))
    return scorer


def test_the_size_of_a_group_counts_documents_before_the_query_only():
    scores = np.exp(fitted().scores(np.array([0, 2, 3, 5])))
    np.testing.assert_allclose(scores[:, :2], [[1, 1], [2, 2], [2, 2], [3, 3]], rtol=1e-6)
    np.testing.assert_allclose(scores[:, 2], 1)
    np.testing.assert_allclose(scores[:, 4], 1, rtol=1e-6)  # 5 is the query itself, and 4 the only one before it


def test_two_tables_are_refused():
    with pytest.raises(ValueError, match="known_duplicates compares documents of one table"):
        KnownDuplicates().fit(ScorerInputs(TABLE, TABLE.copy(), TRAIN))
