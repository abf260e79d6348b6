"""What searches read of a large index, in files beside it that are opened at once.

The index file alone counts: these files can be deleted at any time, and are made of it again. They belong to one state
of it. What has changed since is read from the index file when it is opened.
"""

import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gedbd.io.array_files import ArrayFolderWriter, read_arrays, read_facts, remove_abandoned
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.retrieval.inverted_index import CommonTerms, length_norm
from gedbd.retrieval.reports import feature_store
from gedbd.retrieval.reports.feature_store import FeatureStore
from gedbd.retrieval.reports.known_groups import KnownGroups
from gedbd.retrieval.reports.report_features import FIELDS, TERM_KINDS, TIMES, CategoryEncoder, FeatureEncoder
from gedbd.retrieval.reports.vector_table import encode_vectors
from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.triage.storage.in_memory import InMemoryIndex, features_of, find_known_groups, unusable_dates
from gedbd.triage.storage.index_store import IndexStore
from gedbd.triage.storage.rows import FeatureRow
from gedbd.triage.storage.string_table import Ids, StoredVocabulary, StringTable, as_arrays

MIN_REPORTS = 10_000  # fewer are read within a second
MAX_CHANGED = 0.2  # share of the reports; if more have changed, the files are made again
FORMAT = 1  # of the files
NAME = "index.cache-"  # and the number of the last change that the files have
CHUNK = 10_000  # reports that are read at once
log = logging.getLogger("gedbd")


class CacheFiles(NamedTuple):
    """Files that belong to an index.

    Attributes:
        facts: ``index``: which index file; ``model``; ``terms``: their version; ``change``: the number of the last
            change that they have; ``means`` of ``FeatureStore.of_arrays``; ``values``: those of each field, in the
            order of their codes; ``undated`` and ``unclear`` of ``InMemoryIndex``.
        arrays: Those of ``FeatureStore.of_arrays``; ``keys (N,)`` and ``group (N,)`` of the reports; the ids and the
            terms, each as a ``StringTable``; for each kind of terms ``list sizes (N,)``, whose sums are its starts.
    """

    facts: dict[str, Any]
    arrays: dict[str, np.ndarray]

    def strings(self, name: str) -> StringTable:
        """The ``ids`` or the ``terms``."""
        return StringTable({key: self.arrays[f"{name} {key}"] for key in ("bytes", "starts", "hashes", "order")})


def read_cache(store: IndexStore) -> CacheFiles | None:
    """The latest files that belong to an index; None if there are none, or they are damaged."""
    for folder in _folders(store.path):
        try:
            facts = read_facts(folder)
            wanted = {"format": FORMAT, **_owner(store)}
            if {name: facts.get(name) for name in wanted} == wanted and store.has_all_changes_since(facts["change"]):
                return CacheFiles(facts, read_arrays(folder, facts))
        except FileNotFoundError:
            continue  # another process has replaced them
        except (OSError, ValueError, KeyError) as error:
            log.warning("%s cannot be used (%s): it is rebuilt", folder, error)
    return None


def write_cache(store: IndexStore) -> int:
    """Writes the files for the present state of an index, and deletes those of earlier ones.

    Returns:
        The number of the last change that they have.

    Raises:
        OSError: If they cannot be written.
        ValueError: If the index is damaged.
    """
    with store.snapshot():
        change = store.last_change()
        folder = store.path.with_name(f"{NAME}{change}")
        with ArrayFolderWriter(folder) as writer:
            facts = _write(store, writer)
            facts |= {"format": FORMAT, "change": change, **_owner(store)}
            shutil.rmtree(folder, ignore_errors=True)  # a damaged one
            writer.finish(facts)
    remove_abandoned(store.path.parent, NAME)
    for other in _folders(store.path):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    return change


def remove_outdated(store: IndexStore) -> None:
    """Deletes the files of all states before the last change, unfinished ones too. Raises OSError if that fails.

    Called after ``forget`` and ``checkpoint`` of the store: then no process reads, or writes files of, an older state.
    """
    last = store.last_change()
    for folder in store.path.parent.glob(f"{NAME}*"):
        number = folder.name.removeprefix(NAME).partition(".")[0]
        if number.isdecimal() and int(number) < last:
            with suppress(FileNotFoundError):  # another process deletes it, too
                shutil.rmtree(folder)


def _owner(store: IndexStore) -> dict[str, str | None]:
    """What tells which index, and which model and terms of it, files belong to."""
    about = store.about()
    return {"index": store.token(), "model": about.get("model"), "terms": about.get("terms")}


