"""Rankings, backtests and indexes by objects of the user: a scorer, an encoder, options in a dictionary."""

import faiss
import numpy as np
import pytest

import gedbd
from gedbd.api.calls import option_words
from gedbd.configuration.options import compose_options


class SharedWords(gedbd.Scorer):
    """How many words query and document share."""

    def fit(self, inputs):
        self.words_ = [set(title.lower().split()) for title in inputs.documents["title"]]
        self.num_pairs_ = len(inputs.train)

    def scores(self, rows):
        return np.array([[len(self.words_[row] & other) for other in self.words_] for row in rows], dtype=float)


@pytest.mark.integration
def test_a_scorer_of_the_user_is_fitted_and_ranked(demo):
    result = gedbd.rank(demo, SharedWords(), top_k=[1, 10])
    assert result.name == "SharedWords"
    assert result.scorer.num_pairs_ > 0
    assert list(result.metrics) == ["rr@1", "rr@10", "mrr", "map", "map@1", "map@10"]
    assert len(result) == len(result.queries) == 39
    constant = gedbd.rank(demo, "constant", top_k=[1, 10])
    assert result.metrics["mrr"].value > constant.metrics["mrr"].value
    assert set(result.top["query"]) == set(result.queries["id"])


@pytest.mark.parametrize("other", [{"part": "test"}, {"protocol": "test_pool"}])
def test_results_of_other_queries_are_not_compared(other):
    first = {"part": "val", "protocol": "earlier"}
    rest = dict.fromkeys(("corpus", "scorer", "warnings", "_task", "_ranking"))
    results = [gedbd.RankingResult("bm25", **options, **rest) for options in (first, first | other)]
    with pytest.raises(ValueError, match=r"^bm25 ranked val by earlier, bm25 .* give results with the same part"):
        gedbd.compare(*results)


@pytest.mark.integration
def test_a_pool_of_test_reports_has_queries_of_its_own(demo):
    pool = gedbd.rank(demo, "bm25", protocol="test_pool")
    assert pool.protocol == "test_pool"
    assert len(pool) == 43


