"""A fast tokenizer read from ``tokenizer.json`` alone, without transformers, whose import takes seconds."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tokenizers import Tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    AnyTokenizer: TypeAlias = "PreTrainedTokenizerBase | StoredTokenizer"


class StoredTokenizer:
    """Gives the token ids and offsets that the tokenizer of transformers gives, whose file it reads.

    Not for several threads at once: the length that texts are cut to is a state of the tokenizer.

    Args:
        file: ``tokenizer.json``, as transformers writes it.
        pad_token_id: Id of the padding token.
        name: What messages call it.

    Raises:
        ValueError: If the file is missing or damaged.
    """

    is_fast = True

    def __init__(self, file: Path, pad_token_id: int, name: str) -> None:
        self.pad_token_id = pad_token_id
        self.name_or_path = name
        try:
            self._tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # tokenizers raises no narrower type
            raise ValueError(f"{file} is damaged: {error}") from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def __call__(
        self,
        texts: list[str],
        max_length: int,
        truncation: bool = True,
        add_special_tokens: bool = True,
        return_offsets_mapping: bool = False,
        return_attention_mask: bool = False,
    ) -> dict[str, Any]:
        """Tokenizes texts, with the arguments of transformers that gedbd uses.

        Args:
            texts: N texts.
            max_length: Number of tokens that each is cut to, special tokens included.
            truncation: Whether to cut them.
            add_special_tokens: Whether to add them.
            return_offsets_mapping: Whether to return the place of each token.
            return_attention_mask: Unused; there is no padding.

        Returns:
            ``input_ids`` and, if asked for, ``offset_mapping``: lists of N lists.
        """
        if truncation:
            self._tokenizer.enable_truncation(max_length)
        else:
            self._tokenizer.no_truncation()
        encoded = self._tokenizer.encode_batch(texts, add_special_tokens=add_special_tokens)
        result: dict[str, Any] = {"input_ids": [one.ids for one in encoded]}
        if return_offsets_mapping:
            result["offset_mapping"] = [one.offsets for one in encoded]
        return result

    def tokenize(self, text: str) -> list[str]:
        """The tokens of one text, without special ones."""
        self._tokenizer.no_truncation()
        tokens: list[str] = self._tokenizer.encode(text, add_special_tokens=False).tokens
        return tokens

    def num_special_tokens_to_add(self) -> int:
        """Number of special tokens that a text gets."""
        return int(self._tokenizer.num_special_tokens_to_add(False))
