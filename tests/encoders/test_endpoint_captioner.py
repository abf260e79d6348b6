"""Captions from an endpoint: a server on this machine that answers as such servers do, and misbehaves on request."""

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pandas as pd
import pytest
from chat_server import AT_ONCE, KEY, Endpoint, Reply, endpoint, refused, told
from local_server import running
from PIL import Image

from gedbd.encoders.captioning import Caption, EndpointCaptioner, data_url

SETTINGS: dict[str, Any] = {"name": "openai", "base_url": None, "model": "small", "prompt": "What is wrong?"}
SETTINGS |= {"max_tokens": 16, "temperature": 0.0, "seed": 0, "extra_body": {}, "max_side": 64}
SETTINGS |= {"concurrency": 2, "timeout": 20.0, "max_retries": 2}


def sent_image(request: dict[str, Any]) -> Image.Image:
    url = request["messages"][0]["content"][1]["image_url"]["url"]
    assert url.startswith("data:image/png;base64,")
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))


def width(request: dict[str, Any]) -> str:
    return f"an image {sent_image(request).width} pixels wide"


@pytest.fixture
def server(monkeypatch) -> Iterator[Endpoint]:
    with endpoint(monkeypatch, lambda request: told(width(request))) as server:
        yield server


@pytest.fixture
def other_server() -> Iterator[Endpoint]:
    with running(Endpoint()) as server:
        yield server


def captioner(**changed: Any) -> EndpointCaptioner:
    return EndpointCaptioner(**(SETTINGS | changed))


def pictures(*widths: int) -> list[Image.Image]:
    return [Image.new("RGB", (width, 9), "red") for width in widths]


def test_each_image_is_asked_about_in_a_request_of_its_own(server):
    found = captioner(extra_body={"top_p": 1}).describe(pictures(5, 6, 7))
    assert found == [Caption(f"an image {width} pixels wide") for width in (5, 6, 7)]
    assert len(server.requests) == 3
    request = server.requests[0]
    fields = {"path": "/v1/chat/completions", "model": "small", "max_tokens": 16, "temperature": 0.0, "seed": 0}
    assert request.items() >= (fields | {"top_p": 1}).items()
    assert request["messages"][0]["content"][0] == {"type": "text", "text": "What is wrong?"}
    assert all(headers["authorization"] == f"Bearer {KEY}" for headers in server.headers)
    captioner(max_tokens=None, temperature=None, seed=None).describe(pictures(5))
    assert set(server.requests[3]) == {"path", "model", "messages"}


def test_requests_run_side_by_side_but_no_more_than_allowed(server):
    server.silence.clear()
    thread = Thread(target=lambda: captioner(concurrency=3).describe(pictures(*range(1, 9))))
    thread.start()
    assert all(server.arrived.acquire(timeout=20) for _ in range(3))
    server.silence.set()
    thread.join()
    assert (server.most_running, len(server.requests)) == (3, 8)


def test_large_images_are_scaled_down_and_nothing_else_of_the_file_is_sent(server):
    image = Image.new("RGB", (640, 320), "red")
    image.info["comment"] = b"where it was taken"
    captioner().describe([image])
    sent = sent_image(server.requests[0])
    assert (sent.size, sent.mode, sent.info) == ((64, 32), "RGB", {})
    assert image.size == (640, 320)
    assert data_url(image, 999) == data_url(Image.new("RGB", (640, 320), "red"), 999)


def test_the_key_of_a_caption_is_made_of_what_is_asked_where(server, monkeypatch):
    changes = {"model": "large", "prompt": "Why?", "max_tokens": 17, "temperature": None, "seed": 1, "max_side": 65}
    changes |= {"extra_body": {"top_p": 1}, "base_url": "http://127.0.0.1:1/v1"}
    keys = {captioner(**{name: value}).key for name, value in changes.items()}
    assert len(keys | {captioner().key}) == len(changes) + 1
    monkeypatch.setenv("OPENAI_API_KEY", "another")
    assert captioner(concurrency=1, timeout=3, max_retries=0, base_url=f"{server.url}/").key == captioner().key


