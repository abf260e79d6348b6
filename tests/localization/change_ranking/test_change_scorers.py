"""Scorers over tables of changes, on a history of six commits: hand-made numbers, and nothing after the report."""

import bm25s
import numpy as np
import pandas as pd
import pytest
from small_history import START, changed, commit, hunk
from small_history import tables as tables_of
from small_reports import PrecomputedScores

from gedbd.localization.change_ranking.file_names import FileNames, FileRecency, NumFilesScorer, StackTraceHits
from gedbd.localization.training.compared_methods import BestPart
from gedbd.retrieval.scorers.bm25 import CodeBm25, StructuredBm25, structured_texts
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs
from gedbd.text.words import CodeWords

HISTORY = [  # the day, the message, and the lines of each file
    (0, "Add parser", {"src/JspUtil.java": ["+class JspUtil {", "+  void check(String httpServer) {"]}),
    (2, "Add server\nlistens", {"src/HttpServer.java": ["+int port;"], "src/Request.java": ["+Request r;"]}),
    (2, "Fix parser", {"src/JspUtil.java": ["-// httpServer is read", "+  check(port);"], "web.xml": ["+<a/>"]}),
    (5, "Merge", {}),
    (6, "Rename port", {"src/HttpServer.java": ["-int port;", "+int serverPort;"]}),
    (9, "Later", {"src/JspUtil.java": ["+HttpServer port check"], "src/Request.java": ["+JspUtil"]}),
]
REPORTS = [  # the day, the title, and the description
    (
        4,
        "HttpServer ignores the port",
        "JspUtil says\n at a.JspUtil.check(JspUtil.java:3)\n at a.Request.run(Request.java)",
    ),
    (
        8,
        "request fails",
        "at java.util.List.get(List.java)\nat a.HttpServer$Port.x(Unknown Source)\nat a.JspUtil.no(JspUtil.java)",
    ),
    (0, "nothing is before", "this report"),
    (20, "", ""),
]


@pytest.fixture(scope="module")
def tables():
    def commit_of(row, day, message, lines):
        return commit(row, message, *(changed(path, hunk(1, own)) for path, own in lines.items()), day=day)

    return tables_of([commit_of(row, *values) for row, values in enumerate(HISTORY)])


@pytest.fixture(scope="module")
def reports() -> pd.DataFrame:
    table = pd.DataFrame(REPORTS, columns=["day", "title", "description"])
    return table.assign(created_at=START + pd.to_timedelta(table["day"], unit="D"))


def make_inputs(documents: pd.DataFrame, reports: pd.DataFrame, pairs: tuple[tuple[int, int, int], ...] = ()):
    return ScorerInputs(documents, reports, pd.DataFrame(pairs, columns=["query", "document", "label"], dtype=np.int64))


def fitted(scorer, documents, reports):
    scorer.fit(make_inputs(documents, reports))
    return scorer


SCORERS = {
    **{f"bm25_{field}": lambda field=field: CodeBm25(field) for field in ("diff", "message", "paths", "all")},
    **{f"trace_{hit}": lambda hit=hit: StackTraceHits(hit) for hit in ("file", "method")},
    **{"names": FileNames, "structured": StructuredBm25, "recency": FileRecency, "num_files": NumFilesScorer},
}


@pytest.mark.parametrize("granularity", ["commits", "files", "hunks"])
@pytest.mark.parametrize("name", SCORERS)
def test_later_documents_change_nothing(name, granularity, tables, reports):
    documents = getattr(tables, granularity).table
    scorer = fitted(SCORERS[name](), documents, reports)
    scores = scorer.scores(np.arange(len(reports)))
    assert scores.shape == (len(reports), len(documents))
    assert scorer.earlier_only
    for row, before in enumerate(scorer.num_earlier_):
        alone = fitted(SCORERS[name](), documents[:before], reports).scores(np.array([row]))[0]
        if name == "num_files":  # the files of a commit have one date
            assert before == 0 or documents["commit"][before - 1] < documents["commit"].get(before, np.inf)
        np.testing.assert_array_equal(scores[row, :before], alone)
        assert (scores[row, before:] == scores[row, :before].min(initial=np.inf if before else 0)).all()


