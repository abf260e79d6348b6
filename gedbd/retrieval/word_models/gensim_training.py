"""What trainings with gensim share: the check that it is installed, its texts, and a progress bar."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from types import TracebackType

import numpy as np
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from gedbd.io.verbosity import is_quiet

MAX_WORDS = 10_000  # gensim ignores what a text has beyond that, without a word
UPDATE_TEXTS = 500  # texts between two steps of the progress bar


def check_gensim() -> None:
    """Raises ValueError if gensim is not installed."""
    if find_spec("gensim") is None:
        raise ValueError("gensim is not installed: pip install 'gedbd[questions]'")


class TrainingTexts:
    """Texts of words for gensim, which reads them once for each epoch, with a progress bar over all passes.

    A text beyond gensim's limit of 10,000 words is given in pieces.

    Args:
        numbers: N texts of word numbers.
        terms: The word of each number.
        passes: How often gensim will read the texts: once for the vocabulary and once an epoch.
        label: Label of the progress bar.
        tagged: Give each text with its number, as Doc2Vec wants it.
    """

    def __init__(
        self, numbers: Sequence[np.ndarray], terms: Sequence[str], passes: int, label: str, tagged: bool = False
    ) -> None:
        self.numbers = numbers
        self.terms = terms
        self.tagged = tagged
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, transient=True, disable=is_quiet())
        self._bar = self._progress.add_task(label, total=passes * len(numbers))

    def __enter__(self) -> "TrainingTexts":
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()

    def __iter__(self) -> Iterator[object]:
        from gensim.models.doc2vec import TaggedDocument

        for row, text in enumerate(self.numbers):
            for start in range(0, max(1, len(text)), MAX_WORDS):
                words = [self.terms[number] for number in text[start : start + MAX_WORDS].tolist()]
                yield TaggedDocument(words, [row]) if self.tagged else words
            if (row + 1) % UPDATE_TEXTS == 0:
                self._progress.advance(self._bar, UPDATE_TEXTS)
