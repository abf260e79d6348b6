import numpy as np
import pandas as pd
import pytest

from gedbd.retrieval.scorers.known_duplicates import KnownDuplicates
from gedbd.retrieval.scorers.scorer import ScorerInputs


def test_only_earlier_members_of_training_groups_count():
    """Training pairs 0-2, 2-4 and the negative 1-3: at query 4 the group has two earlier members."""
    train = pd.DataFrame({"earlier": [0, 2, 1], "later": [2, 4, 3], "label": [1, 1, 0]})
    scorer = KnownDuplicates()
    scorer.fit(ScorerInputs.of_reports(pd.DataFrame({"title": [""] * 6}), train))
    scores = scorer.scores(np.array([2, 4, 5]))
    assert scores[0, :2].tolist() == [0, 0]
    np.testing.assert_allclose(scores[1, :4], [np.log(2), 0, np.log(2), 0], atol=1e-6)
    np.testing.assert_allclose(scores[2, :5], [np.log(3), 0, np.log(3), 0, np.log(3)], atol=1e-6)


def test_two_tables_are_refused():
    table = pd.DataFrame({"title": [""]})
    train = pd.DataFrame({"query": [0], "document": [0], "label": [1]})
    with pytest.raises(ValueError, match="one table"):
        KnownDuplicates().fit(ScorerInputs(table, table.copy(), train))
