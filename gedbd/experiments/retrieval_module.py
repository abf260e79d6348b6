"""Trains report vectors from duplicates: data, threshold, scores of pairs, rankings, and the result."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from gedbd.corpora.corpus import PARTS, Corpus
from gedbd.evaluation.figures import project_reports
from gedbd.evaluation.pairwise import GRID, best_threshold, pairwise_metrics
from gedbd.experiments.training_task import EvaluationResult, name_reports, process_of
from gedbd.retrieval.ranking_tasks import Ranking, RankingTask, protocol_metrics, rank_all
from gedbd.retrieval.scorers.dense_scorer import VectorScorer
from gedbd.retrieval.scorers.scorer_contract import Scorer

if TYPE_CHECKING:
    from gedbd.encoders.node2vec import TagNetwork
    from gedbd.retrieval.report_ranking.report_training import RankerOnTop

IN_PROGRESS_BAR = ("val/f1", "val/rr@10")  # and the loss of the last batch


# The loss of U vectors and P pairs of them: ``z (U, D)``, groups ``(U,)``, rows ``(2, P)`` and labels ``(P,)``.
PairLoss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class Embedded(NamedTuple):
    """Distinct reports that were encoded."""

    n_id: Tensor  # ``(U,)`` their rows in the corpus, ascending
    z: Tensor  # ``(U, D)`` their fused vectors, of length 1
    z_text: Tensor  # ``(U, D)`` their text vectors, of length 1


class ScoredPairs(NamedTuple):
    """The pairs of a split with columns of scores, and their loss."""

    table: pd.DataFrame
    loss: Tensor

    def best_threshold(self, grid: np.ndarray = GRID) -> float:
        """The threshold of a grid with the best F1 on these pairs."""
        return best_threshold(self.table["score"].to_numpy(), self.table["label"].to_numpy(), grid)

    def metrics(self, threshold: float) -> dict[str, float]:
        """Metrics of the column ``score``; ``threshold`` is the lowest score of a predicted duplicate."""
        return pairwise_metrics(self.table["score"].to_numpy(), self.table["label"].to_numpy(), threshold)


def score_pairs(reports: Embedded, pairs: pd.DataFrame, group: np.ndarray, loss: PairLoss) -> ScoredPairs:
    """Scores pairs of embedded reports.

    Returns:
        The pairs with ``score`` and ``score_text``, and their loss, as if their reports were one batch.

    Raises:
        ValueError: If a report was not encoded.
    """
    index = positions_among(reports.n_id, pairs[["earlier", "later"]].to_numpy().T)
    label = torch.from_numpy(pairs["label"].to_numpy(dtype=np.int64, copy=True)).to(index.device)
    scored = pairs.assign(score=cosine(reports.z, index), score_text=cosine(reports.z_text, index))
    # The loss needs one batch: only the reports of the pairs, renumbered 0, 1, 2, ...
    rows, batch_index = torch.unique(index, return_inverse=True)
    groups = torch.from_numpy(group[reports.n_id[rows].cpu().numpy()]).to(index.device)
    return ScoredPairs(scored, loss(reports.z[rows], groups, batch_index, label))


class EpochRows(Metric):
    """Tensors of an epoch's batches, of all processes, by name: each has a row for each pair, report or batch.

    ``EpochRows("scores", "labels")`` collects the cosines and labels of pairs: precision, recall and F1 follow from
    these once the threshold is known, which validation chooses after training.
    """

    def __init__(self, *names: str) -> None:
        super().__init__(compute_with_cache=False)
        self.names = names
        for name in names:
            self.add_state(name, [], dist_reduce_fx="cat")

    def update(self, *rows: Tensor) -> None:
        """Adds a batch."""
        for name, added in zip(self.names, rows, strict=True):
            getattr(self, name).append(added.detach())

    def compute(self) -> Any:
        """All rows, a tensor for each name."""
        return tuple(dim_zero_cat(getattr(self, name)) for name in self.names)


class EpochLoss(EpochRows):
    """The mean loss of an epoch's batches of all processes, each weighted by its number of pairs or reports."""

    def __init__(self) -> None:
        super().__init__("losses", "counts")

    def update(self, loss: Tensor, count: int) -> None:  # type: ignore[override]
        """Adds a batch: its mean loss ``()``, and what it is the mean of."""
        super().update(loss[None], torch.tensor([count], device=loss.device))

    def compute(self) -> Tensor:
        """The mean, ``()``."""
        losses, counts = super().compute()
        mean: Tensor = (losses * counts).sum() / counts.sum()
        return mean


