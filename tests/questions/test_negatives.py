import numpy as np
import pytest

from gedbd.questions.question_negatives import Negatives, bucket_negatives, mined_negatives


def naive_negative(anchor, group, vectors, tags, answered, alpha):
    """Algorithm 1, question by question; None where none qualifies."""
    buckets = {}
    for row, number in enumerate(group):
        buckets.setdefault(number, []).append(row)
    means = {number: vectors[rows].mean(axis=0) for number, rows in buckets.items() if len(rows) > 1}

    def similarity(first, second):
        return means[first] @ means[second] / np.linalg.norm(means[first]) / np.linalg.norm(means[second])

    near = sorted((-similarity(group[anchor], other), other) for other in means if other != group[anchor])
    overlaps = {}
    for negative_similarity, number in near:
        if -negative_similarity <= alpha:
            continue
        for row in buckets[number]:
            if answered[row]:
                mine, theirs = set(tags[anchor]), set(tags[row])
                overlaps[row] = len(mine & theirs) / len(mine | theirs) if mine | theirs else 0.0
    return max(overlaps, key=overlaps.get) if overlaps else None  # the first of equals, as they were appended


def random_questions(seed):
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.arange(60) // 3)  # 20 groups of 3
    label[rng.choice(60, 10, replace=False)] = np.arange(100, 110)  # and some singletons
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    tags = [tuple(rng.choice(list("abcdef"), rng.integers(0, 4), replace=False)) for _ in range(60)]
    return first[inverse], rng.normal(size=(60, 4)).astype(np.float32), tags, rng.random(60) < 0.7


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("alpha", [-1.0, 0.2, 0.6, 0.97])
def test_bucket_negatives_are_those_of_a_double_loop(seed, alpha):
    group, vectors, tags, answered = random_questions(seed)
    anchors = np.flatnonzero(np.bincount(group, minlength=60)[group] > 1)
    rows, num_fallbacks = bucket_negatives(anchors, group, vectors, tags, answered, np.ones(60, dtype=bool), alpha)
    expected = [naive_negative(anchor, group, vectors, tags, answered, alpha) for anchor in anchors]
    for row, wanted, anchor in zip(rows, expected, anchors, strict=True):
        assert group[row] != group[anchor]
        assert wanted is None or row == wanted
    assert num_fallbacks == sum(wanted is None for wanted in expected)
    assert (num_fallbacks > 0) == (alpha == 0.97) or alpha == 0.6


def test_without_answered_questions_the_nearest_other_training_question_is_taken():
    vectors = np.array([[1, 0], [1, 0.1], [1, 0.2], [0, 1], [0.9, 0.1], [1, 0.01]], dtype=np.float32)
    group = np.array([0, 0, 2, 2, 4, 5])
    training = np.array([True] * 5 + [False])
    rows, num_fallbacks = bucket_negatives(
        np.array([1]), group, vectors, [()] * 6, np.zeros(6, dtype=bool), training, -1.0
    )
    assert (rows.tolist(), num_fallbacks) == ([4], 1)


def test_mined_negatives_are_near_non_duplicates_of_the_training_part():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(40, 3)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    group = np.arange(40)
    group[[3, 7]] = 1
    training = np.arange(40) < 30
    drawn = {int(mined_negatives(np.array([7]), group, vectors, training, 4, rng)[0]) for _ in range(60)}
    order = [row for row in np.argsort(-vectors[:30] @ vectors[7], kind="stable") if group[row] != 1]
    assert drawn == set(order[:4])


def test_what_has_no_negative_and_an_unknown_kind_are_refused():
    vectors = np.eye(3, dtype=np.float32)
    with pytest.raises(ValueError, match="no non-duplicate can be drawn"):
        mined_negatives(
            np.array([1]), np.zeros(3, dtype=np.int64), vectors, np.ones(3, dtype=bool), 2, np.random.default_rng(0)
        )
    with pytest.raises(ValueError, match=r"task\.negatives=random is unknown"):
        Negatives("random")
