"""Serve, webhook and ``gedbd sync`` over one index, while a tracker changes and processes are killed.

What GitHub delivered and the service acknowledged must neither be lost nor return: the index never goes back to an
earlier state of an issue than the one whose delivery was acknowledged, and never shows a deleted issue again.
"""

import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import requests
from check import HEADERS, wait_for_deliveries
from local_server import Answering, LocalServer, running
from rich.console import Console
from server import SECRET, Server
from small_github import FAULTS, NOUNS, PLACES, REPOSITORY
from webhook_events import signed

ROOT = f"/repos/{REPOSITORY}/issues"
ISSUES = 150
START = datetime(2020, 1, 1, tzinfo=UTC)
SPEED = 60  # seconds of the tracker in one of ours: its clock differs, and fetches ask for little more than is new
PAUSE_S = (0.0, 0.8)  # between two changes
LAG_S = (0.0, 3.0)  # how old the state is that a list shows
ANSWER_S = (0.0, 0.4)  # time of an answer; a fetch of all issues takes some seconds
LIMITED = 0.05  # share of requests that the rate limit refuses
MAX_DRAIN_S = 120.0
PRELOADED = [  # for processes of syncs, which then last as long as their work
    *("torch", "transformers", "sklearn.isotonic", "gedbd.commands.sync", "gedbd.triage.index_building"),
    *("gedbd.encoders.loaded_encoder", "gedbd.corpora.readers.auto", "gedbd.corpora.readers.github"),
    *("gedbd.corpora.clients.github_client", "gedbd.service.later_states"),
]
KINDS = {"open": 30, "edit": 40, "comment": 10, "mark": 6, "unmark": 4, "delete": 7, "transfer": 3}
FATES = {"at once": 70, "late": 20, "twice": 7, "lost": 3}  # of a delivery


@dataclass
class Version:
    """A state of an issue from a moment on; ``record`` is None once it is gone."""

    since: float  # of our monotonic clock
    moment: int  # number of our second, which is what the tracker's times tell
    record: dict[str, Any] | None


@dataclass
class Truth:
    """What happened to one issue, and what was acknowledged of it.

    Attributes:
        versions: Its states, oldest first.
        acknowledged: The latest moment of a state whose delivery was acknowledged; -1 if none was.
        is_gone_acknowledged: Whether a deletion or transfer was acknowledged.
        was_missing: Whether the service did not know it after that.
    """

    versions: list[Version] = field(default_factory=list)
    acknowledged: int = -1
    is_gone_acknowledged: bool = False
    was_missing: bool = False


class Answers(Answering):
    server: "ChangingGitHub"

    def date_time_string(self, timestamp: float | None = None) -> str:
        return f"{self.server.time_of(self.server.now()):%a, %d %b %Y %H:%M:%S GMT}"

    def get(self) -> None:
        hub = self.server
        time.sleep(hub.random.uniform(*ANSWER_S))
        if hub.random.random() < LIMITED:
            self.answer(429, {"message": "rate limit"}, {"Retry-After": "1"})
            return
        url = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        records = hub.listed(url.path, asked.get("since", ""))
        if records is None:
            self.answer(404, {"message": "Not Found"})
            return
        # As GitHub's cursors do: the next page begins behind the last record of this one.
        behind = [record for record in records if record["key"] > int(asked.get("after", -1))]
        size = int(asked["per_page"])
        headers = {}
        if len(behind) > size:
            further = urlencode(asked | {"after": str(behind[size - 1]["key"])})
            headers["Link"] = f'<{hub.url}{url.path}?{further}>; rel="next"'
        self.answer(200, [{k: v for k, v in one.items() if k != "key"} for one in behind[:size]], headers)