class EncodedRows(EpochRows):
    """Rows of the corpus ``(B,)`` and vectors ``(B, D)`` of each batch, of all processes.

    Of a row that was encoded more than once, the first vector counts, or the ``latest``.
    """

    def __init__(self, latest: bool = False) -> None:
        super().__init__("n_id", "z")
        self.latest = latest

    def compute(self) -> tuple[Tensor, Tensor]:
        """The distinct rows in the order of the corpus, and a vector of each, ``(U,), (U, D)``."""
        n_id, z = super().compute()
        return distinct(n_id.flip(0), z.flip(0)) if self.latest else distinct(n_id, z)


def distinct(n_id: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """Sorts rows and keeps the first vector of each, ``(B,), (B, D) -> (U,), (U, D)``."""
    # Padding to equal shares lets several processes encode the same report; its first vector counts.
    order = n_id.argsort(stable=True)
    ordered = n_id[order]
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first], z[order[first]]


def positions_among(n_id: Tensor, rows: np.ndarray) -> Tensor:
    """Positions of ``rows`` in the sorted ``n_id``, in the same shape: ``[7, 2]`` in ``[2, 5, 7]`` are ``[2, 0]``.

    Raises:
        ValueError: If a row is missing.
    """
    row_tensor = torch.from_numpy(rows.copy()).to(n_id.device)
    # A row above all others gets position U, which is out of range: clamped, it fails the comparison below.
    index = torch.searchsorted(n_id, row_tensor).clamp(max=len(n_id) - 1)
    if not torch.equal(n_id[index], row_tensor):
        raise ValueError("reports were not encoded: leave out trainer.limit_val_batches and limit_test_batches")
    return index


def cosine(z: Tensor, index: Tensor) -> np.ndarray:
    """Cosines of pairs of unit rows, ``(U, D), (2, P) -> (P,)``."""
    return np.asarray((z[index[0]] * z[index[1]]).sum(-1).cpu().numpy())


def spread(n_id: np.ndarray, vectors: np.ndarray, num_reports: int) -> VectorScorer:
    """A scorer by the cosines of some reports' unit vectors; the other reports score 0."""
    all_vectors = np.zeros((num_reports, vectors.shape[1]), dtype=np.float32)
    all_vectors[n_id] = vectors
    return VectorScorer(all_vectors)


class RetrievalDataModule(pl.LightningDataModule):
    """Pairs for training, and the reports that evaluation needs.

    Args:
        evaluated: Splits that a test scores; the last one is reported.

    Attributes:
        pairs: Pairs with ``earlier``, ``later``, ``label`` and ``part``.
        group: ``(N,)`` duplicate group of every report, for evaluation.
        parts: ``(N,)`` split of each report: 0 train, 1 val, 2 test.
        queries: Ranking tasks by split and protocol; the other splits have pairs only.
        on_top: A ranker over the vectors that validation measures too, if any.
    """

    pairs: pd.DataFrame
    group: np.ndarray
    parts: np.ndarray

    def __init__(self, evaluated: tuple[str, ...] = ("val", "test")) -> None:
        super().__init__()
        self.evaluated = tuple(dict.fromkeys(evaluated))  # without repeats: evaluating val itself scores it once
        self.queries: dict[str, dict[str, RankingTask]] = {}
        self.on_top: RankerOnTop | None = None

    def hold(
        self,
        pairs: pd.DataFrame,
        group: np.ndarray,
        parts: np.ndarray,
        queries: Mapping[str, Mapping[str, RankingTask]] | None,
    ) -> None:
        """Sets the pairs, groups, splits and queries."""
        self.pairs = pairs
        self.group = group
        self.parts = parts
        self.queries = {part: dict(by_protocol) for part, by_protocol in (queries or {}).items()}

    def pairs_of(self, *parts: str) -> pd.DataFrame:
        """The pairs of some splits: train, val or test."""
        return self.pairs[self.pairs["part"].isin(parts)]

    def paired_rows(self, *parts: str) -> np.ndarray:
        """The reports of the pairs of some splits, ascending."""
        return np.unique(self.pairs_of(*parts)[["earlier", "later"]].to_numpy())

    def val_dataloader(self) -> DataLoader[Any]:
        """Batches of the reports that validation needs."""
        return self.load_rows("val")

    def test_dataloader(self) -> DataLoader[Any]:
        """Batches of the reports that the splits ``evaluated`` need."""
        return self.load_rows(*self.evaluated)

    def load_rows(self, *parts: str) -> DataLoader[Any]:
        """Batches of the reports that the evaluation of some splits needs."""
        raise NotImplementedError

    def shares(self, rows: np.ndarray) -> np.ndarray:
        """Rows in columns, one per process: of 5 rows, 2 processes get [[a, b], [c, d], [e, e]]."""
        _, processes = process_of(self)
        return np.pad(rows, (0, -len(rows) % processes), mode="edge").reshape(-1, processes)

    def ranker_metrics(self, reports: Embedded) -> dict[str, float]:
        """Metrics of a ranker over the text vectors on the validation queries, see ``RankerOnTop``."""
        if self.on_top is None:
            return {}
        scorer = spread(reports.n_id.cpu().numpy(), reports.z_text.float().cpu().numpy(), len(self.group))
        return self.on_top.metrics(scorer.documents_)

    def rank_queries(self, reports: Embedded, part: str, text_too: bool = False) -> dict[str, dict[str, Ranking]]:
        """Ranks the queries of a split, if there are any.

        ``text_too`` also ranks by the text vectors, as ``score_text``.
        """
        queries = self.queries.get(part, {})
        if not queries:
            return {}
        vectors = {"score": reports.z}
        if text_too:
            vectors["score_text"] = reports.z_text
        # Rows that were not encoded get zeros: queries name all rows they need, so none of these is ranked.
        rows = reports.n_id.cpu().numpy()
        scorers = {name: spread(rows, z.cpu().numpy(), len(self.group)) for name, z in vectors.items()}
        return rank_all(queries, scorers)