def _folders(path: Path) -> list[Path]:
    """The folders of files beside an index, the latest first."""
    numbers = [one.name.removeprefix(NAME) for one in path.parent.glob(f"{NAME}*")]
    return [path.with_name(f"{NAME}{number}") for number in sorted(filter(str.isdecimal, numbers), key=int)[::-1]]


def _write(store: IndexStore, writer: ArrayFolderWriter) -> dict[str, Any]:
    """Writes all arrays; returns the facts that are known from the reports."""
    terms = store.terms()
    encoder = FeatureEncoder(Vocabulary(terms))
    dim = store.dim()
    ids: list[str] = []
    undated: list[str] = []
    unclear: list[str] = []
    for keys, rows in _chunks(store):
        features = features_of(rows, encoder, dim, store.path)
        ids += [row.issue_id for row in rows]
        for found, own in zip((undated, unclear), unusable_dates(rows), strict=True):
            found += own
        codes, scale, rest = encode_vectors(features.vectors)
        columns = {"vectors": features.vectors, "codes": codes, "scale": scale, "rest": rest}
        columns |= {name: features.columns[name] for name in TIMES} | {"keys": keys}
        columns |= {f"field {name}": features.columns[name] for name in FIELDS}
        for name, column in columns.items():
            writer.append(name, column)
        for kind in TERM_KINDS:
            _append_lists(writer, kind, features.terms[kind])
    writer.append("sums", _sums(writer.read("vectors")))
    means = {kind: _append_postings(writer, kind, len(terms)) for kind in TERM_KINDS}
    for name, strings in (("ids", ids), ("terms", terms)):
        for key, array in as_arrays(strings).items():
            writer.append(f"{name} {key}", array)
    writer.append("group", find_known_groups(store.links(), Ids(StringTable(as_arrays(ids)))).group)
    values = [encoder.categories[name].values for name in FIELDS]
    return {"means": means, "values": values, "undated": undated, "unclear": unclear}


def _chunks(store: IndexStore) -> Iterator[tuple[np.ndarray, list[FeatureRow]]]:
    """The rows of an index and their keys, some at a time; at least one time."""
    key = -1
    while True:
        keys, rows = store.features(key, CHUNK)
        yield keys, rows
        if len(rows) < CHUNK:
            return
        key = int(keys[-1])


def _append_lists(writer: ArrayFolderWriter, kind: str, texts: Sequence[np.ndarray]) -> None:
    """The distinct terms of some texts, as ``TermLists`` has them, but sizes in the place of starts."""
    sizes = np.array([len(text) for text in texts], dtype=np.int64)
    flat = np.concatenate([np.empty(0, dtype=np.int32), *texts]).astype(np.int64)
    span = int(flat.max(initial=0)) + 1
    # A text and a term as one number: with terms below 10, term 7 in text 3 is 37.
    pairs, counts = np.unique(np.repeat(np.arange(len(texts)), sizes) * span + flat, return_counts=True)
    writer.append(f"{kind} lengths", sizes.astype(np.float32))
    writer.append(f"{kind} list sizes", np.bincount(pairs // span, minlength=len(texts)))
    writer.append(f"{kind} list terms", (pairs % span).astype(np.int32))
    writer.append(f"{kind} list counts", counts.astype(np.float32))


def _append_postings(writer: ArrayFolderWriter, kind: str, num_terms: int) -> float:
    """The postings of the lists of a kind; returns the mean length of texts."""
    from scipy.sparse import csr_array

    lengths = writer.read(f"{kind} lengths")
    starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(writer.read(f"{kind} list sizes"))])
    lists = (writer.read(f"{kind} list counts"), writer.read(f"{kind} list terms"), starts)
    by_term = csr_array(lists, shape=(len(lengths), num_terms)).tocsc()
    mean = max(float(lengths.mean(dtype=np.float64)) if len(lengths) else 0.0, 1e-9)
    norm = length_norm(lengths, mean)
    writer.append(f"{kind} list starts", starts)
    writer.append(f"{kind} terms", np.arange(num_terms, dtype=np.int32))
    writer.append(f"{kind} starts", by_term.indptr.astype(np.int64))
    writer.append(f"{kind} rows", by_term.indices.astype(np.int32))
    saturation = np.empty(by_term.nnz, dtype=np.float32)
    for start in range(0, by_term.nnz, 1 << 24):
        part = slice(start, start + (1 << 24))
        saturation[part] = by_term.data[part] / (norm[by_term.indices[part]] + by_term.data[part])
    writer.append(f"{kind} saturation", saturation)
    common = CommonTerms.chosen(np.diff(by_term.indptr), len(lengths))
    writer.append(f"{kind} common terms", common.astype(np.int32))
    writer.append(f"{kind} common saturation", np.empty((0, len(lengths)), dtype=np.float32))
    for term in common.tolist():
        part = slice(by_term.indptr[term], by_term.indptr[term + 1])
        row = np.zeros((1, len(lengths)), dtype=np.float32)
        row[0, by_term.indices[part]] = saturation[part]
        writer.append(f"{kind} common saturation", row)
    return mean


