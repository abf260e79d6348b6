"""What tests of the ranking of changes share."""

import pytest
from changes_corpus import FAST, NUM_TRAIN, made_corpus

from gedbd.corpora.corpus import ChangeCorpus
from gedbd.localization.change_ranking.change_training import examples_of, fit_examples, training_set


@pytest.fixture(scope="session")
def corpus() -> ChangeCorpus:
    """See ``made_corpus``; not to be changed."""
    return made_corpus()


@pytest.fixture(scope="session")
def trained(corpus):
    chosen = training_set(corpus, range(NUM_TRAIN))
    return chosen, fit_examples(examples_of(chosen), FAST)
