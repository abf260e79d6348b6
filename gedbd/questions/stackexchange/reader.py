"""Reads the data dump of a Stack Exchange site as a corpus of questions."""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.dates import read_dates
from gedbd.corpora.fields import SEPARATOR
from gedbd.corpora.readers.bug_reports import DOCUMENT_FIELDS, build_corpus
from gedbd.corpora.urls import PLACEHOLDER, check_template
from gedbd.io.http import shown_url
from gedbd.questions.stackexchange.dump import Dump
from gedbd.questions.stackexchange.posts import Attributes, Posts, read_posts, read_rows

DUPLICATE = "3"
REFERENCE = "1"
SOURCE = "post link"
# When the site introduced the table of links, it added those of all closed questions within seconds.
BULK_DATE = "2013-02-18T03:03:3"
CLOSED = "10"  # PostHistoryTypeId
ENDS = ("id", "duplicate_id")
History = Callable[[], Iterable[Attributes] | None]
# Columns besides the fields of a report: the text of code blocks, whether a question was answered, and when.
QUESTION_FIELDS = ("code", "answered", "answered_at")


def read_stackexchange(
    name: str | None,
    path: str,
    last_n: int | None = None,
    url_template: str | None = None,
    post_history: bool = True,
    code_blocks: bool = False,
) -> Corpus:
    """Reads the questions of a site and the links from duplicates to their originals.

    Args:
        name: Short name of the corpus; ``None`` takes it from the path.
        path: A folder with ``Posts.xml``, ``PostLinks.xml`` and optionally ``Tags.xml``, each plain or packed as
            ``.xz`` or ``.gz``; or a ``.7z`` archive of the site as it is published, or a folder with it.
        last_n: Keep only this many questions, the latest ones; ``None`` keeps all.
        url_template: Address of a question, in which ``{issue_id}`` stands for its id; ``None`` takes the site's, if
            the archive or folder is named after it, such as ``askubuntu.com.7z``.
        post_history: Read ``PostHistory.xml`` where the date of a link is known only from there.
        code_blocks: Keep code blocks in ``description``.

    Returns:
        A corpus whose table has ``QUESTION_FIELDS`` besides ``DOCUMENT_FIELDS``: ``code``, the text of the code blocks,
        which ``description`` does not hold unless ``code_blocks``; ``answered`` (bool); and ``answered_at``, the date
        of the first answer (UTC, ``NaT`` if unknown). Scores, views and dates of the last activity are those of the day
        of the dump, and left out.

    Raises:
        ValueError: A file is missing or malformed. The message names it, and the line or row.
    """
    check_template(url_template)
    location = Path(path).expanduser()
    with Dump(location) as dump:
        posts, warnings = _read_questions(dump, code_blocks)
        links, link_warnings = _read_links(dump, posts, post_history)
        site_url = f"https://{dump.site}/questions/{PLACEHOLDER}" if dump.site else None
    columns = {"id": "Id", "title": "Title", "description": "Body", "created_at": "CreationDate"}
    present = {field: column for field, column in columns.items() if column != "Body" or column in posts.fields}
    # Dates of one format sort as text.
    asked_at = posts.questions.set_index("id")["created_at"]
    newer = int((links["duplicate_id"].map(asked_at) > links["id"].map(asked_at)).sum())
    newer_warnings = [f"originals that are newer than their duplicates: {newer:,}, kept"] if newer else []
    warnings += (*link_warnings, *newer_warnings)
    # "askubuntu" of "askubuntu.com", or else the name of the folder or archive.
    site_name = dump.site.removesuffix(".com").removesuffix(".net").removesuffix(".stackexchange")
    corpus = build_corpus(
        name or site_name or location.resolve().name.removesuffix(".7z"),
        posts.questions.reindex(columns=list(DOCUMENT_FIELDS), fill_value=""),
        links,
        str(location / "Posts.xml"),
        present,
        warnings,
        url_template=url_template or site_url,
        last_n=last_n,
    )
    added = posts.questions.set_index("id")[list(QUESTION_FIELDS)].loc[corpus.reports["id"]]
    table = corpus.reports.assign(**{name: added[name].array for name in QUESTION_FIELDS})
    return replace(corpus, documents=replace(corpus.documents, table=table))


def read_published(name: str, data_dir: str, folder: str, file: str, base_url: str, **options: Any) -> Corpus:
    """Reads the archive of a site that ``gedbd download`` has fetched, or its files in the same folder.

    Raises:
        ValueError: A file is missing or malformed.
    """
    location = Path(data_dir) / folder
    if (location / file).is_file():
        location = location / file
    elif not any(location.glob("[Pp]osts.xml*")):
        raise ValueError(
            f"{location / file}: no such file; fetch {shown_url(base_url)}/{file} with: "
            f"gedbd download dataset={name} data_dir={data_dir}"
        )
    return read_stackexchange(name, str(location), **options)


def _read_questions(dump: Dump, code_blocks: bool) -> tuple[Posts, tuple[str, ...]]:
    """The questions, and warnings about them and their tags."""
    path = dump.needed("Posts")
    with closing(read_rows(path, "posts", dump.limit)) as rows:
        posts = read_posts(rows, path, code_blocks)
    tags = dump.find("Tags")
    if tags is None:
        return posts, (*posts.warnings, "no Tags.xml, so the tags of the questions are not checked")
    with closing(read_rows(tags, "tags", dump.limit)) as rows:
        known = {attributes.get("TagName", "") for attributes in rows}
    used = {tag for names in posts.questions["labels"].unique() for tag in names.split(SEPARATOR) if tag}
    unknown = sorted(used - known)
    tag_warnings = [f"tags that are not in Tags.xml: {len(unknown):,}, kept (first: {unknown[0]})"] if unknown else []
    return posts, (*posts.warnings, *tag_warnings)


