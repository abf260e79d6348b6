"""What a run has measured."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gedbd.tasks.code_probe.data import ProbeData
from gedbd.tasks.code_probe.probes import Measured


@dataclass(frozen=True)
class ProbeResult:
    """What a run has measured.

    Attributes:
        name: Short name of the corpus.
        methods: The trained methods, in the order of ``task.runs``.
        data: What was read.
        table: See ``results_table``.
        differences: See ``differences_table``.
        runs: One row a run and measure: ``method``, ``run`` (its folder), ``measure`` and ``value``.
        validation: Mean accuracy on validation of the probes of the first method, over its seeds.
    """

    name: str
    methods: tuple[str, ...]
    data: ProbeData
    table: pd.DataFrame
    differences: pd.DataFrame
    runs: pd.DataFrame
    validation: float

    @property
    def summary(self) -> str:
        """What was read, in one sentence."""
        counts = [
            f"{len(part):,} variables of {len(part.codes):,} methods" for part in (self.data.train, self.data.test)
        ]
        pairs = f"{len(self.data.test.pairs.label):,} pairs of variables"
        search = "no search" if self.data.search is None else f"{len(self.data.search):,} queries"
        return f"{self.name}: {counts[0]} to learn from, {counts[1]} to test on, {pairs} and {search}."


def validation_of(measured: Sequence[Measured], method: str) -> float:
    """Mean accuracy on validation of a method's probes."""
    return float(np.nanmean([one.validation for one in measured if one.method == method]))
