import numpy as np
import pytest

from gedbd.retrieval.reports.report_scorer import column_names, pair_columns

ORDER = np.array([2, 0, 3, 1])  # candidate 2 is the first ranker's best


def test_scores_go_to_the_candidates_that_they_are_of():
    columns = pair_columns(ORDER, {"cross": np.array([0.5, 0.75, -1.0]), "llm": np.array([np.nan, 1.0])})
    assert column_names(["cross", "llm"]) == ("cross", "cross behind", "llm", "llm behind")
    nan = np.nan
    expected = [[0.75, 0, 1, 0], [nan, nan, nan, nan], [0.5, -0.25, nan, nan], [-1, -1.75, nan, nan]]
    assert columns == pytest.approx(np.array(expected), nan_ok=True)
    assert columns.dtype == np.float32


def test_no_scorer_no_candidate_and_no_score():
    assert pair_columns(ORDER, {}).shape == (4, 0)
    assert pair_columns(np.array([], dtype=int), {"cross": np.empty(0)}).shape == (0, 2)
    assert np.isnan(pair_columns(ORDER, {"llm": np.full(3, np.nan)})).all()
