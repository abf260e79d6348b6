import json
import os
import shutil
from pathlib import Path

import pytest
from filelock import FileLock

from gedbd.corpora.clients import tracker_fetch
from gedbd.corpora.clients.github_client import GitHub
from gedbd.corpora.clients.tracker_client import Client
from gedbd.corpora.clients.tracker_fetch import fetch_tracker
from gedbd.io import unpacking
from gedbd.io.locks import RUN_LOCK

pytestmark = pytest.mark.integration


def fetched(out: Path) -> list[dict]:
    return [record for file in sorted((out / "pages").iterdir()) for record in json.loads(file.read_text())]


def run(records, out, make_client, **more):
    return fetch_tracker(records.tracker, records.project, out, 10, make_client=make_client, **more)


def names(records, found):
    return {str(record[records.key]) for record in found}


def test_all_issues_come_as_numbered_pages_and_later_what_changed(any_tracker, tmp_path, make_client):
    out = tmp_path / "new" / "out"
    line = run(any_tracker, out, make_client)
    count = 7 if any_tracker.tracker.name == "github" else 5
    assert len(fetched(out)) == len(names(any_tracker, fetched(out))) == count
    assert f"{count} issues, {-(-count // 2)} pages in all" in line
    assert sorted(path.name for path in (out / "pages").iterdir())[:2] == ["000001.json", "000002.json"]
    assert not list(tmp_path.rglob("*.part"))
    before = {path.name: path.read_bytes() for path in (out / "pages").iterdir()}
    assert "0 new or changed issues" in run(any_tracker, out, make_client)
    assert {path.name: path.read_bytes() for path in (out / "pages").iterdir()} == before
    changed = any_tracker.change()
    line = run(any_tracker, out, make_client)
    after = {path.name: path.read_bytes() for path in (out / "pages").iterdir()}
    assert {name: after[name] for name in before} == before
    new = [record for name in after.keys() - before.keys() for record in json.loads(after[name])]
    assert names(any_tracker, new) == changed
    assert f"{len(changed)} new or changed issues since 20" in line


def stopped_before_a_request(records, out, make_client, monkeypatch, before):
    left = [before % (1 + len(records.server.asked))]  # -1 is the last of those of a whole fetch

    class Stopped(Client):
        def get(self, *args):
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt
            return super().get(*args)

    run(records, out, Stopped)


def stopped_between_files(records, out, make_client, monkeypatch, before):
    left = [before]

    def replace(*paths):
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        os.rename(*paths)

    monkeypatch.setattr(tracker_fetch.os, "replace", replace)
    run(records, out, make_client)


def refused(records, out, make_client, monkeypatch, before):
    left = [before]

    def answer(path, query):
        left[0] -= 1
        plain = records.answer(path, query)
        return plain if left[0] else plain._replace(content={"message": "expired"}, status=401)

    monkeypatch.setattr(records.server, "answer", answer)
    run(records, out, make_client)


def out_of_space(records, out, make_client, monkeypatch, before):
    monkeypatch.setattr(unpacking, "RESERVE_BYTES", shutil.disk_usage(out.parent).total)
    run(records, out, make_client)


@pytest.mark.parametrize(
    ("failing", "before", "message"),
    [
        *((stopped_before_a_request, before, None) for before in (1, 3, -2)),
        *((stopped_between_files, before, None) for before in (1, 2, 7)),
        (refused, 3, "the server returned 401"),
        (out_of_space, 0, r"bytes are free.* set out= "),
    ],
)
def test_a_fetch_that_failed_goes_on_with_the_same_result(
    any_tracker, tmp_path, make_client, monkeypatch, failing, before, message
):
    run(any_tracker, tmp_path / "whole", make_client)
    asked = len(any_tracker.server.asked)
    with monkeypatch.context() as patch, pytest.raises((KeyboardInterrupt, ValueError), match=message):
        failing(any_tracker, tmp_path / "out", make_client, patch, before)
    run(any_tracker, tmp_path / "out", make_client)
    assert fetched(tmp_path / "out") == fetched(tmp_path / "whole")
    assert len(any_tracker.server.asked) <= 2 * asked + 3  # it goes on where it ended, and repeats what failed


def test_an_update_that_failed_goes_on_as_an_update(github, tmp_path, make_client, reply):
    run(github, tmp_path, make_client)
    changed = github.change()
    first = github.answer("/repos/owner/repo/issues/comments", {"per_page": ["2"], "since": ["2999"]})
    github.server.faults = [first, *[reply({}, 500)] * 6]
    with pytest.raises(ValueError, match="6 times in a row"):
        run(github, tmp_path, make_client)
    assert f"{len(changed)} new or changed issues" in run(github, tmp_path, make_client)


