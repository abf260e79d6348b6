"""Assembles anchors, parts and features from a corpus."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.fields import tags_of
from gedbd.corpora.splits import TEST, TRAIN, VAL
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.questions.confirmation.anchor_features import PairDocuments, pair_features, question_features
from gedbd.questions.confirmation.regression_methods import AnchorData
from gedbd.retrieval.scorers.table_vectors import TagVectors

MIN_ANCHORS = 5  # of each part


def assemble(
    corpus: Corpus,
    parts: np.ndarray,
    wanted: Iterable[str],
    encoder: LoadedEncoder,
    tag_encoder: TagVectors | None,
    only_known: bool,
    min_minutes: float,
    fields: Sequence[str] = (),
) -> tuple[AnchorData, tuple[str, ...]]:
    """Anchors with their parts and features, and warnings.

    Args:
        corpus: N documents and their links.
        parts: ``(N,)`` part of each document; an anchor belongs to the part of its document.
        wanted: Feature sets to compute.
        encoder: The frozen encoder.
        tag_encoder: Learns vectors of tags on the training documents; None for none.
        only_known: Leave out training anchors whose link was made after the first document of the next part: their
            times were not known then.
        min_minutes: See ``find_anchors``.
        fields: See ``question_features``.

    Raises:
        ValueError: If a field is unknown, or a part has fewer than ``MIN_ANCHORS`` anchors; see also
            ``find_anchors``.
    """
    unknown = [name for name in fields if name not in corpus.reports]
    if unknown:
        raise ValueError(f"task.fields={list(fields)}: {corpus.name} has no column {unknown[0]}: leave it out")
    anchors, warnings = find_anchors(corpus, min_minutes)
    train, val, refit, test, dropped = _parts(corpus, parts, anchors, only_known)
    for name, chosen in (("train", train), ("val", val), ("test", test)):
        if chosen.sum() < MIN_ANCHORS:
            why = f" ({dropped[0]})" if dropped and name == "train" else ""
            raise ValueError(
                f"{corpus.name}: part {name} has {chosen.sum()} anchors with a dated link{why}, at least {MIN_ANCHORS}"
                " are needed: change split=time split.val_from= or split.test_from="
            )
    features, more = _features(corpus, parts, anchors, set(wanted), encoder, tag_encoder, fields)
    data = AnchorData(anchors, train, val, refit, test, features)
    return data, (*warnings, *dropped, *more)


def _parts(
    corpus: Corpus, parts: np.ndarray, anchors: pd.DataFrame, only_known: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Masks of the anchors to train, validate, refit and test on, and warnings."""
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
    tag_encoder: TagVectors | None,
    fields: Sequence[str],
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """The wanted feature sets, and warnings. Without tags there is no ``network``."""
    table = corpus.reports
    tags = tags_of(table)
    ends = [anchors["anchor"].to_numpy(), anchors["master"].to_numpy()]
    features: dict[str, pd.DataFrame] = {}
    warnings: list[str] = []
    if "network" in wanted and tag_encoder is not None and any(tags):
        # Before the texts, which take long.
        tag_encoder.fit([tags[row] for row in np.flatnonzero(parts == TRAIN)])
        vectors = [tag_encoder.encode([tags[row] for row in rows]) for rows in ends]
        features["network"] = pd.DataFrame(np.hstack(vectors))
        warnings += tag_encoder.warnings_
    if wanted & {"text", "pair"}:
        texts = [_title_body(encoder, table, rows) for rows in ends]
        features["text"] = pd.DataFrame(np.hstack(texts))
    if wanted & {"question", "pair"}:
        titles = encoder.pool(table["title"].tolist(), "encode titles")
        documents = PairDocuments(table, tags, titles)
        if "question" in wanted:
            features["question"] = question_features(documents, anchors, fields)
        if "pair" in wanted:
            features["pair"] = pair_features(documents, anchors, *texts)
    return features, warnings


def _title_body(encoder: LoadedEncoder, table: pd.DataFrame, rows: np.ndarray) -> np.ndarray:
    """``(A, 2H)`` vectors of the titles and bodies of some documents; a document of several pairs is encoded once."""
    from gedbd.encoders.title_body import TitleBody

    distinct, place = np.unique(rows, return_inverse=True)
    return np.asarray(TitleBody(encoder).encode(table.iloc[distinct])[place])


def find_anchors(corpus: Corpus, min_minutes: float) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The anchors of a corpus with their first link.

    Args:
        corpus: N dated documents and their links.
        min_minutes: Shorter times count as this long, so that the logarithm of a second does not dominate.

    Returns:
        One row an anchor, in the order of their rows: ``anchor`` and ``master`` (rows of the corpus), ``made_at``
        (UTC), ``hours``, ``target`` (log10 of the hours) and ``group``; and warnings that count what is left out.

    Raises:
        ValueError: If there is no link, no link or no document is dated, or no link was made after its anchor.
    """
    if not corpus.documents.has_dates:
        raise ValueError(f"{corpus.name} has no dates of creation: name their column with dataset.columns.created_at=")
    if corpus.links is None or corpus.links.table.empty:
        raise ValueError(f"{corpus.name} has no duplicate links: there is no time of a confirmation to learn from")
    if corpus.links.table["made_at"].isna().all():
        raise ValueError(
            f"{corpus.name}: none of its {len(corpus.links):,} duplicate links says when it was made: with dataset=csv"
            " name the column of the time of resolution by dataset.columns.resolved_at="
        )
    dated = corpus.links.table[corpus.links.table["made_at"].notna()]
    table = _with_hours(corpus, dated)
    after = table[table["hours"] > 0].sort_values(["made_at", "master"], kind="stable")
    # Of several links of an anchor, the first one made confirms it.
    first = after.drop_duplicates("anchor").sort_values("anchor", ignore_index=True)
    if first.empty:
        raise ValueError(f"{corpus.name}: no duplicate link was made after its later document: check the dates")
    short = first["hours"] < min_minutes / 60
    first["hours"] = first["hours"].clip(lower=min_minutes / 60)
    counts = {
        "duplicate links without a date": len(corpus.links.table) - len(dated),
        "duplicate links made before their later document": len(table) - len(after),
        "further links of the same anchor": len(after) - len(first),
    }
    warnings = [f"{what}: {count:,}, left out" for what, count in counts.items() if count]
    if short.any():
        warnings.append(f"links made within {min_minutes:g} min: {short.sum():,}, counted as {min_minutes:g} min")
    return first.assign(target=np.log10(first["hours"]), group=corpus.group[first["anchor"]]), tuple(warnings)


def _with_hours(corpus: Corpus, links: pd.DataFrame) -> pd.DataFrame:
    """Links as anchors, the later document of each, and masters, with the hours between anchor and link."""
    ends = links[["query", "document"]].to_numpy()
    anchor = ends.max(axis=1)
    made_at = links["made_at"].reset_index(drop=True)
    created_at = corpus.reports["created_at"].iloc[anchor].reset_index(drop=True)
    hours = (made_at - created_at).dt.total_seconds() / 3600
    return pd.DataFrame({"anchor": anchor, "master": ends.min(axis=1), "made_at": made_at, "hours": hours})


def known_before(anchors: pd.DataFrame, moment: pd.Timestamp) -> np.ndarray:
    """``(A,)`` bool: anchors whose link had been made before a moment; the others could not be learnt from then."""
    return np.asarray(anchors["made_at"] < moment)
