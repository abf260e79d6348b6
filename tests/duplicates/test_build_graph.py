from dataclasses import replace

import numpy as np
import pytest
import torch

from gedbd.corpora.corpus import Corpus
from gedbd.duplicates.title_graph import build_graph
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.encoders.node2vec import TagEncoder

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


def test_training_reports_without_tags_are_refused_before_titles_are_encoded(make_corpus):
    with pytest.raises(ValueError, match="no document has a tag"):
        vectors_of(make_corpus(range(6)), ["tags"], TagEncoder())


def test_unknown_fields_are_refused_with_the_known_ones(corpus):
    with pytest.raises(ValueError, match="field=colour is unknown: choose product, component, version, priority, tags"):
        vectors_of(corpus, ["colour"], None)
