"""What a pre-training has measured on the test part."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.io.table_files import read_csv
from gedbd.tasks.pretraining.base_rates import BaseRates
from gedbd.tasks.pretraining.data import PretrainingDataModule
from gedbd.tasks.pretraining.sampling import Sample, Shares
from gedbd.tasks.pretraining.system import PretrainingSystem

METHOD = "semantic_codebert"
MAX_COUNTED = 3_000  # training methods that base rates are counted in


class PretrainingResult(NamedTuple):
    """The result of a run.

    Attributes:
        corpus: The methods.
        num_tested: Number of test methods.
        shares: How much of a method is predicted.
        objectives: ``objective``, ``weight``, ``loss``, ``accuracy``, ``base_rate`` and ``predictions`` on test.
        epochs: One row an epoch, as in ``metrics.csv``.
    """

    corpus: Corpus
    num_tested: int
    shares: Shares
    objectives: pd.DataFrame
    epochs: pd.DataFrame

    @property
    def results(self) -> pd.DataFrame:
        """One row: the run's method, its total loss and mean accuracy, and loss, accuracy and base rate of each."""
        table = self.objectives
        row: dict[str, object] = {
            "method": METHOD,
            "mean_accuracy": table["accuracy"].mean(),
            "mean_base_rate": table["base_rate"].mean(),
            "loss": (table["weight"] * table["loss"]).sum(),
        }
        for line in table.to_dict("records"):
            row |= {f"{line['objective']}_{name}": line[name] for name in ("accuracy", "base_rate", "loss")}
        return pd.DataFrame([row])

    @property
    def summary(self) -> str:
        """A sentence: how many objectives are above their base rates."""
        above = (self.objectives["accuracy"] > self.objectives["base_rate"]).sum()
        return (
            f"{self.corpus.name}: on {self.num_tested:,} test methods, {above} of {len(self.objectives)} objectives are"
            f" predicted better than by frequencies and distances alone"
        )


def measure(corpus: Corpus, data: PretrainingDataModule, system: PretrainingSystem, folder: Path) -> PretrainingResult:
    """What the last test has measured, beside the base rates.

    Args:
        corpus: The methods.
        data: The data of the run.
        system: The system after its test.
        folder: The run folder.
    """
    train = data.rows["train"]
    if len(train) > MAX_COUNTED:
        train = np.random.default_rng(0).choice(train, MAX_COUNTED, replace=False)
    base_rates = BaseRates(_samples(data, train)).accuracies(_samples(data, data.rows["test"]), system.weights)
    rows = [
        {
            "objective": name,
            "weight": weight,
            "loss": system.tested[name]["loss"],
            "accuracy": system.tested[name]["accuracy"],
            "base_rate": base_rates[name],
            "predictions": int(system.tested[name]["count"]),
        }
        for name, weight in system.weights.items()
    ]
    epochs = read_csv(folder / "metrics.csv")
    shares = data.dataset.sampler.shares
    return PretrainingResult(corpus, len(data.rows["test"]), shares, pd.DataFrame(rows), epochs)


def _samples(data: PretrainingDataModule, rows: np.ndarray) -> Iterator[Sample]:
    """Samples of methods as an evaluation draws them."""
    for row in rows:
        yield data.dataset.sample(int(row))
