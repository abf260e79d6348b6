"""Suspect commits in the API, over a small repository whose bugs are known."""

import shutil
import threading

import pytest
from fastapi.testclient import TestClient
from small_repository import NAMES, make_repository

from gedbd.localization.change_ranking.change_ranker import default_ranker
from gedbd.localization.locating.repository_index import Located, Update
from gedbd.localization.locating.tracker_ranker import (
    DEFAULT_MEASURED,
    HIT_RATE,
    HitRate,
    HitRates,
    TrackerRanker,
    fixes_as_json,
)
from gedbd.service.app import create_app
from gedbd.service.suspects import SuspectFinder, open_suspects

NUM_BUGS = 4
REPORT = {
    "title": f"{NAMES[1]}: the last line is lost",
    "description": f"count{NAMES[1]} of {NAMES[1]}Reader is wrong.",
}


@pytest.fixture
def repo(tmp_path):
    """The folder of the repository and the ids of its commits."""
    folder = tmp_path / "project.git"
    return folder, make_repository(folder, NUM_BUGS)


@pytest.fixture
def finder(repo, tmp_path):
    """Finds suspect commits; its index is up to date."""
    opened = open_suspects(str(repo[0]), None, str(tmp_path / "cache"))
    opened.update()
    return opened


@pytest.fixture
def client(index, finder):
    """The service over the small index and the repository."""
    with TestClient(create_app(index, suspects=finder), base_url="http://localhost") as started:
        yield started


def test_the_inducing_commit_is_found_with_its_lines(client, repo):
    answer = client.post("/api/locate", json={**REPORT, "top_k": 3, "top_commits": 12})
    assert answer.status_code == 200
    found = answer.json()
    assert found["repository"] == "project.git"
    assert (found["commit"], found["num_commits"], found["num_ranked"]) == (repo[1][-1], 12, 12)
    assert (found["statement"], found["problem"]) == (DEFAULT_MEASURED, "")
    assert [change["rank"] for change in found["changes"]] == list(range(1, len(found["changes"]) + 1))
    inducing = next(change for change in found["changes"] if change["id"] == repo[1][4])
    assert (inducing["title"], inducing["created_at"][:10]) == (f"Simplify {NAMES[1]}Reader", "2021-02-01")
    assert inducing["hunks"][0]["path"] == f"src/{NAMES[1]}Reader.java"
    lines = inducing["hunks"][0]["lines"]
    assert all(line["text"][start:end].isidentifier() for line in lines for start, end in line["spans"])
    first, second, third = found["files"]
    assert (first["path"], first["rank"]) == (f"src/{NAMES[1]}Reader.java", 1)
    assert "named in the report" in first["explanation"]
    assert first["probability"] > second["probability"] >= third["probability"]
    (place, *_) = first["places"]
    assert f"{NAMES[1]}Reader" in place["name"]
    assert place["commits"][0]["title"].endswith(f"{NAMES[1]}Reader")
    assert (found["files_commit"], found["num_files"], found["skipped_files"]) == (repo[1][-1], NUM_BUGS, {})
    assert "Thor" not in answer.text
    assert "ada@example.org" not in answer.text
    earlier = client.post("/api/locate", json={**REPORT, "created_at": "2021-02-02T00:00:00Z"}).json()
    assert earlier["num_ranked"] == 5
    assert {change["id"] for change in earlier["changes"]} <= set(repo[1][:5])


def test_health_tells_whether_there_is_a_repository(client, client_of):
    assert client.get("/api/health").json()["locates"] is True
    without = client_of()
    assert without.get("/api/health").json()["locates"] is False
    refused = without.post("/api/locate", json=REPORT)
    assert refused.status_code == 404
    assert "repo=" in refused.json()["detail"]
    assert "/api/locate" in client.get("/openapi.json").json()["paths"]
    assert "/api/locate" not in without.get("/openapi.json").json()["paths"]


