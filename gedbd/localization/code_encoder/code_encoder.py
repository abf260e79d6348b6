"""A Hugging Face encoder that reads code with an attention mask, its folder, and an encoder without weights."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from gedbd.encoders.backbone import max_positions, read_backbone, read_tokenizer
from gedbd.encoders.backend import Backend
from gedbd.encoders.model_files import problem_of
from gedbd.encoders.pretrained import SPECIAL, between_ends, fast_tokenizer, random_bert
from gedbd.io.files import check_regular_files
from gedbd.localization.code_encoder.code_inputs import (
    CODE_BLOCK,
    CODE_TOKENS,
    CodeBatch,
    InputLimits,
    InputParts,
    check_length,
)

SETTINGS_FILE = "code_inputs.json"


class CodeEncoder(nn.Module):
    """Token vectors of code with its flow graph; the backbone takes a mask ``(B, 1, L, L)``, as BERT does."""

    def __init__(self, backbone: PreTrainedModel) -> None:
        super().__init__()
        # PyTorch's attention takes a bool mask as it is; the "eager" one of transformers would add it as numbers.
        backbone.set_attn_implementation("sdpa")
        self.backbone = backbone

    def forward(self, batch: CodeBatch) -> Tensor:
        """The vectors of the last layer ``(B, L, H)``."""
        hidden: Tensor = self.backbone(
            input_ids=batch.input_ids, attention_mask=attention_mask(batch)
        ).last_hidden_state
        return hidden


def save_encoder(
    folder: str | Path,
    backbone: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    limits: InputLimits,
    parts: InputParts,
) -> None:
    """Writes a folder that ``AutoModel`` and ``AutoTokenizer`` read, and ``code_inputs.json`` with limits and parts."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    backbone.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    settings = {"limits": asdict(limits), "parts": asdict(parts)}
    (folder / SETTINGS_FILE).write_text(json.dumps(settings, indent=2) + "\n")


def load_code_encoder(folder: str | Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, InputLimits, InputParts]:
    """Reads what ``save_encoder`` wrote.

    Raises ValueError if it is not such a folder, is damaged, or its inputs are longer than its model reads.
    """
    folder = Path(folder)
    check_regular_files(folder)
    limits, parts = read_settings(folder)
    try:
        backbone = read_backbone(str(folder), local=True, use_safetensors=True)
        tokenizer = read_tokenizer(str(folder), local=True)
    except Exception as error:  # any type, see ``local_first``
        raise ValueError(f"{folder}: cannot load the encoder: {problem_of(error)}") from error
    missing = set(CODE_TOKENS) - set(tokenizer.get_vocab())
    if missing:
        raise ValueError(f"{folder}: its tokenizer lacks {len(missing)} tokens of code, such as {min(missing)}")
    check_length(limits, parts, max_positions(backbone))
    return backbone, tokenizer, limits, parts


def read_settings(folder: Path) -> tuple[InputLimits, InputParts]:
    """The limits and parts that an encoder's folder names. Raises ValueError if they are missing or damaged."""
    file = folder / SETTINGS_FILE
    if not file.is_file():
        raise ValueError(f"{folder}: no {SETTINGS_FILE}; give the encoder/ folder of a run of task=pretraining")
    try:
        settings = json.loads(file.read_text())
        return InputLimits(**settings["limits"]), InputParts(**settings["parts"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file} is damaged: {error}; take the folder from its run again") from error


def attention_mask(batch: CodeBatch) -> Tensor:
    """The attention mask of SemanticCodeBERT.

    Source: the talk "Pre-training Code Representation with Semantic Flow Graph for Effective Bug Localization" (2023).
    Token i may attend to token j if

    - i is ``[CLS]`` or a ``[SEP]``,
    - i and j are both in the comment or the code,
    - i is a token of the code and j its node, or the reverse (E1),
    - i and j are nodes and an edge leads from i to j (E2),
    - i is a node and j its type (E3), or i is a node and j its role (E4).

    Ours: the ``[C]`` between comment and code, which no case of the formula names, counts as a token of them. Every
    token may attend to itself, since the softmax of a row without entries is undefined; this concerns types,
    roles and the markers ``[N]``, ``[T]`` and ``[R]``. Padding attends only to itself, and no token to padding.

    Returns:
        ``(B, 1, L, L)`` bool for B inputs of up to L tokens, True at (i, j) where i may attend to j.
    """
    # [CLS] w w [C] s s [SEP]: position 0 is [CLS]; the code begins at 4 and is 2 long, so that it ends before 6.
    code_end = batch.blocks[:, CODE_BLOCK].sum(1, keepdim=True)
    position = torch.arange(batch.input_ids.shape[1], device=batch.input_ids.device)
    text = (position >= 1) & (position < code_end)
    # [CLS], the [SEP] after the code, and the last [SEP].
    sees_all = (position == 0) | (position == code_end) | (position == batch.lengths[:, None] - 1)
    mask = sees_all[:, :, None] | (text[:, :, None] & text[:, None, :])
    mask &= batch.is_token[:, None, :]
    row, start, end = torch.cat([*batch.edges, batch.edges.code_node[[0, 2, 1]]], dim=1)
    mask[row, start, end] = True
    mask.diagonal(dim1=1, dim2=2).fill_(True)
    return mask[:, None]


@dataclass(eq=False)
class UntrainedEncoder:
    """A BERT with random weights, for tasks that train an encoder from the beginning.

    ``layers``, ``hidden``, ``heads``, ``intermediate`` and ``max_tokens`` (positions) are sizes of transformers'
    ``BertConfig``, ``dropout`` and ``attention_dropout`` its probabilities; ``heads`` divide ``hidden``. ``vocab_size``
    is the largest number of tokens, special ones included. ``seed`` determines the weights. The configuration takes
    defaults of training options from ``fine_tuning``. ``backend`` and ``cache_dir`` are refused: there are no weights
    to encode with.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    intermediate: int
    vocab_size: int
    max_tokens: int
    dropout: float
    attention_dropout: float
    seed: int
    fine_tuning: Mapping[str, float] | None = None
    backend: Backend | None = None
    cache_dir: str | Path | None = None

    def __post_init__(self) -> None:
        if self.backend is not None or self.cache_dir is not None:
            raise ValueError(
                f"encoder={self.name} has neither weights nor a tokenizer before it is pre-trained: choose another"
                " encoder, or encoder=codebert with encoder.model=<folder encoder/ of a pre-training>"
            )
        if self.hidden % self.heads:
            raise ValueError(f"encoder.heads={self.heads} must divide encoder.hidden={self.hidden}")

    def fit(self, texts: Iterable[str]) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        """Trains the tokenizer on texts, and builds a model for it."""
        tokenizer = byte_pair_tokenizer(texts, self.vocab_size)
        model = random_bert(
            self.seed,
            vocab_size=len(tokenizer),
            hidden_size=self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=self.intermediate,
            max_position_embeddings=self.max_tokens,
            hidden_dropout_prob=self.dropout,
            attention_probs_dropout_prob=self.attention_dropout,
        )
        return model, tokenizer


def byte_pair_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerBase:
    """A tokenizer by byte pair encoding of bytes, as RoBERTa's; the same texts give the same one.

    Words are not split at capital letters: ``getValue`` is one token if it is frequent.
    """
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=SPECIAL,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    # The offsets of a token begin after the space that is part of it.
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), between_ends(tokenizer)])
    return fast_tokenizer(tokenizer)