DataT = TypeVar("DataT", bound=RetrievalDataModule)


class RetrievalModule(pl.LightningModule, Generic[DataT]):
    """Chooses the threshold on validation; scores pairs and ranks in a test.

    ``validation_step`` encodes reports; the pairs are scored once all reports are encoded.

    Args:
        pair_loss: The loss of pairs.
        seed: Of the t-SNE projection, and of dropout.

    Attributes:
        train_loss: The loss of the epoch.
        encoded: The reports of the current evaluation.
        ranks_text: Whether a test ranks by the text vectors too.
        locks_threshold: Whether validation uses the threshold of the epoch with the best F1 so far, 0.5 at first, as
            the paper's code does, instead of each epoch's own.
        locked_f1: That best F1; -1 before the first epoch.
        scores: Scored pairs of each split of the last test.
        rankings: Rankings of the last split of the last test, by protocol and score.
        embedded: Rows and unit vectors of all reports of the last test.
    """

    threshold: Tensor

    def __init__(self, pair_loss: PairLoss, seed: int) -> None:
        super().__init__()
        self.pair_loss = pair_loss
        self.seed = seed
        self.register_buffer("threshold", torch.tensor(0.5))
        self.train_loss = EpochLoss()
        self.encoded = EncodedRows()
        self.ranks_text = False
        self.locks_threshold = False
        self.locked_f1 = -1.0
        self.scores: dict[str, pd.DataFrame] = {}
        self.rankings: dict[str, dict[str, Ranking]] = {}
        self.embedded: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def data(self) -> DataT:
        """The data of the trainer."""
        data: DataT = self.trainer.datamodule  # type: ignore[attr-defined]
        return data

    def embed(self) -> Embedded:
        """The vectors of all reports that were encoded, each once, in the order of the corpus."""
        raise NotImplementedError

    def score(self, reports: Embedded, part: str) -> ScoredPairs:
        """The scored pairs of a split and their loss."""
        return score_pairs(reports, self.data.pairs_of(part), self.data.group, self.pair_loss)

    def threshold_grid(self, scored: ScoredPairs) -> np.ndarray:
        """The thresholds to choose from."""
        return GRID

    def on_train_epoch_start(self) -> None:
        """Clears the losses of the last epoch."""
        self.train_loss.reset()

    def on_validation_epoch_start(self) -> None:
        """Clears the reports of earlier evaluations."""
        self.encoded.reset()

    on_test_epoch_start = on_validation_epoch_start

    def test_step(self, batch: Any, batch_idx: int) -> None:
        """Encodes reports like a validation."""
        self.validation_step(batch, batch_idx)

    def on_validation_epoch_end(self) -> None:
        """Validates the vectors of all encoded reports; the sanity check of a trainer encodes too few of them."""
        if not self.trainer.sanity_checking:
            self.validate(self.embed())
        self.encoded.reset()

    def validate(self, reports: Embedded) -> None:
        """Scores the validation pairs, ranks and, while fitting, chooses the threshold."""
        fitting = self.trainer.state.fn == "fit"
        scored = self.score(reports, "val")
        if fitting and not self.locks_threshold:
            self.threshold.fill_(scored.best_threshold(self.threshold_grid(scored)))
        self.log("val/loss", scored.loss)
        self.log("val/threshold", self.threshold.clone())
        metrics = scored.metrics(float(self.threshold))
        self.log_metrics("val", metrics)
        if fitting and self.locks_threshold and metrics["f1"] > self.locked_f1:
            # Used from now on and in this epoch's checkpoint; this epoch's F1 is that at the previous threshold.
            self.locked_f1 = metrics["f1"]
            self.threshold.fill_(scored.best_threshold(self.threshold_grid(scored)))
        self.log_metrics("val", protocol_metrics(self.data.rank_queries(reports, "val"), "score"))
        if fitting:
            self.log_metrics("val", self.data.ranker_metrics(reports))

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keeps the best F1 at a locked threshold, for a run that is resumed."""
        if self.locks_threshold:
            checkpoint["locked_f1"] = self.locked_f1

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restores the best F1."""
        self.locked_f1 = checkpoint.get("locked_f1", self.locked_f1)

    def on_test_epoch_end(self) -> None:
        """Scores all evaluated splits, ranks the last one and logs its metrics."""
        reports = self.embed()
        evaluated = self.data.evaluated
        scored = {part: self.score(reports, part) for part in evaluated}
        part = evaluated[-1]
        self.scores = {name: pairs.table for name, pairs in scored.items()}
        self.rankings = self.data.rank_queries(reports, part, self.ranks_text)
        self.embedded = reports.n_id.cpu().numpy(), reports.z.cpu().numpy()
        self.log(f"{part}/loss", scored[part].loss)
        self.log_metrics(part, scored[part].metrics(float(self.threshold)))
        self.log_metrics(part, protocol_metrics(self.rankings, "score"))
        self.encoded.reset()

    def log_metrics(self, prefix: str, values: Mapping[str, float]) -> None:
        """Logs metrics of a split."""
        for name, value in values.items():
            key = f"{prefix}/{name}"
            self.log(key, value, prog_bar=key in IN_PROGRESS_BAR)


