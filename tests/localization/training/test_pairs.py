"""What is drawn for training and validation."""

import numpy as np
import pytest

from gedbd.localization.training.localization_data import (
    InducingPairs,
    PairKeys,
    choose_candidates,
    find_halves,
    mean_reciprocal_rank,
    num_before,
    split_by_time,
)


@pytest.fixture(scope="module")
def training(change_corpus):
    return find_halves(change_corpus).train


@pytest.mark.parametrize("granularity", ["commit", "file", "hunk"])
@pytest.mark.parametrize("hard", [0.0, 1.0])
def test_draws_are_what_they_claim(change_corpus, training, granularity, hard):
    pairs = InducingPairs(change_corpus, granularity, training, 0, hard)
    before = num_before(change_corpus, "commit")
    relevant = {report: set(change_corpus.inducing[granularity].relevant(report).tolist()) for report in training}
    inducing = {report: set(change_corpus.inducing["commit"].relevant(report).tolist()) for report in training}
    for number in range(len(pairs)):
        for epoch in (0, 1, None):
            draw = pairs.draw(number, epoch)
            commit = pairs.commit_of[draw.change]
            other = pairs.commit_of[draw.other_change]
            assert draw.change in relevant[draw.report]
            assert commit < before[draw.report]
            assert other < before[draw.report]
            assert other not in inducing[draw.report]
            assert commit not in inducing[draw.other_report]
            assert draw.other_report in training


def test_hard_negatives_change_a_file_of_the_positive_commit(change_corpus, training):
    paths = change_corpus.commits.table["paths"].str.split("\n").map(set)

    def share(hard):
        pairs = InducingPairs(change_corpus, "hunk", training, 0, hard)
        draws = [pairs.draw(number, 0) for number in range(len(pairs))]
        commits = [(pairs.commit_of[draw.change], pairs.commit_of[draw.other_change]) for draw in draws]
        return np.mean([bool(paths[first] & paths[second]) for first, second in commits])

    assert share(1.0) > share(0.0) + 0.2


def test_draws_depend_on_seed_epoch_and_pair_alone(change_corpus, training):
    first, again, other = (InducingPairs(change_corpus, "hunk", training, seed) for seed in (0, 0, 1))
    numbers = range(len(first))
    assert [first.draw(n, 3) for n in reversed(numbers)][::-1] == [again.draw(n, 3) for n in numbers]
    assert [first.draw(n, 3) for n in numbers] != [first.draw(n, 4) for n in numbers]
    assert [first.draw(n, 3) for n in numbers] != [other.draw(n, 3) for n in numbers]


def test_processes_share_the_pairs_of_a_step():
    together = PairKeys(26, 8, 5)
    shares = [PairKeys(26, 4, 5, rank, 2) for rank in (0, 1)]
    for sampler in (together, *shares):
        sampler.set_epoch(2)
    assert len(together) == len(shares[0]) == 4
    assert all(len(first.rows) == len(second.rows) <= 4 for first, second in zip(*shares, strict=True))
    assert sorted(number for share in shares for step in share for number in step.rows) == list(range(26))
    assert sorted(number for step in together for number in step.rows) == list(range(26))


def test_the_last_reports_validate():
    fit, val = split_by_time(np.array([3, 9, 4, 7, 1]), 0.4)
    assert fit.tolist() == [1, 3, 4]
    assert val.tolist() == [7, 9]
    with pytest.raises(ValueError, match="5 reports with inducing commits before them are too few"):
        split_by_time(np.arange(5), 0.1)


def test_mean_reciprocal_rank_is_that_of_a_loop(change_corpus, training):
    pairs = InducingPairs(change_corpus, "hunk", training[-6:], 0)
    ranked = choose_candidates(pairs, 12)
    rng = np.random.default_rng(0)
    reports = rng.normal(size=(len(ranked.reports), 4))
    changes = rng.normal(size=(len(ranked.changes), 4))
    before = num_before(change_corpus, "commit")
    expected = []
    for vector, report in zip(reports, ranked.reports.tolist(), strict=True):
        scores: dict[int, float] = {}
        for change, row in zip(changes, ranked.changes.tolist(), strict=True):
            commit = int(pairs.commit_of[row])
            if commit < before[report]:
                scores[commit] = max(scores.get(commit, -np.inf), float(vector @ change))
        order = sorted(scores, key=lambda commit: -scores[commit])
        relevant = change_corpus.inducing["commit"].relevant(report)
        expected.append(1 / (1 + min(order.index(commit) for commit in relevant if commit in scores)))
    assert mean_reciprocal_rank(ranked, reports, changes) == pytest.approx(np.mean(expected))


def test_too_few_reports_have_no_pairs(change_corpus, training):
    with pytest.raises(ValueError, match="no report of a split"):
        InducingPairs(change_corpus, "hunk", training[:0], 0)
    with pytest.raises(ValueError, match="a commit introduced the bugs of all reports of a split"):
        InducingPairs(change_corpus, "hunk", training[:1], 0)
