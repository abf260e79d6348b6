"""A cross-encoder's scores of the first candidates of another ranker, to be one more feature of a learned ranker."""

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import torch

from gedbd.encoders.backend import Backend, PreparedBackend
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.retrieval.cross_encoder import CrossEncoder, CrossEncoderOptions, PairExample, train_cross_encoder
from gedbd.retrieval.reports.report_scorer import RankedList, ReportText

NAME = "cross"
DEPTH = 30
MAX_TOKENS = 128
MAX_QUERIES = 1500
# Few steps are affordable on a CPU, so that they must be larger than those of a long training.
OPTIONS = CrossEncoderOptions(negatives=3, epochs=1, lr=1e-4, batch_size=8)
MIN_FOLDS = 2
MIN_QUERIES = 2


class CrossScores:
    """Trains a cross-encoder on the hard candidates of another ranker, and scores its first candidates.

    Args:
        encoder: LoadedEncoder to start from; a copy of its weights is trained.
        max_tokens: Length that two reports together are cut to, the longer one first.
        depth: Number of candidates to score, and to draw irrelevant ones from in training.
        max_queries: Number of training queries, the latest ones, which bounds the time of a training.
        folds: See ``fit_held_out``.
        options: How the cross-encoder is trained.
        backend: Runs the trained model; None: PyTorch, in bfloat16 on CPUs that have instructions for it.
    """

    name = NAME
    warnings: tuple[str, ...] = ()

    def __init__(
        self,
        encoder: LoadedEncoder,
        max_tokens: int = MAX_TOKENS,
        depth: int = DEPTH,
        max_queries: int = MAX_QUERIES,
        folds: int = MIN_FOLDS,
        options: CrossEncoderOptions = OPTIONS,
        backend: Backend | None = None,
    ) -> None:
        if backend is not None and backend.calibrated:
            raise ValueError("cross: a calibrated backend cannot run a cross-encoder: choose backend=openvino_bf16")
        if folds != 0 and folds < MIN_FOLDS:
            raise ValueError(f"cross.folds={folds} must be 0, or {MIN_FOLDS} or more")
        self.depth = depth
        self.max_queries = max_queries
        self.folds = folds
        self.options = options
        self.backend = backend
        self._prepared: PreparedBackend | None = None
        torch.manual_seed(options.seed)  # the head is initialised at random
        model = CrossEncoder(deepcopy(encoder.model), encoder.tokenizer, max_tokens, reduced_precision=True)
        self.model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
        self._initial = deepcopy(self.model.state_dict())

    def fit(self, texts: Sequence[ReportText], lists: Sequence[RankedList]) -> None:
        """Trains the cross-encoder, from the same initial weights each time.

        Args:
            texts: Texts of all reports, by row.
            lists: Training queries in the order of time.

        Raises:
            ValueError: If no list has both a relevant and an irrelevant candidate.
        """
        examples = [example for example in map(self._example, lists) if example]
        if not examples:
            raise ValueError("the cross-encoder needs a training query with a duplicate and another candidate")
        self._prepared = None  # it may hold a converted copy of the old weights
        self.model.load_state_dict(self._initial)
        latest = examples[-self.max_queries :]
        rows = {row for one in latest for row in (one.query, one.relevant, *one.irrelevant.tolist())}
        train_cross_encoder(self.model, {row: texts[row].joined() for row in rows}, latest, self.options)
        self.model.eval()

    def fit_held_out(
        self, texts: Sequence[ReportText], lists: Sequence[RankedList], groups: np.ndarray
    ) -> list[np.ndarray]:
        """As ``fit``, and scores training queries by a cross-encoder that did not learn from them.

        A cross-encoder scores what it was trained on too high: a ranker that learned from such scores would give them
        too large a weight. The queries before the latest ``max_queries`` get no scores, but NaN.

        With ``folds`` = 0, the older half of the queries trains, and the newer half is scored; the older half gets NaN.
        Otherwise each fold is scored by a cross-encoder trained on the others, and the last training uses all queries,
        so that it takes ``folds`` + 1 times as long.

        Args:
            texts: See ``fit``.
            lists: See ``fit``.
            groups: ``(N,)`` group of each report. The queries of a group share a fold.

        Returns:
            For each list the scores of its candidates, ``(C,)`` float32.

        Raises:
            ValueError: If there are too few queries or groups to split.
        """
        if len(lists) < MIN_QUERIES:
            raise ValueError(f"the cross-encoder needs {MIN_QUERIES} training queries or more to hold some out")
        latest = lists[-self.max_queries :]
        older = [_no_scores(listed) for listed in lists[: -self.max_queries]]
        if self.folds == 0:
            half = len(latest) // 2
            self.fit(texts, latest[:half])
            return [*older, *map(_no_scores, latest[:half]), *self.score_lists(texts, latest[half:])]
        fold = _group_folds(latest, groups, self.folds)
        scores = [_no_scores(listed) for listed in latest]
        for number in range(self.folds):
            self.fit(texts, [listed for listed, own in zip(latest, fold, strict=True) if own != number])
            places = np.flatnonzero(fold == number).tolist()
            for place, found in zip(places, self.score_lists(texts, [latest[place] for place in places]), strict=True):
                scores[place] = found
        self.fit(texts, latest)
        return [*older, *scores]

    def score_lists(self, texts: Sequence[ReportText], lists: Sequence[RankedList]) -> list[np.ndarray]:
        """For each list the scores of its candidates, ``(C,)`` float32; NaN below ``depth``.

        Many queries at once are faster: pairs of similar length are scored together.
        """
        first = [texts[listed.query].joined() for listed in lists for _ in listed.candidates[: self.depth]]
        second = [texts[row].joined() for listed in lists for row in listed.candidates[: self.depth].tolist()]
        if self.backend is None:
            found = self.model.predict(first, second).numpy()
        else:
            self._prepared = self._prepared or self.backend.prepare(self.model.encoder, None)
            found = self.model.predict_with(self._prepared, first, second)
        scores = []
        start = 0
        for listed in lists:
            own = _no_scores(listed)
            count = min(self.depth, len(own))
            own[:count] = found[start : start + count]
            start += count
            scores.append(own)
        return scores

    def _example(self, listed: RankedList) -> PairExample | None:
        """The relevant candidate that is ranked highest, and the irrelevant ones near the top."""
        if not len(listed.relevant):
            return None
        right = np.isin(listed.candidates, listed.relevant)
        irrelevant = listed.candidates[: self.depth][~right[: self.depth]]
        if not len(irrelevant):
            return None
        relevant = listed.candidates[np.argmax(right)] if right.any() else listed.relevant[0]
        return PairExample(listed.query, int(relevant), irrelevant)


def _no_scores(listed: RankedList) -> np.ndarray:
    return np.full(len(listed.candidates), np.nan, dtype=np.float32)


def _group_folds(lists: Sequence[RankedList], groups: np.ndarray, folds: int) -> np.ndarray:
    """The fold of each list, ``(Q,)``. Groups take turns in the order of their first query."""
    own = groups[[listed.query for listed in lists]]
    _, first, place = np.unique(own, return_index=True, return_inverse=True)
    if not MIN_FOLDS <= folds <= len(first):
        raise ValueError(
            f"cross.folds={folds} of the cross-encoder: choose 0, or {MIN_FOLDS} to {len(first)} (its groups)"
        )
    # Groups by their first queries: with first = [4, 0, 2], the second group comes first.
    turn = np.argsort(np.argsort(first))
    return np.asarray(turn[place] % folds)
