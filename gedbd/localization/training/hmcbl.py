"""HMCBL in a run: its options, what it is built of, and the scorers of its trained encoders."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pandas as pd
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig

from gedbd.corpora.changes import GRANULARITIES, ChangeCorpus, Granularity
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.localization.change_ranking.late_interaction import MaxSim
from gedbd.localization.code_encoder.code_inputs import InputLimits
from gedbd.localization.code_encoder.untrained_encoder import UntrainedEncoder
from gedbd.localization.training.change_inputs import ChangeInputs, ReportInputs
from gedbd.localization.training.compared_methods import MakeScorer, MethodOptions, by_best_part
from gedbd.localization.training.hmcbl_network import CandidateLinks
from gedbd.localization.training.hmcbl_settings import HmcblSettings
from gedbd.localization.training.hmcbl_system import HmcblSystem
from gedbd.localization.training.learnt_methods import UnseenScores
from gedbd.localization.training.localization_data import LocalizationDataModule
from gedbd.localization.training.localization_protocol import Halves, Level, reports_of
from gedbd.localization.training.sides import Side, code_side, text_side, untrained_side
from gedbd.localization.training.validation_ranking import Encoded
from gedbd.retrieval.scorers.dense_scorer import VectorScorer
from gedbd.retrieval.scorers.scorer_contract import Scorer
from gedbd.text.change_text import Form

COSINE = "hmcbl_cosine"
MAX_SIM = "hmcbl_max_sim"


@dataclass(frozen=True)
class HmcblOptions:
    """What is trained.

    Attributes:
        granularity: Of the changes that it reads and ranks. Coarser ones are ranked by their best part, finer ones not.
        report_encoder: The ``encoder`` folder of a run of ``task=pretraining``, which reads reports as comments; None
            for the section ``encoder``.
        change_encoder: Likewise of changes.
        graph: Whether an encoder of code reads flow graphs.
        form: How a diff is written, see ``change_text``.
        message: Whether the first line of the message is read with the paths.
        report_tokens: The longest report.
        comment_tokens: The longest message with paths.
        code_tokens: The longest diff.
        nodes: The most nodes of a graph.
        hard: Share of the negative changes that change a file of the positive one.
        val_candidates: Commits, besides the inducing ones, that validation ranks.
        max_sim: Rank by late interaction too; the vectors of all tokens are in memory.
        settings: The model and the loss.

    Raises:
        ValueError: If the granularity is invalid, or what is compared by tokens is not ranked by them.
    """

    granularity: Granularity = "hunk"
    report_encoder: str | None = None
    change_encoder: str | None = None
    graph: bool = True
    form: Form = "ARCL"
    message: bool = True
    report_tokens: int = 96
    comment_tokens: int = 32
    code_tokens: int = 128
    nodes: int = 32
    hard: float = 0.0
    val_candidates: int = 400
    max_sim: bool = False
    settings: HmcblSettings = field(default_factory=HmcblSettings)

    def __post_init__(self) -> None:
        if self.granularity not in GRANULARITIES:
            raise ValueError(f"task.model.granularity={self.granularity}: choose from {', '.join(GRANULARITIES)}")
        if self.settings.by_tokens and not self.max_sim:
            raise ValueError(
                "task.model.settings.similarity=max_sim trains no cosine of whole texts: set task.model.max_sim=true"
            )

    @property
    def ids(self) -> tuple[str, ...]:
        """The scorers of the trained encoders."""
        return (COSINE, MAX_SIM) if self.max_sim else (COSINE,)

    def add_to(self, compared: MethodOptions) -> MethodOptions:
        """What is compared, with the scorers of the trained encoders."""
        only = dict.fromkeys(self.ids, (self.granularity,))
        return replace(compared, parts=(*compared.parts, *self.ids), only={**compared.only, **only})


def build_hmcbl(
    options: HmcblOptions, cfg: DictConfig, corpus: ChangeCorpus, halves: Halves, val_share: float
) -> tuple[HmcblSystem, LocalizationDataModule]:
    """System and data.

    Args:
        options: What is trained.
        cfg: The composed configuration of ``conf/train.yaml``.
        corpus: Reports and changes.
        halves: The first half trains, and its latest reports validate.
        val_share: Their share.

    Raises:
        ValueError: If an option is out of range, or an encoder is too short for the inputs.
    """
    sides = _sides(options, cfg.encoder, corpus, halves)
    reports = ReportInputs(sides[0], reports_of(corpus).reports)
    changes = ChangeInputs(sides[1], corpus.changes(options.granularity).table, options.form, options.message)
    sampling = (val_share, cfg.batch_size, cfg.seed, options.val_candidates, options.hard)
    data = LocalizationDataModule(corpus, reports, changes, options.granularity, halves.train, *sampling)
    # Other modules have drawn random numbers: the weights of the projectors depend on the seed alone.
    torch.manual_seed(cfg.seed)
    schedule = instantiate(cfg.optimizer), instantiate(cfg.scheduler)
    links = CandidateLinks.of_corpus(corpus)
    bf16 = str(cfg.trainer.precision).startswith("bf16")
    return HmcblSystem(*sides, options.settings, links, *schedule, cfg.seed, bf16), data


def hmcbl_scorers(system: HmcblSystem, data: LocalizationDataModule, max_sim: bool) -> dict[str, MakeScorer]:
    """Scorers of the granularity that was trained, by the weights as they stand.

    Args:
        system: After its training.
        data: Its inputs.
        max_sim: Whether late interaction is wanted.
    """
    reports = system.encode_reports(data.reports, np.arange(len(data.reports)), tokens=max_sim)
    changes = system.encode_changes(data.changes, np.arange(len(data.changes)), tokens=max_sim)
    found: dict[str, MakeScorer] = {COSINE: lambda: VectorScorer(system.pooled(changes), system.pooled(reports))}
    if max_sim:
        found[MAX_SIM] = lambda: MaxSim(EncodedTokens(changes, reports))
    return found


def encoders_of_commits(
    scorers: Mapping[str, MakeScorer],
    options: HmcblOptions,
    corpus: ChangeCorpus,
    level: Level,
    trained_on: np.ndarray,
) -> dict[str, Scorer]:
    """What learnt rankers read of the trained encoders: scores of commits by their best part, by id.

    Args:
        scorers: See ``hmcbl_scorers``.
        options: What was trained.
        corpus: Reports and changes.
        level: The commits.
        trained_on: Rows of the reports that trained the encoders, whose scores are missing.
    """
    found: dict[str, Scorer] = {}
    for name, make in scorers.items():
        scorer = make()
        if options.granularity != "commit":
            scorer = by_best_part(scorer, corpus, "commit", options.granularity)
        scorer.fit(level.inputs)
        found[name] = UnseenScores(scorer, trained_on)
    return found


class EncodedTokens:
    """The vectors of tokens that are there already, see ``TokenVectors``."""

    def __init__(self, documents: Encoded, queries: Encoded) -> None:
        self.encoded = {"document": documents, "query": queries}

    def __call__(self, table: pd.DataFrame, kind: Literal["document", "query"]) -> Iterable[np.ndarray]:
        """The vectors of each row of the table that was encoded."""
        encoded = self.encoded[kind]
        assert encoded.tokens is not None
        assert encoded.starts is not None
        return np.split(encoded.tokens, encoded.starts[1:-1])


def _sides(options: HmcblOptions, encoder: DictConfig, corpus: ChangeCorpus, halves: Halves) -> tuple[Side, Side]:
    """The encoders of reports and of changes; each has weights of its own."""
    report_limits = InputLimits(options.report_tokens, 1, 0)
    change_limits = InputLimits(options.comment_tokens, options.code_tokens, options.nodes)
    chosen = (
        (options.report_encoder, report_limits, False),
        (options.change_encoder, change_limits, options.graph),
    )
    made = []
    for folder, limits, graph in chosen:
        if folder is not None:
            made.append(code_side(folder, limits, graph))
            continue
        loaded: LoadedEncoder | UntrainedEncoder = instantiate(encoder)
        if isinstance(loaded, UntrainedEncoder):
            made.append(untrained_side(loaded, _training_texts(corpus, halves), limits, graph))
        else:
            made.append(text_side(loaded, limits))
    return made[0], made[1]


def _training_texts(corpus: ChangeCorpus, halves: Halves) -> list[str]:
    """What a tokenizer is made from: the reports of the first half, and the commits before the second."""
    reports = reports_of(corpus).reports
    commits = corpus.commits.table
    earlier = commits[commits["created_at"] < reports["created_at"].iloc[halves.test[0]]]
    chosen = reports.iloc[halves.train]
    return [*(chosen["title"] + "\n" + chosen["description"]), *(earlier["title"] + "\n" + earlier["diff"])]
