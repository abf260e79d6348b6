"""Progress bars count epochs from one, and fit a line."""

import io
from types import SimpleNamespace

import pytest
from pytorch_lightning.callbacks import RichProgressBar
from pytorch_lightning.callbacks.progress.rich_progress import MetricsTextColumn
from rich.console import Console
from rich.progress import Progress

from gedbd.experiments.training_progress import EpochProgressBar


@pytest.mark.parametrize(("max_epochs", "shown"), [(3, "epoch 3/3"), (-1, "epoch 3"), (None, "epoch 3")])
def test_epochs_are_counted_from_one(max_epochs, shown):
    bar = EpochProgressBar()
    bar._trainer = SimpleNamespace(max_epochs=max_epochs)
    assert bar._get_train_description(2).rstrip() == shown


def test_the_bar_is_one_line_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    bar = EpochProgressBar()
    monkeypatch.setattr(RichProgressBar, "get_metrics", lambda *_: dict(values))
    values = {"loss": 0.123456, "val/f1": 0.7, "val/rr@10": 0.8}
    assert bar.get_metrics(None, None) == {"loss": 0.123456, "best RR@10": 0.8}
    values |= {"val/rr@10": 0.75}
    assert bar.get_metrics(None, None) == {"loss": 0.123456, "best RR@10": 0.8}
    # As Lightning puts it together, with numbers as long as they become.
    bar._trainer = SimpleNamespace(max_epochs=100)
    text = io.StringIO()
    console = Console(file=text, width=80, force_terminal=True, color_system=None)
    trainer = SimpleNamespace(state=SimpleNamespace(fn="fit"), sanity_checking=False, training=True)
    trainer.progress_bar_callback = bar
    metrics = MetricsTextColumn(trainer, "", " ", ".3f")
    with Progress(*bar.configure_columns(trainer), metrics, console=console, auto_refresh=False) as progress:
        bar.train_progress_bar_id = progress.add_task(bar._get_train_description(98), total=12_345)
        metrics.update(bar.get_metrics(None, None))
        progress.update(bar.train_progress_bar_id, completed=12_000)
        text.truncate(0)
        text.seek(0)
        progress.refresh()
        (line,) = [part for part in text.getvalue().replace("\r", "\n").splitlines() if "epoch" in part]
    assert "epoch 99/100" in line
    assert "12000/12345" in line
    assert line.rstrip().endswith("loss: 0.123 best RR@10: 0.800")


def test_lightning_still_asks_for_the_description():
    assert hasattr(EpochProgressBar.__bases__[0], "_get_train_description")
