"""The GitHub Action and the workflows that use it: what they run; no issue's text reaches a shell."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pandas as pd
import pytest
import yaml
from hydra import compose, initialize_config_dir
from local_server import running
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from small_github import ISSUES, REPOSITORY, SmallGitHub

from gedbd.configuration.command import CONF_DIR
from gedbd.evaluation.thresholds import REASONS

pytestmark = pytest.mark.integration

ROOT = Path(CONF_DIR).parent
ACTION_DIR = ROOT / ".github" / "actions" / "suggest"
ACTION = yaml.safe_load((ACTION_DIR / "action.yml").read_text())
# Those that the page for GitHub tells users to copy.
WORKFLOWS = ROOT / "examples" / "workflows"
BUILDS, SUGGESTS = (
    yaml.safe_load((WORKFLOWS / name).read_text()) for name in ("duplicates-index.yml", "duplicates.yml")
)
STEPS = ACTION["runs"]["steps"]
(COMPARE,) = (step for step in STEPS if "serve" in step.get("run", ""))
# Lets a process import only some distributions and the standard library.
ONLY = """
import sys
from importlib.metadata import packages_distributions
allowed = set({allowed!r})
barred = {{
    name for name, owners in packages_distributions().items()
    if not allowed & {{owner.lower().replace("_", "-") for owner in owners}}
}}
class Finder:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in barred else self.finder.find_spec(name, path, target)
sys.meta_path[:] = map(Finder, sys.meta_path)
"""
TEXT = "The printer stalls after backup, code 123"


def steps_of(workflow):
    (job,) = workflow["jobs"].values()
    return job["steps"]


def used(workflow, name):
    (step,) = (step for step in steps_of(workflow) if name in step.get("uses", ""))
    return step["with"]


def test_nothing_is_pasted_into_a_shell():
    for step in STEPS:
        assert "${{" not in step.get("run", "")
        assert all(re.fullmatch(r"\$\{\{ inputs\.\w+ \}\}", value) for value in step.get("env", {}).values())
    assert not any("${{" in step.get("run", "") for step in steps_of(BUILDS))
    assert "github.event" not in str([ACTION, BUILDS, SUGGESTS])


def test_its_command_composes():
    line = COMPARE["run"]
    given = {"$INDEX": "my index=1", "$GITHUB_EVENT_PATH": "/tmp/_x/event.json", "$SUGGEST": "comment", "\\\n": ""}
    for name, value in (given | {"${TARGET_PRECISION:-null}": "0.9", "$LISTS": "true"}).items():
        line = line.replace(name, value)
    words = shlex.split(line)
    name, *options = words[words.index("gedbd") + 1 :]
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        cfg = compose(name, overrides=options)
    assert (cfg.index, cfg.event, cfg.webhook.target_precision) == ("my index=1", "/tmp/_x/event.json", 0.9)
    assert (cfg.webhook.suggest, cfg.webhook.lists) == ("comment", True)
    assert cfg.webhook.log_file == "gedbd-suggestions/suggestions.sqlite"


def test_its_record_is_found_where_it_was_saved():
    (restored,), (saved,) = (
        [step["with"] for step in STEPS if step.get("uses", "").startswith(f"actions/cache/{what}@")]
        for what in ("restore", "save")
    )
    assert restored["path"] == saved["path"] == "gedbd-suggestions"
    assert saved["key"].startswith(restored["restore-keys"])
    assert ACTION["inputs"]["suggest"]["default"] == "shadow"


def closure_of_requirements():
    """The distributions that pip installs for the Action, by the metadata of what is installed here."""
    lines = (ACTION_DIR / "requirements.txt").read_text().splitlines()
    waiting = [Requirement(line) for line in lines if not line.startswith("#")]
    found = set()
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        if name in found or (one.marker and not one.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        waiting += [Requirement(line) for line in requires(name) or []]
    return found


def test_what_it_installs_is_pinned_and_light():
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").open()}
    found = closure_of_requirements()
    assert found <= pinned
    assert not found & {"torch", "pytorch-lightning", "transformers", "torch-geometric", "scikit-learn", "wandb"}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [*extras["dependencies"], *extras["optional-dependencies"]["serve"]]
    wanted = {line for line in (ACTION_DIR / "requirements.txt").read_text().splitlines() if not line.startswith("#")}
    # What transformers, Hydra and the others of these need is no dependency of its own.
    assert wanted - {Requirement(line).name for line in named} == {"tokenizers"}


@pytest.mark.parametrize("converted", [True, False])
def test_it_runs_with_nothing_but_what_it_installs(stored_folder, tmp_path, converted):
    shutil.copytree(stored_folder / "index", tmp_path / "index")
    if not converted:
        shutil.rmtree(tmp_path / "index" / "encoder")
    event = {"action": "opened", "repository": {"full_name": REPOSITORY}, "issue": {"number": 999999, "title": TEXT}}
    (tmp_path / "event.json").write_text(json.dumps(event))
    (tmp_path / "packages").mkdir()
    only = ONLY.format(allowed=sorted(closure_of_requirements() | {"gedbd"}))
    (tmp_path / "packages" / "sitecustomize.py").write_text(only)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")} | {
        "PYTHONPATH": f"{tmp_path / 'packages'}:{ROOT}",
        "GITHUB_REPOSITORY": REPOSITORY,
        "GEDBD_CACHE": str(tmp_path / "cache"),
    }
    line = [sys.executable, "-P", "-m", "gedbd", "serve", "index=index", "event=event.json"]
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True)
    if converted:
        assert done.returncode == 0, done.stderr
        assert "#999999 added; comments: none" in done.stdout
    else:
        assert done.returncode == 1
        assert "PyTorch is not installed, and the index holds no encoder" in done.stderr
        assert "Traceback" not in done.stderr


def test_the_workflows_have_the_rights_they_need_and_no_more():
    page = (ROOT / "docs" / "guides" / "github.md").read_text()
    assert all(f"/examples/workflows/{path.name})" in page for path in WORKFLOWS.iterdir())
    assert BUILDS["permissions"] == {"issues": "read"}
    assert SUGGESTS["permissions"] == {"issues": "write"}
    assert set(SUGGESTS[True]) == {"issues"}  # YAML reads "on" as true
    assert set(BUILDS[True]) == {"schedule", "workflow_dispatch"}
    assert "run" not in str([list(step) for step in steps_of(SUGGESTS)])


def test_the_index_is_found_where_it_was_saved():
    saved, restored = used(BUILDS, "actions/cache/save@"), used(SUGGESTS, "actions/cache/restore@")
    action = used(SUGGESTS, "/.github/actions/suggest@v0")
    assert set(action) <= set(ACTION["inputs"]) - {"precision"}
    assert saved["path"] == restored["path"] == action["index"]
    assert saved["key"].startswith(restored["restore-keys"])
    assert restored["key"].startswith(restored["restore-keys"])


def test_the_commands_that_build_the_index_compose():
    text = "\n".join(step["run"] for step in steps_of(BUILDS) if "run" in step)
    lines = [shlex.split(line.replace("$GITHUB_REPOSITORY", REPOSITORY)) for line in text.splitlines() if line]
    commands = {words[1]: words[2:] for words in lines if words[0] == "gedbd"}
    assert list(commands) == ["fetch", "backtest", "index"]
    for name, options in commands.items():
        with initialize_config_dir(CONF_DIR, version_base="1.3"):
            compose(name, overrides=[o for o in options if not o.startswith("hydra.")])


@pytest.fixture
def hub(request):
    with running(SmallGitHub(*request.param)) as server:
        yield server


def write_event(folder, hub):
    """A new issue, later than all others, repeats the last one that repeats none; gives the number of that one."""
    last = hub.lists[ISSUES][-1]
    repeated = next(issue for issue in reversed(hub.lists[ISSUES]) if issue["number"] % 3 == 1)
    repeated |= {"title": TEXT, "body": TEXT}
    issue = {"number": 999, "title": TEXT, "body": TEXT, "created_at": last["created_at"].replace("T10", "T20")}
    event = {"action": "opened", "repository": {"full_name": REPOSITORY}, "issue": issue}
    (folder / "event.json").write_text(json.dumps(event))
    return repeated["number"]


@pytest.mark.parametrize("hub", [(400,)], indirect=True)
def test_the_bot_says_what_its_backtest_measured(hub, tmp_path, monkeypatch, run_command):
    """From a tracker's export to a comment."""
    for name, value in {"TOKEN": "t0ken", "API_URL": hub.url, "REPOSITORY": REPOSITORY}.items():
        monkeypatch.setenv(f"GITHUB_{name}", value)
    repeated = write_event(tmp_path, hub)
    notes = hub.lists[f"{ISSUES}/comments"]
    exported = [issue | {"comments": [n for n in notes if n["id"] == issue["number"]]} for issue in hub.lists[ISSUES]]
    Path("issues.json").write_text(json.dumps(exported))
    printed = ""
    for line in (
        "backtest dataset=github dataset.path=issues.json encoder=tiny hydra.run.dir=backtest",
        "index run=backtest out=my-index",
        "serve index=my-index event=event.json webhook.target_precision=0.6 webhook.suggest=comment",
    ):
        printed += run_command(*line.split())
    printed = " ".join(printed.split())
    (row,) = pd.read_csv("backtest/targets.csv").query("target == 0.6").to_dict("records")
    days = "2020-12-14 to 2021-03-09"  # issues 321 to 400
    assert row["status"] == "met"
    (text,) = hub.posted[f"{ISSUES}/999/comments"]
    assert f"This may be a duplicate of #{repeated} (probability " in text
    assert f"Of {row['suggestions']} such suggestions on this tracker's reports from {days}, {row['right']} (" in text
    assert printed.endswith("#999 added; comments: posted")
    (usual,) = pd.read_csv("backtest/targets.csv").query("target == 0.7").to_dict("records")
    of_index = f"Of {usual['suggestions']} such suggestions on this tracker's reports from {days}"
    if usual["status"] != "met":
        of_index = f"Nothing is suggested automatically: {REASONS[usual['status']].format(target=0.7)}"
    assert of_index in printed


