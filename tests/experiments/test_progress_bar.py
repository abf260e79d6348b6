from types import SimpleNamespace

import pytest

from gedbd.experiments.callbacks import EpochProgressBar


@pytest.mark.parametrize(("max_epochs", "shown"), [(3, "epoch 3/3"), (-1, "epoch 3"), (None, "epoch 3")])
def test_epochs_are_counted_from_one(max_epochs, shown):
    bar = EpochProgressBar()
    bar._trainer = SimpleNamespace(max_epochs=max_epochs)
    assert bar._get_train_description(2).rstrip() == shown


def test_lightning_still_asks_for_the_description():
    assert hasattr(EpochProgressBar.__bases__[0], "_get_train_description")
