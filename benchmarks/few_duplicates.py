"""From how many duplicates of its own a tracker should learn the probability of a match: a table.

python benchmarks/few_duplicates.py FOLDER/reports.csv FOLDER/reports.csv ... --lists outputs/lists

Each tracker in turn is left out: the default ranker and its probabilities learn from the others. From random samples of
its training part, probabilities are learnt, or those of the others are shifted. All are measured on validation.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from default_report_ranker import first_matches, fit_confidence
from report_lists import Tracker, fit_default, load_tracker

from gedbd.corpora.corpus import TRAIN, VAL
from gedbd.triage.triage_model import Matches, MatchProbability, fit_shift, learn_confidence

SIZES = (8, 32, 64, 128, 256)


class Measured(NamedTuple):
    """The log loss of three kinds of probabilities on validation.

    Attributes:
        right: Number of right best matches that they have learnt from.
        other_trackers: As they are.
        shifted: Those of the other trackers, shifted.
        own: Learnt on them alone; NaN where that was not possible.
    """

    right: int
    other_trackers: float
    shifted: float
    own: float


def log_loss(probability: np.ndarray, matches: Matches) -> float:
    """The mean over best matches; a probability counts as at least .0001 away from 0 and 1."""
    likelihood = np.where(matches.right, probability, 1 - probability).clip(1e-4)
    return -float(np.average(np.log(likelihood), weights=matches.weight))


def samples(part: np.ndarray, is_duplicate: np.ndarray, size: int, draws: int) -> Iterator[np.ndarray]:
    """Some duplicates of the training part, and the same share of its other reports; none if there are too few."""
    duplicates = np.flatnonzero((part == TRAIN) & is_duplicate)
    others = np.flatnonzero((part == TRAIN) & ~is_duplicate)
    if len(duplicates) < size:
        return
    num_others = round(len(others) * size / len(duplicates))
    for draw in range(draws):
        generator = np.random.default_rng(draw)
        yield np.concatenate([generator.choice(duplicates, size, False), generator.choice(others, num_others, False)])


def measure(default: MatchProbability, learn: Matches, val: Matches) -> Measured:
    """All three kinds, learnt from some matches."""
    best = learn.take(learn.is_best)
    shift = fit_shift(default(best.features), best.right, best.weight)
    try:
        own = log_loss(learn_confidence(learn, 0)[0](val.features), val)
    except ValueError:  # no right match among those of three folds
        own = np.nan
    shifted = log_loss(default.shifted(shift)(val.features), val)
    return Measured(int(best.right.sum()), log_loss(default(val.features), val), shifted, own)


def rows_of(tracker: Tracker, others: Sequence[Tracker], draws: int) -> Iterator[dict[str, Any]]:
    """The rows of one tracker, one for each size: means over the draws."""
    ranker = fit_default(others, 1, 120)
    rankers = [fit_default([one for one in others if one is not other], 1, 120) for other in others]
    default = fit_confidence(others, rankers)
    matches, places = first_matches(tracker, ranker)
    queries = [*tracker.queries, *tracker.others]
    part = tracker.part[[one.row for one in queries]]
    is_duplicate = np.arange(len(queries)) < len(tracker.queries)
    val = matches.take(matches.is_best & (part[places] == VAL))
    for size in SIZES:
        drawn = [np.isin(places, some) for some in samples(part, is_duplicate, size, draws)]
        found = [measure(default, matches.take(rows), val) for rows in drawn]
        if found:
            means = dict(zip(Measured._fields, pd.DataFrame(found).mean(), strict=True))
            yield {"tracker": tracker.name, "duplicates": size, **means}


def main() -> None:
    """Measures, and prints the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="+", help="exports; the folder's name is the tracker's")
    parser.add_argument("--backend", default="openvino_bf16")
    parser.add_argument("--lists", type=Path, help="folder that keeps the replayed queries")
    parser.add_argument("--num-others", type=int, default=3000, help="reports without a duplicate")
    parser.add_argument("--draws", type=int, default=8)
    arguments = parser.parse_args()
    trackers = [
        load_tracker(one, arguments.backend, arguments.num_others, arguments.lists) for one in arguments.corpora
    ]
    print("| tracker | duplicates | right best matches | of the others | shifted | learnt on them alone |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for tracker in trackers:
        others = [one for one in trackers if one is not tracker]
        for row in rows_of(tracker, others, arguments.draws):
            losses = " | ".join(f"{row[name]:.3f}" for name in ("other_trackers", "shifted", "own"))
            print(f"| {tracker.name} | {row['duplicates']} | {row['right']:.0f} | {losses} |", flush=True)


if __name__ == "__main__":
    main()
