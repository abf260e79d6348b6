"""Which commits and reports are negatives of each other."""

import numpy as np
import torch
from torch import Tensor, nn

from gedbd.corpora.changes import ChangeCorpus
from gedbd.tasks.localization.bank import EMPTY
from gedbd.tasks.localization.protocol import num_before


class CandidateLinks(nn.Module):
    """Tells negatives: commits before a report that did not induce its bug.

    All inducing commits of a report count, whatever the granularity of training. A commit after the report is neither
    a positive nor a negative: the fix of the bug is one of them, and it resembles what induced it.

    Args:
        num_before: ``(R,)`` number of commits before each report; commits are in chronological order.
        pairs: ``(2, L)`` rows of reports and of the commits that induced their bugs.
        num_commits: C.
    """

    num_before: Tensor
    codes: Tensor

    def __init__(self, num_before: np.ndarray, pairs: np.ndarray, num_commits: int) -> None:
        super().__init__()
        self.num_commits = num_commits
        # Report 2 and commit 3 of 10 commits are number 23.
        codes = np.unique(pairs[0] * num_commits + pairs[1])
        self.register_buffer("num_before", torch.from_numpy(num_before.astype(np.int64)), persistent=False)
        self.register_buffer("codes", torch.from_numpy(codes.astype(np.int64)), persistent=False)

    @classmethod
    def of_corpus(cls, corpus: ChangeCorpus) -> "CandidateLinks":
        """The links of a corpus with reports and inducing commits."""
        return cls(num_before(corpus, "commit"), corpus.inducing["commit"].pairs, len(corpus.commits))

    def are_linked(self, reports: Tensor, commits: Tensor) -> Tensor:
        """Whether commits induced the bugs of reports; two int64 tensors that broadcast."""
        codes = reports * self.num_commits + commits
        if not len(self.codes):
            return torch.zeros_like(codes, dtype=torch.bool)
        places = torch.searchsorted(self.codes, codes).clamp(max=len(self.codes) - 1)
        return self.codes[places] == codes

    def are_negatives(self, reports: Tensor, commits: Tensor) -> Tensor:
        """Whether they are negatives of each other; ``EMPTY`` is none of any."""
        present = (reports != EMPTY) & (commits != EMPTY)
        before = commits < self.num_before[reports.clamp(min=0)]
        return present & before & ~self.are_linked(reports, commits)
