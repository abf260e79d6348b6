"""The triage model besides the encoder: a ranker of candidates, and the probability that a match is right.

Boosted trees read the features of a candidate, its score and its margins over other candidates. They are trained on the
first candidates of each report. Isotonic regression, fitted on held-out outputs, turns the output for the best
candidate into a probability.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from importlib.resources import files as package_files
from typing import Any, NamedTuple

import numpy as np

from gedbd.evaluation.thresholds import NOT_MEASURED, TargetResult, find_target
from gedbd.retrieval.boosted_trees import BoostedTrees, fit_classifier
from gedbd.retrieval.report_ranking.candidate_features import FEATURES
from gedbd.retrieval.report_ranking.report_ranker import ReportRanker, default_ranker

NUM_BINS = 10
SHIFT_DEVIATION = 1.0  # standard deviation of the prior of a shift
DEFAULT_CONFIDENCE = "default_confidence.json"
NUM_COMPARED = 5  # candidates of a query that the margins depend on
MARGINS = (
    *("score", "ahead of the next", "ahead of the third", "ahead of the last", "score of the first", "candidates near"),
    *("candidates with duplicates", "mean group size", "place"),
)
CONFIDENCE_FEATURES = (*MARGINS, *FEATURES)
GROUP_SIZE = FEATURES.index("group size")  # its logarithm
PLACE = CONFIDENCE_FEATURES.index("place")  # 1 for the best candidate
# Chosen on the validation splits of Xamarin's, Hadoop's and Titanium's reports. There, trees trained on five
# candidates of a report have an average precision that is 2 to 5% higher than with the best candidate alone.
ROUNDS = 150
NUM_LEAVES = 16
L2 = 10.0
NUM_SEEDS = 3
NUM_FOLDS = 4
OLDER = "was written by an older version of gedbd: run gedbd backtest again, then gedbd index"
DEFAULT_TARGET = 0.7
FILE = "matching.json"  # that a backtest leaves; named in errors


@dataclass(frozen=True)
class MatchProbability:
    """Maps the features of a candidate to the probability that it is right."""

    trees: BoostedTrees  # trees on ``CONFIDENCE_FEATURES``
    knots: np.ndarray  # ``(T,)`` outputs of the trees, ascending; the probability is interpolated between them
    probabilities: np.ndarray  # ``(T,)`` probabilities at the knots, ascending

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Predicts probabilities from features, ``(B, F) -> (B,)``."""
        return np.asarray(np.interp(self.trees.predict(features), self.knots, self.probabilities))

    def shifted(self, shift: float) -> "MatchProbability":
        """A copy with ``shift`` added to the log odds at each knot, see ``fit_shift``."""
        from scipy.special import expit, logit

        return replace(self, probabilities=expit(logit(self.probabilities) + shift))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; ``from_dict`` reads them."""
        arrays = {"knots": self.knots.tolist(), "probabilities": self.probabilities.tolist()}
        return {"trees": self.trees.to_text().splitlines(), **arrays}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "MatchProbability":
        """Reads what ``as_dict`` returned."""
        trees = BoostedTrees.from_text("\n".join(plain["trees"]) + "\n")
        if trees.num_features != len(CONFIDENCE_FEATURES):
            raise ValueError(f"the confidence reads {trees.num_features} features; run the backtest again")
        return cls(trees, *(np.array(plain[name], dtype=np.float64) for name in ("knots", "probabilities")))


def default_confidence() -> MatchProbability:
    """The probabilities of the default ranker's matches, learned on other trackers, see ``default_ranker.md``."""
    text = (package_files("gedbd.triage") / DEFAULT_CONFIDENCE).read_text(encoding="utf-8")
    return MatchProbability.from_dict(json.loads(text))


class Matches(NamedTuple):
    """The first matches of several reports, B in all."""

    features: np.ndarray  # ``(B, F)``, see ``confidence_features``
    right: np.ndarray  # ``(B,)`` bool, whether each match is right
    weight: np.ndarray  # ``(B,)`` sample weight of each match's report
    fold: np.ndarray  # ``(B,)`` from 0 to ``NUM_FOLDS - 1``; reports of one duplicate group are in one fold

    @property
    def is_best(self) -> np.ndarray:
        """``(B,)`` bool, whether each match is the best of its report."""
        return np.asarray(self.features[:, PLACE] == 1)

    def take(self, index: np.ndarray) -> "Matches":
        """The matches of ``index``, rows or ``(B,)`` bool."""
        return Matches(*(column[index] for column in self))


