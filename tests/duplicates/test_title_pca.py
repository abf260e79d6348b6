import numpy as np
import pytest
import torch

from gedbd.duplicates.title_graph import join_fields, reduce_titles, sample_cosines


def by_svd(vectors: np.ndarray, fit_rows: np.ndarray, pca_dim: int) -> np.ndarray:
    centre = vectors[fit_rows].mean(axis=0)
    _, _, components = np.linalg.svd(vectors[fit_rows] - centre, full_matrices=False)
    projected = (vectors - centre) @ components[:pca_dim].T
    return projected / np.linalg.norm(projected, axis=1, keepdims=True)


@pytest.fixture
def vectors() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(60, 12)) * np.linspace(1, 3, 12)


def test_agrees_with_principal_components_by_hand_up_to_their_signs(vectors):
    fit_rows = np.arange(60) < 40
    reduced, expected = reduce_titles(vectors.astype(np.float32), fit_rows, 5), by_svd(vectors, fit_rows, 5)
    assert reduced.dtype == torch.float32
    assert reduced.shape == (60, 5)
    np.testing.assert_allclose(reduced @ reduced.T, expected @ expected.T, atol=1e-5)
    np.testing.assert_allclose(reduced.abs(), np.abs(expected), atol=1e-5)


def test_components_are_learnt_on_training_rows_only(vectors):
    fit_rows = np.arange(60) % 3 > 0
    altered = vectors.copy()
    altered[~fit_rows] = 100 * altered[~fit_rows] + 7
    before, after = (reduce_titles(v.astype(np.float32), fit_rows, 4) for v in (vectors, altered))
    assert torch.equal(before[fit_rows], after[fit_rows])
    assert not torch.allclose(before[~fit_rows], after[~fit_rows])


def test_rows_have_unit_length_unless_they_have_none(vectors):
    reduced = reduce_titles(vectors, np.ones(60, dtype=bool), 3)
    assert reduced.norm(dim=1).tolist() == pytest.approx([1.0] * 60)
    with np.errstate(invalid="ignore"):
        assert reduce_titles(np.ones((5, 3)), np.ones(5, dtype=bool), 2).tolist() == [[0.0, 0.0]] * 5


@pytest.mark.parametrize("pca_dim", [0, 6, 13])
def test_more_dimensions_than_there_are_rows_or_columns_are_refused(vectors, pca_dim):
    with pytest.raises(ValueError, match=f"graph.pca_dim={pca_dim} must lie between 1 and 5"):
        reduce_titles(vectors, np.arange(60) < 5, pca_dim)
    with pytest.raises(ValueError, match=r"graph.pca_dim=13 must lie between 1 and 12"):
        reduce_titles(vectors, np.ones(60, dtype=bool), 13)


def test_fields_draw_reports_together():
    titles = torch.nn.functional.normalize(torch.randn(5, 3), dim=1)
    component, version = np.array([0, 0, 1, 1, -1]), np.array([2, 3, 2, 2, 2])
    joined = join_fields(titles, [component, version], weight=0.5)
    cosine, before = joined @ joined.T, titles @ titles.T
    assert torch.diagonal(cosine).tolist() == pytest.approx([1] * 5, abs=1e-6)
    assert float(cosine[0, 1]) == pytest.approx((float(before[0, 1]) + 0.5) / 2, abs=1e-6)  # one field
    assert float(cosine[2, 3]) == pytest.approx((float(before[2, 3]) + 1.0) / 2, abs=1e-6)  # both
    assert float(cosine[0, 2]) == pytest.approx((float(before[0, 2]) + 0.5) / 2, abs=1e-6)  # the other
    assert float(cosine[0, 4]) == pytest.approx(
        (float(before[0, 4]) + 0.5) / (2 * 1.5) ** 0.5, abs=1e-6
    )  # no component


def test_rare_values_agree_with_nothing():
    codes = np.concatenate([np.repeat(np.arange(256), 2), [300]])
    joined = join_fields(torch.ones(513, 1), [codes], weight=1.0)
    assert joined.shape == (513, 257)
    assert joined[-1].tolist() == [1.0] + [0.0] * 256


def test_sampled_cosines_are_those_of_random_pairs_and_always_the_same():
    raw = np.array([[2.0, 0.0], [0.0, 3.0]])
    reduced = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    of_raw, of_reduced = sample_cosines(raw, reduced)
    assert 9_000 < len(of_raw) == len(of_reduced) < 11_000  # of two titles, half of the draws are of one title twice
    assert set(of_raw.tolist()) == {0.0}
    np.testing.assert_allclose(of_reduced, 0.6, atol=1e-6)
    many = np.random.default_rng(1).normal(size=(50, 4))
    first, again = (sample_cosines(many, torch.from_numpy(many)) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_vectors_of_a_field_draw_reports_together_by_their_cosine():
    titles = torch.nn.functional.normalize(torch.randn(4, 3), dim=1)
    # Cosines of the field: .6 between 0 and 1, -1 between 0 and 2; the fourth report has none.
    field = np.array([[2, 0], [3, 4], [-1, 0], [0, 0]], dtype=np.float32)
    joined = join_fields(titles, [], 0.5, [field])
    cosine, before = joined @ joined.T, titles @ titles.T
    assert torch.diagonal(cosine).tolist() == pytest.approx([1] * 4, abs=1e-6)
    assert float(cosine[0, 1]) == pytest.approx((float(before[0, 1]) + 0.5 * 0.6) / 1.5, abs=1e-6)
    assert float(cosine[0, 2]) == pytest.approx((float(before[0, 2]) - 0.5) / 1.5, abs=1e-6)
    # The vector of a report without the field has the length 1 before it is scaled, the others sqrt(1.5).
    assert float(cosine[0, 3]) == pytest.approx(float(before[0, 3]) / 1.5**0.5, abs=1e-6)
