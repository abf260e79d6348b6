"""What the encoders are probed with: variables of methods of each part, and queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.splits import TEST, TRAIN, VAL
from gedbd.tasks.code_probe.encoding import ProbedEncoder
from gedbd.tasks.code_probe.queries import SearchSample, draw_queries
from gedbd.tasks.code_probe.variables import Variables, read_variables

VAL_SHARE = 4  # as many variables are read for validation as for training, divided by this


@dataclass(frozen=True)
class SampleSizes:
    """How much the probes read.

    Args:
        train_variables: Variables that probes of types and roles learn from, and a quarter as many to validate.
        test_variables: Variables to test on.
        train_pairs: Pairs of these variables that probes of the flow of data learn from, and a quarter to validate.
        test_pairs: Pairs to test on.
        queries: Comments to search the methods of the test part with; 0 leaves search out.
    """

    train_variables: int = 20_000
    test_variables: int = 10_000
    train_pairs: int = 10_000
    test_pairs: int = 5_000
    queries: int = 1000

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < (0 if name == "queries" else 1):
                raise ValueError(f"task.sizes.{name}={value} must be {0 if name == 'queries' else 1} or more")


class ProbeData(NamedTuple):
    """Everything that is read, the same for every encoder.

    Attributes:
        train: Variables of methods of the training part.
        val: Of the validation part.
        test: Of the test part.
        tuning: Queries of the training part, for fine-tuning; None without search.
        search: Queries of the test part; None without search.
        warnings: What was left out, with counts.
    """

    train: Variables
    val: Variables
    test: Variables
    tuning: SearchSample | None
    search: SearchSample | None
    warnings: tuple[str, ...]

    @property
    def parts(self) -> tuple[Variables, Variables, Variables]:
        """Variables to learn from, to choose penalties by, and to test on."""
        return self.train, self.val, self.test


def read_data(
    corpus: Corpus,
    parts: np.ndarray,
    encoders: Sequence[ProbedEncoder],
    sizes: SampleSizes,
    num_tuning: int,
    seed: int,
) -> ProbeData:
    """Draws methods, parses them and draws queries.

    Args:
        corpus: Methods as ``read_java_sources`` reads them.
        parts: ``(N,)`` part of each method.
        encoders: One encoder of each tokenizer; a variable that one of them does not read is left out for all.
        sizes: How much is read.
        num_tuning: Queries to draw for fine-tuning.
        seed: Determines what is drawn.

    Raises:
        ValueError: If the corpus has no comments, or a part no variables.
    """
    table = corpus.reports
    if "comment" not in table:
        raise ValueError(f"{corpus.name} has no column comment: code probes need methods, give dataset=java_sources")
    rng = np.random.default_rng(seed)
    rows = [rng.permutation(np.flatnonzero(parts == part)) for part in (TRAIN, VAL, TEST)]
    # Before the code is parsed, which takes longer.
    tuning, search, warnings = _queries(corpus.name, table, rows[0], rows[2], sizes.queries, num_tuning)
    limits = (sizes.train_variables, max(sizes.train_variables // VAL_SHARE, 1), sizes.test_variables)
    read = [
        _variables(table, chosen, encoders, limit, rng, f"{corpus.name}: part {name}")
        for chosen, limit, name in zip(rows, limits, ("train", "val", "test"), strict=True)
    ]
    warnings += _left_out(read)
    return ProbeData(read[0], read[1], read[2], tuning, search, tuple(warnings))


def _left_out(read: Sequence[Variables]) -> list[str]:
    """Warnings about texts and pairs that are not probed."""
    warnings = []
    num_without_graph = sum(variables.num_without_graph for variables in read)
    if num_without_graph:
        warnings.append(f"texts that hold no method: {num_without_graph:,} have no variables and are left out")
    unmatched = sum(variables.pairs.num_unmatched for variables in read)
    pairs = sum(int(variables.pairs.label.sum()) for variables in read)
    if unmatched:
        warnings.append(
            f"pairs with a flow of data: {pairs:,} have a pair without one in their method with the same distance and"
            f" the same or another name; {unmatched:,} have none and are left out"
        )
    return warnings


def _queries(
    name: str, table: pd.DataFrame, train: np.ndarray, test: np.ndarray, wanted: int, num_tuning: int
) -> tuple[SearchSample | None, SearchSample | None, list[str]]:
    """Queries to fine-tune with and to search with, and warnings."""
    if not wanted:
        return None, None, []
    search = draw_queries(table, test, wanted)
    tuning = draw_queries(table, train, num_tuning)
    if len(search) < 2 or (num_tuning and len(tuning) < 2):
        raise ValueError(
            f"{name} has {len(tuning):,} comments in part train and {len(search):,} in part test to search with:"
            " leave search out with task.sizes.queries=0"
        )
    warnings = []
    if len(search) < wanted:
        warnings.append(f"the test part has {len(search):,} distinct comments of three or more words, not {wanted:,}")
    return tuning, search, warnings


def _variables(
    table: pd.DataFrame,
    rows: np.ndarray,
    encoders: Sequence[ProbedEncoder],
    limit: int,
    rng: np.random.Generator,
    title: str,
) -> Variables:
    """The variables of the first methods of a part."""
    codes = table["description"].iloc[rows].tolist()
    # No more methods are tokenized than are read: nearly all have a variable or more.
    codes = codes[: 2 * limit]
    visible = np.min([encoder.visible_characters(codes) for encoder in encoders], axis=0)
    variables = read_variables(rows[: len(codes)], codes, visible, limit, rng, title)
    if not len(variables.pairs.label):
        raise ValueError(f"{title} has no pairs of variables to probe: give more methods, or another split")
    return variables
