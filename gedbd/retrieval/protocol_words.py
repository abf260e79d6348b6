"""What reports, tables and files call the protocols of ranking.

The names of metrics and files follow from a protocol's name, so that they are known before any data is read. All other
words come from the ranking task, and a run folder keeps them in ``protocols.json``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

EARLIER = "earlier"
TEST_POOL = "test_pool"
PREFIX = {EARLIER: "", TEST_POOL: "pool_"}
SUFFIX = {EARLIER: ""}


@dataclass(frozen=True)
class ProtocolWords:
    """Words about a protocol, for readers.

    Attributes:
        heading: Heading of its results.
        text: A paragraph about it, with ``{count}`` for the number of queries and ``{reachable}`` for the share of
            them that has a relevant candidate.
        unit: What a rank counts, in the plural.
        lacks: What a part without any query lacks: "no report of part val has ...".
    """

    heading: str
    text: str
    unit: str = "documents"
    lacks: str = "a relevant candidate"

    def paragraph(self, count: str, reachable: str) -> str:
        """The paragraph with its numbers."""
        # Not str.format: the words of a run folder may come from a stranger.
        return self.text.replace("{count}", count).replace("{reachable}", reachable)


EARLIER_WORDS = ProtocolWords(
    "Ranking",
    "Each of {count} test reports with an earlier duplicate is a query against all reports created before it; ranks"
    " count duplicate groups. {reachable} of the queries have a duplicate that can be found.",
    "groups",
    "an earlier duplicate",
)
TEST_POOL_WORDS = ProtocolWords(
    "Ranking in the test pool",
    "Each of {count} test reports with a duplicate in the test part is a query against the other reports of that"
    " part, earlier and later ones; ranks count reports. There are fewer wrong candidates, and more right ones,"
    " than in practice.",
    "reports of the pool",
    "a duplicate in it for protocol=test_pool",
)
# Of runs whose folder has no protocols.json.
KNOWN_WORDS = {EARLIER: EARLIER_WORDS, TEST_POOL: TEST_POOL_WORDS}


def metric_prefix(protocol: str) -> str:
    """What the names of a protocol's metrics begin with: ``test_pool -> pool_``, nothing for ``earlier``."""
    return PREFIX.get(protocol, f"{protocol}_")


def file_suffix(protocol: str) -> str:
    """What the names of a protocol's tables, figures and files end with: ``ranking_test_pool.csv``."""
    return SUFFIX.get(protocol, f"_{protocol}")


def generic_words(protocol: str) -> ProtocolWords:
    """Words about a protocol of which only the name is known."""
    text = "Each of {count} queries is ranked against its candidates; {reachable} of them have a relevant candidate."
    return ProtocolWords(f"Ranking by {protocol.replace('_', ' ')}", text)


def words_of(protocol: str, stored: Mapping[str, Mapping[str, str]]) -> ProtocolWords:
    """Words about a protocol of a finished run.

    Args:
        protocol: Its name.
        stored: The fields of ``ProtocolWords`` by protocol, as the run folder holds them; others are ignored.
    """
    known = KNOWN_WORDS.get(protocol) or generic_words(protocol)
    found = stored.get(protocol, {})
    values = {name: str(found.get(name, getattr(known, name))) for name in ("heading", "text", "unit", "lacks")}
    return ProtocolWords(**values)
