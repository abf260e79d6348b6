"""Features of anchors. ``question``: known when the question was asked. ``pair``: if its master is given as well.

The paper gives its models the pair, which nobody knows when the question is asked; the set ``pair`` does the same. The
set ``question`` reads the anchor, the documents before it, and the links and resolutions made before it, nothing else.
Columns of an export hold the values of the day of the export. Only those that the reporter fills in should be read
(``fields``): a priority that is set while a report waits tells how long it has waited.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.encoders.loaded_encoder import unit_rows
from gedbd.io.console import track
from gedbd.questions.confirmation.link_history import (
    LinkHistory,
    Resolutions,
    TagIndex,
    Titles,
    arrivals,
    log_hours,
    naive,
)

WORD = re.compile(r"\w+")
TRACE = re.compile(r"^\s*at [\w.$<>]+\(|Exception|Traceback", re.MULTILINE)


class PairDocuments(NamedTuple):
    """What the features read of all N documents, in chronological order.

    Attributes:
        table: The documents.
        tags: Their tags.
        titles: ``(N, H)`` vectors of their titles.
    """

    table: pd.DataFrame
    tags: Sequence[tuple[str, ...]]
    titles: np.ndarray


def question_features(documents: PairDocuments, anchors: pd.DataFrame, fields: Sequence[str] = ()) -> pd.DataFrame:
    """Features that are known when a question is asked, ``(A, F)`` float64; NaN where there is nothing yet.

    Args:
        documents: All documents.
        anchors: The table of ``find_anchors``. Only the links made before an anchor enter its features.
        fields: Columns of categories that the asker filled in.
    """
    created_at = naive(documents.table["created_at"])
    history = LinkHistory(anchors, documents.tags)
    resolutions = Resolutions(documents.table)
    titles = Titles(documents.titles, history)
    tagged = TagIndex(documents.tags)
    # Numbered by first appearance: a document's code depends on no later document.
    codes = {name: pd.factorize(documents.table[name])[0] for name in fields}
    rows = []
    for row in track(anchors["anchor"].tolist(), "features", transient=True):
        moment = created_at[row]
        found = {name: float(values[row]) for name, values in codes.items()}
        found |= _calendar(moment) | _texts(documents.table, row) | arrivals(created_at, range(row), moment)
        found |= history.recent(moment) | history.of_tags(documents.tags[row], moment)
        alike = tagged.before(documents.tags[row], row)
        found |= {f"same_tag_{name}": count for name, count in arrivals(created_at, alike, moment).items()}
        found |= resolutions.of_tags(np.array(alike, dtype=np.int64), moment)
        found |= resolutions.of_similar(titles.cosines(row), moment)
        found |= titles.neighbours(row, moment) | {"tags": float(len(documents.tags[row]))}
        rows.append(found | _nearest(titles, history, created_at, row))
    return pd.DataFrame(rows, dtype=np.float64)


def pair_features(
    documents: PairDocuments, anchors: pd.DataFrame, text: np.ndarray, master: np.ndarray
) -> pd.DataFrame:
    """Features of anchor and master, ``(A, F)`` float64: nobody knows them before the pair is proposed.

    Args:
        documents: All documents.
        anchors: The table of ``find_anchors``.
        text: ``(A, 2H)`` vectors of the anchors' titles and bodies.
        master: ``(A, 2H)`` likewise of their masters.
    """
    created_at = naive(documents.table["created_at"])
    history = LinkHistory(anchors, documents.tags)
    titles = Titles(documents.titles, history)
    resolutions = Resolutions(documents.table)
    half = text.shape[1] // 2
    rows = []
    ends = anchors[["anchor", "master"]].to_numpy()
    for place, (row, other) in enumerate(ends):
        shared = set(documents.tags[row]) & set(documents.tags[other])
        either = set(documents.tags[row]) | set(documents.tags[other])
        rows.append(
            {
                "age_of_master": _log_hours(created_at[row] - created_at[other]),
                "links_of_master": float(history.of_document(other, created_at[row])),
                "tag_overlap": len(shared) / len(either) if either else float("nan"),
                "title_cosine": float(_unit(text[place, :half]) @ _unit(master[place, :half])),
                "body_cosine": float(_unit(text[place, half:]) @ _unit(master[place, half:])),
                "documents_since_master": float(row - other),
                "rank_of_master": float(titles.rank(row, other)),
            }
            | _of_master(_texts(documents.table, other))
            | _of_master(resolutions.of_document(other, created_at[row]))
        )
    return pd.DataFrame(rows, dtype=np.float64)


def _calendar(moment: np.datetime64) -> dict[str, float]:
    """Hour and weekday (0 is Monday) in UTC, and day of the year.

    The date itself is left out: no training question is as new as a test question, and of the newest training questions
    only those that were confirmed soon are known.
    """
    stamp = pd.Timestamp(moment)
    return {
        "hour": stamp.hour + stamp.minute / 60,
        "weekday": float(stamp.weekday()),
        "day_of_year": float(stamp.day_of_year),
    }


def _texts(table: pd.DataFrame, row: int) -> dict[str, float]:
    """Lengths of title, description and code, and what the description holds."""
    title = str(table["title"].iat[row])
    description = str(table["description"].iat[row])
    code = str(table["code"].iat[row]) if "code" in table else ""
    return {
        "title_words": float(len(WORD.findall(title))),
        "description_characters": float(len(description)),
        "description_words": float(len(WORD.findall(description))),
        "description_lines": float(description.count("\n")),
        "code_characters": float(len(code)),
        "links_in_text": float(description.count("http")),
        "stack_frames": float(len(TRACE.findall(description))),
    }


def _nearest(titles: Titles, history: LinkHistory, created_at: np.ndarray, row: int) -> dict[str, float]:
    """The earlier document with the most similar title: cosine, log10 of its age in hours, and its links until then."""
    best, cosine = titles.nearest(row)
    if best < 0:
        return {"nearest_cosine": np.nan, "nearest_age": np.nan, "nearest_links": np.nan}
    return {
        "nearest_cosine": cosine,
        "nearest_age": _log_hours(created_at[row] - created_at[best]),
        "nearest_links": float(history.of_document(best, created_at[row])),
    }


def _log_hours(gap: np.timedelta64) -> float:
    return float(log_hours(np.array([gap]))[0])


def _of_master(found: dict[str, float]) -> dict[str, float]:
    return {f"master_{name}": value for name, value in found.items()}


def _unit(vector: np.ndarray) -> np.ndarray:
    return np.asarray(unit_rows(vector[None])[0])
