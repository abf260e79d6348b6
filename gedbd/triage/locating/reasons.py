"""Why a commit is suspect, in words: what it shares with the report, and what the ranker saw in it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from gedbd.corpora.repository.commits import Commit
from gedbd.retrieval.changes.history import ChangeQuery
from gedbd.triage.locating.words import placed_words

MAX_NAMED = 5  # words or files that a reason names
MAX_FAMILIES = 3
MIN_SHARE = 0.1  # of all positive contributions, from which a family of features is a reason
# What families of features say, by the beginnings of their names; the first that fits counts.
FAMILIES = (
    ("lines", "lines of files that the report may concern come from it"),
    ("touches", "it changes files that the report may concern"),
    ("newest", "it is a late change of such files"),
    ("oldest", "it is the first change of such files"),
    ("diff", "its changed lines have words of the report"),
    ("added", "its changed lines have words of the report"),
    ("best_file", "its changed lines have words of the report"),
    ("message", "its message has words of the report"),
    ("induced_similar", "it induced the bugs of similar reports"),
    ("times_induced", "it induced earlier bugs"),
    ("age_days", "its age"),
    ("num_files", "its size"),
    ("added_lines", "its size"),
    ("removed_lines", "its size"),
    ("test_share", "the kinds of its files"),
    ("is_fix", "it mends something"),
    ("is_merge", "it is a merge, or is none"),
)


def reasons(
    commit: Commit, query: ChangeQuery, weights: Mapping[str, float], contributions: Mapping[str, float]
) -> tuple[str, ...]:
    """Why a commit is suspect, one reason each.

    Args:
        commit: The commit.
        query: The report.
        weights: The words of the report, lower case, with their weights.
        contributions: What the features add to its score, by name.
    """
    found = []
    names = _named_files(commit, query, weights)
    if names:
        found.append(f"changes {_listed(names)}, which the report names")
    in_message = {word.word for word in placed_words(commit.message)} & set(weights)
    if in_message:
        rarest = sorted(in_message, key=lambda word: (-weights[word], word))
        found.append(f"the message has {_listed(rarest)}")
    if query.created_at is not None:
        days = (query.created_at.to_pydatetime() - commit.created_at).days
        found.append(f"{days:,} days earlier")
    families = largest_families(contributions)
    if families:
        found.append(f"ranked by: {', '.join(families)}")
    return tuple(found)


def largest_families(contributions: Mapping[str, float]) -> list[str]:
    """What the families of features say that add most to a score, the largest first, with what they add."""
    sums: dict[str, float] = defaultdict(float)
    for name, value in contributions.items():
        sums[family(name)] += value
    positive = {said: value for said, value in sums.items() if value > 0}
    total = sum(positive.values())
    chosen = sorted(positive, key=lambda said: (-positive[said], said))[:MAX_FAMILIES]
    return [f"{said} ({positive[said]:+.2f})" for said in chosen if positive[said] >= MIN_SHARE * total]


def family(name: str) -> str:
    """What a feature says, in words; the name of an unknown one."""
    exact = dict(FAMILIES).get(name)
    return exact or next((said for start, said in FAMILIES if name.startswith(start)), name)


def _named_files(commit: Commit, query: ChangeQuery, weights: Mapping[str, float]) -> list[str]:
    """The names, without endings, of the changed files that the report names, those with the rarest name first.

    ``QuotedParser`` is a name wherever it stands; ``git``, which may be a word of prose, only as ``git.py``.
    """
    text = f"{query.title}\n{query.description}".lower()
    named = set()
    for change in commit.files:
        path = PurePosixPath(change.path)
        looks_like_code = path.stem != path.stem.lower() or "_" in path.stem
        if path.stem.lower() in weights and (looks_like_code or path.name.lower() in text):
            named.add(path.stem)
    return sorted(named, key=lambda stem: (-weights[stem.lower()], stem))


def _listed(words: Sequence[str]) -> str:
    more = f" and {len(words) - MAX_NAMED:,} more" if len(words) > MAX_NAMED else ""
    return ", ".join(words[:MAX_NAMED]) + more
