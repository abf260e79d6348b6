"""A scorer that trains the projection of questions when it is fitted."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytorch_lightning as pl
import torch

from gedbd.corpora.corpus import TRAIN
from gedbd.encoders.node2vec import TagEncoder
from gedbd.experiments.optimizers import adam, constant
from gedbd.losses import Loss, check_labels
from gedbd.questions.question_data import QuestionsDataModule
from gedbd.questions.question_module import QuestionsModule, check_head, make_head
from gedbd.questions.question_negatives import Negatives
from gedbd.questions.question_vectors import read_questions
from gedbd.retrieval.scorers.dense_scorer import TableVectors, cosines
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs


@dataclass(eq=False)
class TripletScorer(Scorer):
    """Cosine of projected vectors of TE or TE+network, trained on the training pairs for a fixed number of epochs."""

    vectors: TableVectors  # encoder of title and body
    loss: Loss  # the loss
    tags: TagEncoder | None = None  # vectors of tags; None to read the text alone
    head: str = "sigmoid"  # the kind of projection, see ``make_head``
    dim: int = 512  # size of the projected vectors of ``head=sigmoid``
    negatives: str = "buckets"  # how non-duplicates are chosen, see ``Negatives``
    alpha: float = 0.3  # the least similarity of buckets
    neighbours: int = 10  # how many nearest non-duplicates are drawn from
    lr: float = 1e-3  # learning rate
    epochs: int = 40  # passes over the training pairs
    batch_size: int = 64  # duplicate pairs of a step
    seed: int = 0  # fixes initial weights, order and draws

    def __post_init__(self) -> None:
        check_head(self.head)
        self.compared = Negatives(self.negatives, self.alpha, self.neighbours)
        check_labels(self.loss, self.compared.provides)

    def fit(self, inputs: ScorerInputs) -> None:
        """Encodes all questions and trains on the training pairs.

        Raises:
            ValueError: If queries and documents are two tables, there is no duplicate pair, or tags are wanted and no
                training question has one.
        """
        inputs.check_one_table("TripletScorer")
        pairs = inputs.train.rename(columns={"query": "later", "document": "earlier"}).assign(part="train")
        if not (pairs["label"] == 1).any():
            raise ValueError("TripletScorer needs a duplicate pair in the training split to learn from")
        num_documents = len(inputs.documents)
        # Questions after the last training pair may belong to another split.
        training = np.arange(num_documents) < inputs.training_end
        questions = read_questions(inputs.documents, self.vectors, self.tags, training, "the corpus")
        data = QuestionsDataModule(
            questions,
            pairs,
            np.arange(num_documents),
            np.where(training, TRAIN, TRAIN + 1),
            self.compared,
            self.batch_size,
            self.seed,
        )
        self.warnings_ = data.warnings
        # A scorer must not change the random numbers that are drawn after it.
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            head = make_head(self.head, questions.features.shape[1], questions.num_text, self.dim)
            optimizer = partial(adam, lr=self.lr, eps=1e-8, weight_decay=0.0)
            system = QuestionsModule(head, self.loss, optimizer, partial(constant, warmup_steps=0), self.seed)
            self._train(system, data)
        self.vectors_ = system.cpu().project(data.features)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` cosines."""
        return cosines(self.vectors_, self.vectors_[rows])

    def _train(self, system: QuestionsModule, data: QuestionsDataModule) -> None:
        trainer = pl.Trainer(
            max_epochs=self.epochs,
            accelerator="auto",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_model_summary=False,
            limit_val_batches=0,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
        )
        trainer.fit(system, data)
