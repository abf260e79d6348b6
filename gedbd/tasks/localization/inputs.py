"""Reports and changes as inputs of the two encoders, made when they are first asked for."""

from collections.abc import Sequence
from typing import overload

import pandas as pd

from gedbd.encoders.code.inputs import CodeInput
from gedbd.tasks.localization.change_graphs import read_change
from gedbd.tasks.localization.sides import CHARACTERS_PER_TOKEN, Side
from gedbd.text.change_text import Form


class Inputs(Sequence[CodeInput]):
    """Inputs by row, kept once they are made."""

    def __init__(self, side: Side, count: int) -> None:
        self.side = side
        self._made: list[CodeInput | None] = [None] * count

    def __len__(self) -> int:
        return len(self._made)

    @overload
    def __getitem__(self, row: int) -> CodeInput: ...
    @overload
    def __getitem__(self, row: slice) -> list[CodeInput]: ...
    def __getitem__(self, row: int | slice) -> CodeInput | list[CodeInput]:
        if isinstance(row, slice):
            return [self[number] for number in range(*row.indices(len(self)))]
        made = self._made[row]
        if made is None:
            made = self.make(row)
            self._made[row] = made
        return made

    def make(self, row: int) -> CodeInput:
        """The input of a row."""
        raise NotImplementedError


class ReportInputs(Inputs):
    """Title and description of reports, read as a comment.

    Args:
        side: The encoder of reports.
        reports: R rows with ``title`` and ``description``.
    """

    def __init__(self, side: Side, reports: pd.DataFrame) -> None:
        super().__init__(side, len(reports))
        self.texts = (reports["title"].str.strip() + "\n" + reports["description"].str.strip()).str.strip().tolist()

    def make(self, row: int) -> CodeInput:
        """See ``Inputs``."""
        return self.side.input(self.texts[row], "")


class ChangeInputs(Inputs):
    """Changes: the first line of the message and the changed paths as the comment, and the diff as the code.

    Args:
        side: The encoder of changes.
        changes: N commits, files or hunks, a table of ``ChangeCorpus``.
        form: How the diff is written, see ``change_text``.
        message: Whether the comment holds the message; without it, the paths alone.
    """

    def __init__(self, side: Side, changes: pd.DataFrame, form: Form = "ARCL", message: bool = True) -> None:
        super().__init__(side, len(changes))
        self.form: Form = form
        self.message = message
        self.titles = changes["title"].tolist()
        self.paths = changes["paths"].tolist()
        self.diffs = changes["diff"].tolist()

    def make(self, row: int) -> CodeInput:
        """See ``Inputs``."""
        limits = self.side.limits
        paths = self.paths[row]
        comment = f"{paths}\n{self.titles[row]}" if self.message else paths
        if self.message and "\n" in paths:
            # The many paths of a commit would leave no place for its message.
            comment = f"{self.titles[row]}\n{paths}"
        max_characters = CHARACTERS_PER_TOKEN * limits.code_tokens
        change = read_change(
            self.diffs[row], self.form, max_characters, paths.endswith(".java"), self.side.reads_graphs
        )
        return self.side.input(comment, change.text, change.graph)
