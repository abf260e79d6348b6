"""What is refused before any text is encoded."""

from dataclasses import replace

import numpy as np
import pytest

from gedbd.corpora.relevance import Links
from gedbd.questions.confirmation.anchors import assemble


@pytest.fixture
def parts(waiting_corpus):
    return np.repeat(np.array([0, 1, 2], dtype=np.int8), (240, 80, 80))


def test_a_field_that_the_corpus_lacks_is_refused(waiting_corpus, parts):
    with pytest.raises(ValueError, match=r"task.fields=\['component', 'colour'\]: small has no column colour"):
        assemble(waiting_corpus, parts, {"question"}, None, None, True, 1.0, ["component", "colour"])


def test_training_anchors_that_are_confirmed_too_late_are_named(waiting_corpus, parts):
    table = waiting_corpus.links.table
    end = waiting_corpus.reports["created_at"].iloc[-1]
    late = Links(table.assign(made_at=end.floor("s").replace(year=2030)), 400, 400)
    message = "part train has 0 anchors with a dated link .*confirmed after validation begins: 59 of 59, left out"
    with pytest.raises(ValueError, match=message):
        assemble(replace(waiting_corpus, links=late), parts, {"question"}, None, None, True, 1.0)
