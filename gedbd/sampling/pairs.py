"""Supervision: which pairs of reports are shown to the loss, and which are kept to measure with."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.corpora.documents import Corpus
from gedbd.corpora.splits import OUTSIDE, PARTS, TRAIN, PairSplit, Split
from gedbd.sampling.feedback_labels import Judged, read_judged

ROUNDS = 200


def positive_pairs(group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All pairs inside duplicate groups.

    Args:
        group: ``(N,)`` group number of each report.

    Returns:
        Rows ``earlier`` and ``later``, each ``(P,)`` with ``earlier < later``, ordered by group. A group of n reports
        gives n (n - 1) / 2 pairs.
    """
    order = np.argsort(group, kind="stable")
    _, starts, sizes = np.unique(group[order], return_index=True, return_counts=True)
    earlier, later = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for start, size in zip(starts[sizes > 1], sizes[sizes > 1], strict=True):
        first, second = np.triu_indices(size, 1)
        earlier.append(order[start + first])
        later.append(order[start + second])
    return np.concatenate(earlier), np.concatenate(later)


@dataclass(frozen=True)
class PairSampler:
    """Positives, anchor negatives and random negatives, as in the graph-enhanced transformer paper.

    Positives are all pairs inside groups. For each positive, ``negatives_per_positive`` anchor negatives pair one of
    its two reports, drawn at random, with a report of another group. Random negatives are drawn across all groups.
    Every pair is drawn inside the walls of the split and occurs once.

    The paper's text gives each *report* as many anchor negatives as it has positives. Its sets hold a duplicate pair in
    both directions, so that is ``negatives_per_positive=1`` here, where a pair occurs once. Its experiments have 50,000
    pairs: all positives, and random negatives.

    Args:
        negatives_per_positive: Anchor negatives for each positive pair.
        negatives_in_evaluation: The same for validation and test pairs, if it is to differ: more of them make steadier
            numbers, and cost little. ``PairSplit`` deals all pairs out alike and cannot heed it, and says so.
        random_negatives: Negatives drawn at random in all; the parts share them as they share the positives.
        fill_to: If given, more random negatives until there are this many pairs in all.
        seed: Fixes all draws.
        feedback: A ``feedback.sqlite``, or the index folder that holds one: accepted pairs are further positive,
            rejected ones further negative pairs of the training part. What may not be used is counted in the notices.
    """

    negatives_per_positive: float = 1.0
    negatives_in_evaluation: float | None = None
    random_negatives: int = 0
    fill_to: int | None = None
    seed: int = 0
    feedback: str | None = None

    def join(self, corpus: Corpus, split: Split, known: np.ndarray) -> np.ndarray:
        """The groups that training may know, ``(N,)``, with those put together whose reports people have accepted."""
        judged = self._judged(corpus, split, split.of_reports(corpus))
        return judged.join(known) if judged else known

    def sample(self, corpus: Corpus, split: Split, known: np.ndarray | None = None) -> pd.DataFrame:
        """Draws the pairs; the anchor pairs of a part do not depend on the other parts.

        Args:
            corpus: The reports.
            split: The walls.
            known: ``(N,)`` groups that training may know, if not all: see ``gedbd.corpora.observed_groups``.

        Returns:
            One row a pair: ``earlier`` and ``later`` (rows of the corpus), ``label`` (1 duplicate, 0 not), ``kind``
            (positive, anchor, random, feedback) and ``part`` (train, val, test). ``attrs["notices"]`` says what fell
            short.

        Raises:
            ValueError: If the corpus has no duplicates, a part gets no positive pair, or there is no such feedback.
        """
        parts = split.of_reports(corpus)
        known = corpus.group if known is None else known
        judged = self._judged(corpus, split, parts)
        known, barred = (judged.join(known), judged.rejected) if judged else (known, None)
        positives, notices = _positives(corpus.group, known, parts, split)
        if isinstance(split, PairSplit) and self.negatives_in_evaluation is not None:
            notices.append("split=pair deals all pairs out alike: pairs.negatives_in_evaluation is not heeded")
        frames = [positives.assign(label=1, kind="positive")]
        for number in np.unique(positives["part"]).tolist():
            mine = positives[positives["part"] == number]
            group = known if number == TRAIN else corpus.group
            draw = _Draw(group, parts, split, np.random.default_rng([self.seed, number]), barred)
            anchor, extra = self._counts(number, len(mine), int((positives["part"] < number).sum()), len(positives))
            frames.append(draw(anchor, number, mine).assign(kind="anchor"))
            frames.append(draw(extra, number).assign(kind="random"))
            short = anchor + extra - len(frames[-1]) - len(frames[-2])
            if short:
                notices.append(f"{short} negatives of part {PARTS[number]} could not be drawn: too few reports")
        pairs = pd.concat(frames, ignore_index=True)
        if isinstance(split, PairSplit):
            pairs["part"] = split.cut(len(pairs))
        _require_positives(pairs, corpus, split)
        pairs["part"] = np.array(PARTS)[pairs["part"].to_numpy()]
        if judged:
            pairs, added = _add_judged(pairs, judged)
            notices += [*judged.notices, *added]
        pairs.attrs["notices"] = tuple(notices)
        return pairs[["earlier", "later", "label", "kind", "part"]]

    def _judged(self, corpus: Corpus, split: Split, parts: np.ndarray) -> Judged | None:
        return None if self.feedback is None else read_judged(Path(self.feedback), corpus, split, parts)

    def _counts(self, part: int, positives: int, before: int, all_positives: int) -> tuple[int, int]:
        """Anchor and random negatives of one part, by its share of the positives; ``before`` are in earlier parts.

        Rounding where shares end, not the shares themselves, makes the parts add up to the total.
        """

        def share(total: int) -> int:
            return round(total * (before + positives) / all_positives) - round(total * before / all_positives)

        ratio = self.negatives_in_evaluation
        if part == TRAIN or ratio is None:
            ratio = self.negatives_per_positive
        anchor = round(ratio * positives)
        extra = share(self.random_negatives)
        if self.fill_to is not None:
            extra = max(extra, share(self.fill_to) - positives - anchor)
        return anchor, extra


