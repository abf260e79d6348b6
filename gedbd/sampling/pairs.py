"""Pairs for training and evaluation: positives, anchor negatives, random negatives and feedback."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import OUTSIDE, PARTS, TRAIN, VAL, Corpus
from gedbd.sampling.feedback_labels import FeedbackLabels, read_feedback_labels
from gedbd.sampling.splits import HeldOutSplit, PairSplit, Split, split_corpus

MAX_DRAW_ROUNDS = 200
POSITIVES = ("all", "marked")


class SampledPairs(NamedTuple):
    """The pairs of all splits."""

    # one row per pair: ``earlier`` and ``later`` (rows of the corpus), ``label`` (1 duplicate, 0 not), ``kind``
    # (positive, anchor, random, feedback) and ``part`` (train, val, test)
    table: pd.DataFrame
    warnings: tuple[str, ...]  # pairs that were left out or could not be sampled, one sentence each


def positive_pairs(group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All pairs inside duplicate groups, from the group ``(N,)`` of each report.

    Returns:
        Rows ``earlier`` and ``later``, each ``(P,)`` with ``earlier < later``, ordered by group. A group of n reports
        gives n (n - 1) / 2 pairs.
    """
    order = np.argsort(group, kind="stable")
    _, starts, sizes = np.unique(group[order], return_index=True, return_counts=True)
    earlier = [np.empty(0, np.int64)]
    later = [np.empty(0, np.int64)]
    for start, size in zip(starts[sizes > 1], sizes[sizes > 1], strict=True):
        # A group of 3 gives (0, 1), (0, 2), (1, 2), counted from its start in the sorted rows.
        first, second = np.triu_indices(size, 1)
        earlier.append(order[start + first])
        later.append(order[start + second])
    return np.concatenate(earlier), np.concatenate(later)


@dataclass(eq=False)
class NegativeSampler:
    """Samples distinct pairs of different groups in a split, by rejection sampling.

    A pair of rows i < j of N has the code i * N + j: with N = 10, (2, 7) is 27.
    """

    group: np.ndarray
    parts: np.ndarray
    part: int
    split: Split
    rng: np.random.Generator
    first: np.ndarray  # ``(N,)`` the first row of each report's tracker, with which alone it is paired
    rejected: pd.DataFrame | None = None

    def __post_init__(self) -> None:
        self.seen = np.empty(0, dtype=np.int64)
        # Rejected pairs are added to the training split later, with the other feedback.
        if self.rejected is not None:
            self.seen = self.rejected["earlier"].to_numpy() * len(self.group) + self.rejected["later"].to_numpy()

    def draw(self, count: int, positives: pd.DataFrame | None = None) -> pd.DataFrame:
        """Samples ``count`` negatives; with ``positives``, each contains a report of a positive, in turn."""
        drawn = np.empty(0, dtype=np.int64)
        ends = None if positives is None else positives[["earlier", "later"]].to_numpy()
        tracker_sizes = np.bincount(self.first)
        missing = np.resize(np.arange(count if ends is None else len(ends)), count)
        for _ in range(MAX_DRAW_ROUNDS):
            if not len(missing):
                break
            partner = self.rng.integers(len(self.group), size=len(missing))
            if ends is None:
                anchor = self.rng.integers(len(self.group), size=len(missing))
            else:
                side = self.rng.integers(2, size=len(missing))
                anchor = ends[missing, side]
            # Row 70 of 100 becomes row 8 + 14 of a tracker of 20 reports from row 8 on.
            first = self.first[anchor]
            partner = first + partner * tracker_sizes[first] // len(self.group)
            earlier = np.minimum(anchor, partner)
            later = np.maximum(anchor, partner)
            code = earlier * len(self.group) + later
            is_valid = self.group[earlier] != self.group[later]
            is_valid &= self.split.of_pairs(self.parts, earlier, later) == self.part
            is_valid &= ~np.isin(code, self.seen)
            # Repeated pairs of a round are sampled again.
            distinct = np.unique(code, return_index=True)[1]
            is_valid[np.setdiff1d(np.arange(len(code)), distinct)] = False
            self.seen = np.concatenate([self.seen, code[is_valid]])
            drawn = np.concatenate([drawn, code[is_valid]])
            missing = missing[~is_valid]
        earlier, later = np.divmod(drawn, len(self.group))
        return pd.DataFrame({"earlier": earlier, "later": later, "part": np.int8(self.part), "label": 0})


