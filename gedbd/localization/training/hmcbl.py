"""Training of hierarchical momentum contrast (HMCBL): options, system, and scorers of the trained encoders."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import Tensor

from gedbd.corpora.corpus import GRANULARITIES, ChangeCorpus, Granularity
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.experiments.distributed import gather, summed
from gedbd.experiments.optimizers import MakeOptimizer, MakeScheduler, optimization
from gedbd.experiments.training_task import fix_dropout, show_loss
from gedbd.localization.change_ranking.change_training import reports_of
from gedbd.localization.change_ranking.late_interaction import MaxSim
from gedbd.localization.code_encoder.code_encoder import UntrainedEncoder
from gedbd.localization.code_encoder.code_inputs import InputLimits
from gedbd.localization.training.change_inputs import (
    Form,
    Inputs,
    Side,
    change_inputs,
    code_side,
    report_inputs,
    text_side,
    untrained_side,
)
from gedbd.localization.training.compared_methods import MakeScorer, MethodOptions, UnseenScores, by_best_part
from gedbd.localization.training.hmcbl_network import CandidateLinks, HmcblNetwork
from gedbd.localization.training.localization_data import (
    Halves,
    Level,
    LocalizationDataModule,
    PairBatch,
    mean_reciprocal_rank,
)
from gedbd.localization.training.tower import Encoded, GatheredBatchNorm, HmcblSettings, Tower, encode
from gedbd.retrieval.scorers.dense_scorer import VectorScorer
from gedbd.retrieval.scorers.scorer_contract import Scorer

COSINE = "hmcbl_cosine"
MAX_SIM = "hmcbl_max_sim"


class HmcblSystem(pl.LightningModule):
    """Trains the encoders of reports and changes by the weighted sum of the losses of all levels.

    Logs ``train/loss`` and ``val/loss``, the loss of each level, such as ``train/bank_loss``, and ``val/mrr``: the
    ranking of earlier commits by the cosine of projected vectors, see ``LocalizationDataModule``. The projectors are
    initialised from PyTorch's generator.

    The seed is that of dropout; with ``bf16``, ``encode`` computes in bfloat16.
    """

    def __init__(
        self,
        report_side: Side,
        change_side: Side,
        settings: HmcblSettings,
        links: CandidateLinks,
        make_optimizer: MakeOptimizer,
        make_scheduler: MakeScheduler,
        seed: int,
        bf16: bool = False,
    ) -> None:
        super().__init__()
        self.make_optimizer = make_optimizer
        self.make_scheduler = make_scheduler
        self.seed = seed
        self.network = HmcblNetwork(report_side, change_side, settings, links)
        self.network.train()  # pretrained encoders are in evaluation mode, and Lightning does not change modes
        self.settings = settings
        self.bf16 = bf16
        self.tested: dict[str, float] = {}  # ``mrr`` and ``loss`` of the validation reports in Lightning's last test
        self._batches: list[Tensor] = []  # losses of the levels and number of pairs of each batch

    @property
    def towers(self) -> tuple[Tower, Tower]:
        """The towers of reports and of changes."""
        return self.network.reports.tower, self.network.changes.tower

    def encode(
        self, side: Literal["reports", "changes"], inputs: Inputs, rows: np.ndarray, tokens: bool = False
    ) -> Encoded:
        """Vectors of reports or of changes, see ``gedbd.localization.training.tower.encode``."""
        tower = self.towers[0] if side == "reports" else self.towers[1]
        return encode(tower, inputs, rows, self.bf16, tokens, side)

    def pooled(self, encoded: Encoded) -> np.ndarray:
        """The vectors to compare by cosine: projected ones, unless no loss trains the projectors."""
        return encoded.projected if self.settings.projects else encoded.features

    def setup(self, stage: str) -> None:
        """Computes the statistics of batch normalization over all processes.

        Raises ValueError if texts are compared by their tokens, whose number differs between processes.
        """
        if self.trainer.world_size == 1:
            return
        if self.settings.by_tokens:
            raise ValueError("task.model.settings.similarity=max_sim trains in one process: set trainer.devices=1")
        for module in self.network.modules():
            if isinstance(module, GatheredBatchNorm):
                # All processes have equally many rows.
                module.exchange = lambda rows: (gather(self, rows), self.global_rank * len(rows))

    def on_train_epoch_start(self) -> None:
        """Clears the losses."""
        self._batches = []

    def training_step(self, batch: PairBatch, batch_idx: int) -> Tensor:
        """The weighted sum of the losses."""
        fix_dropout(self, self.seed, batch_idx)
        losses = self.network.losses(batch, partial(gather, self), fill_banks=True)
        weights = self.settings.weights
        loss = torch.stack([weights[level] * value for level, value in losses.items()]).sum()
        show_loss(self, loss, batch)
        self._batches.append(_loss_sums(losses, batch))
        return loss

    def optimizer_step(self, *arguments: Any, **options: Any) -> None:
        """Updates the weights, then the momentum twins."""
        super().optimizer_step(*arguments, **options)
        self.network.follow()

    def on_train_epoch_end(self) -> None:
        """Logs the mean losses of the epoch."""
        self._log_means("train")

    def on_validation_epoch_start(self) -> None:
        """Clears the losses; those of training are kept until the end of its epoch."""
        self._trained = self._batches
        self._batches = []

    on_test_epoch_start = on_validation_epoch_start

    def validation_step(self, batch: PairBatch, batch_idx: int) -> None:
        """Stores the losses of a batch."""
        losses = self.network.losses(batch, partial(gather, self), fill_banks=False)
        self._batches.append(_loss_sums(losses, batch))

    test_step = validation_step

    def on_validation_epoch_end(self) -> None:
        """Logs the losses and the mean reciprocal rank."""
        self._log_means("val")
        self.log("val/mrr", self._mean_reciprocal_rank(), prog_bar=True)
        self._batches = self._trained

    def on_test_epoch_end(self) -> None:
        """Stores loss and mean reciprocal rank of the validation reports."""
        self.tested = {"loss": self._log_means("best"), "mrr": self._mean_reciprocal_rank()}

    def configure_optimizers(self) -> Any:
        """The optimizer of the trained weights of encoders and projectors, and its scheduler."""
        encoders = [weight for tower in self.towers for weight in tower.backbone.parameters()]
        projectors = [weight for tower in self.towers for weight in tower.projector.parameters()]
        encoders = encoders if self.settings.train_encoders else []
        projectors = projectors if self.settings.projects else []
        return optimization(self, self.make_optimizer, self.make_scheduler, encoders, projectors)

    def _mean_reciprocal_rank(self) -> float:
        """The mean reciprocal rank of the validation reports; each process encodes a share."""
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        assert isinstance(data, LocalizationDataModule)
        share = slice(self.trainer.global_rank, None, self.trainer.world_size)

        def shared(encoded: Encoded, count: int) -> np.ndarray:
            pooled = self.pooled(encoded)
            whole = np.zeros((count, pooled.shape[1]), dtype=np.float32)
            whole[share] = pooled
            of_all: np.ndarray = summed(self, torch.from_numpy(whole).to(self.device)).cpu().numpy()
            return of_all

        ranked = data.ranked
        reports = shared(self.encode("reports", data.reports, ranked.reports[share]), len(ranked.reports))
        changes = shared(self.encode("changes", data.changes, ranked.changes[share]), len(ranked.changes))
        return mean_reciprocal_rank(ranked, reports, changes)

    def _log_means(self, prefix: str) -> float:
        """Logs the mean loss of each level and the total, and returns the total."""
        sums = summed(self, torch.stack(self._batches).sum(dim=0))
        weights = self.settings.weights
        means = dict(zip(weights, (sums[:-1] / sums[-1]).tolist(), strict=True))
        total = float(sum(weights[level] * mean for level, mean in means.items()))
        for level, mean in means.items():
            self.log(f"{prefix}/{level}_loss", mean)
        self.log(f"{prefix}/loss", total)
        return total


def _loss_sums(losses: dict[str, Tensor], batch: PairBatch) -> Tensor:
    """``(levels + 1,)`` sums of the losses of a batch's pairs, and the number of pairs, without gradients."""
    count = torch.tensor(len(batch.n_id) / 2, dtype=torch.float64, device=batch.n_id.device)
    return torch.stack([*(count * loss.detach().double() for loss in losses.values()), count])


