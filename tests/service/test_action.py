"""The GitHub Action: what it runs, and that no text of an issue ever reaches a shell."""

import re
import shlex
from pathlib import Path

import yaml
from hydra import compose, initialize_config_dir

from gedbd.config import CONF_DIR

ROOT = Path(CONF_DIR).parent
ACTION = yaml.safe_load((ROOT / ".github" / "actions" / "suggest" / "action.yml").read_text())
SHOWN = re.search(r"```yaml\n(# \.github/workflows/.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
STEPS = ACTION["runs"]["steps"]


def test_the_action_is_what_github_reads():
    assert ACTION["runs"]["using"] == "composite"
    assert {"name", "description", "inputs", "runs"} == set(ACTION)
    assert ACTION["inputs"]["index"]["required"] is True
    for step in STEPS:
        assert "uses" in step or {"shell", "run"} <= set(step)


def test_nothing_is_pasted_into_a_shell():
    for step in STEPS:
        assert "${{" not in step.get("run", "")
        assert all(re.fullmatch(r"\$\{\{ inputs\.\w+ \}\}", value) for value in step.get("env", {}).values())
    assert "github.event" not in str(ACTION)


def test_its_command_composes():
    (line,) = (step["run"] for step in STEPS if "gedbd" in step.get("run", ""))
    for name, value in {"$INDEX": "my index=1", "$GITHUB_EVENT_PATH": "/tmp/_x/event.json"}.items():
        line = line.replace(name, value)
    _, _, module, *options = shlex.split(line.replace("${PRECISION:-null}", "0.9"))
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        cfg = compose(module.removeprefix("gedbd."), overrides=options)
    assert (cfg.index, cfg.event, cfg.webhook.precision) == ("my index=1", "/tmp/_x/event.json", 0.9)


def test_the_workflow_that_the_readme_shows_may_write_issues_and_no_more():
    assert SHOWN
    workflow = yaml.safe_load(SHOWN[1])
    assert workflow["permissions"] == {"issues": "write"}
    assert set(workflow[True]) == {"issues"}  # YAML reads "on" as true
    (job,) = workflow["jobs"].values()
    (step,) = (step for step in job["steps"] if step["uses"].endswith("/.github/actions/suggest@main"))
    assert set(step["with"]) <= set(ACTION["inputs"])
    assert "run" not in str([list(step) for step in job["steps"]])