class ChangingGitHub(LocalServer):
    """A GitHub whose lists are up to three seconds behind, and whose clock differs and runs faster."""

    handler = Answers
    daemon_threads = True
    block_on_close = False

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = random.Random(f"{seed} hub")
        self.began = time.monotonic()
        self.turn = threading.RLock()
        self.issues: dict[int, Truth] = {}
        self.comments: dict[int, list[Version]] = {}
        self.events: list[tuple[float, dict[str, Any]]] = []

    def now(self) -> int:
        """Number of the current second."""
        return int(time.monotonic() - self.began)

    def time_of(self, moment: int) -> datetime:
        """What the tracker's clock says in one of our seconds."""
        return START + timedelta(seconds=SPEED * moment)

    def stamp(self, moment: int) -> str:
        return f"{self.time_of(moment):%Y-%m-%dT%H:%M:%SZ}"

    def current(self, number: int) -> dict[str, Any] | None:
        return self.issues[number].versions[-1].record

    def write(self, versions: list[Version], record: dict[str, Any] | None) -> None:
        """Adds a state of an issue or comment."""
        moment = self.now()
        if record is not None:
            record = record | {"updated_at": self.stamp(moment)}
        versions.append(Version(time.monotonic(), moment, record))

    def listed(self, path: str, since: str) -> list[dict[str, Any]] | None:
        """The records of a list, as of a moment in the last seconds; ``key`` gives their order."""
        with self.turn:
            shown = time.monotonic() - self.random.uniform(*LAG_S)
            if path == f"{ROOT}/events":
                events = [event for since_s, event in self.events if since_s <= shown]
                return [event | {"key": place} for place, event in enumerate(reversed(events))]
            if path == ROOT:
                histories = {number: truth.versions for number, truth in self.issues.items()}
            elif path == f"{ROOT}/comments":
                histories = self.comments
            else:
                return None
            records = []
            for key, versions in sorted(histories.items()):
                seen = [version for version in versions if version.since <= shown]
                if seen and seen[-1].record is not None and seen[-1].record["updated_at"] >= since:
                    records.append(seen[-1].record | {"key": key})
            return records

    def handle_error(self, request: object, client_address: object) -> None:
        """The process that asked was killed."""


