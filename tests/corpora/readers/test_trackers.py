import numpy as np
import pandas as pd
import pytest

from gedbd.configuration.options import compose_options
from gedbd.corpora.readers.trackers import read_trackers
from gedbd.experiments.prepare import prepare_corpus
from gedbd.sampling.splits import HeldOutSplit

MOZILLA = [("7", "Tab crashes", ""), ("9", "No sound", ""), ("12", "Crash of a tab", "7"), ("13", "Mute", "99")]
HADOOP = [("1", "Job hangs", "")]


@pytest.fixture
def exports(tmp_path):
    """Mozilla in a file of a generic name; Hadoop; Ubuntu's titles, whose duplicates are in a second file."""
    (tmp_path / "mozilla").mkdir()
    columns = ["id", "title", "duplicate_of"]
    pd.DataFrame(MOZILLA, columns=columns).to_csv(tmp_path / "mozilla" / "reports.csv.xz", index=False)
    pd.DataFrame(HADOOP, columns=columns).to_csv(tmp_path / "hadoop.csv", index=False)
    rows = {"id": range(1, 11), "title": [f"Question {number}" for number in range(1, 11)]}
    pd.DataFrame(rows | {"body": "", "created": "", "views": ""}).to_csv(tmp_path / "questions.csv", index=False)
    links = pd.DataFrame({"id": [2, 5, 8, 10], "duplicate_of": [1, 4, 1, 5], "confirmed_time": ""})
    links.to_csv(tmp_path / "links.csv", index=False)
    ubuntu = {"path": f"{tmp_path}/questions.csv", "links": f"{tmp_path}/links.csv", "name": "ubuntu"}
    return f"{tmp_path}/mozilla/reports.csv.xz", f"{tmp_path}/hadoop.csv", ubuntu


def test_reports_are_appended_and_groups_move_with_them(exports):
    mozilla, hadoop, ubuntu = exports
    corpus = read_trackers("all", [mozilla, hadoop], [ubuntu])
    ids = [*(f"mozilla:{number}" for number, *_ in MOZILLA), "hadoop:1", *(f"ubuntu:{k}" for k in range(1, 11))]
    assert corpus.reports["id"].tolist() == ids
    # rows 5 to 14 are Ubuntu's: questions 1, 2 and 8 are rows 5, 6 and 12, and 4, 5 and 10 are rows 8, 9 and 14
    assert corpus.group.tolist() == [0, 1, 0, 3, 4, 5, 5, 7, 8, 8, 10, 11, 5, 13, 8]
    assert corpus.reports["held_out"].tolist() == [False] * 5 + [True] * 10
    assert corpus.documents.first_of_tracker.tolist() == [0] * 4 + [4] + [5] * 10
    assert not corpus.documents.has_dates
    assert "mozilla: duplicate links to a report that is not in the file: 1, dropped" in "\n".join(corpus.warnings)


@pytest.mark.parametrize(
    ("paths", "held_out", "message"),
    [
        ([], [0], "dataset.paths=.. names no tracker to train on"),
        ([0, 1], [0], "name the tracker mozilla twice, .*reports.csv.xz and .*reports.csv.xz: leave one out"),
        (["gone.csv"], [], "gone.csv: no such file or folder"),
        ([{"links": "l.csv"}], [], r"dataset.paths=.* must be a list of paths, or of options with a path"),
        ([0], "b.csv", r"dataset.held_out=b.csv must be a list of paths"),
    ],
)
def test_wrong_lists_are_refused_in_one_line(exports, paths, held_out, message):
    chosen = [[exports[e] if isinstance(e, int) else e for e in part] for part in (paths, held_out)]
    with pytest.raises(ValueError, match=message) as raised:
        read_trackers("all", chosen[0], held_out if isinstance(held_out, str) else chosen[1])
    assert "\n" not in str(raised.value)


def test_held_out_trackers_validate_and_test_and_are_ranked_and_paired_alone(exports):
    mozilla, hadoop, ubuntu = exports
    corpus = read_trackers("all", [mozilla, hadoop], [ubuntu])
    words = ["experiment=across_trackers", "dataset.paths=[a]", "pairs.negatives_in_evaluation=4"]
    prepared = prepare_corpus(compose_options("train", words), corpus)
    assert prepared.parts.tolist() == [0] * 5 + [1] * 8 + [2] * 2
    queries = prepared.queries["val"]["earlier"]
    assert queries.queries.tolist() == [6, 9, 12]
    assert queries.against == "all earlier reports of their tracker"
    assert "created before it in its tracker; ranks" in queries.words.text
    assert queries.needed.tolist() == list(range(5, 13))
    assert [queries.candidates(k).tolist() for k in range(3)] == [[5], [5, 6, 7, 8], [*range(5, 12)]]
    assert [queries.relevant(k).tolist() for k in range(3)] == [[5], [8], [5, 6]]
    evaluated = prepared.pairs[prepared.pairs["part"] != "train"]
    assert set(evaluated["label"]) == {0, 1}
    assert (evaluated[["earlier", "later"]] >= 5).all(axis=None)
    fewer = HeldOutSplit(val_share=0.5, max_val=3).of_documents(corpus.documents)
    assert fewer.tolist() == [0] * 5 + [1] * 3 + [-1] * 2 + [2] * 5
    alone = prepare_corpus(compose_options("train", words), read_trackers("all", [mozilla, ubuntu]))
    assert np.unique(alone.parts).tolist() == [0]
    assert set(alone.pairs["part"]) == {"train"}
    assert alone.queries == {}


def test_one_tracker_cannot_be_held_out(make_corpus):
    with pytest.raises(ValueError, match="split=held_out needs several trackers, and small is one"):
        HeldOutSplit().of_documents(make_corpus([0, 0]).documents)
