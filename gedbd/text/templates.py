"""How a report becomes the encoder's input.

A text template is called with N rows of a corpus, the encoder's tokenizer and the tokens it reads, and gives N texts.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pandas as pd

from gedbd.corpora.captions import attached_images, read_captions
from gedbd.corpora.fields import components, products

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FORM = ("product", "component", "os", "priority")
PARTS = (*FORM, "summary", "description", "screenshots")
NOT_SET = ("---", "--", "-", "unspecified", "none", "null", "n/a", "unknown")  # what trackers put into an empty field
LEAST_REST = 8


class Text(Protocol):
    """A text template."""

    def __call__(self, reports: pd.DataFrame, tokenizer: "PreTrainedTokenizerBase", max_tokens: int) -> list[str]:
        """N texts of N reports."""
        ...


def title_description(
    reports: pd.DataFrame, tokenizer: "PreTrainedTokenizerBase | None" = None, max_tokens: int | None = None
) -> list[str]:
    """Joins title and description with a line break, as in the graph-enhanced transformer paper.

    Args:
        reports: N rows with the columns ``title`` and ``description``.
        tokenizer: Not asked: a text too long is cut where the encoder reads it.
        max_tokens: Likewise.

    Returns:
        N texts. A report that has neither is an empty text.
    """
    joined = reports["title"].str.strip() + "\n" + reports["description"].str.strip()
    return [str(text) for text in joined.str.strip()]


class FieldTemplate:
    """One marked text of a report's fields: ``[PRODUCT] Mail [SUMMARY] Crash on start [DESCRIPTION] ...``.

    The form is that of "SBERT with Contrastive Learning + VLM Augmentation"; parts that a report does not have are left
    out. Each part is cut to its own number of tokens, so that a long log in the description pushes nothing else out of
    what the encoder reads (ours). Without budgets the whole text is cut at its end, as in the paper.

    Args:
        order: The parts to write, of ``PARTS``, in this order.
        tokens: Tokens that each part may have, its marker not counted. One part may have null: what the others leave,
            report by report. Null in place of the mapping: no part is cut.
        captions: A table that ``gedbd.caption`` has written, for the part ``screenshots``; without one there is none.
        cleaning: What is done to descriptions first, texts to texts.

    Attributes:
        notices_: What the last call met, in sentences for the user.
    """

    def __init__(
        self,
        order: Sequence[str],
        tokens: Mapping[str, int | None] | None,
        captions: str | None,
        cleaning: Callable[[pd.Series], list[str]],
    ) -> None:
        unknown = [part for part in (*order, *(tokens or ())) if part not in PARTS]
        if unknown or len(set(order)) < len(order) or not order:
            raise ValueError(f"text.order={list(order)}: name each part once: {', '.join(PARTS)}")
        self.order = list(order)
        self.tokens = None if tokens is None else dict(tokens)
        self.open = [] if tokens is None else _open_part(order, tokens)
        self.captions = captions
        self.cleaning = cleaning
        self.notices_: tuple[str, ...] = ()

    def __call__(self, reports: pd.DataFrame, tokenizer: "PreTrainedTokenizerBase", max_tokens: int) -> list[str]:
        """See ``Text``.

        Raises:
            ValueError: If the parts leave too little of ``max_tokens`` to the one that takes the rest, the tokenizer
                does not tell where tokens lie, or the captions are not those of these reports.
        """
        marked = {part: self._marked(part, reports) for part in self.order}
        if self.tokens is not None:
            marked = self._cut(marked, self.tokens, tokenizer, max_tokens)
        return ["".join(parts).strip() for parts in zip(*(marked[part] for part in self.order), strict=True)]

    def _cut(
        self,
        marked: dict[str, list[str]],
        tokens: Mapping[str, int | None],
        tokenizer: "PreTrainedTokenizerBase",
        max_tokens: int,
    ) -> dict[str, list[str]]:
        """The parts, each cut to its tokens; the open one comes last and gets what is left."""
        from gedbd.text.tokens import cut_to_tokens

        if not tokenizer.is_fast:
            raise ValueError(f"text=fields needs a fast tokenizer, and that of {tokenizer.name_or_path} is none")
        overhead = {part: len(tokenizer.tokenize(" " + _marker(part))) for part in self.order}
        room = max_tokens - tokenizer.num_special_tokens_to_add()
        self._check_room(room, tokens, overhead)
        cut = {}
        left = np.full(len(marked[self.order[0]]), room)
        for part in sorted(self.order, key=lambda part: part in self.open):
            own = tokens.get(part)
            budgets = left if own is None else np.full(len(left), own + overhead[part])
            cut[part], counts = cut_to_tokens(marked[part], tokenizer, budgets)
            left = left - counts
        return cut

    def _check_room(self, room: int, tokens: Mapping[str, int | None], overhead: Mapping[str, int]) -> None:
        """Refuses budgets that could push a part out."""
        taken = sum((tokens.get(part) or 0) + overhead[part] for part in self.order)
        least = LEAST_REST if self.open else 0
        if taken + least > room:
            raise ValueError(
                f"text.tokens and the markers take up to {taken} of the {room} tokens that encoder.max_tokens leaves"
                f" to a text{f', {least} are needed for {self.open[0]}' if self.open else ''}: lower them, leave parts"
                " out of text.order, or raise encoder.max_tokens"
            )

    def _marked(self, part: str, reports: pd.DataFrame) -> list[str]:
        """The marked part of each report, after a blank; nothing where it is missing."""
        missing = ("", *NOT_SET) if part in FORM else ("",)
        return ["" if text.lower() in missing else f" {_marker(part)} {text}" for text in self._texts(part, reports)]

    def _texts(self, part: str, reports: pd.DataFrame) -> list[str]:
        if part == "screenshots":
            return self._screenshots(reports["attachments"])
        if part == "description":
            return [text.strip() for text in self.cleaning(reports["description"])]
        column = {"product": products, "component": components}.get(part)
        values = column(reports) if column else reports["title" if part == "summary" else part]
        return [str(value).strip() for value in values]

    def _screenshots(self, attachments: pd.Series) -> list[str]:
        """``[Image: name] caption`` for each described image of each report."""
        self.notices_ = ()
        if self.captions is None:
            return [""] * len(attachments)
        captions, images = read_captions(self.captions), attached_images(attachments)
        named = {name for names in images for name in names}
        if named and not named & captions.keys():
            raise ValueError(
                f"text.captions={self.captions} describes no image that these reports name: another corpus?"
            )
        found = sum(any(name in captions for name in names) for names in images)
        without = len(named - captions.keys())
        self.notices_ = (f"reports with a described screenshot: {found:,}; images without a description: {without:,}",)
        return [" ".join(f"[Image: {name}] {captions[name]}" for name in names if name in captions) for names in images]


def _open_part(order: Sequence[str], tokens: Mapping[str, int | None]) -> list[str]:
    """The part that takes what the others leave, if there is one. Refuses two of them, and budgets below 1."""
    without = [part for part in order if tokens.get(part) is None]
    if len(without) > 1:
        raise ValueError(f"text.tokens: {' and '.join(without)} have none: only one part may take what is left")
    low = [part for part in order if part not in without and (tokens[part] or 0) < 1]
    if low:
        raise ValueError(f"text.tokens.{low[0]}={tokens[low[0]]} must be 1 or more, or null for one part")
    return without


def _marker(part: str) -> str:
    return "Visual Context:" if part == "screenshots" else f"[{part.upper()}]"
