"""Assembles the task of duplicate questions from the configuration."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pandas as pd
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console

from gedbd.corpora.corpus import TRAIN
from gedbd.encoders.node2vec import TagEncoder
from gedbd.evaluation.display_names import FROZEN
from gedbd.experiments.prepare import prepare_data, set_matmul_precision
from gedbd.experiments.retrieval_module import trained_result
from gedbd.experiments.run_training import train_system
from gedbd.experiments.training_task import TRAINING_SECTIONS, EvaluationResult, TrainingSetup
from gedbd.io.console import print_line, silence_library_logs
from gedbd.losses import check_labels
from gedbd.questions.question_data import QuestionsDataModule
from gedbd.questions.question_module import QuestionsModule, check_head, make_head, method_id
from gedbd.questions.question_negatives import Negatives
from gedbd.questions.question_vectors import Form, TitleBody, read_questions
from gedbd.retrieval.scorers.dense_scorer import VectorScorer


@dataclass(eq=False)
class QuestionsTask:
    """Trains a projection of frozen vectors of title, body and tag to find duplicate questions.

    The methods TE and TE+network of Hazra et al., "Duplicate Question Retrieval and Confirmation Time Prediction in
    Software Communities", 2023 (arXiv 2309.05035), and variants that start from the frozen encoder's own similarities.
    """

    reads: ClassVar[frozenset[str]] = frozenset(
        {"split", "labels", "pairs", "batch_size", "ranking", "encoder", "backend", "tags"}
        | {"loss", "optimizer", "scheduler", "matmul_precision"}
        | TRAINING_SECTIONS
    )

    network: bool = False  # use the vector of the tag too
    clean: bool = True  # remove URLs and stop words before encoding
    # encode title and body separately (``separate``), or as one text (``joined``), see ``TitleBody``
    form: Form = "separate"
    head: str = "sigmoid"  # the projection, see ``make_head``
    dim: int = 512  # size of the projected vectors of ``head=sigmoid``
    negatives: str = "buckets"  # kind of non-duplicates, see ``Negatives``
    alpha: float = 0.3  # minimum similarity of buckets
    neighbours: int = 10  # number of nearest non-duplicates to draw from
    epochs: int = 40  # default of ``trainer.max_epochs`` in the configuration; unused here
    gradient_clip_val: float | None = None  # default of ``trainer.gradient_clip_val``; unused here

    def __post_init__(self) -> None:
        check_head(self.head)
        self.compared = Negatives(self.negatives, self.alpha, self.neighbours)

    def train(self, cfg: DictConfig, folder: Path, console: Console) -> float:
        """Trains, tests, and returns the value that sweeps compare."""
        return train_system(self, cfg, folder, console)

    def build(self, cfg: DictConfig, console: Console, parts: tuple[str, ...] = ("val", "test")) -> TrainingSetup:
        """The data, the system and the corpus of a training run."""
        silence_library_logs()
        set_matmul_precision(cfg.matmul_precision)
        loss = instantiate(cfg.loss)
        check_labels(loss, self.compared.provides)
        prepared = prepare_data(cfg, console)
        tags: TagEncoder | None = instantiate(cfg.tags) if self.network else None
        encoder = instantiate(cfg.encoder, backend=instantiate(cfg.backend), cache_dir=cfg.cache_dir)
        questions = read_questions(
            prepared.corpus.reports,
            TitleBody(encoder, self.clean, form=self.form),
            tags,
            prepared.parts == TRAIN,
            prepared.corpus.name,
        )
        data = QuestionsDataModule(
            questions,
            prepared.pairs,
            prepared.corpus.group,
            prepared.parts,
            self.compared,
            cfg.batch_size,
            cfg.seed,
            prepared.queries,
            ("val", *parts),
            tags,
        )
        for warning in data.warnings:
            print_line(console, f"{prepared.corpus.name}: {warning}")
        # Other modules may have drawn random numbers; the projection's weights must depend on the seed alone.
        torch.manual_seed(cfg.seed)
        head = make_head(self.head, questions.features.shape[1], questions.num_text, self.dim)
        system = QuestionsModule(head, loss, instantiate(cfg.optimizer), instantiate(cfg.scheduler), cfg.seed)
        return TrainingSetup(data, system, prepared.corpus, tuple(data.queries.get("val", {})))

    def result(self, setup: TrainingSetup) -> EvaluationResult:
        """Metrics, scores and vectors of a test."""
        data = setup.data
        system = setup.system
        assert isinstance(data, QuestionsDataModule)
        assert isinstance(system, QuestionsModule)
        scored = pd.concat(system.scores.values())
        earlier = scored["earlier"].to_numpy()
        later = scored["later"].to_numpy()
        cosine = (data.frozen[earlier] * data.frozen[later]).sum(axis=1)
        return trained_result(
            setup.corpus,
            system,
            data,
            scored.assign(score_frozen=cosine).drop(columns="score_text"),
            {method_id(self.head, self.network): "score", FROZEN: "score_frozen"},
            VectorScorer(data.frozen),
            data.tag_vectors.network_ if data.tag_vectors else None,
            threshold=float(system.threshold),
        )