@pytest.mark.integration
@pytest.mark.parametrize(
    ("scorer", "options", "line"),
    [
        ("bm52", {}, "^name=bm52 is not a baseline: choose one of constant,"),
        ("bm25", {"part": "train"}, "^part='train' is unknown: choose val or test$"),
        ("bm25", {"protocol": "all"}, "^protocol='all' is unknown: choose earlier or test_pool$"),
        ("bm25", {"top_k": [10, 1]}, r"^ranking.top_k=\[10, 1\] must be one or more whole numbers"),
        ("bm25", {"options": ["splitt=time"]}, "^unknown option splitt: did you mean split"),
        ("fusion", {"protocol": "test_pool"}, "^name=fusion scores earlier reports only"),
        (3, {}, "^int is not a scorer: give a name, or an object with fit"),
    ],
)
def test_mistakes_are_said_in_one_line(demo, scorer, options, line):
    with pytest.raises(ValueError, match=line) as caught:
        gedbd.rank(demo, scorer, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.integration
def test_a_part_without_a_query_is_refused(make_corpus):
    corpus = make_corpus([0, 0, 0, 0, 4, 5, 0, 7, 0, 9], range(10))
    with pytest.raises(ValueError, match=r"^small: no report of part test .*protocol=test_pool"):
        gedbd.rank(corpus, "bm25", protocol="test_pool")


@pytest.mark.integration
def test_a_scorer_that_needs_weights_refuses_an_object(demo, hashed_words):
    with pytest.raises(ValueError, match=r"^the encoder HashedWords is an object that only has encode"):
        gedbd.rank(demo, "frozen_title_body", encoder=hashed_words)


@pytest.mark.slow
def test_an_index_by_an_object(demo, hashed_words, command):
    tested = gedbd.backtest(demo, hashed_words, options=["max_replayed=40", "ranker.kind=linear"])
    page = tested.save("tested")
    assert page.is_file()
    assert list(tested.targets["target"]) == [0.5, 0.6, 0.7, 0.8, 0.9]
    with gedbd.Index.build(demo, "stored", backtest=tested) as index:
        found = index.search("Crash when I paste a picture\nIt closes.", 5)
        assert [match.score for match in found] == sorted((match.score for match in found), reverse=True)
    with gedbd.Index.build(demo, "stored", hashed_words, backtest="tested") as index:
        assert index.changes.unchanged == len(demo)
    with gedbd.Index.open("stored", hashed_words) as index:
        again = index.search({"title": "Crash when I paste a picture", "description": "It closes."}, 5)
        assert again == found
    for wrong, line in (
        (None, "^the encoder HashedWords was an object in Python, which a command cannot make"),
        ("tiny", "^stored stores its own encoder"),
        (Other(), "^stored was encoded by another encoder, HashedWords of 64 numbers"),
    ):
        with pytest.raises(ValueError, match=line):
            gedbd.Index.open("stored", wrong)
    with pytest.raises(SystemExit, match=r"^error: the encoder HashedWords was an object in Python"):
        command("search", "index=stored", "Crash")
    with pytest.raises(SystemExit, match=r"^error: the encoder HashedWords was an object in Python"):
        command("index", "run=tested", "out=other")


class Other:
    """Encodes all texts as the same vector."""

    def encode(self, sentences):
        return np.ones((len(sentences), 64))


@pytest.mark.integration
def test_an_index_of_earlier_words_works_and_is_written_again(demo, hashed_words, tmp_path, caplog):
    with gedbd.Index.build(demo, tmp_path, hashed_words) as index:
        found = index.search("Crash when I paste a picture")
        index._stored.store.state.writer.write_about({"terms": "1"})
    assert "words" not in caplog.text
    with gedbd.Index.open(tmp_path, hashed_words) as index:
        assert index.search("Crash when I paste a picture") == found
    assert f"{tmp_path}: its words were found by an earlier version of gedbd: run gedbd index again" in caplog.text
    caplog.clear()
    with gedbd.Index.build(demo, tmp_path, hashed_words) as index:
        assert index.changes.added == len(demo)
    assert "words" not in caplog.text


@pytest.mark.integration
def test_reports_come_and_go_and_faiss_has_them(demo, hashed_words, tmp_path):
    with gedbd.Index.build(demo, tmp_path / "stored", hashed_words) as index:
        fresh = {"issue_id": "new", "title": "Picture is lost on paste"}
        assert index.add([fresh, gedbd.Report(title="Other", issue_id="2")]) == {"new": "added", "2": "added"}
        assert index.add([fresh]) == {"new": "unchanged"}
        assert index.remove(["2", "absent"]) == 1
        assert len(index) == 426
        file, ids = index.export_faiss(tmp_path / "vectors" / "all.faiss")
    vectors = faiss.read_index(str(file))
    named = ids.read_text().splitlines()
    assert vectors.ntotal == len(named) == 426
    query = gedbd.Encoder(hashed_words).encode(["Picture is lost on paste"])
    scores, rows = vectors.search(query, 1)
    assert named[rows[0, 0]] == "new"
    assert scores[0, 0] == pytest.approx(1, abs=1e-6)
    with (
        pytest.raises(ValueError, match="neither a title nor a description"),
        gedbd.Index.open(tmp_path / "stored", hashed_words) as index,
    ):
        index.search(" ")


@pytest.mark.integration
def test_two_corpora_are_not_stored_in_an_index_at_once(demo, hashed_words, tmp_path):
    refused = []

    class Interrupted(type(hashed_words)):
        """While it encodes the reports of one corpus, another process stores a second one."""

        def encode(self, texts):
            if len(texts) > 9:  # of fewer, it is tried before the index is built
                with pytest.raises(ValueError, match="is updated with a corpus by process"):
                    gedbd.Index.build(demo, tmp_path, hashed_words)
                refused.append(len(texts))
            return super().encode(texts)

    gedbd.Index.build(demo, tmp_path, Interrupted()).close()
    assert refused
    gedbd.Index.build(demo, tmp_path, hashed_words).close()


def test_a_dictionary_becomes_words_that_keep_each_value():
    given = {"split.test_from": "2015-01-31", "ranking": {"top_k": [1, 5], "window_days": None}, "encoder": "tiny"}
    given |= {"encoder.prefix": "it's ${x}, 3: ", "cache_dir": "3", "labels": {"fraction": 0.5}}
    cfg = compose_options("baseline", ["name=bm25", "dataset=demo", *option_words(given)])
    assert (cfg.split.test_from, cfg.ranking.top_k, cfg.ranking.window_days) == ("2015-01-31", [1, 5], None)
    assert (cfg.encoder.name, cfg.encoder.prefix, cfg.cache_dir) == ("tiny", "it's ${x}, 3: ", "3")
    assert cfg.labels.fraction == 0.5
    assert option_words(["a=1"]) == option_words({"a": 1}) == option_words("a=1") == ["a=1"]


def test_ranks_are_the_same(demo):
    by_words, by_names = (
        gedbd.rank(demo, "bm25", options=options) for options in (["split.test_from=0.7"], {"split.test_from": 0.7})
    )
    assert list(by_words.queries["rank"]) == list(by_names.queries["rank"])
    with pytest.raises(ValueError, match=r"unknown option split\.test_form: did you mean split\.test_from"):
        gedbd.rank(demo, "bm25", options={"split.test_form": 0.7})
