"""Comments as queries, hidden names, and BM25 on code."""

import numpy as np
import pandas as pd
import pytest

from gedbd.tasks.code_probe.queries import bm25_scores, draw_queries, hide_name, query_of


@pytest.mark.parametrize(
    ("comment", "query"),
    [
        ("Returns the id. May be null. Never fails.\n\n@return the id", "Returns the id. May be null."),
        (
            "Calls {@link Session#getId() its id} for <code>all</code> users.",
            "Calls Session#getId() its id for all users.",
        ),
        ("@param a the first\n@return the sum of both", ""),
        ("Too short.", ""),
        ("Reads e.g. a file\nover two lines.", "Reads e.g. a file over two lines."),
        ("{@inheritDoc}", ""),
    ],
)
def test_a_query_is_the_first_two_sentences(comment, query):
    assert query_of(comment) == query


def test_only_whole_names_are_hidden():
    code = "int get(int target) { get$(1); return this.get(target) + getAll(); }"
    assert hide_name(code, "get") == "int hidden(int target) { get$(1); return this.hidden(target) + getAll(); }"


def test_no_query_occurs_twice():
    comments = ["Closes the open file.", "", "Closes the open file.", "Opens the closed file."]
    table = pd.DataFrame({"title": list("abcd"), "description": ["a()", "b()", "c()", "d()"], "comment": comments})
    sample = draw_queries(table, np.array([2, 1, 0, 3]), 5)
    assert sample.rows.tolist() == [2, 3]
    assert sample.codes == ["c()", "d()"]
    assert sample.hidden == ["hidden()", "hidden()"]
    assert len(draw_queries(table, np.array([2, 1, 0, 3]), 1)) == 1


def test_bm25_reads_the_words_of_identifiers():
    scores = bm25_scores(["session id", "report_file"], ["void getSessionId() { }", "int writeReport() { }"])
    assert (scores.argmax(axis=1) == [0, 1]).all()
    assert scores[0, 1] == 0