@pytest.mark.parametrize("fault", [refused(429, "slow down"), refused(500, ""), Reply(b"<html>", 503, AT_ONCE)])
def test_what_may_pass_is_asked_again(server, fault):
    server.faults = [fault, fault]
    assert captioner().describe(pictures(5)) == [Caption("an image 5 pixels wide")]
    assert len(server.requests) == 3


def test_what_keeps_failing_is_a_problem_of_its_image(server, caplog):
    server.answer = lambda request: (
        refused(429, f"slow down, {KEY}") if sent_image(request).width == 6 else told(width(request))
    )
    found = captioner(concurrency=1).describe(pictures(5, 6, 7, 6))
    problem = Caption("", "the endpoint returned 429", may_pass=True)
    assert found == [Caption("an image 5 pixels wide"), problem, Caption("an image 7 pixels wide"), problem]
    assert len(server.requests) == 2 + 2 * 3
    assert [record.getMessage() for record in caplog.records if record.name.startswith("gedbd")] == [
        f"{server.url}: the endpoint returned 429: slow down, ***"
    ]


NO_TEXT = Caption("", "the answer has no text")
NO_COMPLETION = Caption("", "the answer is not a chat completion", may_pass=True)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (told("  two\nlines \x1b[31m "), Caption("two lines [31m")),
        (refused(400, "the image shows what it may not show"), Caption("", "the endpoint returned 400")),
        (told(None), NO_TEXT),
        (told(["parts"]), NO_TEXT),
        (Reply(b"<!doctype html><p>Sign in"), NO_COMPLETION),
        (Reply({"choices": []}), NO_COMPLETION),
        (Reply({"choices": None}), NO_COMPLETION),
        (Reply(b"[" * 100_000), NO_COMPLETION),
        (told("x" * 500)._replace(sent=100), Caption("", "the connection to the endpoint failed", may_pass=True)),
    ],
)
def test_an_odd_answer_concerns_its_image_only(server, reply, expected):
    server.faults = [reply]
    assert captioner(concurrency=1, max_retries=0).describe(pictures(5, 6)) == [
        expected,
        Caption("an image 6 pixels wide"),
    ]
    assert len(server.requests) == 2


def test_an_endpoint_that_stays_silent_is_given_up(server):
    server.silence.clear()
    found = captioner(timeout=0.05, max_retries=1).describe(pictures(5))
    assert found == [Caption("", "the endpoint did not answer in time", may_pass=True)]
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (refused(401, f"wrong key {KEY}"), r"the endpoint returned 401 \(wrong key \*\*\*\); is OPENAI_API_KEY right"),
        (refused(403, ""), "the endpoint returned 403; is the owner of OPENAI_API_KEY allowed to use this model"),
        (
            refused(404, "no such model"),
            r"returned 404 \(no such model\); are captioner.base_url .* and captioner.model",
        ),
        (refused(429, "", code="insufficient_quota"), "the endpoint returned 429; the quota is used up"),
    ],
)
def test_what_would_be_refused_for_all_images_ends_the_run(server, reply, message):
    server.answer = lambda request: reply
    with pytest.raises(ValueError, match=message) as raised:
        captioner(max_retries=0).describe(pictures(5, 6))
    assert KEY not in str(raised.value)


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_elsewhere_gets_neither_image_nor_key(server, other_server, status):
    server.answer = lambda request: Reply(b"", status, {"Location": f"{other_server.url}/chat/completions?k={KEY}"})
    with pytest.raises(ValueError, match=r"redirects to http://127.0.0.1: nothing was sent there") as raised:
        captioner().describe(pictures(5))
    assert other_server.requests == []
    assert KEY not in str(raised.value)


