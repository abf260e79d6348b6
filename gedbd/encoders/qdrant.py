"""Vectors of reports as points of a collection on a Qdrant server."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, UUID, uuid5

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.io.console import track

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

SCHEMES = {"qdrant": ("http", 6333), "qdrants": ("https", 6333)}
POINTS_A_CALL = 256
TIMEOUT_S = 60


class Store(NamedTuple):
    """A collection, which need not exist yet, and the client of its server; ``named`` is the option in messages."""

    named: str
    client: "QdrantClient"
    collection: str


def open_store(address: str, client: "QdrantClient | None" = None) -> Store:
    """Opens a collection and checks that its server answers.

    Args:
        address: ``qdrant://host:6333/collection``, or ``qdrants://`` over TLS. The key is read from ``QDRANT_API_KEY``.
        client: A client to use instead of a new one for the address.

    Raises:
        ValueError: If the address is invalid, qdrant-client is not installed, or the server does not answer.
    """
    if find_spec("qdrant_client") is None:
        raise ValueError(f"out={address}: qdrant-client is not installed: pip install 'gedbd[qdrant]'")
    scheme, host, port, collection = _read_address(address)
    if client is None:
        from qdrant_client import QdrantClient

        key = os.environ.get("QDRANT_API_KEY") or None
        client = QdrantClient(
            url=f"{scheme}://{host}:{port}", port=port, api_key=key, timeout=TIMEOUT_S, check_compatibility=False
        )
    store = Store(f"out={address}", client, collection)
    with answering(store):
        client.collection_exists(store.collection)
    return store


def check_size(store: Store, size: int) -> None:
    """Raises ValueError if the collection exists and does not hold vectors of ``size`` numbers compared by cosine."""
    with answering(store):
        if not store.client.collection_exists(store.collection):
            return
        held: Any = store.client.get_collection(store.collection).config.params.vectors
    if getattr(held, "size", None) != size or held.distance not in ("Cosine", "Dot"):
        found = f"{held.distance} of {held.size} numbers" if hasattr(held, "size") else "named vectors"
        raise ValueError(f"{store.named}: the collection holds {found}, not Cosine of {size}: name another collection")


def send_vectors(store: Store, corpus: Corpus, vectors: np.ndarray) -> tuple[str, ...]:
    """Stores a point for each report in the collection, which is made if absent; points of these reports are replaced.

    The payload of a point holds ``issue_id``, ``title``, ``component``, ``created_at`` (ISO 8601, null without dates)
    and ``group``, the id of the oldest report of its duplicate group.

    Args:
        store: See ``open_store``.
        corpus: N reports.
        vectors: ``(N, D)`` unit rows.

    Returns:
        Warnings about points of other reports.

    Raises:
        ValueError: If the server refuses or does not answer; points that it has stored stay.
    """
    from qdrant_client import models

    with answering(store):
        if not store.client.collection_exists(store.collection):
            params = models.VectorParams(size=vectors.shape[1], distance=models.Distance.COSINE)
            store.client.create_collection(store.collection, vectors_config=params)
        starts = range(0, len(corpus), POINTS_A_CALL)
        for start in track(starts, "send vectors", transient=True, disable=len(starts) < 2):
            rows = range(start, min(start + POINTS_A_CALL, len(corpus)))
            points = []
            for row, payload in zip(rows, _payloads(corpus, rows), strict=True):
                number = str(point_id(str(payload["issue_id"])))
                points.append(models.PointStruct(id=number, vector=vectors[row].tolist(), payload=payload))
            # wait=True: when the command ends, all points can be searched.
            store.client.upsert(store.collection, points=points, wait=True)
        others = store.client.count(store.collection, exact=True).count - len(corpus)
    return (f"the collection holds {others:,} more points of other reports, which stay",) if others else ()


def point_id(issue_id: str) -> UUID:
    """The id of a report's point, which is always the same."""
    # Qdrant takes numbers and UUIDs only; issue ids may be texts such as KEY-12.
    return uuid5(NAMESPACE_URL, f"gedbd:{issue_id}")


def _payloads(corpus: Corpus, rows: range) -> Iterator[dict[str, str | None]]:
    ids = corpus.reports["id"].to_numpy(dtype=object)
    reports = corpus.reports.iloc[rows.start : rows.stop]
    for row, report in zip(rows, reports.to_dict("records"), strict=True):
        payload: dict[str, str | None] = {
            "issue_id": str(report["id"]),
            "title": str(report["title"]),
            "component": str(report["component"]),
        }
        created_at = report["created_at"]
        yield payload | {
            "created_at": None if pd.isna(created_at) else created_at.isoformat(),
            "group": str(ids[corpus.group[row]]),
        }


def _read_address(address: str) -> tuple[str, str, int, str]:
    """Scheme, host, port and collection of an address, see ``open_store``."""
    try:
        parts = urlsplit(address)
        scheme, default_port = SCHEMES[parts.scheme]
        host = parts.hostname
        port = parts.port or default_port
        collection = parts.path.strip("/")
    except (KeyError, ValueError):  # an unknown scheme, or a port that is no number
        host = None
        collection = ""
    if not host or not collection or "/" in collection:
        raise ValueError(f"out={address} must be a file that ends in .npz, or like qdrant://host:6333/collection")
    return scheme, host, port, collection


@contextmanager
def answering(store: Store) -> Iterator[None]:
    """Turns errors of the server into ValueErrors with one line."""
    from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

    try:
        yield
    except UnexpectedResponse as error:
        hint = ": is QDRANT_API_KEY right?" if error.status_code in (401, 403) else ""
        said = f"{error.status_code} {error.reason_phrase}{hint}"
        raise ValueError(f"{store.named}: the server returned {said}") from error
    except ApiException as error:
        raise ValueError(f"{store.named}: no Qdrant server answers there ({error})") from error
