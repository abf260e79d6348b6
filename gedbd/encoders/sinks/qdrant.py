"""Vectors of reports in a store that others query over the network: a collection on a Qdrant server."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, UUID, uuid5

import numpy as np
import pandas as pd
from rich.progress import track

from gedbd.corpora.corpus import Corpus

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

SCHEMES = {"qdrant": ("http", 6333), "qdrants": ("https", 6333)}
POINTS_A_CALL = 256
SECONDS = 60


class Store(NamedTuple):
    """A collection, which need not be there yet, and the client of its server; ``out`` is what the user calls it."""

    out: str
    client: "QdrantClient"
    collection: str


def open_store(out: str, client: "QdrantClient | None" = None) -> Store:
    """Asks a server whether it answers.

    Args:
        out: ``qdrant://host:6333/collection``, or ``qdrants://`` over TLS. A key is taken from ``QDRANT_API_KEY``.
        client: In place of one for that address.

    Raises:
        ValueError: If the address cannot be read, qdrant-client is not installed, or the server does not answer.
    """
    if find_spec("qdrant_client") is None:
        raise ValueError(f"out={out}: qdrant-client is not installed: pip install 'gedbd[qdrant]'")
    scheme, host, port, collection = _address(out)
    if client is None:
        from qdrant_client import QdrantClient

        key = os.environ.get("QDRANT_API_KEY") or None
        url = f"{scheme}://{host}:{port}"
        client = QdrantClient(url=url, port=port, api_key=key, timeout=SECONDS, check_compatibility=False)
    store = Store(out, client, collection)
    with _answering(store):
        client.collection_exists(collection)
    return store


def check_size(store: Store, size: int) -> None:
    """Raises ValueError if the collection is there and holds anything but vectors of ``size`` numbers and cosines."""
    with _answering(store):
        if not store.client.collection_exists(store.collection):
            return
        held: Any = store.client.get_collection(store.collection).config.params.vectors
    if getattr(held, "size", None) != size or held.distance not in ("Cosine", "Dot"):
        found = f"{held.distance} of {held.size} numbers" if hasattr(held, "size") else "named vectors"
        raise ValueError(
            f"out={store.out}: the collection holds {found}, not Cosine of {size}: name another collection"
        )


def send_vectors(store: Store, corpus: Corpus, vectors: np.ndarray) -> tuple[str, ...]:
    """Puts a point a report into the collection, which is made if absent; a report that was there is replaced.

    The payload of a point holds ``issue_id``, ``title``, ``component``, ``created_at`` (ISO 8601, null without dates)
    and ``group``, the id of the oldest report of its duplicate group.

    Args:
        store: See ``open_store``.
        corpus: N reports.
        vectors: ``(N, D)`` unit rows.

    Returns:
        What the user should know of points that are no reports of this corpus.

    Raises:
        ValueError: If the server refuses or falls silent; what was sent until then stays.
    """
    from qdrant_client import models

    with _answering(store):
        if not store.client.collection_exists(store.collection):
            params = models.VectorParams(size=vectors.shape[1], distance=models.Distance.COSINE)
            store.client.create_collection(store.collection, vectors_config=params)
        starts = range(0, len(corpus), POINTS_A_CALL)
        for start in track(starts, "send vectors", transient=True, disable=len(starts) < 2):
            rows = range(start, min(start + POINTS_A_CALL, len(corpus)))
            sent = [
                models.PointStruct(id=str(point_id(str(told["issue_id"]))), vector=vectors[row].tolist(), payload=told)
                for row, told in zip(rows, _payloads(corpus, rows), strict=True)
            ]
            store.client.upsert(store.collection, points=sent, wait=True)
        others = store.client.count(store.collection, exact=True).count - len(corpus)
    return (f"{others:,} more points are in the collection, of no report of this corpus: they stay",) if others else ()


def point_id(issue_id: str) -> UUID:
    """The point of a report, the same each time."""
    return uuid5(NAMESPACE_URL, f"gedbd:{issue_id}")


def _payloads(corpus: Corpus, rows: range) -> Iterator[dict[str, str | None]]:
    reports, ids = corpus.reports.iloc[rows.start : rows.stop], corpus.reports["id"].to_numpy(dtype=object)
    for row, report in zip(rows, reports.to_dict("records"), strict=True):
        told: dict[str, str | None] = {
            "issue_id": str(report["id"]),
            "title": str(report["title"]),
            "component": str(report["component"]),
        }
        created_at = report["created_at"]
        yield told | {
            "created_at": None if pd.isna(created_at) else created_at.isoformat(),
            "group": str(ids[corpus.group[row]]),
        }


def _address(out: str) -> tuple[str, str, int, str]:
    """Scheme, host, port and collection."""
    try:
        parts = urlsplit(out)
        scheme, usual = SCHEMES[parts.scheme]
        host, port, collection = parts.hostname, parts.port or usual, parts.path.strip("/")
    except (KeyError, ValueError):
        host, collection = None, ""
    if not host or not collection or "/" in collection:
        raise ValueError(f"out={out} must be a file that ends in .npz, or like qdrant://host:6333/collection")
    return scheme, host, port, collection


@contextmanager
def _answering(store: Store) -> Iterator[None]:
    from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

    try:
        yield
    except UnexpectedResponse as error:
        hint = ": is QDRANT_API_KEY right?" if error.status_code in (401, 403) else ""
        said = f"{error.status_code} {error.reason_phrase}{hint}"
        raise ValueError(f"out={store.out}: the server answers {said}") from error
    except ApiException as error:
        raise ValueError(f"out={store.out}: no Qdrant server answers there ({error})") from error