def test_bm25_equals_that_of_bm25s_over_the_earlier_documents(tables, reports):
    documents = tables.commits.table
    scores = fitted(CodeBm25(), documents, reports).scores(np.array([1]))[0, :5]
    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    index.index(CodeWords()(documents["diff"][:5]), show_progress=False)
    text = reports["title"][1] + "\n" + reports["description"][1]
    words = [word for word in CodeWords().of_text(text) if word in index.vocab_dict]
    np.testing.assert_array_equal(scores, index.get_scores(words))


def test_the_structured_score_is_the_sum_over_all_pairs_of_fields(tables, reports):
    documents = tables.commits.table
    together = fitted(StructuredBm25(), documents, reports).scores(np.array([1]))[0]
    total = np.zeros(len(documents))
    for texts in structured_texts(documents).values():
        for field in ("title", "description"):
            asked = reports.assign(title=reports[field], description="")
            total += fitted(CodeBm25(), documents.assign(diff=texts), asked).scores(np.array([1]))[0]
    np.testing.assert_allclose(together[:5], total[:5], rtol=1e-5)
    assert len(np.unique(together[:5])) > 3


def test_file_names_by_hand(tables, reports):
    scorer = fitted(FileNames(), tables.commits.table, reports)
    # JspUtil is in 2 of the 3 earlier commits, HttpServer in 1.
    np.testing.assert_allclose(scorer.scores(np.array([0]))[0, :3], np.log([4 / 2.5, 4 / 1.5, 4 / 2.5]), rtol=1e-6)
    assert fitted(FileNames(), tables.commits.table, reports).scores(np.array([1]))[0, 3] == 0


def test_stack_traces_by_hand(tables, reports):
    files = fitted(StackTraceHits(), tables.commits.table, reports).scores(np.array([0, 1]))
    assert files[0, :3].tolist() == [1, 0.5, 1]
    assert files[1, :5].tolist() == [0.5, 1, 0.5, 0, 1]
    methods = fitted(StackTraceHits("method"), tables.commits.table, reports).scores(np.array([0, 1]))
    assert methods[0, :3].tolist() == [1, 0, 0]
    assert methods[1, :5].tolist() == [0] * 5


def test_recency_and_number_of_files_by_hand(tables, reports):
    recency = fitted(FileRecency(), tables.commits.table, reports).scores(np.array([1]))[0, :5]
    np.testing.assert_allclose(recency, -np.log1p([6, 2, 6, 8, 2]), rtol=1e-6)
    undated = fitted(
        FileRecency(), tables.commits.table, reports.assign(created_at=pd.to_datetime([None] * 4, utc=True))
    ).scores(np.array([1]))[0]
    np.testing.assert_allclose(undated, -np.log1p([1, 1, 1, 6, 2, 1]), rtol=1e-6)
    counts = fitted(NumFilesScorer(), tables.commits.table, reports).scores(np.array([3]))[0]
    np.testing.assert_allclose(counts, np.log1p([1, 2, 2, 0, 1, 2]), rtol=1e-6)
    by_file = fitted(NumFilesScorer(), tables.files.table, reports).scores(np.array([3]))[0]
    np.testing.assert_allclose(by_file, np.log1p([1, 2, 2, 2, 2, 1, 2, 2]), rtol=1e-6)


class Recording(PrecomputedScores):
    """Keeps what it is fitted to."""

    def fit(self, inputs: ScorerInputs) -> None:
        self.inputs_ = inputs


def test_training_pairs_reach_the_parts(tables, reports):
    files = tables.files.table
    scorer = BestPart(Recording(np.zeros((4, len(files)))), files, "commit")
    scorer.fit(make_inputs(tables.commits.table, reports, ((1, 1, 1), (1, 3, 0), (1, 4, 0))))
    assert scorer.scorer.inputs_.train[["query", "document", "label"]].to_numpy().tolist() == [
        [1, 1, 1],
        [1, 2, 1],
        [1, 5, 0],
    ]
    with pytest.raises(ValueError, match="beyond the 2 documents"):
        scorer.fit(make_inputs(tables.commits.table[:2], reports))
