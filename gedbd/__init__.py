"""gedbd finds duplicate bug reports: it trains encoders, evaluates them, and searches a tracker with them.

Everything is a command (``gedbd --help``) or one of the names below, ``__all__``. Everything else is private:
modules, functions and options inside the package may change with any version. Names are imported on first use,
so that ``import gedbd`` takes milliseconds.

Example:
    >>> import gedbd
    >>> corpus = gedbd.load_corpus("demo")
    >>> gedbd.rank(corpus, "bm25")
    RankingResult('bm25': 39 queries of test, rr@10 0.385, mrr 0.214)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = [
    "BacktestResult",
    "BugReports",
    "Corpus",
    "DuplicateDetector",
    "Encoder",
    "Index",
    "Match",
    "RankingResult",
    "Report",
    "Scorer",
    "ScorerInputs",
    "TrainingRun",
    "__version__",
    "backtest",
    "compare",
    "fit",
    "load_corpus",
    "rank",
]

_MODULES = {
    "BacktestResult": "gedbd.api.backtesting",
    "BugReports": "gedbd.duplicates.bug_reports",
    "Corpus": "gedbd.corpora.corpus",
    "DuplicateDetector": "gedbd.duplicates.duplicate_detector",
    "Encoder": "gedbd.api.encoder",
    "Index": "gedbd.api.report_index",
    "Match": "gedbd.corpora.bug_report",
    "RankingResult": "gedbd.api.ranking",
    "Report": "gedbd.corpora.bug_report",
    "Scorer": "gedbd.retrieval.scorers.scorer_contract",
    "ScorerInputs": "gedbd.retrieval.scorers.scorer_contract",
    "TrainingRun": "gedbd.api.training",
    "backtest": "gedbd.api.backtesting",
    "compare": "gedbd.api.ranking",
    "fit": "gedbd.api.training",
    "load_corpus": "gedbd.api.corpora",
    "rank": "gedbd.api.ranking",
}

if TYPE_CHECKING:
    __version__: str
    from gedbd.api.backtesting import BacktestResult, backtest
    from gedbd.api.corpora import load_corpus
    from gedbd.api.encoder import Encoder
    from gedbd.api.ranking import RankingResult, compare, rank
    from gedbd.api.report_index import Index
    from gedbd.api.training import TrainingRun, fit
    from gedbd.corpora.bug_report import Match, Report
    from gedbd.corpora.corpus import Corpus
    from gedbd.duplicates.bug_reports import BugReports
    from gedbd.duplicates.duplicate_detector import DuplicateDetector
    from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs


def __getattr__(name: str) -> Any:
    """Imports a name of the API when it is used first."""
    if name == "__version__":
        from importlib.metadata import version

        return version("gedbd")
    if name not in _MODULES:
        raise AttributeError(f"module 'gedbd' has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
