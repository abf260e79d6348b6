"""A scorer that trains the projection of questions when it is fitted."""

from functools import partial

import numpy as np
import pytorch_lightning as pl
import torch

from gedbd.corpora.corpus import TRAIN
from gedbd.experiments.optimizers import adam, constant
from gedbd.losses import Loss, check_labels
from gedbd.questions.question_data import QuestionsDataModule
from gedbd.questions.question_module import QuestionsModule, check_head, make_head
from gedbd.questions.question_negatives import Negatives
from gedbd.questions.question_vectors import read_questions
from gedbd.retrieval.scorers.dense_scorer import TableVectors, TagVectors, cosines
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs


class TripletScorer(Scorer):
    """Cosine of the projected vectors of TE or TE+network, trained on the training pairs for a fixed number of epochs.

    Args:
        vectors: Encoder of title and body.
        loss: The loss.
        tags: Vectors of tags; None to read the text alone.
        head: The kind of projection, see ``make_head``.
        dim: Size of the projected vectors of ``head=sigmoid``.
        negatives: How non-duplicates are chosen, see ``Negatives``.
        alpha: The least similarity of buckets.
        neighbours: How many nearest non-duplicates are drawn from.
        lr: Learning rate.
        epochs: Epochs.
        batch_size: Duplicate pairs of a step.
        seed: Fixes initial weights, order and draws.
    """

    def __init__(
        self,
        vectors: TableVectors,
        loss: Loss,
        tags: TagVectors | None = None,
        head: str = "sigmoid",
        dim: int = 512,
        negatives: str = "buckets",
        alpha: float = 0.3,
        neighbours: int = 10,
        lr: float = 1e-3,
        epochs: int = 40,
        batch_size: int = 64,
        seed: int = 0,
    ) -> None:
        check_head(head)
        self.vectors = vectors
        self.loss = loss
        self.tags = tags
        self.head = head
        self.dim = dim
        self.negatives = Negatives(negatives, alpha, neighbours)
        check_labels(loss, self.negatives.provides)
        self.lr = lr
        self.epochs = epochs
        self.batch_size = batch_size
        self.seed = seed

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
            self.negatives,
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
