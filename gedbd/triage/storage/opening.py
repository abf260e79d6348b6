"""Opens what searches read of an index: from the files beside it, with what has changed since, or from itself."""

import logging

import numpy as np

from gedbd.retrieval.reports.feature_store import FeatureStore
from gedbd.retrieval.reports.known_groups import KnownGroups
from gedbd.retrieval.reports.report_features import FeatureEncoder
from gedbd.retrieval.scorers.fields import CategoryEncoder
from gedbd.triage.storage.cache_files import CacheFiles, read_cache, write_cache
from gedbd.triage.storage.connection import StoreUnavailable
from gedbd.triage.storage.ids import Ids
from gedbd.triage.storage.in_memory import InMemoryIndex, features_of, unusable_dates
from gedbd.triage.storage.rows import FeatureRow
from gedbd.triage.storage.store import Store
from gedbd.triage.storage.stored_vocabulary import StoredVocabulary

MIN_REPORTS = 10_000  # fewer are read within a second
MAX_CHANGED = 0.2  # share of the reports; if more have changed, the files are made again

log = logging.getLogger("gedbd")


def read_index(store: Store) -> InMemoryIndex:
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


def _read_files(store: Store) -> InMemoryIndex | None:
    """The index by the files beside it; None if they are missing or too much has changed since."""
    files = read_cache(store)
    if files is None:
        return None
    changed = store.log.rows_since(files.facts["change"])
    if len(changed) > MAX_CHANGED * len(files.arrays["keys"]):
        return None
    return _with_changes(_as_written(files, store), files, store, changed)


def _as_written(files: CacheFiles, store: Store) -> InMemoryIndex:
    """The index in the state that the files have; new terms are known already."""
    vocabulary = StoredVocabulary(files.strings("terms"))
    vocabulary.extend(store.terms(len(vocabulary)))
    encoder = FeatureEncoder(vocabulary, tuple(map(CategoryEncoder, files.facts["values"])))
    features = FeatureStore.of_arrays(files.arrays, files.facts["means"])
    return InMemoryIndex(features, encoder, Ids(files.strings("ids")), KnownGroups.of(files.arrays["group"]))


def _with_changes(index: InMemoryIndex, files: CacheFiles, store: Store, changed: np.ndarray) -> InMemoryIndex:
    """The index with the reports whose rows have changed since, by the keys of these."""
    keys = files.arrays["keys"]
    found, rows = store.log.features_of(changed.tolist())
    features = features_of(rows, index.encoder, index.store.vectors.dim, store.path)
    undated, unclear = unusable_dates(rows)
    is_old = np.isin(found, keys)
    old, new = np.flatnonzero(is_old).tolist(), np.flatnonzero(~is_old).tolist()
    if old:
        index.store = index.store.replaced(np.searchsorted(keys, found[is_old]).tolist(), features.take(old))
    is_deleted = np.isin(keys, np.setdiff1d(changed, found))
    if is_deleted.any():
        index.store = index.store.without(is_deleted)
        index.ids = index.ids.without(is_deleted)
    if new:
        index = index.with_added([rows[place].issue_id for place in new], features.take(new), [])
    new_ids = [rows[place].issue_id for place in new]
    if is_deleted.any() or store.log.has_links_since(files.facts["change"]) or store.links_if_any_names(new_ids):
        index = index.regrouped(store.links())
    index.undated = _replaced(files.facts["undated"], undated, rows)
    index.unclear = _replaced(files.facts["unclear"], unclear, rows)
    index.num_changed = len(changed)
    return index


def _replaced(known: list[str], fresh: list[str], rows: list[FeatureRow]) -> list[str]:
    """Known ids but those of some reports, and fresh ones."""
    changed = {row.issue_id for row in rows}
    return [*(one for one in known if one not in changed), *fresh]