def _sums(vectors: np.ndarray) -> np.ndarray:
    """The sums of the vectors of each step of ``FeatureStore.mean_vector``, ``(S, D)``."""
    step = feature_store.MEAN_STEP
    starts = range(0, len(vectors) // step * step, step)
    sums = [feature_store.whole_numbers(vectors[start : start + step]).sum(axis=0) for start in starts]
    return np.array(sums, dtype=np.int64).reshape(-1, vectors.shape[1])


def read_index(store: IndexStore) -> InMemoryIndex:
    """Reads an index; one of ``MIN_REPORTS`` and more by the files beside it, which are made if they are missing.

    Raises:
        ValueError: If the index is damaged.
        StoreUnavailable: If it cannot be read.
    """
    with store.snapshot():
        if store.count() < MIN_REPORTS:
            return InMemoryIndex.of(store)
        index = _read_files(store)
    if index is not None:
        return index
    log.warning("%s: writing files that make opening the index faster", store.path.parent)
    try:
        write_cache(store)
    except (OSError, StoreUnavailable) as error:
        log.warning("%s: they cannot be written (%s), so that all reports are read", store.path.parent, error)
        return InMemoryIndex.of(store)
    with store.snapshot():
        return _read_files(store) or InMemoryIndex.of(store)


def _read_files(store: IndexStore) -> InMemoryIndex | None:
    """The index by the files beside it; None if they are missing or too much has changed since."""
    files = read_cache(store)
    if files is None:
        return None
    changed = store.rows_since(files.facts["change"])
    if len(changed) > MAX_CHANGED * len(files.arrays["keys"]):
        return None
    return _with_changes(_as_written(files, store), files, store, changed)


def _as_written(files: CacheFiles, store: IndexStore) -> InMemoryIndex:
    """The index in the state that the files have; new terms are known already."""
    vocabulary = StoredVocabulary(files.strings("terms"))
    vocabulary.extend(store.terms(len(vocabulary)))
    encoder = FeatureEncoder(vocabulary)
    encoder.categories = dict(zip(FIELDS, map(CategoryEncoder, files.facts["values"]), strict=True))
    features = FeatureStore.of_arrays(files.arrays, files.facts["means"])
    return InMemoryIndex(features, encoder, Ids(files.strings("ids")), KnownGroups.of(files.arrays["group"]))


def _with_changes(index: InMemoryIndex, files: CacheFiles, store: IndexStore, changed: np.ndarray) -> InMemoryIndex:
    """The index with the reports whose rows have changed since, by the keys of these."""
    keys = files.arrays["keys"]
    found, rows = store.features_of(changed.tolist())
    features = features_of(rows, index.encoder, index.store.vectors.dim, store.path)
    undated, unclear = unusable_dates(rows)
    is_old = np.isin(found, keys)
    old = np.flatnonzero(is_old).tolist()
    new = np.flatnonzero(~is_old).tolist()
    if old:
        index.store = index.store.replaced(np.searchsorted(keys, found[is_old]).tolist(), features.take(old))
    is_deleted = np.isin(keys, np.setdiff1d(changed, found))
    if is_deleted.any():
        index.store = index.store.without(is_deleted)
        index.ids = index.ids.without(is_deleted)
    new_ids = [rows[place].issue_id for place in new]
    if new:
        index = index.with_added(new_ids, features.take(new), [])
    if is_deleted.any() or store.has_links_since(files.facts["change"]) or store.links_if_any_names(new_ids):
        index = index.regrouped(store.links())
    index.undated = _replaced(files.facts["undated"], undated, rows)
    index.unclear = _replaced(files.facts["unclear"], unclear, rows)
    index.num_changed = len(changed)
    return index


def _replaced(known: list[str], fresh: list[str], rows: list[FeatureRow]) -> list[str]:
    """Known ids but those of some reports, and fresh ones."""
    changed = {row.issue_id for row in rows}
    return [*(one for one in known if one not in changed), *fresh]
