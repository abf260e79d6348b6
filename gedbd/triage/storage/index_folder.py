"""Names of the files in the folder of an index, for code that must not import their readers."""

from pathlib import Path

FILE = "index.sqlite"
CACHE = "index.cache-"  # followed by the number of the last change in the cache
CACHE_SUFFIX = ".arrow"
LOCK = "index.lock"  # held while a corpus is stored: two at once would leave reports of both
QUERY_ENCODERS = "encoder"
LOCATED = "located.jsonl"  # the files of the newest open reports
TRACKER = "tracker"  # what gedbd sync has fetched
CLUSTERS = "clusters"  # the page of gedbd clusters, with titles of reports
SYNC_LOCK = "sync.lock"  # held while gedbd sync runs


def check_index(folder: Path) -> None:
    """Raises ValueError if a folder holds no index."""
    if not (folder / FILE).is_file():
        raise ValueError(
            f"{folder}: no {FILE} there; build an index with gedbd index dataset.path=bugs.csv out={folder},"
            " or with run=BACKTEST instead of dataset.path="
        )
