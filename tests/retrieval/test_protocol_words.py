from gedbd.retrieval.ranking_tasks import (
    EARLIER_WORDS,
    EarlierReports,
    ReportPool,
    file_suffix,
    generic_words,
    metric_prefix,
    words_of,
)


def test_names_of_metrics_and_files_follow_from_the_name():
    names = ("earlier", "test_pool", "candidate_sets")
    assert [metric_prefix(name) for name in names] == ["", "pool_", "candidate_sets_"]
    assert [file_suffix(name) for name in names] == ["", "_test_pool", "_candidate_sets"]


def test_words_come_from_the_run_or_are_known_or_generic():
    assert words_of("earlier", {}) == EARLIER_WORDS == EarlierReports.words
    assert words_of("test_pool", {}) == ReportPool.words
    assert words_of("by_week", {}) == generic_words("by_week")
    stored = {"by_week": {"heading": "Weekly", "unit": "weeks", "against": "a week"}, "earlier": {"unit": "files"}}
    assert words_of("by_week", stored).heading == "Weekly"
    assert words_of("by_week", stored).lacks == generic_words("by_week").lacks
    assert words_of("earlier", stored).unit == "files"


def test_a_paragraph_has_its_numbers_and_runs_nothing():
    words = words_of("x", {"x": {"text": "{count} of {reachable.__class__} and {reachable}"}})
    assert words.paragraph("12", "50%") == "12 of {reachable.__class__} and 50%"
