"""Anchors, their splits and features; ``question`` features are known at creation, ``pair`` features later."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import TEST, TRAIN, VAL, Corpus
from gedbd.corpora.fields import tags_of
from gedbd.encoders.loaded_encoder import LoadedEncoder, unit_rows
from gedbd.encoders.node2vec import TagEncoder
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
from gedbd.questions.confirmation.regression_methods import AnchorData
from gedbd.questions.question_vectors import TitleBody

WORD = re.compile(r"\w+")
TRACE = re.compile(r"^\s*at [\w.$<>]+\(|Exception|Traceback", re.MULTILINE)
MIN_ANCHORS = 5  # in each split


class PairDocuments(NamedTuple):
    """Input of the features: N documents in chronological order."""

    table: pd.DataFrame  # the documents
    tags: Sequence[tuple[str, ...]]  # their tags
    titles: np.ndarray  # ``(N, H)`` vectors of their titles


def question_features(documents: PairDocuments, anchors: pd.DataFrame, fields: Sequence[str] = ()) -> pd.DataFrame:
    """Features that are known when a question is created, ``(A, F)`` float64 with NaN for missing values.

    Args:
        documents: All documents.
        anchors: The table of ``find_anchors``; features use only links made before the anchor.
        fields: Categorical columns that the author fills in.
    """
    created_at = naive(documents.table["created_at"])
    history = LinkHistory(anchors, documents.tags)
    resolutions = Resolutions(documents.table)
    titles = Titles(documents.titles, history)
    tag_index = TagIndex(documents.tags)
    # Codes in order of appearance do not depend on later documents.
    codes = {name: pd.factorize(documents.table[name])[0] for name in fields}
    rows = []
    for row in track(anchors["anchor"].tolist(), "features"):
        moment = created_at[row]
        features = {name: float(values[row]) for name, values in codes.items()}
        features |= _calendar(moment) | _texts(documents.table, row) | arrivals(created_at, range(row), moment)
        features |= history.recent(moment) | history.of_tags(documents.tags[row], moment)
        same_tag = tag_index.before(documents.tags[row], row)
        features |= {f"same_tag_{name}": count for name, count in arrivals(created_at, same_tag, moment).items()}
        features |= resolutions.of_tags(np.array(same_tag, dtype=np.int64), moment)
        features |= resolutions.of_similar(titles.cosines(row), moment)
        features |= titles.neighbours(row, moment) | {"tags": float(len(documents.tags[row]))}
        rows.append(features | _nearest(titles, history, created_at, row))
    return pd.DataFrame(rows, dtype=np.float64)


def pair_features(
    documents: PairDocuments, anchors: pd.DataFrame, text: np.ndarray, master: np.ndarray
) -> pd.DataFrame:
    """Features of anchor and master, ``(A, F)`` float64, known once the pair is proposed.

    Args:
        documents: All documents.
        anchors: The table of ``find_anchors``.
        text: ``(A, 2H)`` vectors of the anchors' titles and bodies.
        master: ``(A, 2H)`` vectors of their masters.
    """
    created_at = naive(documents.table["created_at"])
    history = LinkHistory(anchors, documents.tags)
    titles = Titles(documents.titles, history)
    resolutions = Resolutions(documents.table)
    half = text.shape[1] // 2
    rows = []
    pair_rows = anchors[["anchor", "master"]].to_numpy()
    for pair, (row, master_row) in enumerate(pair_rows):
        shared = set(documents.tags[row]) & set(documents.tags[master_row])
        union = set(documents.tags[row]) | set(documents.tags[master_row])
        rows.append(
            {
                "age_of_master": float(log_hours(created_at[row] - created_at[master_row])),
                "links_of_master": float(history.of_document(master_row, created_at[row])),
                "tag_overlap": len(shared) / len(union) if union else float("nan"),
                "title_cosine": float(_unit(text[pair, :half]) @ _unit(master[pair, :half])),
                "body_cosine": float(_unit(text[pair, half:]) @ _unit(master[pair, half:])),
                "documents_since_master": float(row - master_row),
                "rank_of_master": float(titles.rank(row, master_row)),
            }
            | _of_master(_texts(documents.table, master_row))
            | _of_master(resolutions.of_document(master_row, created_at[row]))
        )
    return pd.DataFrame(rows, dtype=np.float64)


def _calendar(moment: np.datetime64) -> dict[str, float]:
    """Hour and weekday (0 is Monday) in UTC, and day of the year.

    The date itself is omitted: test questions are later than all training questions, of which the latest are included
    only if they were confirmed soon.
    """
    stamp = pd.Timestamp(moment)
    return {
        "hour": stamp.hour + stamp.minute / 60,
        "weekday": float(stamp.weekday()),
        "day_of_year": float(stamp.day_of_year),
    }


def _texts(table: pd.DataFrame, row: int) -> dict[str, float]:
    """Lengths of title, description and code, and counts of links and stack frames."""
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
    """Cosine, log10 age in hours and number of links of the earlier document with the most similar title."""
    best, cosine = titles.nearest(row)
    if best < 0:
        return {"nearest_cosine": np.nan, "nearest_age": np.nan, "nearest_links": np.nan}
    return {
        "nearest_cosine": cosine,
        "nearest_age": float(log_hours(created_at[row] - created_at[best])),
        "nearest_links": float(history.of_document(best, created_at[row])),
    }


def _of_master(features: dict[str, float]) -> dict[str, float]:
    return {f"master_{name}": value for name, value in features.items()}


def _unit(vector: np.ndarray) -> np.ndarray:
    return np.asarray(unit_rows(vector[None])[0])


def assemble(
    corpus: Corpus,
    parts: np.ndarray,
    wanted: Iterable[str],
    encoder: LoadedEncoder,
    tag_encoder: TagEncoder | None,
    only_known: bool,
    min_minutes: float,
    fields: Sequence[str] = (),
) -> tuple[AnchorData, tuple[str, ...]]:
    """Assigns anchors to splits and computes their features.

    Args:
        corpus: N documents and their links.
        parts: ``(N,)`` split of each document; an anchor belongs to the split of its document.
        wanted: Feature sets to compute.
        encoder: The frozen encoder.
        tag_encoder: Learns vectors of tags on the training documents; None for no such features.
        only_known: Leave out training anchors whose link was made after the next split begins, as their target was
            unknown then.
        min_minutes: Shorter times are raised to this.
        fields: Categorical columns that the author fills in.

    Returns:
        The anchors, and warnings.

    Raises:
        ValueError: If a field is unknown, or a split has fewer than ``MIN_ANCHORS`` anchors; see also
            ``find_anchors``.
    """
    unknown = [name for name in fields if name not in corpus.reports]
    if unknown:
        raise ValueError(f"task.fields={list(fields)}: {corpus.name} has no column {unknown[0]}: leave it out")
    anchors, warnings = find_anchors(corpus, min_minutes)
    train, val, refit, test, dropped = _split_masks(corpus, parts, anchors, only_known)
    for name, mask in (("train", train), ("val", val), ("test", test)):
        if mask.sum() < MIN_ANCHORS:
            reason = f" ({dropped[0]})" if dropped and name == "train" else ""
            raise ValueError(
                f"{corpus.name}: split {name} has {mask.sum()} anchors with a dated link{reason}; at least"
                f" {MIN_ANCHORS} are needed: change split=time split.val_from= or split.test_from="
            )
    features, feature_warnings = _features(corpus, parts, anchors, set(wanted), encoder, tag_encoder, fields)
    data = AnchorData(anchors, train, val, refit, test, features)
    return data, (*warnings, *dropped, *feature_warnings)


def _split_masks(
    corpus: Corpus, parts: np.ndarray, anchors: pd.DataFrame, only_known: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Masks of the anchors for training, validation, refitting and test, and warnings."""
    part = parts[anchors["anchor"]]
    train = part == TRAIN
    refit = train | (part == VAL)
    if not only_known:
        return train, part == VAL, refit, part == TEST, []
    created_at = corpus.reports["created_at"]
    if not (parts == VAL).any() or created_at[parts == TRAIN].max() > created_at[parts == VAL].min():
        return train, part == VAL, refit, part == TEST, ["the split is not by time: task.only_known has no effect"]
    known = train & known_before(anchors, created_at[parts == VAL].min())
    dropped = int((train & ~known).sum())
    if (parts == TEST).any():
        refit = refit & known_before(anchors, created_at[parts == TEST].min())
    warning = f"training anchors that were confirmed after validation begins: {dropped:,} of {train.sum():,}, left out"
    return known, part == VAL, refit, part == TEST, [warning] if dropped else []


