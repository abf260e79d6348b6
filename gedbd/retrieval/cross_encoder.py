"""Reads two reports at once and says how alike they are; dearer than comparing vectors, and finer."""

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from gedbd.encoders.text_encoder import TextEncoder


class CrossEncoder(nn.Module):
    """score = w . pool(backbone([a; b])) + c, from the same pretrained weights as the text branch.

    Args:
        encoder: Its backbone and pooling are taken; the backbone is trained on.
        tokenizer: The encoder's.
        max_tokens: Length that both texts together are cut to, the longer one first.
    """

    def __init__(self, encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> None:
        super().__init__()
        self.encoder, self.tokenizer, self.max_tokens = encoder, tokenizer, max_tokens
        self.head = nn.Linear(int(encoder.backbone.config.hidden_size), 1)

    def forward(self, first: list[str], second: list[str]) -> Tensor:
        """Scores of pairs of texts, ``(P,)``."""
        tokens = self.tokenizer(
            first, second, truncation=True, max_length=self.max_tokens, padding=True, return_tensors="pt"
        )
        device = self.head.weight.device
        pooled = self.encoder.pool(tokens["input_ids"].to(device), tokens["attention_mask"].to(device))
        scores: Tensor = self.head(pooled).squeeze(-1)
        return scores

    @torch.no_grad()
    def predict(self, first: list[str], second: list[str], batch_size: int = 32) -> Tensor:
        """As ``forward``, in batches of similar length and in evaluation mode."""
        was_training = self.training
        self.eval()
        order = sorted(range(len(first)), key=lambda place: -len(first[place]) - len(second[place]))
        scores = torch.empty(len(first))
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            scores[chosen] = self([first[place] for place in chosen], [second[place] for place in chosen]).cpu()
        self.train(was_training)
        return scores
