"""What tests of the ranking of changes share."""

import pytest
from small_history import FAST, NUM_TRAIN, made_corpus

from gedbd.corpora.corpus import ChangeCorpus
from gedbd.localization.change_ranking.change_training import Replay, fit_examples


@pytest.fixture(scope="session")
def corpus() -> ChangeCorpus:
    """Reports and changes of ``made_corpus``; not to be changed."""
    return made_corpus()


@pytest.fixture(scope="session")
def trained(corpus):
    replay = Replay(corpus)
    return replay, fit_examples(list(replay.examples(range(NUM_TRAIN)).values()), FAST)