@dataclass(frozen=True)
class HmcblOptions:
    """Options of HMCBL.

    Raises ValueError if the granularity is invalid, or ``similarity=max_sim`` comes without ``max_sim``.
    """

    # granularity of the changes that it reads and ranks; coarser changes are ranked by their best part
    granularity: Granularity = "hunk"
    # the ``encoder`` folder of a run of ``task=pretraining``, which reads reports as comments; None for the section
    # ``encoder``
    report_encoder: str | None = None
    change_encoder: str | None = None  # likewise for changes
    graph: bool = True  # whether an encoder of code reads flow graphs
    form: Form = "ARCL"  # how a diff is written, see ``read_change``
    message: bool = True  # whether the first line of the message is read with the paths
    report_tokens: int = 96  # maximum tokens of a report
    comment_tokens: int = 32  # maximum tokens of message and paths
    code_tokens: int = 128  # maximum tokens of a diff
    nodes: int = 32  # maximum nodes of a graph
    hard: float = 0.0  # share of negatives that change a file of the positive change
    val_candidates: int = 400  # number of non-inducing commits that validation ranks
    max_sim: bool = False  # whether to rank by late interaction too, which keeps the vectors of all tokens in memory
    settings: HmcblSettings = field(default_factory=HmcblSettings)  # the model and the loss

    def __post_init__(self) -> None:
        if self.granularity not in GRANULARITIES:
            raise ValueError(f"task.model.granularity={self.granularity}: choose from {', '.join(GRANULARITIES)}")
        if self.settings.by_tokens and not self.max_sim:
            raise ValueError(
                "task.model.settings.similarity=max_sim trains no cosine of whole texts: set task.model.max_sim=true"
            )

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the scorers of the trained encoders."""
        return (COSINE, MAX_SIM) if self.max_sim else (COSINE,)

    def add_to(self, compared: MethodOptions) -> MethodOptions:
        """Adds the scorers of the trained encoders to the compared methods."""
        only = dict.fromkeys(self.ids, (self.granularity,))
        return replace(compared, parts=(*compared.parts, *self.ids), only={**compared.only, **only})


def build_hmcbl(
    options: HmcblOptions, cfg: DictConfig, corpus: ChangeCorpus, halves: Halves, val_share: float
) -> tuple[HmcblSystem, LocalizationDataModule]:
    """Builds system and data module from the options and the composed configuration of ``conf/train.yaml``.

    The latest training reports, a share of ``val_share``, are for validation. Raises ValueError if an option is out
    of range, or the inputs exceed the positions of an encoder.
    """
    sides = _sides(options, cfg.encoder, corpus, halves)
    reports = report_inputs(sides[0], reports_of(corpus).reports)
    changes = change_inputs(sides[1], corpus.changes(options.granularity).table, options.form, options.message)
    sampling = (val_share, cfg.batch_size, cfg.seed, options.val_candidates, options.hard)
    data = LocalizationDataModule(corpus, reports, changes, options.granularity, halves.train, *sampling)
    # The weights of the projectors must depend on the seed alone.
    torch.manual_seed(cfg.seed)
    schedule = instantiate(cfg.optimizer), instantiate(cfg.scheduler)
    links = CandidateLinks.of_corpus(corpus)
    bf16 = str(cfg.trainer.precision).startswith("bf16")
    return HmcblSystem(*sides, options.settings, links, *schedule, cfg.seed, bf16), data


def hmcbl_scorers(system: HmcblSystem, data: LocalizationDataModule, max_sim: bool) -> dict[str, MakeScorer]:
    """Scorers of changes by the trained encoders, by id; with ``max_sim``, late interaction too."""
    reports = system.encode("reports", data.reports, np.arange(len(data.reports)), tokens=max_sim)
    changes = system.encode("changes", data.changes, np.arange(len(data.changes)), tokens=max_sim)

    def token_vectors(table: pd.DataFrame, kind: Literal["document", "query"]) -> Iterable[np.ndarray]:
        encoded = changes if kind == "document" else reports
        assert encoded.tokens is not None
        assert encoded.starts is not None
        return np.split(encoded.tokens, encoded.starts[1:-1])

    scorers: dict[str, MakeScorer] = {COSINE: lambda: VectorScorer(system.pooled(changes), system.pooled(reports))}
    return scorers | {MAX_SIM: lambda: MaxSim(token_vectors)} if max_sim else scorers


def encoders_of_commits(
    scorers: Mapping[str, MakeScorer],
    granularity: Granularity,
    corpus: ChangeCorpus,
    level: Level,
    trained_on: np.ndarray,
) -> dict[str, Scorer]:
    """Fits scorers of commits for learned rankers, by id; a coarser change scores as its best part.

    ``scorers`` rank the changes of ``granularity``; their scores are missing for the reports ``trained_on``.
    """
    encoders: dict[str, Scorer] = {}
    for name, make in scorers.items():
        scorer = make() if granularity == "commit" else by_best_part(make(), corpus, "commit", granularity)
        scorer.fit(level.inputs)
        encoders[name] = UnseenScores(scorer, trained_on)
    return encoders


def _sides(options: HmcblOptions, encoder: DictConfig, corpus: ChangeCorpus, halves: Halves) -> tuple[Side, Side]:
    """The encoders of reports and of changes, with separate weights."""
    report_limits = InputLimits(options.report_tokens, 1, 0)
    change_limits = InputLimits(options.comment_tokens, options.code_tokens, options.nodes)
    side_options = (
        (options.report_encoder, report_limits, False),
        (options.change_encoder, change_limits, options.graph),
    )
    sides = []
    for folder, limits, graph in side_options:
        if folder is not None:
            sides.append(code_side(folder, limits, graph))
            continue
        loaded: LoadedEncoder | UntrainedEncoder = instantiate(encoder)
        if isinstance(loaded, UntrainedEncoder):
            sides.append(untrained_side(loaded, _training_texts(corpus, halves), limits, graph))
        else:
            sides.append(text_side(loaded, limits))
    return sides[0], sides[1]


def _training_texts(corpus: ChangeCorpus, halves: Halves) -> list[str]:
    """Training texts of a tokenizer: the training reports, and the commits before the test reports."""
    reports = reports_of(corpus).reports
    commits = corpus.commits.table
    earlier = commits[commits["created_at"] < reports["created_at"].iloc[halves.test[0]]]
    train = reports.iloc[halves.train]
    return [*(train["title"] + "\n" + train["description"]), *(earlier["title"] + "\n" + earlier["diff"])]
