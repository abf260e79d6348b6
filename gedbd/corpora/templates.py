"""Text templates: from the fields of a report to the encoder's input."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import pandas as pd

from gedbd.corpora.fields import components, products
from gedbd.text.tokens import cut_to_tokens

if TYPE_CHECKING:
    from gedbd.text.tokens import AnyTokenizer

FORM = ("product", "component", "os", "priority")
PARTS = (*FORM, "summary", "description", "screenshots")
NOT_SET = ("---", "--", "-", "unspecified", "none", "null", "n/a", "unknown")  # what trackers put into an empty field
MIN_OPEN_TOKENS = 8  # minimum number of tokens for the part without a budget


class Texts(NamedTuple):
    """The result of a text template."""

    texts: list[str]  # N texts of N reports
    warnings: tuple[str, ...] = ()  # warnings of the template, one sentence each


class Text(Protocol):
    """A text template."""

    def __call__(self, reports: pd.DataFrame, tokenizer: "AnyTokenizer", max_tokens: int) -> Texts:
        """The texts of N reports.

        Args:
            reports: N rows of a table of documents.
            tokenizer: The encoder's tokenizer.
            max_tokens: Number of tokens that the encoder reads.
        """
        ...


def title_description(
    reports: pd.DataFrame, tokenizer: "AnyTokenizer | None" = None, max_tokens: int | None = None
) -> Texts:
    """Joins title and description with a line break, as in the graph-enhanced transformer paper.

    The text of a report with neither is empty. The encoder truncates texts that are too long.
    """
    # As lists, since iterating over a pandas column is slow.
    return Texts(join_texts(reports["title"].tolist(), reports["description"].tolist()))


def join_texts(titles: Iterable[str], descriptions: Iterable[str]) -> list[str]:
    """Title and description of each report, joined with a line break and without blanks around them."""
    # Without pandas' string methods, which take half a millisecond for a single report.
    pairs = zip(titles, descriptions, strict=True)
    return [f"{title.strip()}\n{description.strip()}".strip() for title, description in pairs]


@dataclass(eq=False)
class FieldTemplate:
    """Joins a report's fields into one text, each after a marker: ``[PRODUCT] Mail [SUMMARY] Crash [DESCRIPTION] ...``.

    The form is that of "SBERT with Contrastive Learning + VLM Augmentation"; parts that a report lacks are left out.
    Unlike in the paper, each part is cut to its own number of tokens, so that a long log in the description displaces
    nothing else, and all parts are on one line. Without budgets the whole text is cut at its end, as in the paper.
    """

    order: Sequence[str]  # the parts to write, of ``PARTS``, in this order
    # maximum number of tokens of each part, without its marker. One part may have null: it gets what the others leave,
    # report by report. Null instead of the mapping cuts no part
    tokens: Mapping[str, int | None] | None
    # a table written by ``gedbd caption``, for the part ``screenshots``; null leaves the part out
    captions: str | None
    cleaning: Callable[[pd.Series], list[str]]  # cleans descriptions first; takes and returns texts
    # start a line with each part and each image, and write ``[Image:file]`` without a blank, as in the paper. WordPiece
    # tokenizers read the same tokens, byte-level BPE tokenizers others
    lines: bool = False

    def __post_init__(self) -> None:
        unknown = [part for part in (*self.order, *(self.tokens or ())) if part not in PARTS]
        if unknown or len(set(self.order)) < len(self.order) or not self.order:
            raise ValueError(f"text.order={list(self.order)}: name each part once: {', '.join(PARTS)}")
        self.order = list(self.order)
        self.tokens = None if self.tokens is None else dict(self.tokens)
        self.open = [] if self.tokens is None else _open_part(self.order, self.tokens)
        self.separator = "\n" if self.lines else " "

    def __call__(self, reports: pd.DataFrame, tokenizer: "AnyTokenizer", max_tokens: int) -> Texts:
        """The texts of N reports.

        Raises:
            ValueError: If the parts leave too few of ``max_tokens`` to the one without a budget, the tokenizer gives
                no offsets, or the captions belong to other reports.
        """
        warnings: tuple[str, ...] = ()
        marked: dict[str, list[str]] = {}
        for part in self.order:
            if part == "screenshots":
                texts, warnings = self._screenshots(reports["attachments"])
            else:
                texts = self._texts(part, reports)
            missing = ("", *NOT_SET) if part in FORM else ("",)
            marked[part] = ["" if text.lower() in missing else f"{self._marker(part)}{text}" for text in texts]
        if self.tokens is not None:
            marked = self._cut(marked, self.tokens, tokenizer, max_tokens)
        columns = [marked[part] for part in self.order]
        return Texts(["".join(parts).strip() for parts in zip(*columns, strict=True)], warnings)

    def _cut(
        self, marked: dict[str, list[str]], tokens: Mapping[str, int | None], tokenizer: "AnyTokenizer", max_tokens: int
    ) -> dict[str, list[str]]:
        """The parts, each cut to its tokens; the one without a budget comes last and gets the rest."""
        if not tokenizer.is_fast:
            raise ValueError(f"text=fields needs a fast tokenizer; that of {tokenizer.name_or_path} is a slow one")
        overhead = {part: len(tokenizer.tokenize(self._marker(part).rstrip(" "))) for part in self.order}
        available = max_tokens - tokenizer.num_special_tokens_to_add()
        taken = sum((tokens.get(part) or 0) + overhead[part] for part in self.order)
        needed = MIN_OPEN_TOKENS if self.open else 0
        if taken + needed > available:
            raise ValueError(
                f"text.tokens and the markers take up to {taken} of the {available} tokens that encoder.max_tokens"
                f" leaves to a text{f', {needed} are needed for {self.open[0]}' if self.open else ''}: lower them,"
                " leave parts out of text.order, or raise encoder.max_tokens"
            )
        cut = {}
        remaining = np.full(len(marked[self.order[0]]), available)
        # False sorts before True, so that the part without a budget comes last.
        for part in sorted(self.order, key=lambda part: part in self.open):
            budget = tokens.get(part)
            budgets = remaining if budget is None else np.full(len(remaining), budget + overhead[part])
            cut[part], counts = cut_to_tokens(marked[part], tokenizer, budgets)
            remaining = remaining - counts
        return cut

    def _texts(self, part: str, reports: pd.DataFrame) -> list[str]:
        """A part of each report, without its marker."""
        if part == "description":
            return [text.strip() for text in self.cleaning(reports["description"])]
        column = {"product": products, "component": components}.get(part)
        values = column(reports) if column else reports["title" if part == "summary" else part]
        return [str(value).strip() for value in values]

    def _screenshots(self, attachments: pd.Series) -> Texts:
        """The name and the caption of each described image of each report."""
        if self.captions is None:
            return Texts([""] * len(attachments))
        # It imports Pillow, which searching an index does not need.
        from gedbd.corpora.screenshots import attached_images, read_captions

        captions = read_captions(self.captions)
        images = attached_images(attachments)
        image_names = {name for names in images for name in names}
        if image_names and not image_names & captions.keys():
            raise ValueError(
                f"text.captions={self.captions} describes no image that these reports name: another corpus?"
            )
        num_described = sum(any(name in captions for name in names) for names in images)
        num_undescribed = len(image_names - captions.keys())
        warning = (
            f"reports with a described screenshot: {num_described:,}; images without a description: {num_undescribed:,}"
        )
        start = "[Image:" if self.separator == "\n" else "[Image: "
        texts = []
        for names in images:
            described = [f"{start}{name}] {captions[name]}" for name in names if name in captions]
            texts.append(self.separator.join(described))
        return Texts(texts, (warning,))

    def _marker(self, part: str) -> str:
        """What is written before a part, with the blank or line break on either side."""
        if part == "screenshots":
            return f"{self.separator}Visual Context:{self.separator}"
        return f"{self.separator}[{part.upper()}] "


def _open_part(order: Sequence[str], tokens: Mapping[str, int | None]) -> list[str]:
    """The part without a budget, if there is one. Raises ValueError for two of them and for budgets below 1."""
    unlimited = [part for part in order if tokens.get(part) is None]
    if len(unlimited) > 1:
        raise ValueError(f"text.tokens: {' and '.join(unlimited)} have no number: only one part may have none")
    low = [part for part in order if part not in unlimited and (tokens[part] or 0) < 1]
    if low:
        raise ValueError(f"text.tokens.{low[0]}={tokens[low[0]]} must be 1 or more, or null for one part")
    return unlimited