def trained_result(
    corpus: Corpus,
    system: RetrievalModule[Any],
    data: RetrievalDataModule,
    scored: pd.DataFrame,
    methods: Mapping[str, str],
    frozen: Scorer,
    network: "TagNetwork | None",
    **more: Any,
) -> EvaluationResult:
    """The result of a system's last test, with a t-SNE projection of the tested reports and their duplicates.

    ``scored`` are the pairs of all evaluated parts with a column of scores for each method, ``frozen`` gives the score
    ``score_frozen`` of untrained vectors, and the tag network that the system reads is drawn.
    """
    assert system.embedded is not None
    part = data.evaluated[-1]
    queries = data.queries.get(part, {})
    tested = data.parts == PARTS.index(part) if queries else np.isin(np.arange(len(corpus)), system.embedded[0])
    tsne = project_reports(*system.embedded, data.group, tested, system.seed)
    reports = corpus.reports.iloc[tsne.pop("row")]
    figures = {}
    if network is not None:
        from gedbd.experiments.tag_figure import CAPTION, tag_network  # few runs have a network

        figures["tag_network"] = (CAPTION, tag_network(network))
    untrained = rank_all(queries, {"score_frozen": frozen})
    rankings = {}
    for protocol, trained in system.rankings.items():
        by_column = trained | untrained[protocol]
        rankings[protocol] = {method: by_column[column] for method, column in methods.items()}
    return EvaluationResult(
        corpus=corpus,
        parts=data.parts,
        pairs=data.pairs,
        predictions=name_reports(scored, corpus, "earlier", "later"),
        part=part,
        methods=methods,
        queries=queries,
        rankings=rankings,
        figures=figures,
        tsne=tsne.assign(id=reports["id"].to_numpy(), title=reports["title"].to_numpy()),
        **more,
    )
