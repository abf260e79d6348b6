"""Which runs are probed, which share a split, and which are refused."""

import pytest

from gedbd.tasks.code_probe.data import SampleSizes
from gedbd.tasks.code_probe.fine_tuning import FineTuning
from gedbd.tasks.code_probe.runs import check_same_corpus, find_encoders, group_by_split
from gedbd.tasks.code_probe.task import CodeProbeTask


@pytest.fixture(scope="module")
def folder(make_run, tmp_path_factory):
    """Runs of one method with two seeds, each with a split of its own, and of another with the first split."""
    made = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        make_run(made / "graph" / f"seed_{seed}", split_seed=seed)
    make_run(made / "mlm")
    (made / "empty").mkdir()
    return made


@pytest.fixture
def find(folder, monkeypatch):
    """Finds runs by paths relative to their folder."""
    monkeypatch.chdir(folder)
    return lambda **runs: {method: list(map(str, found)) for method, found in find_encoders(runs).items()}


def test_the_seeds_of_a_folder_are_runs_in_their_order(find):
    assert find(graph=["graph"], mlm=[], other=["mlm", "graph/seed_1"]) == {
        "graph": ["graph/seed_0", "graph/seed_1"],
        "other": ["mlm", "graph/seed_1"],
    }


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ({"graph": []}, "task.runs names no run"),
        ({"graph": ["nowhere"]}, "nowhere in task.runs: there is no such folder"),
        ({"graph": ["empty"]}, "empty has no encoder/"),
    ],
)
def test_folders_without_an_encoder_are_refused(find, runs, message):
    with pytest.raises(ValueError, match=message):
        find(**runs)


def test_runs_of_another_or_an_unknown_corpus_are_refused(folder, java_corpus):
    check_same_corpus(folder / "mlm", java_corpus.fingerprint)
    with pytest.raises(ValueError, match="mlm was trained on another corpus"):
        check_same_corpus(folder / "mlm", "0")
    with pytest.raises(ValueError, match=r"empty has no versions\.json, so that its corpus is unknown"):
        check_same_corpus(folder / "empty", java_corpus.fingerprint)


def test_runs_that_are_compared_share_a_split(folder):
    first, second, other = (folder / "graph" / "seed_0", folder / "graph" / "seed_1", folder / "mlm")
    groups = group_by_split({"graph": [first, second, first], "mlm": [other]})
    assert [(split.seed, numbers) for split, numbers in groups] == [(0, [0, 2]), (1, [1])]
    with pytest.raises(ValueError, match="compare runs of the same split and seed"):
        group_by_split({"graph": [second], "mlm": [other]})


def test_options_out_of_range_and_names_of_baselines_are_refused():
    with pytest.raises(ValueError, match=r"task\.runs\.bm25: bm25 is the name of a baseline"):
        CodeProbeTask({"bm25": ["run"]}, "mlm", False, SampleSizes(), FineTuning())
    with pytest.raises(ValueError, match=r"task\.sizes\.test_pairs=0 must be 1 or more"):
        SampleSizes(test_pairs=0)
    assert SampleSizes(queries=0).queries == 0
    with pytest.raises(ValueError, match=r"task\.fine_tuning\.steps=-1 must be"):
        FineTuning(steps=-1)
