"""Options of the API: words of the command line, or a dictionary."""

import pytest

import gedbd
from gedbd.api.calls import command_options, option_words


def test_a_dictionary_becomes_words_that_keep_each_value():
    given = {
        "split.test_from": "2015-01-31",
        "ranking": {"top_k": [1, 5], "window_days": None},
        "encoder": "tiny",
        "encoder.prefix": "it's ${x}, 3: ",
        "cache_dir": "3",
        "labels": {"fraction": 0.5},
    }
    cfg = command_options("baseline", ["name=bm25", "dataset=demo", *option_words(given)])
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