class Life(threading.Thread):
    """Changes the tracker and delivers its events, some of them late, twice or never."""

    def __init__(self, hub: ChangingGitHub, server: Server, seed: int) -> None:
        super().__init__(name="life", daemon=True)
        self.hub, self.server = hub, server
        self.random = random.Random(f"{seed} life")
        self.go, self.idle, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.counts: Counter[str] = Counter()
        self.under_way = 0
        self.deliveries = 0
        for _ in range(ISSUES):
            self.open()

    def run(self) -> None:
        while not self.ended.is_set():
            if not self.go.wait(0.05):
                self.idle.set()
                continue
            self.idle.clear()
            with self.hub.turn:
                event = getattr(self, self.random.choices(list(KINDS), list(KINDS.values()))[0])()
            if event is not None:
                self.send(*event)
            time.sleep(self.random.uniform(*PAUSE_S))

    def pause(self) -> None:
        """Waits until nothing changes and no delivery is under way."""
        self.go.clear()
        self.idle.clear()
        self.idle.wait(10)
        until = time.monotonic() + MAX_DRAIN_S
        while self.under_way:
            assert time.monotonic() < until, "a delivery does not end"
            time.sleep(0.05)

    def text(self) -> str:
        words = [self.random.choice(choices) for choices in (NOUNS, FAULTS, PLACES)]
        self.counts["texts"] += 1
        return f"The {words[0]} {words[1]} after {words[2]}, text {self.counts['texts']}"

    def some(self) -> int | None:
        """An issue that is there; newer ones more often."""
        there = [number for number in self.hub.issues if self.hub.current(number) is not None]
        return there[int(len(there) * self.random.random() ** 0.5)] if there else None

    def open(self) -> tuple[Any, ...]:
        number = len(self.hub.issues) + 1
        truth = self.hub.issues[number] = Truth()
        issue = {"number": number, "title": self.text(), "body": "It does.", "state": "open", "labels": []}
        page = f"https://github.com/{REPOSITORY}/issues/{number}"
        self.hub.write(truth.versions, issue | {"html_url": page, "created_at": self.hub.stamp(self.hub.now())})
        return "opened", number, truth.versions[-1].record

    def edit(self) -> tuple[Any, ...] | None:
        number = self.some()
        if number is None:
            return None
        former = self.hub.current(number) or {}
        title = self.text()
        self.hub.write(self.hub.issues[number].versions, former | {"title": title})
        renamed = {"id": len(self.hub.events) + 1, "event": "renamed", "created_at": self.hub.stamp(self.hub.now())}
        renamed |= {"issue": {"number": number}, "rename": {"from": former["title"], "to": title}}
        self.hub.events.append((time.monotonic(), renamed))
        return "edited", number, self.hub.current(number)

    def comment(self) -> None:
        """A comment that nobody is told of changes only the time of the issue."""
        number = self.some()
        if number is not None:
            self.hub.write(self.hub.issues[number].versions, self.hub.current(number))

    def mark(self) -> tuple[Any, ...] | None:
        """A member calls an issue a duplicate of another one."""
        number, other = self.some(), self.some()
        if number is None or other in (number, None):
            return None
        key = len(self.hub.comments) + 1
        versions = self.hub.comments[key] = []
        address = f"{self.hub.url}{ROOT}/{number}"
        comment = {"id": key, "body": f"Duplicate of #{other}", "issue_url": address, "user": {"login": "ann"}}
        comment |= {"author_association": "MEMBER", "created_at": self.hub.stamp(self.hub.now())}
        self.hub.write(versions, comment)
        self.comment_changes(number)
        return "created", number, self.hub.current(number), versions[-1].record

    def unmark(self) -> tuple[Any, ...] | None:
        """The comment is deleted."""
        there = [key for key, versions in self.hub.comments.items() if versions[-1].record is not None]
        if not there:
            return None
        versions = self.hub.comments[self.random.choice(there)]
        comment = versions[-1].record or {}
        number = int(comment["issue_url"].rpartition("/")[2])
        issue = self.hub.current(number)
        if issue is None:
            return None
        self.hub.write(versions, None)
        return "deleted", number, issue, comment

    def comment_changes(self, number: int) -> None:
        self.hub.write(self.hub.issues[number].versions, self.hub.current(number))

    def delete(self, action: str = "deleted") -> tuple[Any, ...] | None:
        number = self.some()
        if number is None:
            return None
        last = self.hub.current(number)
        self.hub.write(self.hub.issues[number].versions, None)
        return action, number, last

    def transfer(self) -> tuple[Any, ...] | None:
        return self.delete("transferred")

    def send(self, action: str, number: int, issue: dict[str, Any], comment: dict[str, Any] | None = None) -> None:
        """Delivers an event in a thread of its own, as its fate says."""
        self.deliveries += 1
        fate = self.random.choices(list(FATES), list(FATES.values()))[0]
        self.counts[f"delivered {fate}"] += 1
        if fate == "lost":
            return
        delay = self.random.uniform(0, 4) if fate == "late" else 0.0
        event = {"action": action, "issue": issue, "repository": {"full_name": REPOSITORY}}
        kind = "issues" if comment is None else "issue_comment"
        sent = signed(event if comment is None else event | {"comment": comment}, kind, f"d{self.deliveries}", SECRET)
        moment = self.hub.issues[number].versions[-1].moment
        is_of_issue = comment is None
        with self.hub.turn:
            self.under_way += 1

        def deliver() -> None:
            try:
                for _ in range(2 if fate == "twice" else 1):
                    if self.put(sent) and is_of_issue:
                        self.acknowledge(number, action, moment)
            finally:
                with self.hub.turn:
                    self.under_way -= 1

        timer = threading.Timer(delay, deliver)
        timer.daemon = True
        timer.start()

    def put(self, sent: dict[str, Any]) -> bool:
        """Sends a request until it is answered; whether it was acknowledged. The service may be down for a while."""
        address = f"http://localhost:{self.server.port}/webhooks/github"
        for _ in range(60):
            try:
                answer = requests.post(address, data=sent["content"], headers=sent["headers"], timeout=20)
            except requests.RequestException:
                time.sleep(0.5)
                continue
            if answer.status_code in (200, 202):
                return True
            self.counts[f"answered {answer.status_code}"] += 1
            time.sleep(0.5)
        return False

    def acknowledge(self, number: int, action: str, moment: int) -> None:
        with self.hub.turn:
            self.counts["acknowledged"] += 1
            self.counts[f"acknowledged {action}"] += 1
            truth = self.hub.issues[number]
            if action in ("deleted", "transferred"):
                truth.is_gone_acknowledged = True
            truth.acknowledged = max(truth.acknowledged, moment)