def _read_links(dump: Dump, posts: Posts, post_history: bool) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The dated duplicate links, and warnings about them."""

    def history() -> Iterable[Attributes] | None:
        history_file = dump.find("PostHistory") if post_history else None
        return None if history_file is None else read_rows(history_file, "posthistory", dump.limit)

    path = dump.needed("PostLinks")
    with closing(read_rows(path, "postlinks", dump.limit)) as rows:
        links, warnings = read_links(rows, path, posts.questions)
    dated, date_warnings = date_links(links, path, posts.questions, history)
    return dated, (*warnings, *date_warnings)


def read_links(rows: Iterable[Attributes], path: Path, questions: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Collects the duplicate links between questions of the file.

    Returns:
        Texts ``id`` (the duplicate), ``duplicate_id`` (its original) and ``made_at``, indexed by row of the file,
        counted from 1; and warnings about other and dropped links.

    Raises:
        ValueError: There are links, but none to or from a question of the file.
    """
    kinds: Counter[str] = Counter()
    link_rows: dict[int, tuple[str, str, str]] = {}
    for number, attributes in enumerate(rows, start=1):
        kind = attributes.get("LinkTypeId", "")
        kinds[kind] += 1
        if kind == DUPLICATE:
            ends = (attributes.get("PostId", ""), attributes.get("RelatedPostId", ""))
            link_rows[number] = (*ends, attributes.get("CreationDate", ""))
    links = pd.DataFrame.from_dict(link_rows, orient="index", columns=[*ENDS, "made_at"], dtype=str)
    both, end_warnings = _with_both_ends(links, path, questions["id"])
    warnings = []
    if kinds[REFERENCE]:
        warnings.append(
            f"links that only refer to a question (LinkTypeId 1): {kinds[REFERENCE]:,}, not used; many name a pair "
            "before it is marked as duplicate"
        )
    num_others = kinds.total() - kinds[REFERENCE] - kinds[DUPLICATE]
    if num_others:
        warnings.append(f"links of types other than 1 and 3: {num_others:,}, not used")
    return both, (*warnings, *end_warnings)


def _with_both_ends(links: pd.DataFrame, path: Path, ids: pd.Series) -> tuple[pd.DataFrame, list[str]]:
    """The links between two questions of the file, each once."""
    known = frozenset(ids)
    is_question = pd.DataFrame(
        {end: [id_ in known for id_ in links[end]] for end in ENDS}, index=links.index, dtype=bool
    )
    if len(links) and not is_question.to_numpy().any():
        raise ValueError(
            f"{path}: none of its {len(links):,} duplicate links refers to a question in Posts.xml; it belongs "
            "to another site"
        )
    both = links[is_question.all(axis=1)]
    num_dropped = len(links) - len(both)
    distinct = both.drop_duplicates(list(ENDS))
    num_repeated = len(both) - len(distinct)
    warnings = []
    if num_dropped:
        warnings.append(
            f"duplicate links to or from a post that is not a question in the file: {num_dropped:,}, dropped "
            f"(first: row {is_question.all(axis=1).idxmin()})"
        )
    if num_repeated:
        warnings.append(f"duplicate links that repeat an earlier one: {num_repeated:,}, dropped")
    return distinct, warnings


def date_links(
    links: pd.DataFrame, path: Path, questions: pd.DataFrame, history: History
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Reads the date of each link; a link made in bulk takes the date on which the duplicate was closed.

    Args:
        links: See ``read_links``.
        path: ``PostLinks.xml``, for messages.
        questions: See ``Posts``.
        history: Returns the rows of ``PostHistory.xml``, or None; called only if a link made in bulk has no other date.

    Returns:
        The links as ``resolve_links`` takes them, ``NaT`` where the date is unknown, and warnings.

    Raises:
        ValueError: A date cannot be read.
    """
    in_bulk = links["made_at"].str.startswith(BULK_DATE)
    closed = links["id"].map(questions.set_index("id")["closed_at"]).where(in_bulk, "")
    missing = in_bulk & (closed == "")
    closing_dates: dict[str, str] = {}
    if missing.any():
        closing_dates = _closings(history() or (), set(links.loc[missing, "id"]))
    in_history = links["id"].map(closing_dates).where(missing).notna()
    dates = links["made_at"].mask(in_bulk, closed).mask(in_history, links["id"].map(closing_dates))
    made_at, warnings = read_dates(dates.astype(str), str(path), "CreationDate", "ISO8601")
    counted = {
        "the date at which the duplicate was closed": in_bulk & (closed != ""),
        "the date of closing in PostHistory.xml": in_history,
        "no date, because none is known": missing & ~in_history,
    }
    warnings += [
        f"duplicate links made in bulk on 2013-02-18: {rows.sum():,}, given {date}"
        for date, rows in counted.items()
        if rows.any()
    ]
    undated = int((made_at.isna() & ~in_bulk).sum())
    warnings += [f"duplicate links without a date: {undated:,}, kept"] if undated else []
    return links.assign(source=SOURCE, made_at=made_at), tuple(warnings)


def _closings(rows: Iterable[Attributes], ids: set[str]) -> dict[str, str]:
    """The last date on which each question was closed before the links were made in bulk."""
    closings: dict[str, str] = {}
    for attributes in rows:
        id_ = attributes.get("PostId", "")
        date = attributes.get("CreationDate", "")
        # Dates of one format sort as text.
        if attributes.get("PostHistoryTypeId") == CLOSED and id_ in ids and date < BULK_DATE:
            closings[id_] = max(closings.get(id_, ""), date)
    return closings
