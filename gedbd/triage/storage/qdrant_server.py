"""The reports of an index as points of a Qdrant collection, which finds likely candidates for searches.

Every report in the files beside the index is a point: its number is the key of its row, its vectors are the dense one
and, for each kind of words, a sparse one with the saturation of its terms. The server multiplies them with a query's
weights; the exact scores of what it finds are computed from the files.
"""

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gedbd.encoders.sinks.qdrant import Store as Collection
from gedbd.encoders.sinks.qdrant import answering, connect, open_store, read_address
from gedbd.io.files import write_text
from gedbd.io.progress import item_progress
from gedbd.retrieval.postings import length_norm
from gedbd.retrieval.reports.first_stage import WORDS
from gedbd.retrieval.reports.search_server import WeightedTerms
from gedbd.triage.storage.cache_files import CacheFiles, read_cache
from gedbd.triage.storage.store import Store

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

FILE = "server.json"
VECTOR = "vector"
POINTS_A_CALL = 256
TIMEOUT_S = 5.0  # of a search; then the reports are compared here
PAUSE_S = 60.0  # before a server is asked again that did not answer
SPARE = 20  # found in addition: some may have been replaced or removed since the files were made

log = logging.getLogger("gedbd")


class Sent(NamedTuple):
    """What a collection holds, as a file beside the index tells.

    Attributes:
        address: The collection, see ``open_store``.
        identity: Identity of the index file.
        model: The model that the vectors come from.
        change: The number of the last change that was sent; None while they are being sent.
    """

    address: str
    identity: str
    model: str | None
    change: int | None


class QdrantServer:
    """A ``SearchServer``. If it does not answer, it is left alone for ``PAUSE_S``, and searches do without it.

    Args:
        client: The client.
        collection: Name of the collection.
        keys: ``(N,)`` the keys of the reports in the files, ascending.
    """

    def __init__(self, client: "QdrantClient", collection: str, keys: np.ndarray) -> None:
        self.client = client
        self.collection = collection
        self.num_places = len(keys)
        self._keys = keys
        self._silent_until = 0.0

    def best(self, queries: Mapping[str, WeightedTerms]) -> dict[str, np.ndarray] | None:
        """See ``SearchServer``."""
        from qdrant_client import models

        asked = {kind: query for kind, query in queries.items() if len(query.terms)}
        requests = []
        for kind, query in asked.items():
            sparse = models.SparseVector(indices=query.terms.tolist(), values=query.weights.tolist())
            limit = query.depth + SPARE
            requests.append(models.QueryRequest(query=sparse, using=kind, limit=limit, with_payload=False))
        found = self._ask(requests) if requests else []
        if found is None:
            return None
        nothing = dict.fromkeys(queries, np.empty(0, dtype=np.int64))
        return nothing | dict(zip(asked, found, strict=True))

    def nearest(self, vector: np.ndarray, depth: int) -> np.ndarray | None:
        """See ``SearchServer``."""
        from qdrant_client import models

        request = models.QueryRequest(query=vector.tolist(), using=VECTOR, limit=depth + SPARE, with_payload=False)
        found = self._ask([request])
        return None if found is None else found[0]

    def _ask(self, requests: "list[models.QueryRequest]") -> list[np.ndarray] | None:
        """The places that each request finds."""
        from qdrant_client.http.exceptions import ApiException

        if time.monotonic() < self._silent_until:
            return None
        try:
            answers = self.client.query_batch_points(self.collection, requests)
        except (ApiException, ValueError) as error:  # ValueError: there is no such collection in a local store
            self._silent_until = time.monotonic() + PAUSE_S
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            log.warning(
                "collection %s: its server does not answer (%s): for %.0f s, all reports are compared here",
                self.collection,
                reason,
                PAUSE_S,
            )
            return None
        return [self._places([point.id for point in answer.points]) for answer in answers]

    def _places(self, found: Sequence[Any]) -> np.ndarray:
        """The places of some keys; those that the files do not have are left out."""
        keys = np.array(found, dtype=np.int64)
        places = np.searchsorted(self._keys, keys)
        is_known = self._keys.take(places, mode="clip") == keys
        return np.asarray(places[is_known])


def open_server(path: Path, files: CacheFiles, client: "QdrantClient | None" = None) -> QdrantServer | None:
    """The server to which an index was sent; None if it was sent to none, or not completely."""
    sent = read_sent(path)
    if sent is None or sent.change is None or (sent.identity, sent.model) != _owner(files):
        return None
    collection = read_address(sent.address, "store")[3]
    return QdrantServer(client or connect(sent.address, TIMEOUT_S, "store"), collection, files.arrays["keys"])