def confidence_features(features: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """``CONFIDENCE_FEATURES`` of a query's candidates in the order of their scores, ``(C, F), (C,) -> (C, M + F)``.

    They do not depend on candidates beyond ``NUM_COMPARED``.
    """
    if not len(scores):
        return np.empty((0, len(CONFIDENCE_FEATURES)))
    # The best other score is the first one; for the first candidate, the second one.
    best_other = np.full(len(scores), scores[0])
    best_other[:1] = scores[1] if len(scores) > 1 else scores[0]
    compared = scores[:NUM_COMPARED]
    sizes = features[:NUM_COMPARED, GROUP_SIZE]
    query_values = [scores[0], (compared > scores[0] - 0.5).sum(), (sizes > 0).mean(), sizes.mean()]
    margins = [scores, scores - best_other, scores - compared[:3][-1], scores - compared[-1]]
    margins += [np.full(len(scores), value) for value in query_values]
    return np.column_stack([*margins, np.arange(1, len(scores) + 1), features])


def learn_confidence(matches: Matches, seed: int) -> tuple[MatchProbability, np.ndarray]:
    """Trains and calibrates on the first matches of reports of one or several trackers by cross-fitting.

    Each fold is scored by trees that are trained on the other folds. Isotonic regression is fitted on these outputs for
    the best match of each report. The final trees are trained on all folds and share this calibration.

    Returns:
        The confidence, and the probability of each match by the trees that were not trained on its fold, ``(B,)``.

    Raises:
        ValueError: If the best matches outside a fold are all right or all wrong.
    """
    best = matches.is_best
    for fold in range(NUM_FOLDS):
        right = matches.right[best & (matches.fold != fold)]
        if not right.any() or right.all():
            label = "right" if not right.any() else "wrong"
            raise ValueError(
                f"too few best matches of the training and validation splits are {label} to learn probabilities"
                " from: change split.test_from, or provide more duplicates"
            )
    seeds = range(seed, seed + NUM_SEEDS)
    fit = partial(fit_classifier, seeds=seeds, rounds=ROUNDS, num_leaves=NUM_LEAVES, l2=L2)
    outputs = np.empty(len(best))
    for fold in range(NUM_FOLDS):
        held_out = matches.fold == fold
        if held_out.any():
            trees = fit(matches.features[~held_out], matches.right[~held_out], matches.weight[~held_out])
            outputs[held_out] = trees.predict(matches.features[held_out])
    knots, probabilities = fit_isotonic(outputs[best], matches.right[best], matches.weight[best])
    trees = fit(matches.features, matches.right, matches.weight)
    return MatchProbability(trees, knots, probabilities), np.interp(outputs, knots, probabilities)


def fit_isotonic(
    outputs: np.ndarray, right: np.ndarray, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Knots and probabilities by isotonic regression, ``(B,), (B,) bool -> (T,), (T,)``, with sample weights ``(B,)``.

    Each level of the regression is a knot at the mean of its outputs (centred isotonic regression: Oron and Flournoy,
    2017), so that probabilities increase strictly between levels. Each level is shrunk towards the overall share of
    right candidates, with the weight of one candidate.
    """
    from sklearn.isotonic import IsotonicRegression

    weight = np.ones(len(outputs)) if weight is None else weight
    level = IsotonicRegression().fit_transform(outputs, right.astype(np.float64), sample_weight=weight)
    _, number = np.unique(level, return_inverse=True)
    sizes = np.bincount(number, weight)
    knots = np.bincount(number, outputs * weight) / sizes
    probabilities = (np.bincount(number, right * weight) + np.average(right, weights=weight)) / (sizes + 1)
    return knots, np.maximum.accumulate(probabilities)


def fit_shift(probability: np.ndarray, right: np.ndarray, weight: np.ndarray) -> float:
    """Fits a shift of the log odds of other trackers' probabilities to a tracker's reports; all arrays are ``(B,)``.

    The maximum a posteriori estimate with a normal prior around 0. The shift adapts probabilities, which are above 0
    and below 1, to the frequency of duplicates and keeps their order.
    """
    from scipy.optimize import brentq
    from scipy.special import expit, logit

    odds = logit(probability)

    def slope(shift: float) -> float:
        """Slope of the log posterior, strictly decreasing."""
        return float((weight * (right - expit(odds + shift))).sum() - shift / SHIFT_DEVIATION**2)

    # At the ends the prior outweighs all reports, as each adds less than its weight.
    end = SHIFT_DEVIATION**2 * weight.sum() + 1.0
    return float(brentq(slope, -end, end))


def calibration_error(probability: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error over ten bins of equal width (Guo et al., 2017), ``(B,), (B,) -> float``.

    In torchmetrics' ``BinaryCalibrationError``, bin edges have single precision, so that 0.3 falls into the bin below,
    a probability of 1 has a separate bin, and the result without reports is NaN.
    """
    bins = np.minimum((probability * NUM_BINS).astype(int), NUM_BINS - 1)
    expected = np.bincount(bins, probability, NUM_BINS)
    observed = np.bincount(bins, right, NUM_BINS)
    return float(np.abs(expected - observed).sum() / max(len(bins), 1))


class BestCandidates(NamedTuple):
    """The best K candidates of a query, best first: positions among all, scores and probabilities, ``(K,)`` each."""

    position: np.ndarray
    score: np.ndarray
    probability: np.ndarray


@dataclass(frozen=True)
class TriageModel:
    """Ranker and probabilities, learned from a tracker's history, with the results of the backtest."""

    ranker: ReportRanker  # ranker of the candidates of a report
    confidence: MatchProbability  # maps the features of a candidate to a probability
    # results for all measured precision targets, lowest first; empty without a backtest
    targets: tuple[TargetResult, ...]
    target_precision: float  # the default precision target
    # as ``targets``, for lists of the best matches; also empty if an older backtest has none
    list_targets: tuple[TargetResult, ...] = ()

    @property
    def target(self) -> TargetResult:
        """The result for ``target_precision``; its status is ``not measured`` without a backtest."""
        return self._target_of(self.targets)

    @property
    def list_target(self) -> TargetResult:
        """The result of lists for ``target_precision``."""
        return self._target_of(self.list_targets)

    def _target_of(self, measured: tuple[TargetResult, ...]) -> TargetResult:
        if not measured:
            return TargetResult(self.target_precision, None, NOT_MEASURED)
        return find_target(measured, self.target_precision, "target_precision")

    def best(self, features: np.ndarray, top_k: int) -> BestCandidates:
        """The best ``max(top_k, NUM_COMPARED)`` candidates of a query, or all of them; ``features`` are ``(C, F)``."""
        scores = self.ranker.scores(features)
        position = np.argsort(-scores, kind="stable")[: max(top_k, NUM_COMPARED)]
        probability = self.confidence(confidence_features(features[position], scores[position]))
        return BestCandidates(position, scores[position], probability)

    @property
    def has_default_confidence(self) -> bool:
        """Whether the probabilities are the default ones, learned on other trackers."""
        return np.array_equal(self.confidence.knots, default_confidence().knots)

    def as_json(self) -> str:
        """The model as JSON; ``from_json`` reads it."""
        plain = {
            "ranker": self.ranker.to_text(),
            "confidence": self.confidence.as_dict(),
            "targets": [asdict(target) for target in self.targets],
            "list_targets": [asdict(target) for target in self.list_targets],
            "target_precision": self.target_precision,
        }
        return json.dumps(plain, indent=1)

    @classmethod
    def from_json(cls, text: str, source: str) -> "TriageModel":
        """Reads what ``as_json`` returned.

        Raises:
            ValueError: If it is damaged, or of another version of gedbd; names the source.
        """
        try:
            plain = {"list_targets": []} | json.loads(text)
            if plain.keys() != {field.name for field in fields(cls)}:
                raise ValueError(OLDER)
            targets, list_targets = (
                tuple(TargetResult(**target) for target in plain[key]) for key in ("targets", "list_targets")
            )
            ranker = ReportRanker.from_text(plain["ranker"])
            confidence = MatchProbability.from_dict(plain["confidence"])
            return cls(ranker, confidence, targets, plain["target_precision"], list_targets)
        except json.JSONDecodeError as error:
            raise ValueError(f"{source}: {FILE} is damaged: it is not JSON ({error})") from error
        except ValueError as error:
            raise ValueError(f"{source} {error}") from error
        except (AttributeError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"{source}: {FILE} is damaged: {type(error).__name__} at {error}") from error


def default_model() -> TriageModel:
    """The model of a tracker without a backtest, learned from other trackers, without automatic suggestions."""
    return TriageModel(default_ranker(), default_confidence(), (), DEFAULT_TARGET)