class Watcher(threading.Thread):
    """Looks at deleted issues all the time: once the service does not know one, it must stay so."""

    def __init__(self, hub: ChangingGitHub, server: Server, seed: int) -> None:
        super().__init__(name="watcher", daemon=True)
        self.hub, self.server = hub, server
        self.random = random.Random(f"{seed} watcher")
        self.looked = 0
        self.returned: list[str] = []
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.02):
            with self.hub.turn:
                gone = [number for number, truth in self.hub.issues.items() if truth.is_gone_acknowledged]
            if not gone:
                continue
            number = gone[int(len(gone) * self.random.random() ** 0.5)]
            try:
                title = stored_title(self.server, number)
            except (requests.RequestException, RuntimeError):
                continue  # it is down
            truth = self.hub.issues[number]
            self.looked += 1
            if title is not None and truth.was_missing:
                self.returned.append(f"issue {number}: {title}")
            truth.was_missing |= title is None


def stored_title(server: Server, number: int) -> str | None:
    """Title of a stored issue; None if there is none."""
    address = f"http://localhost:{server.port}/api/reports/{number}"
    answer = requests.get(address, headers=HEADERS, timeout=30)
    if answer.status_code == 404:
        return None
    if answer.status_code != 200:
        raise RuntimeError(f"{address} answers {answer.status_code}")
    return str(answer.json()["title"])


def differences(hub: ChangingGitHub, server: Server, is_final: bool = False) -> Iterator[str]:
    """Issues that the index shows in an earlier state than acknowledged, or in the end in another than the tracker."""
    for number, truth in hub.issues.items():
        title = stored_title(server, number)
        current = truth.versions[-1].record
        if is_final:
            allowed = {None if current is None else current["title"]}
        elif truth.is_gone_acknowledged:
            allowed = {None}
        else:
            allowed = {
                None if version.record is None else version.record["title"]
                for version in truth.versions
                if version.moment >= truth.acknowledged
            }
            if truth.acknowledged < 0:  # only lists tell of it, which are behind
                allowed.add(None)
        if title not in allowed:
            yield f"issue {number}: {title!r}, not {sorted(map(str, allowed))[:3]}"


class Syncs:
    """Runs ``gedbd sync``, and kills some of its processes."""

    def __init__(self, server: Server, hub: ChangingGitHub, seed: int) -> None:
        self.server, self.hub = server, hub
        self.random = random.Random(f"{seed} syncs")
        self.counts: Counter[str] = Counter()
        self.lasts_s = 8.0
        self.log = server.work / "sync.log"
        self.processes = get_context("forkserver")
        self.processes.set_forkserver_preload(PRELOADED)

    def run(self, may_kill: bool = True) -> None:
        """One call, which may be killed at any moment."""
        options = [
            "project=" + REPOSITORY,
            "tracker=github",
            f"tracker.base_url={self.hub.url}",
            "tracker.page_size=20",
        ]
        words = [f"index={self.server.index}", *options, "encoder=tiny"]
        begun = time.monotonic()
        process = self.processes.Process(target=_sync, args=(words, self.server.environment(), str(self.log)))
        process.start()
        if may_kill and self.random.random() < 0.4:
            process.join(self.random.uniform(0.1, 1.0) * self.lasts_s)
            if process.is_alive():
                process.kill()
                self.counts["syncs killed"] += 1
        process.join()
        if process.exitcode == 0:
            self.counts["syncs completed"] += 1
            self.lasts_s = 0.5 * self.lasts_s + 0.5 * (time.monotonic() - begun)
        elif process.exitcode != -signal.SIGKILL:
            self.counts[f"syncs with status {process.exitcode}"] += 1


