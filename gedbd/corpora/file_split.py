"""A split of source code by file: no file has methods in two parts."""

from dataclasses import dataclass

import numpy as np

from gedbd.corpora.documents import Documents
from gedbd.corpora.relevance import Groups
from gedbd.corpora.splits import PARTS, TEST, TRAIN, VAL, check_fractions, shared_part


@dataclass(frozen=True)
class FileSplit:
    """Whole files are drawn into train, validation and test; a pair has both documents in one part.

    Methods of a file share names and habits, so that a model that has read some of them knows more about the others.
    The files are put into random order and cut where the shares of the documents are closest to those asked for.

    Args:
        val: Fraction of the documents for validation.
        test: Fraction of the documents for test.
        seed: Determines the draw.
    """

    val: float = 0.1
    test: float = 0.2
    seed: int = 0

    def of_documents(self, documents: Documents, groups: Groups | None = None) -> np.ndarray:
        """Parts by the column ``path``; groups play no role, and one may have members in several parts.

        Raises:
            ValueError: If the documents have no paths, or are of fewer than three files.
        """
        check_fractions(self.val, self.test)
        if "path" not in documents.table:
            raise ValueError(
                f"split=file needs documents with a path, which those of {documents.name} lack: choose another split,"
                " such as split=time, or dataset=java_sources"
            )
        paths, file_of, counts = np.unique(documents.table["path"], return_inverse=True, return_counts=True)
        if len(paths) < len(PARTS):
            raise ValueError(
                f"split=file: {documents.name} has only {len(paths)} files, but each of the three parts needs at"
                " least one"
            )
        order = np.random.default_rng(self.seed).permutation(len(paths))
        part = np.full(len(paths), TRAIN, dtype=np.int8)
        val_from, test_from = self._bounds(counts[order])
        part[order[val_from:test_from]] = VAL
        part[order[test_from:]] = TEST
        return part[file_of]

    def of_pairs(self, parts: np.ndarray, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
        """The part that contains both documents; a pair across two parts belongs to none."""
        return shared_part(parts, earlier, later)

    def _bounds(self, counts: np.ndarray) -> tuple[int, int]:
        """The first file of validation and of test, given the numbers of documents of files in random order."""
        # Files of 3, 1 and 6 documents: 0, 3, 4 or 10 of them come before a bound; a bound after 70 % is after the
        # second file. Each part gets a file, so that the last bound is before the third.
        before = np.concatenate([[0], np.cumsum(counts)])
        val_from = int(np.abs(before - before[-1] * (1 - self.val - self.test)).argmin())
        val_from = min(max(val_from, 1), len(counts) - 2)
        test_from = int(np.abs(before - before[-1] * (1 - self.test)).argmin())
        return val_from, min(max(test_from, val_from + 1), len(counts) - 1)
