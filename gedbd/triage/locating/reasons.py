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
# What families of features are about, by the beginnings of their names; the first that fits counts. They claim nothing:
# a ranker may prefer a commit for what it lacks too, such as earlier bugs.
FAMILIES = (
    ("lines", "its lines in files that the report may be about"),
    ("touches", "the files that it changes"),
    ("newest", "how recent it is among the changes of these files"),
    ("oldest", "how recent it is among the changes of these files"),
    ("diff", "the words of its changed lines"),
    ("added_lines", "its size"),
    ("added", "the words of its changed lines"),
    ("best_file", "the words of its changed lines"),
    ("message", "the words of its message"),
    ("induced_similar", "the commits that induced the bugs of similar reports"),
    ("times_induced", "the number of bugs that it is known to have induced"),
    ("age_days", "its age"),
    ("num_files", "its size"),
    ("removed_lines", "its size"),
    ("is_cut", "its size"),
    ("test_share", "the kinds of its files"),
    ("is_fix", "whether it is a fix"),
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
        found.append(f"changes {_listed(names)}, named in the report")
    in_message = {word.word for word in placed_words(commit.message)} & set(weights)
    if in_message:
        rarest = sorted(in_message, key=lambda word: (-weights[word], word))
        found.append(f"the message mentions {_listed(rarest)}")
    if query.created_at is not None:
        days = (query.created_at.to_pydatetime() - commit.created_at).days
        found.append(f"{days:,} days earlier")
    families = largest_families(contributions)
    if families:
        found.append(f"ranked by {', '.join(families)}")
    return tuple(found)


def largest_families(contributions: Mapping[str, float]) -> list[str]:
    """The families of features that add most to a score, the largest first, with what they add."""
    sums: dict[str, float] = defaultdict(float)
    for name, value in contributions.items():
        sums[family(name)] += value
    positive = {said: value for said, value in sums.items() if value > 0}
    total = sum(positive.values())
    chosen = sorted(positive, key=lambda said: (-positive[said], said))[:MAX_FAMILIES]
    return [f"{said} ({positive[said]:+.2f})" for said in chosen if positive[said] >= MIN_SHARE * total]


def family(name: str) -> str:
    """What a feature is about, in words; the name of an unknown one."""
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
