"""Vectors of titles and fields, the graph that is built of them, and edges of shared identifiers, by hand."""

from collections.abc import Callable
from dataclasses import replace
from math import log

import numpy as np
import pytest
import torch

from gedbd.corpora.corpus import Corpus
from gedbd.duplicates.graph.title_graph import SharedIdentifiers, build_graph, join_fields, reduce_titles
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.encoders.node2vec import TagEncoder


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


LABELS = ["ui;crash", "ui;crash", "ui", "later", "later;ui", ""]


class TitleLengths(LoadedEncoder):
    """Encodes a title as its length, in two dimensions."""

    def __init__(self) -> None:
        pass

    def pool(self, texts: list[str], label: str = "encode") -> np.ndarray:
        return np.array([[len(text), len(text) ** 2] for text in texts], dtype=np.float32)


@pytest.fixture
def corpus(make_corpus) -> Corpus:
    made = make_corpus(range(6))
    table = made.reports.assign(title=["a", "bb", "ccc", "dddd", "eeeee", "ffffff"], labels=LABELS)
    return replace(made, documents=replace(made.documents, table=table))


def vectors_of(corpus: Corpus, fields: list[str], tag_encoder: TagEncoder | None) -> torch.Tensor:
    def keep(vectors: torch.Tensor, inside: torch.Tensor) -> torch.nn.Module:
        assert inside.all()
        graph = torch.nn.Module()
        graph.register_buffer("vectors", vectors)
        return graph

    training = np.arange(6) < 3
    graph = build_graph(corpus, training, TitleLengths(), keep, "all", 2, fields, 0.5, tag_encoder)
    return graph.adjacency.get_buffer("vectors")


def test_tags_are_learnt_on_training_reports_and_change_edges_by_the_formula(corpus):
    encoder = TagEncoder(dim=8, length=10)
    plain = vectors_of(corpus, [], None)
    tagged = vectors_of(corpus, ["tags"], encoder)
    assert encoder.network_.tags == ("crash", "ui")  # not "later", which is of no training report
    cosine, before = tagged @ tagged.T, plain @ plain.T
    # The first three reports have the tag ui, so have reports 0 and 4; the fourth and last have no known one.
    for other in (1, 2, 4):
        assert float(cosine[0, other]) == pytest.approx((float(before[0, other]) + 0.5) / 1.5, abs=1e-6)
    for other in (3, 5):
        assert float(cosine[0, other]) == pytest.approx(float(before[0, other]) / 1.5**0.5, abs=1e-6)
    assert any("2 of 6 documents have no tag of the tag network" in warning for warning in encoder.warnings_)


def test_unknown_fields_and_reports_without_tags_are_refused(make_corpus, corpus):
    with pytest.raises(ValueError, match="no document has a tag"):
        vectors_of(make_corpus(range(6)), ["tags"], TagEncoder())
    with pytest.raises(ValueError, match="field=colour is unknown: choose product, component, version, priority, tags"):
        vectors_of(corpus, ["colour"], None)


TEXTS = ["openFile readLine", "the openFile", "openFile saveAll", "saveAll", "plain words", "common_name"]


@pytest.fixture
def corpus_of(make_corpus) -> Callable[[list[str]], Corpus]:
    def make(texts: list[str]) -> Corpus:
        made = make_corpus(range(len(texts)))
        table = made.reports.assign(title=texts, description="nothing")
        return replace(made, documents=replace(made.documents, table=table))

    return make


def edges_of(rule: SharedIdentifiers, corpus: Corpus, inside: list[bool] | None = None) -> dict[tuple[int, int], float]:
    graph = rule.graph(corpus, torch.tensor(inside or [True] * len(corpus))).adjacency
    index, weight = graph.get_buffer("raw_index"), graph.get_buffer("raw_weight")
    return dict(zip(zip(*index.tolist(), strict=True), weight.tolist(), strict=True))


def test_weights_are_cosines_of_idf(corpus_of):
    idf = {name: log((1 + 6) / (1 + count)) + 1 for name, count in (("open", 3), ("read", 1), ("save", 2))}
    first = (idf["open"] ** 2 + idf["read"] ** 2) ** 0.5
    third = (idf["open"] ** 2 + idf["save"] ** 2) ** 0.5
    expected = {
        (0, 1): idf["open"] / first,
        (0, 2): idf["open"] ** 2 / first / third,
        (1, 2): idf["open"] / third,
        (2, 3): idf["save"] / third,
    }
    both = expected | {(target, source): weight for (source, target), weight in expected.items()}
    assert edges_of(SharedIdentifiers(k=5, max_reports=3), corpus_of(TEXTS)) == pytest.approx(both, abs=1e-6)


def test_identifiers_make_edges_within_their_limits(corpus_of):
    found = edges_of(SharedIdentifiers(k=5, max_reports=2), corpus_of(TEXTS))
    assert found == pytest.approx({(2, 3): 1.0, (3, 2): 1.0})
    found = edges_of(SharedIdentifiers(k=1, max_reports=3), corpus_of(TEXTS))
    # Report 0 is nearest to 1, 1 to 2 (saveAll is less rare than readLine), 2 to 3, 3 to 2.
    assert set(found) == {(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)}
    inside = [True, True, True, False, True, True]
    found = edges_of(SharedIdentifiers(k=5, max_reports=3), corpus_of(TEXTS), inside)
    assert (2, 3) in found
    assert (3, 2) not in found


@pytest.mark.parametrize("texts", [["plain", "words"], ["openFile", "readLine"]])
def test_reports_that_share_nothing_are_refused(corpus_of, texts):
    with pytest.raises(ValueError, match=r"rare identifier: choose another graph"):
        edges_of(SharedIdentifiers(k=5, max_reports=3), corpus_of(texts))
