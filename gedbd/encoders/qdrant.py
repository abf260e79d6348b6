"""Vectors of reports as points of a collection on a Qdrant server."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid5

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.io.console import track

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

SCHEMES = {"qdrant": ("http", 6333), "qdrants": ("https", 6333)}
POINTS_A_CALL = 256
TIMEOUT_S = 60


class QdrantCollection:
    """A collection, which need not exist yet, on a server that answers.

    Args:
        address: ``qdrant://host:6333/collection``, or ``qdrants://`` over TLS. The key is read from ``QDRANT_API_KEY``.
        client: A client to use instead of a new one for the address.

    Raises:
        ValueError: If the address is invalid, qdrant-client is not installed, or the server does not answer.
    """

    def __init__(self, address: str, client: "QdrantClient | None" = None) -> None:
        if find_spec("qdrant_client") is None:
            raise ValueError(f"out={address}: qdrant-client is not installed: pip install 'gedbd[qdrant]'")
        url, port, self.name = _read_address(address)
        self.address = address
        if client is None:
            from qdrant_client import QdrantClient

            key = os.environ.get("QDRANT_API_KEY") or None
            client = QdrantClient(url=url, port=port, api_key=key, timeout=TIMEOUT_S, check_compatibility=False)
        self.client = client
        self.exists()

    def exists(self) -> bool:
        """Whether the collection exists. Raises ValueError if the server does not answer."""
        with self._answering():
            return self.client.collection_exists(self.name)

    def check_size(self, size: int) -> None:
        """Raises ValueError if the collection does not hold vectors of ``size`` numbers compared by cosine."""
        if not self.exists():
            return
        with self._answering():
            held: Any = self.client.get_collection(self.name).config.params.vectors
        if getattr(held, "size", None) != size or held.distance not in ("Cosine", "Dot"):
            kind = f"{held.distance} of {held.size} numbers" if hasattr(held, "size") else "named vectors"
            raise ValueError(
                f"out={self.address}: the collection holds {kind}, not Cosine of {size}: name another collection"
            )

    def send(self, corpus: Corpus, vectors: np.ndarray) -> tuple[str, ...]:
        """Stores a point for each report in the collection, which is made if absent; a report's point is replaced.

        The payload of a point holds ``issue_id``, ``title``, ``component``, ``created_at`` (ISO 8601, null without
        dates) and ``group``, the id of the oldest report of its duplicate group.

        Args:
            corpus: N reports.
            vectors: ``(N, D)`` unit rows.

        Returns:
            Warnings about points of other reports.

        Raises:
            ValueError: If the server refuses or does not answer; points that it has stored stay.
        """
        from qdrant_client import models

        if not self.exists():
            params = models.VectorParams(size=vectors.shape[1], distance=models.Distance.COSINE)
            with self._answering():
                self.client.create_collection(self.name, vectors_config=params)
        groups = corpus.reports["id"].to_numpy(dtype=object)[corpus.group]
        starts = range(0, len(corpus), POINTS_A_CALL)
        for start in track(starts, "send vectors", transient=True, disable=len(starts) < 2):
            rows = slice(start, start + POINTS_A_CALL)
            reports = corpus.reports.iloc[rows].to_dict("records")
            points = []
            for report, group, vector in zip(reports, groups[rows], vectors[rows], strict=True):
                payload: dict[str, str | None] = {
                    "issue_id": str(report["id"]),
                    "title": str(report["title"]),
                    "component": str(report["component"]),
                    "created_at": None if pd.isna(report["created_at"]) else report["created_at"].isoformat(),
                    "group": str(group),
                }
                # Qdrant takes numbers and UUIDs only; issue ids may be texts such as KEY-12.
                number = str(uuid5(NAMESPACE_URL, f"gedbd:{report['id']}"))
                points.append(models.PointStruct(id=number, vector=vector.tolist(), payload=payload))
            with self._answering():
                # wait=True: when the command ends, all points can be searched.
                self.client.upsert(self.name, points=points, wait=True)
        with self._answering():
            others = self.client.count(self.name, exact=True).count - len(corpus)
        return (f"the collection holds {others:,} more points of other reports, which stay",) if others else ()

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Turns errors of the server into ValueErrors with one line."""
        from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

        try:
            yield
        except UnexpectedResponse as error:
            hint = ": is QDRANT_API_KEY right?" if error.status_code in (401, 403) else ""
            problem = f"the server returned {error.status_code} {error.reason_phrase}{hint}"
            raise ValueError(f"out={self.address}: {problem}") from error
        except ApiException as error:
            raise ValueError(f"out={self.address}: no Qdrant server answers there ({error})") from error


def _read_address(address: str) -> tuple[str, int, str]:
    """URL, port and collection of an address, see ``QdrantCollection``."""
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
    return f"{scheme}://{host}:{port}", port, collection
