"""A Qdrant collection: qdrant-client's own store in memory, and behind a server that speaks the calls made."""

import json
import re
import sys
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import numpy as np
import pandas as pd
import pytest
import qdrant_client
from local_server import running
from qdrant_client import QdrantClient, models

import gedbd
from gedbd.corpora.corpus import Corpus
from gedbd.encoders.qdrant import POINTS_A_CALL, QdrantCollection

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "export.md").read_text()
OUT = "qdrant://127.0.0.1:6333/bugs"
DEMO = pd.read_csv(Path(gedbd.__file__).parent / "corpora" / "demo.csv", dtype=str)


class Handler(BaseHTTPRequestHandler):
    """Answers as a Qdrant server does."""

    def answer(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or "null")
        if self.server.key and self.headers.get("api-key") != self.server.key:
            return self.say(401, {"status": {"error": "unauthorized"}})
        called = self.command, *self.path.split("?")[0].strip("/").split("/")
        self.server.calls.append(called[:1] + called[3:])
        return self.say(200, {"result": self.result(called, body), "status": "ok", "time": 0.0})

    def result(self, called: tuple[str, ...], body: dict) -> object:
        held = self.server.held
        match called:
            case ("GET", "collections", name, "exists"):
                return {"exists": held.collection_exists(name)}
            case ("PUT", "collections", name):
                params = models.VectorParams(**body["vectors"])
                return held.create_collection(name, vectors_config=params)
            case ("PUT", "collections", name, "points"):
                points = [models.PointStruct(**point) for point in body["points"]]
                return json.loads(held.upsert(name, points=points).model_dump_json())
            case ("GET", "collections", name):
                return json.loads(held.get_collection(name).model_dump_json())
            case ("POST", "collections", name, "points", "count"):
                return {"count": held.count(name).count}

    def say(self, status: int, content: object) -> None:
        written = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(written)))
        self.end_headers()
        self.wfile.write(written)

    def log_message(self, *args: object) -> None:
        pass

    do_GET = do_PUT = do_POST = answer  # noqa: N815


@pytest.fixture
def bugs() -> QdrantCollection:
    return QdrantCollection(OUT, QdrantClient(":memory:"))


