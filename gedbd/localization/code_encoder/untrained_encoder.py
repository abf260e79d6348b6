"""An encoder without pretrained weights: a BERT of any size, and a tokenizer made from the texts that it trains on."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from gedbd.encoders.backend import Backend
from gedbd.encoders.tiny_bert import SPECIAL, between_ends, fast_tokenizer, random_bert


class UntrainedEncoder:
    """A BERT with random weights, for tasks that train an encoder from the beginning.

    Args:
        name: Short name, for messages.
        layers: Number of layers.
        hidden: Size H of the hidden states.
        heads: Attention heads of a layer; they divide ``hidden``.
        intermediate: Size of the layer inside each layer.
        vocab_size: The largest number of tokens, special ones included.
        max_tokens: Number of positions.
        dropout: Share of units that training leaves out.
        attention_dropout: Share of the weights of attention that training leaves out.
        seed: Determines the weights.
        fine_tuning: Unused here. The configuration takes defaults of training options from it.
        backend: Refused: there is nothing to encode with.
        cache_dir: Refused likewise.

    Raises:
        ValueError: If the sizes do not fit, or the encoder is to encode texts as it is.
    """

    def __init__(
        self,
        name: str,
        layers: int,
        hidden: int,
        heads: int,
        intermediate: int,
        vocab_size: int,
        max_tokens: int,
        dropout: float,
        attention_dropout: float,
        seed: int,
        fine_tuning: Mapping[str, float] | None = None,
        backend: Backend | None = None,
        cache_dir: str | Path | None = None,
    ) -> None:
        if backend is not None or cache_dir is not None:
            raise ValueError(
                f"encoder={name} has neither weights nor a tokenizer before it is pre-trained: choose another encoder,"
                " or encoder=codebert with encoder.model=<folder encoder/ of a pre-training>"
            )
        if hidden % heads:
            raise ValueError(f"encoder.heads={heads} must divide encoder.hidden={hidden}")
        self.vocab_size = vocab_size
        self.seed = seed
        self.sizes = {
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "intermediate_size": intermediate,
            "max_position_embeddings": max_tokens,
            "hidden_dropout_prob": dropout,
            "attention_probs_dropout_prob": attention_dropout,
        }

    def fit(self, texts: Iterable[str]) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        """Makes the tokenizer from training texts, and a model for it."""
        tokenizer = byte_pair_tokenizer(texts, self.vocab_size)
        return random_bert(self.seed, vocab_size=len(tokenizer), **self.sizes), tokenizer


def byte_pair_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerBase:
    """A tokenizer by byte pair encoding of bytes, as RoBERTa's; the same texts give the same one.

    Capital letters inside words divide nothing: ``getValue`` is one token if it is frequent.

    Args:
        texts: What pairs are counted in.
        vocab_size: The largest number of tokens.
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
    # A token's place in the text begins after the space that is part of it.
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), between_ends(tokenizer)])
    return fast_tokenizer(tokenizer)