def read_sent(path: Path) -> Sent | None:
    """Where an index was sent; None if it was not, or the file that tells it is damaged."""
    try:
        return Sent(**json.loads(path.with_name(FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def send_reports(store: Store, address: str, client: "QdrantClient | None" = None) -> int:
    """Sends the reports in the files beside an index to a collection: all of them, or what has changed since last time.

    Args:
        store: The index.
        address: The collection, see ``open_store``.
        client: A client to use instead of a new one for the address.

    Returns:
        How many points were stored and deleted.

    Raises:
        ValueError: If the index has no files, the server refuses or does not answer, or the collection is another's.
    """
    files = read_cache(store)
    if files is None:
        raise ValueError(f"store={address}: the index has no files to send; build it again")
    target = open_store(address, client, "store")
    now = Sent(address, *_owner(files), files.facts["change"])
    sent = read_sent(store.path)
    keys = files.arrays["keys"]
    with answering(target):
        exists = target.client.collection_exists(target.collection)
        if exists and (sent is None or (sent.address, sent.identity) != (address, now.identity)):
            raise ValueError(f"{target.named}: the collection exists: name another, or delete it")
        _remember(store.path, now._replace(change=None))
        if exists and sent is not None and _can_continue(store, sent, now):
            changed = store.log.rows_since(sent.change or 0)
        else:
            _make_collection(target, files.arrays["vectors"].shape[1], exists)
            changed = keys
        gone = np.setdiff1d(changed, keys)
        if len(gone):
            target.client.delete(target.collection, points_selector=gone.tolist(), wait=True)
        places = np.flatnonzero(np.isin(keys, changed))
        _send(target, files, places)
    _remember(store.path, now)
    return len(gone) + len(places)


def forget_server(path: Path) -> None:
    """Searches of an index do without a server again; its collection stays."""
    path.with_name(FILE).unlink(missing_ok=True)


def _owner(files: CacheFiles) -> tuple[str, str | None]:
    return files.facts["index"], files.facts["model"]


def _can_continue(store: Store, sent: Sent, now: Sent) -> bool:
    """Whether sending what has changed is enough."""
    return sent.change is not None and sent.model == now.model and store.log.has_all_since(sent.change)


def _remember(path: Path, sent: Sent) -> None:
    write_text(path.with_name(FILE), json.dumps(sent._asdict()) + "\n")


def _make_collection(target: Collection, dim: int, exists: bool) -> None:
    from qdrant_client import models

    if exists:
        target.client.delete_collection(target.collection)
    # Exact vectors stay on the disk: 8-bit ones find, and a few exact ones order what was found.
    in_memory = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
    target.client.create_collection(
        target.collection,
        vectors_config={VECTOR: models.VectorParams(size=dim, distance=models.Distance.DOT, on_disk=True)},
        sparse_vectors_config={kind: models.SparseVectorParams() for kind in WORDS},
        quantization_config=models.ScalarQuantization(scalar=in_memory),
    )


def _send(target: Collection, files: CacheFiles, places: np.ndarray) -> None:
    starts = range(0, len(places), POINTS_A_CALL)
    with item_progress("reports") as progress:
        task = progress.add_task("send reports", total=len(places))
        for start in starts:
            points = list(_points(files, places[start : start + POINTS_A_CALL]))
            target.client.upsert(target.collection, points=points, wait=start == starts[-1])
            progress.advance(task, len(points))


def _points(files: CacheFiles, places: np.ndarray) -> "Iterator[models.PointStruct]":
    from qdrant_client import models

    arrays = files.arrays
    for place in places.tolist():
        vectors: dict[str, Any] = {VECTOR: arrays["vectors"][place].tolist()}
        for kind in WORDS:
            own = slice(*arrays[f"{kind} list starts"][place : place + 2].tolist())
            counts = arrays[f"{kind} list counts"][own]
            if len(counts):  # a report without identifiers has no such vector
                norm = length_norm(arrays[f"{kind} lengths"][place : place + 1], files.facts["means"][kind])
                saturation = (counts / (norm + counts)).tolist()
                terms = arrays[f"{kind} list terms"][own].tolist()
                vectors[kind] = models.SparseVector(indices=terms, values=saturation)
        yield models.PointStruct(id=int(arrays["keys"][place]), vector=vectors)
