"""The learnt ranker of reports as a scorer."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from gedbd.corpora.splits import PARTS, TRAIN, VAL
from gedbd.retrieval.reports.report_history import Replayed, ReportHistory
from gedbd.retrieval.reports.report_ranker import SEEN, default_ranker
from gedbd.retrieval.reports.report_training import RankerOptions, fit_ranker
from gedbd.retrieval.reports.second_stage import ReportPairScorer, ReportText, SecondStage
from gedbd.retrieval.scorers.dense_scorer import DenseScorer
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs, linked_groups


class LearntReports(Scorer):
    """Candidates by the first stage, ordered by a ranker that is trained on earlier queries, or by the default one.

    All reports of a group have the score of the group. Reports that are no candidates score less than all candidates,
    in the order of their cosines.

    Args:
        dense: Its vectors are compared.
        kind: ``boosted`` or ``linear`` learn from the training and validation pairs; ``default`` learns nothing here.
        seed: Of the training.
        num_seeds: See ``RankerOptions``.
        base: Likewise.
        default_below: Likewise.
        cross: A cross-encoder to train, whose scores of the first candidates are further features; None for none.
        llm: Likewise a language model to ask.

    Attributes:
        ranker_: The ranker.
    """

    earlier_only = True

    def __init__(
        self,
        dense: DenseScorer,
        kind: Literal["boosted", "linear", "default"] = "boosted",
        seed: int = 0,
        num_seeds: int = 3,
        base: str | None = None,
        default_below: int = 300,
        cross: ReportPairScorer | None = None,
        llm: ReportPairScorer | None = None,
    ) -> None:
        if kind not in ("boosted", "linear", "default"):
            raise ValueError(f"kind={kind} of a ranker is unknown: choose boosted, linear or default")
        scorers = [scorer for scorer in (cross, llm) if scorer is not None]
        if base is not None and scorers:
            raise ValueError("a base reads neither cross nor llm: leave them out, or base")
        if kind == "default" and scorers:
            raise ValueError("kind=default of a ranker reads no scores of cross and llm: choose boosted or linear")
        self.dense = dense
        self.kind = kind
        self.options: RankerOptions | None = None
        self.second_stage: SecondStage | None = None
        if kind != "default":
            self.options = RankerOptions(kind, seed, num_seeds, base=base, default_below=default_below)
            if scorers:
                self.second_stage = SecondStage(scorers, self.options)

    def fit(self, inputs: ScorerInputs) -> None:
        """Replays the training queries, and those of validation if its labels may be used, and learns from them.

        A trained encoder scores the duplicates that it has learnt from too high: these are replayed with the vectors of
        encoders that have not learnt from them, see ``DenseScorer.vectors_to_learn_from``.

        Raises:
            ValueError: If there is no duplicate to learn from.
        """
        inputs.check_one_table("a ranker of reports")
        unlearnt = {} if self.options is None else self.dense.vectors_to_learn_from(inputs.documents)
        self.dense.fit(inputs)
        self.warnings_ = self.dense.warnings_
        labelled = inputs.labelled
        group = linked_groups(labelled, len(inputs.documents))
        positive = labelled[labelled["label"] == 1]
        links = positive[["query", "document"]].to_numpy(dtype=np.int64).T
        self.history_ = ReportHistory.of_reports(
            inputs.documents, self.dense.documents_, links if inputs.links is None else inputs.links, group
        )
        if self.options is None:
            self.ranker_ = default_ranker()
        else:
            queries = np.unique(positive["query"])
            is_of_train = np.isin(queries, inputs.train["query"])
            examples = self._replay(queries[is_of_train], unlearnt.get(PARTS[TRAIN]))
            examples += self._replay(queries[~is_of_train], unlearnt.get(PARTS[VAL]))
            examples.sort(key=lambda one: one.row)
            if self.second_stage is None:
                self.ranker_ = fit_ranker(examples, self.options.without_seen(inputs.documents))
            else:
                reports = zip(inputs.documents["title"], inputs.documents["description"], strict=True)
                self.second_stage.fit([ReportText(*report) for report in reports], examples, group)
                self.ranker_ = self.second_stage.ranker_
        if self.ranker_.has_seen(inputs.documents):
            self.warnings_ = (*self.warnings_, f"{SEEN}: these figures say nothing of another tracker")
        self._found_in_training = self.warnings_

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``."""
        replayed = list(self.history_.replay_each(rows.tolist()))
        if self.second_stage is None:
            ranks = [self.ranker_.scores(one.features) for one in replayed]
        else:
            ranks = self.second_stage.scores(replayed)
            self.warnings_ = (*self._found_in_training, *self.second_stage.warnings)
        return np.stack([self._scores(one, own) for one, own in zip(replayed, ranks, strict=True)])

    def first_stage_ranks(self, queries: np.ndarray, relevant: Sequence[np.ndarray]) -> np.ndarray:
        """See ``TwoStageScorer``; ranks count groups."""
        ranks = np.zeros(len(queries), dtype=np.int64)
        for place, (row, wanted) in enumerate(zip(queries.tolist(), relevant, strict=True)):
            members = self.history_.find(row).members
            hits = np.flatnonzero([np.isin(rows, wanted).any() for rows in members])
            if len(hits):
                ranks[place] = hits[0] + 1
        return ranks

    def _replay(self, queries: np.ndarray, vectors: np.ndarray | None = None) -> list[Replayed]:
        """The candidates of some queries by other vectors, if given; see ``ReportHistory.replay``."""
        if not len(queries):
            return []
        history = self.history_ if vectors is None else self.history_.with_vectors(vectors)
        return list(history.replay(queries, "replay training queries"))

    def _scores(self, replayed: Replayed, ranks: np.ndarray) -> np.ndarray:
        """Scores of all reports, ``(N,)``, from those of the candidates of one query."""
        row = replayed.row
        vectors = self.dense.documents_
        # A cosine is between -1 and 1: 2 below the lowest candidate, nothing reaches the candidates.
        scores = np.full(len(vectors), -np.inf, dtype=np.float32)
        scores[:row] = vectors[:row] @ vectors[row] + ranks.min(initial=0) - 2
        scores[replayed.best] = ranks
        members = self.history_.known_before(row).members
        for group, score in zip(replayed.group.tolist(), ranks, strict=True):
            scores[members.get(group, group)] = score
        return scores