def _sync(words: list[str], environment: dict[str, str], log: str) -> None:
    """The command, in a process that has imported most of it."""
    os.environ.update(environment)
    sys.argv = ["gedbd", *words]
    with open(log, "a") as stream, redirect_stdout(stream), redirect_stderr(stream):
        import_module("gedbd.commands.sync").main()


def follow(minutes: float, seed: int, out: Path, console: Console) -> dict[str, object]:
    """The whole test; gives its figures, and keeps the logs in a folder."""
    choices = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, running(ChangingGitHub(seed)) as hub:
        work = Path(folder)
        server = Server(work / "index", work, hub.url, options=())
        syncs = Syncs(server, hub, seed)
        life = Life(hub, server, seed)
        console.print("building the index ...")
        syncs.run(may_kill=False)
        with server.proxy():
            try:
                return _follow(server, hub, life, syncs, choices, minutes, console)
            finally:
                server.kill()
                out.mkdir(parents=True, exist_ok=True)
                for log in (server.log, syncs.log):
                    shutil.copy(log, out)


def _follow(
    server: Server,
    hub: ChangingGitHub,
    life: Life,
    syncs: Syncs,
    choices: random.Random,
    minutes: float,
    console: Console,
) -> dict[str, object]:
    server.start()
    watcher = Watcher(hub, server, choices.randrange(1 << 30))
    life.start()
    watcher.start()
    broken: list[str] = []
    counts: Counter[str] = Counter()
    until = time.monotonic() + 60 * minutes
    while time.monotonic() < until:
        life.go.set()
        if choices.random() < 0.1:
            shutil.rmtree(server.index / "tracker", ignore_errors=True)
            counts["fetches of everything"] += 1
        killer = threading.Thread(target=_kill, args=(server, choices.uniform(0.5, syncs.lasts_s)))
        is_killed = choices.random() < 0.3
        if is_killed:
            counts["services killed"] += 1
            killer.start()
        syncs.run()
        if is_killed:
            killer.join()
        life.pause()
        wait_for_deliveries(server)
        found = list(differences(hub, server))
        counts["comparisons"] += 1
        counts["issues compared"] += len(hub.issues)
        broken += [f"second {hub.now()}: {one}" for one in found]
        console.print(f"second {hub.now()}: {len(hub.issues)} issues, {len(broken)} differences, {dict(syncs.counts)}")
    time.sleep(max(LAG_S))
    shutil.rmtree(server.index / "tracker", ignore_errors=True)  # finds deletions whose delivery was lost
    syncs.run(may_kill=False)
    final = list(differences(hub, server, is_final=True))
    watcher.ended.set()
    life.ended.set()
    life.go.set()
    watcher.join()
    counts += syncs.counts + life.counts
    counts["looks at deleted issues"] = watcher.looked
    counts["issues"] = len(hub.issues)
    cases = {
        "acknowledged states lost": broken,
        "deleted issues that returned": watcher.returned,
        "differences from the tracker in the end": final,
    }
    return {
        "minutes": minutes,
        "counts": dict(sorted(counts.items())),
        "must be 0": {name: len(found) for name, found in cases.items()},
        "broken": {name: found[:20] for name, found in cases.items() if found},
    }


def _kill(server: Server, after_s: float) -> None:
    time.sleep(after_s)
    server.kill()
    server.start()
