"""Runs the steps of the GitHub Action as a runner does, without a cache and with one; prints times and sizes.

    python benchmarks/action.py my-index event.json

``uses`` steps are left out: GitHub's runners have Python 3.11, and a cache is a folder that stays. Packages come from
the package index that pip is set to.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ACTION = Path(__file__).parents[1] / ".github" / "actions" / "suggest"
RUNS = ("without a cache", "with a cache", "with a cache")


def main(index: str, event: str) -> None:
    """Runs the Action three times on one index and one event."""
    action = yaml.safe_load((ACTION / "action.yml").read_text())
    defaults = {f"inputs.{name}": one.get("default", "") for name, one in action["inputs"].items()}
    values = defaults | {"inputs.token": "", "inputs.index": str(Path(index).absolute())}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        packages = work / "gedbd-packages"
        environment = os.environ | {
            "GITHUB_ACTION_PATH": str(ACTION),
            "GITHUB_EVENT_NAME": "issues",
            "GITHUB_EVENT_PATH": str(Path(event).absolute()),
            "GITHUB_OUTPUT": str(work / "output"),
            "GITHUB_REPOSITORY": "ann/mail",
            "GITHUB_STEP_SUMMARY": str(work / "summary.md"),
            "RUNNER_TEMP": str(work),
            "PIP_NO_CACHE_DIR": "1",
            "PATH": f"{fresh_python(work)}:{os.environ['PATH']}",
        }
        for run in RUNS:
            seconds = {}
            for step in action["runs"]["steps"]:
                if "run" not in step or ("if" in step and packages.exists()):
                    continue
                own = {name: values[value.strip("${} ")] for name, value in step.get("env", {}).items()}
                started = time.perf_counter()
                subprocess.run(["bash", "-ec", step["run"]], cwd=work, env=environment | own, check=True)
                seconds[step["name"]] = time.perf_counter() - started
            print(f"{run}: {sum(seconds.values()):.1f} s", {name: round(value, 1) for name, value in seconds.items()})
        size = sum(path.stat().st_size for path in packages.rglob("*") if path.is_file())
        print(f"{len(list(packages.glob('*.dist-info')))} packages, {size / 1e6:.0f} MB")
        print((work / "summary.md").read_text())


def fresh_python(work: Path) -> Path:
    """The folder of a Python with no package but pip."""
    subprocess.run([sys.executable, "-m", "venv", str(work / "venv")], check=True)
    return work / "venv" / "bin"


if __name__ == "__main__":
    main(*sys.argv[1:])