@pytest.mark.parametrize(
    ("variables", "changed", "message"),
    [
        ({"OPENAI_BASE_URL": ""}, {}, "captioner.base_url is not set: .* OPENAI_BASE_URL=https://api.openai.com/v1"),
        ({"OPENAI_API_KEY": " "}, {}, "captioner=openai: set OPENAI_API_KEY to the API key of http://127"),
        ({}, {"base_url": "localhost:8000"}, "captioner.base_url=localhost:8000 must be an address"),
        ({}, {"base_url": f"http://me:{KEY}@host/v1"}, "captioner.base_url holds a name or password"),
        ({}, {"prompt": " "}, "captioner.prompt is empty"),
    ],
)
def test_settings_that_cannot_work_are_told_before_anything_is_sent(server, monkeypatch, variables, changed, message):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=message) as raised:
        captioner(**changed)
    assert KEY not in str(raised.value)
    assert server.requests == []


@pytest.fixture
def run(server, run_command):
    """Runs the command on ten images, as a user does."""
    names = [f"{number}.png" for number in range(10)]
    for number, name in enumerate(names):
        Image.new("RGB", (10 + number, 9)).save(name)
    reports = {"Issue_id": names, "Title": "t", "Duplicated_issue": "", "Attachments": names}
    pd.DataFrame(reports).to_csv("tracker.csv", index=False)
    needed = ["dataset=csv", "dataset.path=tracker.csv", "captioner=openai", "captioner.max_retries=0"]

    def through(*options: str) -> pd.DataFrame:
        print(run_command("caption", *needed, "captioner.concurrency=1", "batch_size=2", "out=captions.csv", *options))
        return pd.read_csv("captions.csv", dtype=str, keep_default_na=False).set_index("image")

    return through


@pytest.mark.integration
def test_the_command_says_what_it_sends_counts_failures_and_goes_on(server, run, capsys):
    bad = {12: 429, 13: 400, 17: 429}
    server.answer = lambda request: (
        refused(bad[size], "") if (size := sent_image(request).width) in bad else told(width(request))
    )
    found = run()
    told_lines = capsys.readouterr()
    assert "tracker: 10 images will be sent to " + server.url + " (unencrypted), model gpt-4.1-mini" in told_lines.out
    assert "dataset images leave this machine" in told_lines.out
    assert "images not described: 2 (the endpoint returned 429; first: 2.png of report 2.png" in told_lines.out
    assert "10 of them different: 7 newly described in" in told_lines.out
    assert found.loc["0.png"].tolist()[1:] == ["an image 10 pixels wide", "described"]
    assert found.loc["3.png"].tolist()[1:] == ["", "the endpoint returned 400"]
    assert found["status"].value_counts()["the endpoint returned 429"] == 2
    server.answer = lambda request: told(width(request))
    assert (run()["status"] == "described").all()
    assert len(server.requests) == 10 + 3
    assert "3 images will be sent" in capsys.readouterr().out
    assert (run()["status"] == "described").all()
    assert len(server.requests) == 10 + 3
    printed = capsys.readouterr()
    files = [path.read_bytes() for path in Path().rglob("*") if path.is_file()]
    assert not any(KEY.encode() in content for content in files)
    assert KEY not in told_lines.out + told_lines.err + printed.out + printed.err


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (refused(500, ""), r"none of 2 images could be described \(the endpoint returned 500\): check"),
        (refused(401, "who are you"), "the endpoint returned 401"),
    ],
)
def test_an_endpoint_that_describes_nothing_is_told_after_one_batch(server, run, reply, message):
    server.answer = lambda request: reply
    with pytest.raises(SystemExit, match=message):
        run()
    assert len(server.requests) <= 2
    assert not Path("captions.csv").exists()


@pytest.mark.integration
def test_an_endpoint_that_dies_ends_the_run_which_goes_on_later(server, run):
    server.answer = lambda request: told("seen") if len(server.requests) <= 2 else refused(503, "")
    with pytest.raises(
        SystemExit, match=r"none of 1 images could be described .*503\), 5 batches in a row: run the same command"
    ):
        run("batch_size=1")
    assert len(server.requests) == 2 + 5
    server.answer = lambda request: told("seen")
    assert (run()["status"] == "described").all()
    assert len(server.requests) == 7 + 8