@pytest.mark.slow
@pytest.mark.parametrize("hub", [(800,)], indirect=True)
def test_the_workflows_of_the_manual_run_as_printed(hub, tmp_path):
    """All shell lines but the installation, in bash, with a GitHub on this machine."""
    (tmp_path / "bin").mkdir()
    start = f'exec "{sys.executable}" -m gedbd "$@"'
    python = f'[ "$2" = pip ] || exec "{sys.executable}" "$@"'
    for program, line in {"python": python, "gedbd": start}.items():
        (tmp_path / "bin" / program).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / "bin" / program).chmod(0o755)
    repeated = write_event(tmp_path, hub)
    environment = os.environ | {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GEDBD_CACHE": str(tmp_path / "cache"),
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_API_URL": hub.url,
        "GITHUB_EVENT_NAME": "issues",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_ACTION_PATH": str(ACTION_DIR),
    }
    values = {"github.token": "t0ken"}
    given = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()}
    given |= {name: str(value) for name, value in used(SUGGESTS, "/suggest@v0").items()}
    given["suggest"] = "comment"
    values |= {f"inputs.{name}": value.replace("${{ github.token }}", "t0ken") for name, value in given.items()}
    for step in [*steps_of(BUILDS), *STEPS]:
        if "run" in step:
            own = {name: values[value.strip("${} ")] for name, value in step.get("env", {}).items()}
            done = subprocess.run(
                ["bash", "-ec", step["run"]], cwd=tmp_path, env=environment | own, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr + done.stdout
    target = json.loads((tmp_path / "backtest" / "matching.json").read_text())["targets"][2]
    assert (target["target_precision"], target["status"]) == (0.7, "met")
    (text,) = hub.posted[f"{ISSUES}/999/comments"]
    assert f"This may be a duplicate of #{repeated} (probability " in text
    assert f"Of {target['suggestions']} such suggestions on this tracker's reports from " in text
    assert "1 new report was compared, 1 got a suggestion" in (tmp_path / "summary.md").read_text()
    assert (tmp_path / "gedbd-suggestions" / "suggestions.sqlite").exists()
