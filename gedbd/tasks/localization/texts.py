"""The texts of reports and changes that a text encoder reads."""

from typing import TYPE_CHECKING

import pandas as pd

from gedbd.text.templates import Texts, title_description

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MAX_CHARACTERS = 4_000  # several times what encoders read


def report_or_change(
    table: pd.DataFrame, tokenizer: "PreTrainedTokenizerBase | None" = None, max_tokens: int | None = None
) -> Texts:
    """Title and description of reports, message and paths of commits, path and diff of files, path and text of hunks.

    Args:
        table: N reports, or a table of ``ChangeCorpus``.
        tokenizer: Unused: the encoder truncates texts that are too long.
        max_tokens: Unused.
    """
    if "diff" not in table:
        return title_description(table)
    if "parents" in table:
        joined = table["title"] + "\n" + table["description"] + "\n" + table["paths"]
    else:
        joined = table["paths"] + "\n" + table["diff"]
    return Texts([str(text)[:MAX_CHARACTERS] for text in joined])
