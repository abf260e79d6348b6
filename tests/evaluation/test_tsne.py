import numpy as np
import pytest

from gedbd.evaluation.figures import MAX_GROUPS, MAX_MEMBERS, MAX_SINGLETONS, project_reports


def unit(group: np.ndarray) -> np.ndarray:
    """Vectors that lie near each other within a group."""
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(group.max() + 1, 8))
    vectors = centres[group] + 0.05 * generator.normal(size=(len(group), 8))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_the_largest_groups_that_test_touches_are_shown_whole_up_to_a_size():
    # group 0 has 20 reports, 20 and 25 five each, 30 six that test does not touch; 36 to 39 are singletons
    group = np.array([0] * 20 + [20] * 5 + [25] * 5 + [30] * 6 + [36, 37, 38, 39])
    tested = np.isin(np.arange(40), [3, 24, 28, 29, 37, 39])
    shown = project_reports(np.arange(40), unit(group), group, tested, seed=0)
    assert list(shown) == ["row", "group", "x", "y"]
    assert sorted(shown["row"]) == [*range(20 - MAX_MEMBERS, 30), 37, 39]
    of_row = shown.set_index("row")["group"]
    assert of_row.drop([37, 39]).tolist() == group[of_row.drop([37, 39]).index].tolist()
    assert of_row[[37, 39]].tolist() == [-1, -1]
    assert np.isfinite(shown[["x", "y"]].to_numpy()).all()


def test_no_more_groups_and_singletons_than_can_be_told_apart():
    sizes = [2] * (MAX_GROUPS + 5) + [3] * 4 + [1] * (MAX_SINGLETONS + 20)
    group = np.repeat(np.arange(len(sizes)), sizes)
    shown = project_reports(np.arange(len(group)), unit(group), group, np.ones(len(group), dtype=bool), seed=0)
    singletons = shown[shown["group"] == -1]
    assert len(singletons) == singletons["row"].nunique() == MAX_SINGLETONS
    several = shown[shown["group"] != -1]["group"].value_counts()
    assert len(several) == MAX_GROUPS
    assert (several == 3).sum() == 4


def test_groups_lie_together():
    group = np.repeat(np.arange(5), 8)
    shown = project_reports(np.arange(40), unit(group), group, np.ones(40, dtype=bool), seed=0)
    points, member_of = shown[["x", "y"]].to_numpy(), shown["group"].to_numpy()
    distance = np.linalg.norm(points[:, None] - points, axis=2) + np.where(np.eye(40), np.inf, 0)
    assert (member_of[distance.argmin(axis=1)] == member_of).mean() > 0.9


def test_only_reports_with_a_vector_are_shown():
    group = np.repeat(np.arange(0, 40, 2), 2)
    rows = np.arange(4, 30)
    shown = project_reports(rows, unit(group)[rows], group, np.ones(40, dtype=bool), seed=0)
    assert sorted(shown["row"]) == rows.tolist()


def test_the_seed_fixes_the_map_and_another_changes_it():
    group = np.arange(MAX_SINGLETONS + 30)
    draws = [project_reports(group, unit(group), group, group >= 10, seed) for seed in (0, 0, 1)]
    assert draws[0].equals(draws[1])
    assert set(draws[0]["row"]) != set(draws[2]["row"])
    assert all(draw["row"].min() >= 10 for draw in draws)


@pytest.mark.parametrize("count", [0, 9])
def test_too_few_reports_make_no_map(count):
    group = np.arange(20)
    shown = project_reports(group, unit(group), group, group < count, seed=0)
    assert list(shown) == ["row", "group", "x", "y"]
    assert len(shown) == 0
    assert len(project_reports(group, unit(group), group, group < 10, seed=0)) == 10


def test_equal_vectors_share_a_place_and_alone_make_no_map():
    group = np.repeat(np.arange(0, 40, 2), 2)
    vectors = unit(group)
    vectors[1::2] = vectors[::2]
    shown = project_reports(np.arange(40), vectors, group, np.ones(40, dtype=bool), seed=0).set_index("row")
    assert shown.loc[0, ["x", "y"]].tolist() == shown.loc[1, ["x", "y"]].tolist()
    same = np.ones((40, 8), dtype=np.float32) / 8**0.5
    assert project_reports(np.arange(40), same, group, np.ones(40, dtype=bool), seed=0).empty