@pytest.fixture
def corpus(make_corpus) -> Corpus:
    """Three reports, the third a duplicate of the first; the second has no date."""
    made = make_corpus([0, 1, 0], days=[0, 1, 2])
    made.reports["title"], made.reports["component"] = ["crash", "slow", "crashes"], ["ui", "", "core"]
    made.reports.loc[1, "created_at"] = pd.NaT
    return made


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    """A server; ``held`` are its collections, ``key`` is what it asks for, if anything, ``calls`` what it was asked."""
    with running(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        server.held, server.key, server.calls = QdrantClient(":memory:"), None, []
        yield server


@pytest.fixture
def encode(run_command):
    """Runs the command with some options."""
    return partial(run_command, "encode", "dataset=demo", "encoder=tiny")


def payloads(bugs: QdrantCollection) -> dict[str, tuple[dict, list[float], str]]:
    """Payload, vector and number of each point, by the report's id."""
    points, _ = bugs.client.scroll("bugs", with_vectors=True)
    return {point.payload["issue_id"]: (point.payload, point.vector, point.id) for point in points}


def test_points_hold_what_is_known_of_reports_and_are_replaced(bugs, corpus, make_corpus):
    identity = np.eye(3, dtype=np.float32)
    assert bugs.send(corpus, identity) == ()
    bugs.check_size(3)
    points = payloads(bugs)
    payload = {"issue_id": "1002", "title": "crashes", "component": "core", "group": "1000"}
    assert points["1002"][0] == payload | {"created_at": "2024-01-03T00:00:00+00:00"}
    assert points["1001"][0]["created_at"] is None
    assert points["1001"][1] == [0, 1, 0]
    assert points["1000"][2] == str(uuid5(NAMESPACE_URL, "gedbd:1000"))
    assert bugs.send(corpus, identity[::-1]) == ()
    assert {name: vector[0] for name, (_, vector, _) in payloads(bugs).items()} == {"1000": 0, "1001": 0, "1002": 1}
    (warning,) = bugs.send(make_corpus([0, 1]), identity[:2])
    assert warning == "the collection holds 1 more points of other reports, which stay"


def test_many_reports_go_in_several_calls(bugs, make_corpus):
    count = 2 * POINTS_A_CALL + 1
    vectors = np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    bugs.send(make_corpus(np.arange(count)), vectors)
    assert bugs.client.count("bugs").count == count
    nearest = bugs.client.query_points("bugs", query=vectors[-1].tolist(), limit=3).points
    expected = np.argsort(-(vectors @ vectors[-1]))[:3]
    assert [point.payload["issue_id"] for point in nearest] == [str(1000 + row) for row in expected]


def test_a_collection_of_other_vectors_is_refused(bugs):
    bugs.check_size(4)  # there is none yet
    cosine = models.VectorParams(size=3, distance=models.Distance.COSINE)
    euclid = models.VectorParams(size=3, distance=models.Distance.EUCLID)
    for params, size, held in (
        (cosine, 4, "Cosine of 3 numbers"),
        (euclid, 3, "Euclid of 3 numbers"),
        ({"title": cosine}, 3, "named vectors"),
    ):
        bugs.client.delete_collection("bugs")
        bugs.client.create_collection("bugs", vectors_config=params)
        with pytest.raises(ValueError, match=f"the collection holds {held}, not Cosine of {size}: name another"):
            bugs.check_size(size)


@pytest.mark.parametrize(
    "out", ["qdrant://host:6333", "qdrant:///bugs", "qdrant://host/a/b", "qdrant://host:x/bugs", "ftp://host/bugs"]
)
def test_an_address_that_cannot_be_read_is_told(out):
    with pytest.raises(ValueError, match=f"out={out} must be a file that ends in .npz, or like qdrant://"):
        QdrantCollection(out)


def test_without_the_client_the_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    with pytest.raises(ValueError, match=r"pip install 'gedbd\[qdrant\]'"):
        QdrantCollection(OUT)


def test_a_silent_server_is_told_before_anything_is_read(encode):
    Path("empty.csv").touch()  # reading it would fail with another message
    with pytest.raises(SystemExit, match=r"out=qdrant://127.0.0.1:1/bugs: no Qdrant server answers there \(.*refused"):
        encode("dataset=csv", "dataset.path=empty.csv", "out=qdrant://127.0.0.1:1/bugs")


@pytest.mark.slow
def test_the_examples_of_the_manual(server, encode, monkeypatch, capsys):
    out = re.search(r"^gedbd encode .*(out=qdrant://\S*)", PAGE, flags=re.MULTILINE)[1]
    out = out.replace(":6333", f":{server.server_port}")
    for _ in range(2):
        told = encode(out)
    assert server.held.count("bugs").count == len(DEMO)
    assert server.calls.count(("PUT",)) == 1
    assert server.calls.count(("PUT", "points")) == 2 * -(-len(DEMO) // POINTS_A_CALL)
    assert f"{out.removeprefix('out=')}: 425 reports, 32 dimensions" in told
    with monkeypatch.context() as patch:
        patch.setattr(qdrant_client, "QdrantClient", lambda url: server.held)
        exec(re.search(r"```python\n(from qdrant_client.*?)```", PAGE, flags=re.DOTALL)[1], {})
    near = [line.split(" ", 2) for line in capsys.readouterr().out.splitlines()]
    assert len(near) == 5
    titles = dict(zip(DEMO["Issue_id"], DEMO["Title"], strict=True))
    assert all(title == titles[issue_id] for _, issue_id, title in near)
    encode("out=vectors.npz")
    with np.load("vectors.npz") as found:
        (row,) = np.flatnonzero(found["id"] == "2552")
        cosines = found["vectors"] @ found["vectors"][row]
        best = np.sort(np.delete(cosines, row))[::-1][:5]
    assert [float(score) for score, _, _ in near] == pytest.approx(best.tolist(), abs=6e-4)
    Path("empty.csv").touch()  # reading it would fail with another message
    with pytest.raises(SystemExit, match="the collection holds Cosine of 32 numbers, not Cosine of 64"):
        encode(out, "encoder.hidden=64", "dataset=csv", "dataset.path=empty.csv")


def test_the_key_is_sent_and_a_wrong_one_is_told(server, encode, monkeypatch):
    server.key = "sesame"
    out = f"out=qdrant://127.0.0.1:{server.server_port}/bugs"
    monkeypatch.setenv("QDRANT_API_KEY", "barley")
    with pytest.raises(SystemExit, match=r"the server returned 401 Unauthorized: is QDRANT_API_KEY right\?"):
        encode(out)
    monkeypatch.setenv("QDRANT_API_KEY", "sesame")
    encode(out)
    assert server.held.count("bugs").count == len(DEMO)