def test_what_is_no_report_is_refused(client):
    wrong = ({**REPORT, "top_k": 0}, {**REPORT, "top_commits": -1}, {**REPORT, "author": "Ada"})
    for body in ({}, {"title": " "}, *wrong):
        answer = client.post("/api/locate", json=body)
        assert answer.status_code == 422, body
        assert set(answer.json()) == {"detail"}


def test_a_repository_that_vanishes_leaves_the_service_up_and_comes_back_with_more_commits(client, finder, repo):
    shutil.rmtree(repo[0])
    finder.update()
    assert "could not be read" in finder.problem
    answer = client.post("/api/locate", json=REPORT)
    assert answer.status_code == 503
    assert "the repository cannot be read at the moment" in answer.json()["detail"]
    assert client.post("/api/search", json={"title": "attachment"}).status_code == 200
    ids = make_repository(repo[0], NUM_BUGS + 1)
    finder.update()
    named = {"title": f"{NAMES[NUM_BUGS]}Reader loses a line"}
    found = client.post("/api/locate", json={**named, "top_commits": 15}).json()
    assert (found["num_commits"], found["problem"]) == (15, "")
    assert {change["id"] for change in found["changes"]} >= set(ids[-3:])


def test_before_the_first_update_it_says_so(index, repo, tmp_path):
    opened = open_suspects(str(repo[0]), None, str(tmp_path / "other"))
    found = opened.find(index.get("12"), 5)
    assert (found.files, found.changes) == ([], [])
    assert found.problem == "the repository is being indexed for the first time"


class Failing:
    """A repository whose updates fail, and that counts them."""

    commit = ""

    ranker = TrackerRanker(default_ranker(), statement="bad \ud800 text")

    def __init__(self):
        self.twice = threading.Semaphore(0)

    def update(self, wait=True):
        self.twice.release()
        raise ValueError("the disk is on fire")

    def locate(self, query, limits):
        return Located()

    def facts(self, query):
        return {"repository": "r", "commit": "", "num_commits": 0, "num_ranked": 0}


def test_the_thread_goes_on_after_an_error(index, caplog):
    repository = Failing()
    finder = SuspectFinder(repository, update_s=0.001)
    with TestClient(create_app(index, suspects=finder), base_url="http://localhost") as client:
        assert all(repository.twice.acquire(timeout=10) for _ in range(2))
        assert client.post("/api/locate", json=REPORT).json()["problem"].endswith("the disk is on fire")
    assert finder.worker.join(0)
    assert "the disk is on fire" in caplog.text


def test_texts_of_commits_are_cut_and_storable(index):
    repository = Failing()
    repository.update = lambda wait=True: Update(warnings=("odd",))
    assert SuspectFinder(repository).update() == 60.0
    with TestClient(create_app(index, suspects=SuspectFinder(repository))) as client:
        found = client.post("http://localhost/api/locate", json=REPORT).json()
    assert found["statement"] == "bad \ufffd text"


def test_the_figure_of_a_backtest_is_shown(repo, tmp_path, finder):
    run = tmp_path / "run"
    run.mkdir()
    (run / "ranker.json").write_text(default_ranker().to_text())
    (run / "fixes.json").write_text(fixes_as_json([]))
    figure = HitRate("shop", 0.5, "met", 120, 73, 73 / 120, 0.52, 0.7, "2020-01-02", "2021-03-04", True)
    rates = HitRates(figure, figure)
    (run / HIT_RATE).write_text(rates.as_json())
    assert open_suspects(str(repo[0]), str(run), str(tmp_path)).statement == rates.statements


@pytest.mark.parametrize(
    ("repo_name", "run", "message"),
    [
        (None, "run", "locate_run=run needs a repository: add repo=PATH"),
        ("project.git", "nowhere", "nowhere"),
        ("elsewhere", None, "elsewhere"),
    ],
)
def test_wrong_options_are_refused(repo, tmp_path, monkeypatch, repo_name, run, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, OSError), match=message):
        open_suspects(repo_name, run, str(tmp_path / "cache"))
    assert open_suspects(None, None, str(tmp_path)) is None
