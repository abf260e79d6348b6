"""BM25 finds duplicates in languages with other characters."""

import numpy as np
import pandas as pd
import pytest
from reports_in_five_languages import REPORTS

from gedbd.retrieval.scorers.bm25 import Bm25, TfIdf
from gedbd.retrieval.scorers.rep import Bm25F
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs

IDS = [report[0] for report in REPORTS]
NO_PAIRS = pd.DataFrame({"earlier": [], "later": [], "label": []}, dtype=np.int64)
DUPLICATES = [(IDS.index(own), IDS.index(original)) for own, original, *_ in REPORTS if original]


@pytest.mark.parametrize("scorer", [Bm25(), TfIdf(), Bm25F()], ids=["bm25", "tfidf", "bm25f"])
def test_the_original_of_each_duplicate_comes_first(make_corpus, scorer):
    corpus = make_corpus(range(len(REPORTS)))
    corpus.reports["title"] = [report[2] for report in REPORTS]
    corpus.reports["description"] = [report[3] for report in REPORTS]
    scorer.fit(ScorerInputs.of_reports(corpus.reports, NO_PAIRS))
    queries, originals = map(np.array, zip(*DUPLICATES, strict=True))
    scores = scorer.scores(queries)
    scores[np.arange(len(queries)), queries] = -1
    assert [IDS[row] for row in scores.argmax(axis=1)] == [IDS[row] for row in originals]