def _features(
    corpus: Corpus,
    parts: np.ndarray,
    anchors: pd.DataFrame,
    wanted: set[str],
    encoder: LoadedEncoder,
    tag_encoder: TagEncoder | None,
    fields: Sequence[str],
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """The wanted feature sets, and warnings; without tags, ``network`` is missing."""
    table = corpus.reports
    tags = tags_of(table)
    ends = [anchors["anchor"].to_numpy(), anchors["master"].to_numpy()]
    features: dict[str, pd.DataFrame] = {}
    warnings: list[str] = []
    if "network" in wanted and tag_encoder is not None and any(tags):
        # Before the slow encoding of texts, as it may fail.
        tag_encoder.fit([tags[row] for row in np.flatnonzero(parts == TRAIN)])
        vectors = [tag_encoder.encode([tags[row] for row in rows]) for rows in ends]
        features["network"] = pd.DataFrame(np.hstack(vectors))
        warnings += tag_encoder.warnings_
    if wanted & {"text", "pair"}:
        texts = []  # ``(A, 2H)`` vectors of titles and bodies; each document is encoded once
        for rows in ends:
            distinct, position = np.unique(rows, return_inverse=True)
            texts.append(TitleBody(encoder).encode(table.iloc[distinct])[position])
        features["text"] = pd.DataFrame(np.hstack(texts))
    if wanted & {"question", "pair"}:
        titles = encoder.pool(table["title"].tolist(), "encode titles")
        documents = PairDocuments(table, tags, titles)
        if "question" in wanted:
            features["question"] = question_features(documents, anchors, fields)
        if "pair" in wanted:
            features["pair"] = pair_features(documents, anchors, *texts)
    return features, warnings


def find_anchors(corpus: Corpus, min_minutes: float) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The anchors of a corpus with their first link.

    Args:
        corpus: N dated documents and their links.
        min_minutes: Shorter times are raised to this, so that the logarithm of a second does not dominate.

    Returns:
        One row per anchor, in ascending order: ``anchor`` and ``master`` (rows of the corpus), ``made_at``
        (UTC), ``hours``, ``target`` (log10 of the hours) and ``group``; and warnings that count what is left out.

    Raises:
        ValueError: If there are no links, links or documents have no dates, or no link was made after its anchor.
    """
    if not corpus.documents.has_dates:
        raise ValueError(f"{corpus.name} has no creation dates: name their column with dataset.columns.created_at=")
    if corpus.links is None or corpus.links.table.empty:
        raise ValueError(f"{corpus.name} has no duplicate links, and so no confirmation times to learn from")
    if corpus.links.table["made_at"].isna().all():
        raise ValueError(
            f"{corpus.name}: none of its {len(corpus.links):,} duplicate links says when it was made: with dataset=csv"
            " name the column of resolution times with dataset.columns.resolved_at="
        )
    dated = corpus.links.table[corpus.links.table["made_at"].notna()]
    ends = dated[["query", "document"]].to_numpy()
    anchor = ends.max(axis=1)
    made_at = dated["made_at"].reset_index(drop=True)
    created_at = corpus.reports["created_at"].iloc[anchor].reset_index(drop=True)
    hours = (made_at - created_at).dt.total_seconds() / 3600
    table = pd.DataFrame({"anchor": anchor, "master": ends.min(axis=1), "made_at": made_at, "hours": hours})
    links_after_anchor = table[table["hours"] > 0].sort_values(["made_at", "master"], kind="stable")
    # The first link of an anchor confirms it.
    confirmations = links_after_anchor.drop_duplicates("anchor").sort_values("anchor", ignore_index=True)
    if confirmations.empty:
        raise ValueError(f"{corpus.name}: no duplicate link was made after its later document: check the dates")
    short = confirmations["hours"] < min_minutes / 60
    confirmations["hours"] = confirmations["hours"].clip(lower=min_minutes / 60)
    counts = {
        "duplicate links without a date": len(corpus.links.table) - len(dated),
        "duplicate links made before their later document": len(table) - len(links_after_anchor),
        "further links of the same anchor": len(links_after_anchor) - len(confirmations),
    }
    warnings = [f"{kind}: {count:,}, left out" for kind, count in counts.items() if count]
    if short.any():
        warnings.append(f"links made within {min_minutes:g} min: {short.sum():,}, counted as {min_minutes:g} min")
    return confirmations.assign(
        target=np.log10(confirmations["hours"]), group=corpus.group[confirmations["anchor"]]
    ), tuple(warnings)


def known_before(anchors: pd.DataFrame, moment: pd.Timestamp) -> np.ndarray:
    """``(A,)`` bool: anchors whose link was made before a moment."""
    return np.asarray(anchors["made_at"] < moment)