@dataclass(frozen=True)
class PairSampler:
    """Positives, anchor negatives and random negatives, as in the graph-enhanced transformer paper.

    Positives are all pairs inside groups. For each positive, ``negatives_per_positive`` anchor negatives pair one of
    its reports, at random, with a report of another group. Random negatives are sampled across all groups. Each pair
    belongs to one split and occurs once.

    The paper's text gives each *report* anchor negatives in proportion to its positives, in sets that contain a pair in
    both directions; this equals ``negatives_per_positive=1`` here. Its authors' code reads 50,000 pairs: by Figure 2,
    most likely all positives, and random negatives.

    Raises:
        ValueError: If ``positives`` is unknown.
    """

    negatives_per_positive: float = 1.0  # number of anchor negatives for each positive pair
    # the same for validation and test pairs, if it differs: more negatives reduce the variance of the metrics.
    # ``PairSplit`` ignores it with a warning
    negatives_in_evaluation: float | None = None
    # total number of random negatives, divided among the splits in proportion to their positives
    random_negatives: int = 0
    fill_to: int | None = None  # if given, random negatives are added until there are this many pairs
    seed: int = 0  # seed of the random numbers
    # a ``feedback.sqlite``, or the index folder that contains it: accepted pairs are added to the positives of the
    # training split, rejected ones to its negatives. Warnings count unusable pairs
    feedback: str | None = None
    # ``all`` training pairs inside groups, or only ``marked`` ones with a duplicate link. Validation and test use all
    # pairs, except with ``PairSplit``, where all splits use marked pairs
    positives: str = "all"

    def __post_init__(self) -> None:
        if self.positives not in POSITIVES:
            raise ValueError(f"pairs.positives={self.positives} is unknown: choose {', '.join(POSITIVES)}")

    def join_accepted(self, corpus: Corpus, split: Split, observed: np.ndarray) -> np.ndarray:
        """The groups that training observes, ``(N,)``, merged by accepted pairs."""
        labels = self._feedback_labels(corpus, split, split_corpus(split, corpus))
        return labels.join_accepted(observed) if labels else observed

    def sample(self, corpus: Corpus, split: Split, observed: np.ndarray | None = None) -> SampledPairs:
        """Samples the pairs; the anchor pairs of a split do not depend on the other splits.

        Args:
            corpus: The reports.
            split: Assigns reports and pairs to splits.
            observed: ``(N,)`` groups that training observes; None for all.

        Raises:
            ValueError: If a split has no positive pair, the feedback file is missing, or required links are unknown.
        """
        parts = split_corpus(split, corpus)
        observed = corpus.group if observed is None else observed
        labels = self._feedback_labels(corpus, split, parts)
        rejected = None
        if labels:
            observed = labels.join_accepted(observed)
            rejected = labels.rejected
        positives, warnings = _positives(corpus.group, observed, parts, split)
        if self.positives == "marked":
            if corpus.links is None:
                problem = f"the duplicate links of {corpus.name} are unknown, only its groups"
                raise ValueError(f"pairs.positives=marked: {problem}; use all")
            links = pd.MultiIndex.from_arrays(list(np.sort(corpus.links.pairs, axis=0)))  # in either direction
            is_marked = pd.MultiIndex.from_frame(positives[["earlier", "later"]]).isin(links)
            unmarked = (positives["part"] == TRAIN) & ~is_marked
            positives = positives[~unmarked].reset_index(drop=True)
            warnings.append(f"{unmarked.sum():,} training pairs of a group that no duplicate link joins are left out")
        if isinstance(split, PairSplit) and self.negatives_in_evaluation is not None:
            warnings.append("split=pair assigns all pairs at random: pairs.negatives_in_evaluation has no effect")
        frames = [positives.assign(label=1, kind="positive")]
        for number in np.unique(positives["part"]).tolist():
            # In training, the reports of a hidden group are singletons, so that two of them may form a negative.
            group = observed if number == TRAIN else corpus.group
            rng = np.random.default_rng([self.seed, number])
            sampler = NegativeSampler(group, parts, number, split, rng, corpus.documents.first_of_tracker, rejected)
            negatives, missing = self._negatives(sampler, positives)
            frames += negatives
            if missing:
                warnings.append(f"{missing} negatives of split {PARTS[number]} not found in {MAX_DRAW_ROUNDS} draws")
        pairs = pd.concat(frames, ignore_index=True)
        if isinstance(split, PairSplit):
            pairs["part"] = split.cut(len(pairs))
        _require_positives(pairs, corpus, split)
        pairs["part"] = np.array(PARTS)[pairs["part"].to_numpy()]
        if labels:
            pairs, added = _add_feedback(pairs, labels)
            warnings += [*labels.warnings, *added]
        return SampledPairs(pairs[["earlier", "later", "label", "kind", "part"]], tuple(warnings))

    def _feedback_labels(self, corpus: Corpus, split: Split, parts: np.ndarray) -> FeedbackLabels | None:
        return None if self.feedback is None else read_feedback_labels(Path(self.feedback), corpus, split, parts)

    def _negatives(self, sampler: NegativeSampler, positives: pd.DataFrame) -> tuple[list[pd.DataFrame], int]:
        """Anchor and random negatives of a split, and the number of missing ones."""
        part_positives = positives[positives["part"] == sampler.part]
        before = int((positives["part"] < sampler.part).sum())

        def share(total: int) -> int:
            """The split's share of a number of pairs, in proportion to its positives."""
            # Rounding cumulative shares keeps the sum: 10 over three equal splits gives 3, 7 - 3 = 4, 10 - 7 = 3.
            end = before + len(part_positives)
            return round(total * end / len(positives)) - round(total * before / len(positives))

        ratio = self.negatives_in_evaluation
        if sampler.part == TRAIN or ratio is None:
            ratio = self.negatives_per_positive
        num_anchor = round(ratio * len(part_positives))
        num_random = share(self.random_negatives)
        if self.fill_to is not None:
            num_random = max(num_random, share(self.fill_to) - len(part_positives) - num_anchor)
        anchor = sampler.draw(num_anchor, part_positives).assign(kind="anchor")
        random = sampler.draw(num_random).assign(kind="random")
        return [anchor, random], num_anchor + num_random - len(anchor) - len(random)


