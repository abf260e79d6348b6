"""A vocabulary most of whose terms are in files."""

from collections.abc import Sequence

from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.triage.storage.string_table import StringTable


class StoredVocabulary(Vocabulary):
    """A vocabulary that continues a table of terms.

    Args:
        fixed: The first terms.

    Attributes:
        terms: The terms behind them.
    """

    def __init__(self, fixed: StringTable) -> None:
        super().__init__()
        self._fixed = fixed

    def __len__(self) -> int:
        return len(self._fixed) + len(self.terms)

    def __getitem__(self, number: int) -> str:
        known = len(self._fixed)
        return self._fixed[number] if number < known else self.terms[number - known]

    def since(self, count: int) -> list[str]:
        """See ``Vocabulary``; ``count`` includes all terms of the table."""
        return self.terms[count - len(self._fixed) :]

    def find(self, term: str) -> int | None:
        """See ``Vocabulary``."""
        number = super().find(term)
        return self._fixed.find(term) if number is None else number

    def find_all(self, terms: Sequence[str]) -> list[int | None]:
        """See ``Vocabulary``."""
        numbers = super().find_all(terms)
        others = [place for place, number in enumerate(numbers) if number is None]
        found = self._fixed.find_all([terms[place] for place in others])
        for place, number in zip(others, found, strict=True):
            numbers[place] = number
        return numbers

    def extend(self, terms: list[str]) -> None:
        """Adds terms that are not there yet."""
        for term in terms:
            self._numbers[term] = len(self)
            self.terms.append(term)