def _positives(group: np.ndarray, known: np.ndarray, parts: np.ndarray, split: Split) -> tuple[pd.DataFrame, list[str]]:
    """Duplicate pairs that lie inside a part, of the training part those that are known, and what was left out."""
    earlier, later = positive_pairs(group)
    pairs = pd.DataFrame({"earlier": earlier, "later": later, "part": split.of_pairs(parts, earlier, later)})
    pairs = pairs[(pairs["part"] != TRAIN) | (known[earlier] == known[later])]
    crossing = pairs["part"] == OUTSIDE
    notices = [f"{crossing.sum()} duplicate pairs cross the split and are left out"] if crossing.any() else []
    return pairs[~crossing].reset_index(drop=True), notices


def _add_judged(pairs: pd.DataFrame, judged: Judged) -> tuple[pd.DataFrame, list[str]]:
    """Adds the judged pairs that were not drawn already to the training part."""
    drawn = pd.MultiIndex.from_frame(pairs[["earlier", "later"]])
    met = pd.MultiIndex.from_frame(judged.pairs[["earlier", "later"]]).isin(drawn)
    new = judged.pairs[~met].assign(kind="feedback", part=PARTS[TRAIN])
    notices = [f"feedback: {met.sum():,} judged pairs are drawn already"] if met.any() else []
    accepted = int(new["label"].sum())
    notices.append(f"feedback: {accepted:,} accepted and {len(new) - accepted:,} rejected pairs join the training part")
    return pd.concat([pairs, new], ignore_index=True), notices


class _Draw:
    """Draws negatives inside one part that were not drawn before and are not ``barred``, in rounds of rejection."""

    def __init__(
        self,
        group: np.ndarray,
        parts: np.ndarray,
        split: Split,
        rng: np.random.Generator,
        barred: pd.DataFrame | None = None,
    ) -> None:
        self.group, self.parts, self.split, self.rng = group, parts, split, rng
        self.seen = np.empty(0, dtype=np.int64)
        if barred is not None:
            self.seen = barred["earlier"].to_numpy() * len(group) + barred["later"].to_numpy()

    def __call__(self, count: int, part: int, positives: pd.DataFrame | None = None) -> pd.DataFrame:
        """Draws ``count`` negatives of a part; with ``positives``, each holds a report of one of them in turn."""
        drawn = np.empty(0, dtype=np.int64)
        wanted = np.resize(np.arange(count if positives is None else len(positives)), count)
        for _ in range(ROUNDS):
            if not len(wanted):
                break
            code = self._candidates(wanted, positives)
            good = self._acceptable(code, part)
            good[np.setdiff1d(np.arange(len(code)), np.unique(code, return_index=True)[1])] = False
            self.seen = np.concatenate([self.seen, code[good]])
            drawn, wanted = np.concatenate([drawn, code[good]]), wanted[~good]
        earlier, later = np.divmod(drawn, len(self.group))
        return pd.DataFrame({"earlier": earlier, "later": later, "part": np.int8(part), "label": 0})

    def _candidates(self, wanted: np.ndarray, positives: pd.DataFrame | None) -> np.ndarray:
        partner = self.rng.integers(len(self.group), size=len(wanted))
        if positives is None:
            anchor = self.rng.integers(len(self.group), size=len(wanted))
        else:
            side = self.rng.integers(2, size=len(wanted))
            anchor = positives[["earlier", "later"]].to_numpy()[wanted, side]
        return np.minimum(anchor, partner) * len(self.group) + np.maximum(anchor, partner)

    def _acceptable(self, code: np.ndarray, part: int) -> np.ndarray:
        earlier, later = np.divmod(code, len(self.group))
        other_group = self.group[earlier] != self.group[later]
        inside = self.split.of_pairs(self.parts, earlier, later) == part
        return np.asarray(other_group & inside & ~np.isin(code, self.seen))


def _require_positives(pairs: pd.DataFrame, corpus: Corpus, split: Split) -> None:
    if not len(pairs):
        raise ValueError(
            f"{corpus.name} has no duplicate pairs in {len(corpus)} reports: there is nothing to learn from"
        )
    found = pairs[pairs["label"] == 1]["part"]
    for number, name in enumerate(PARTS):
        if not (found == number).any():
            raise ValueError(
                f"part {name} of {corpus.name} has no duplicate pair under {split}: move the boundaries of the split"
            )
