"""A cross-encoder: it reads two reports at once, which is slower than comparing their vectors, and more accurate.

``sentence_transformers.CrossEncoder`` wraps a sequence-classification model with a head of its own: it does not start
from the pooling and the trained weights of the text encoder, which are what is compared here.
"""

from contextlib import AbstractContextManager

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from gedbd.encoders.backends.backend import PreparedBackend, encode_texts
from gedbd.encoders.text_encoder import TextEncoder
from gedbd.text.tokens import CHUNK_TEXTS, TokenTable


class CrossEncoder(nn.Module):
    """score = w . pool(backbone([a; b])) + c, from the same pretrained weights as the text branch.

    Args:
        encoder: Its backbone and pooling are used; training changes the backbone. A prefix of single texts and
            ``truncate_dim`` are not for pairs: neither is used.
        tokenizer: The tokenizer of the encoder.
        max_tokens: Length that both texts together are cut to, the longer one first.
        reduced_precision: Compute in bfloat16 where the CPU has instructions for it; the weights stay float32.
    """

    def __init__(
        self, encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase, max_tokens: int, reduced_precision: bool = False
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.reduced_precision = reduced_precision
        self.head = nn.Linear(int(encoder.backbone.config.hidden_size), 1)

    def forward(self, first: list[str], second: list[str]) -> Tensor:
        """Scores of pairs of texts, ``(P,)`` float32."""
        # Pairs of texts are separated by the tokenizer in the way that its model was pretrained with.
        tokens = self.tokenizer(
            first, second, truncation=True, max_length=self.max_tokens, padding=True, return_tensors="pt"
        )
        device = self.head.weight.device
        with self._precision(device):
            pooled = self.encoder.pool(tokens["input_ids"].to(device), tokens["attention_mask"].to(device))
        scores: Tensor = self.head(pooled).squeeze(-1)
        return scores

    @torch.no_grad()
    def predict(self, first: list[str], second: list[str], batch_size: int = 32) -> Tensor:
        """As ``forward``, in batches of similar length and in evaluation mode."""
        was_training = self.training
        self.eval()
        # The longest first: batches of similar length have little padding.
        order = sorted(range(len(first)), key=lambda place: -len(first[place]) - len(second[place]))
        scores = torch.empty(len(first))
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            scores[chosen] = self([first[place] for place in chosen], [second[place] for place in chosen]).cpu()
        self.train(was_training)
        return scores

    def tokenize(self, first: list[str], second: list[str]) -> TokenTable:
        """Token ids of P pairs of texts, as the model reads them."""
        ids: list[np.ndarray] = []
        for start in range(0, len(first), CHUNK_TEXTS):
            chunk = slice(start, start + CHUNK_TEXTS)
            encoded = self.tokenizer(
                first[chunk], second[chunk], truncation=True, max_length=self.max_tokens, return_attention_mask=False
            )
            ids += [np.asarray(pair, dtype=np.int32) for pair in encoded["input_ids"]]
        starts = np.cumsum([0, *map(len, ids)])
        pad_id = self.tokenizer.pad_token_id
        return TokenTable(np.concatenate([*ids, np.empty(0, dtype=np.int32)]), starts, int(pad_id))

    @torch.no_grad()
    def predict_with(self, prepared: PreparedBackend, first: list[str], second: list[str]) -> np.ndarray:
        """As ``predict``, by a backend that was prepared with this model's encoder, ``(P,)`` float32."""
        if not first:
            return np.empty(0, dtype=np.float32)
        pooled = torch.from_numpy(encode_texts(self.tokenize(first, second), prepared, "score pairs of reports"))
        device = self.head.weight.device
        scores: np.ndarray = self.head(pooled.to(device)).squeeze(-1).cpu().numpy()
        return scores

    def _precision(self, device: torch.device) -> AbstractContextManager[object]:
        enabled = self.reduced_precision and device.type == "cpu" and cpu_has_bfloat16()
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=enabled)


def cpu_has_bfloat16() -> bool:
    """Whether this CPU multiplies matrices in bfloat16 (AVX-512 BF16 or AMX); others are slower in it."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