def _positives(
    group: np.ndarray, observed: np.ndarray, parts: np.ndarray, split: Split
) -> tuple[pd.DataFrame, list[str]]:
    """Duplicate pairs inside a split, only observed ones in training, and a warning about crossing pairs."""
    earlier, later = positive_pairs(group)
    pairs = pd.DataFrame({"earlier": earlier, "later": later, "part": split.of_pairs(parts, earlier, later)})
    pairs = pairs[(pairs["part"] != TRAIN) | (observed[earlier] == observed[later])]
    crossing = pairs["part"] == OUTSIDE
    warnings = [f"{crossing.sum()} duplicate pairs cross the split and are left out"] if crossing.any() else []
    return pairs[~crossing].reset_index(drop=True), warnings


def _add_feedback(pairs: pd.DataFrame, labels: FeedbackLabels) -> tuple[pd.DataFrame, list[str]]:
    """Adds new pairs of feedback to the training split."""
    sampled = pd.MultiIndex.from_frame(pairs[["earlier", "later"]])
    repeated = pd.MultiIndex.from_frame(labels.pairs[["earlier", "later"]]).isin(sampled)
    new = labels.pairs[~repeated].assign(kind="feedback", part=PARTS[TRAIN])
    warnings = [f"feedback: {repeated.sum():,} pairs were sampled already"] if repeated.any() else []
    accepted = int(new["label"].sum())
    warnings.append(
        f"feedback: {accepted:,} accepted and {len(new) - accepted:,} rejected pairs join the training split"
    )
    return pd.concat([pairs, new], ignore_index=True), warnings


def _require_positives(pairs: pd.DataFrame, corpus: Corpus, split: Split) -> None:
    if not len(pairs):
        raise ValueError(
            f"{corpus.name} has no duplicate pairs in {len(corpus)} reports: there is nothing to learn from; to"
            " search it anyway, run gedbd index without run="
        )
    parts = pairs[pairs["label"] == 1]["part"]
    trains_only = isinstance(split, HeldOutSplit) and (split_corpus(split, corpus) == TRAIN).all()
    for number, name in enumerate(PARTS[:VAL] if trains_only else PARTS):
        if not (parts == number).any():
            bounds = ", ".join(f"split.{option}={value}" for option, value in vars(split).items())
            raise ValueError(
                f"split {name} of {corpus.name} has none of its {len(parts):,} duplicate pairs: move the boundaries of"
                f" the splits ({bounds}); to search it anyway, run gedbd index without run="
            )
