import numpy as np
import pytest

from gedbd.encoders.tags.tag_encoder import TagEncoder

TRAIN = [("python", "pandas"), ("python", "numpy"), ("numpy", "pandas"), ("java",), ()]  # python, numpy, pandas: 2


@pytest.fixture(scope="module")
def encoder() -> TagEncoder:
    return TagEncoder(dim=8, length=10).fit(TRAIN)


def test_a_document_has_the_vector_of_its_most_frequent_tag(encoder):
    assert encoder.network_.tags == ("java", "numpy", "pandas", "python")
    # java occurs once; of equally frequent tags the first in the alphabet is taken.
    tags = [("java", "python"), ("python", "pandas"), ("unknown", "java"), ("unknown",), ()]
    assert encoder.main_tags(tags).tolist() == [3, 2, 0, -1, -1]
    vectors = encoder.encode(tags)
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors[:3], encoder.vectors_[[3, 2, 0]])
    assert not vectors[3:].any()
    assert "2 of 5 documents have no tag of the tag network: their tag vector is zero" in encoder.warnings_


def test_documents_to_encode_do_not_change_what_was_fitted(encoder):
    before = encoder.vectors_.copy()
    encoder.encode([("java",)] * 10)
    assert encoder.network_.counts.tolist() == [1, 2, 2, 2]
    np.testing.assert_array_equal(before, encoder.vectors_)
    assert encoder.encode([]).shape == (0, encoder.dim)


def test_warnings_name_isolated_and_rare_tags(encoder):
    assert encoder.fit(TRAIN).warnings_ == ("1 of 4 tags have no edge in the tag network: their vectors are random",)
    rare = TagEncoder(dim=4, walks=1, length=3, min_count=4).fit([("a", "b")])
    assert rare.warnings_ == ("2 of 2 tags occur less than tags.min_count=4 times in the walks",)


def test_documents_without_tags_cannot_be_fitted():
    with pytest.raises(ValueError, match="no document has a tag"):
        TagEncoder().fit([(), ()])