@pytest.mark.parametrize(
    ("project", "options", "message"),
    [
        ("owner/other", {}, "was fetched with project=owner/repo: choose another folder"),
        ("owner/repo", {"base_url": "https://api.github.com"}, r"was fetched with base_url=http://127\.0\.0\.1"),
        ("owner/repo", {"comments": False}, "was fetched with comments=True"),
    ],
)
def test_another_trackers_folder_is_refused(github, tmp_path, make_client, project, options, message):
    run(github, tmp_path, make_client)
    tracker = GitHub(**{**vars(github.tracker), **options})
    with pytest.raises(ValueError, match=message):
        fetch_tracker(tracker, project, tmp_path, 10, make_client=make_client)


def test_a_folder_or_a_file_with_something_else_is_refused_and_left_alone(github, tmp_path, make_client):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(ValueError, match="exists and holds other files"):
        run(github, tmp_path, make_client)
    with pytest.raises(ValueError, match="is not writable"):
        run(github, tmp_path / "thesis.tex", make_client)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("content", ["{", "[]", '{"tracker": {}, "pages": "x"}', {"next": "x"}, {"pages": True}])
def test_a_damaged_state_is_refused(github, tmp_path, make_client, content):
    run(github, tmp_path, make_client)
    state = tmp_path / "state.json"
    if isinstance(content, dict):
        content = json.dumps(json.loads(state.read_text()) | {"complete": False} | content)
    state.write_text(content)
    with pytest.raises(ValueError, match=r"state\.json: damaged .*fetch into another folder"):
        run(github, tmp_path, make_client)


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("damage", ["missing", "cut", "zeros"])
def test_a_page_that_was_damaged_is_found_before_anything_is_requested(github, tmp_path, make_client, damage, complete):
    run(github, tmp_path, make_client)
    state = json.loads((tmp_path / "state.json").read_text())
    (tmp_path / "state.json").write_text(json.dumps(state | {"complete": complete}))
    page = tmp_path / "pages" / "000002.json"
    content = page.read_bytes()
    page.write_bytes({"cut": content[:-5], "zeros": bytes(len(content))}.get(damage, b""))
    if damage == "missing":
        page.unlink()
    asked = len(github.server.asked)
    with pytest.raises(ValueError, match=r"000002\.json: missing or damaged .* fetch into another folder"):
        run(github, tmp_path, make_client)
    assert len(github.server.asked) == asked


def test_a_second_fetch_into_the_folder_is_refused(github, tmp_path, make_client):
    with FileLock(tmp_path / RUN_LOCK), pytest.raises(ValueError, match=r"is in use by .*another folder"):
        run(github, tmp_path, make_client)
    assert github.server.asked == []
    run(github, tmp_path, make_client)


def test_a_tracker_without_issues_is_an_error(bugzilla, tmp_path, make_client):
    with pytest.raises(ValueError, match="Mail Clint has no visible issues: check project="):
        fetch_tracker(bugzilla.tracker, "Mail Clint", tmp_path, 10, make_client=make_client)
    run(bugzilla, tmp_path, make_client)


def test_the_command_fetches_and_shows_no_token(github, tmp_path, monkeypatch, run_command):
    monkeypatch.setenv("GITHUB_TOKEN", "s3cret")
    options = [f"tracker.base_url={github.server.url}/", "out=out", "tracker.page_size=3"]
    printed = run_command("fetch", "tracker=github", "project=owner/repo", *options)
    assert "out: 7 issues, 3 pages in all; dataset.path=out/pages reads them" in printed
    assert all(headers["Authorization"] == "Bearer s3cret" for headers in github.server.headers)
    assert "s3cret" not in printed
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()]


def test_every_option_of_the_tracker_works(any_tracker, run_command):
    options = [f"tracker={any_tracker.tracker.name}", f"project={any_tracker.project}"]
    printed = run_command("fetch", *options, f"tracker.base_url={any_tracker.server.url}", "out=out")
    assert "issues, 1 pages in all" in printed


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["out=x"], "project= is required, "),
        (["project=a/b", "out=x", "tracker.page_size=0"], "tracker.page_size=0 must be between 1 and 1000"),
        (["project=X", "out=x", "tracker=bugzilla", "tracker.base_url=host"], "tracker.base_url=host must be"),
    ],
)
def test_the_command_refuses_bad_input(overrides, message, tmp_path, run_command):
    with pytest.raises(SystemExit, match=message):
        run_command("fetch", *overrides)
    assert not (tmp_path / "x").exists()
