"""A command whose jobs end as environment variables say, since they have processes of their own."""

import errno
import json
import os
import signal
from pathlib import Path

import hydra
from omegaconf import DictConfig

from gedbd.experiments.sweep_jobs import Pruned, read_jobs, resumable_job


def states(folder: Path) -> list[str]:
    """The states of the jobs in a sweep's folder."""
    return [status.state for status in read_jobs(folder).values()]


def ending(name: str) -> Exception:
    """The error of a name."""
    return {
        "no rows": ValueError("no such file\ninternals"),
        "pruned": Pruned(0.25),
        "bug": ZeroDivisionError("by zero"),
        "no file": FileNotFoundError(errno.ENOENT, "No such file or directory", "gone.csv"),
    }[name]


@resumable_job
def job(cfg: DictConfig) -> float:
    """Notes its seed, and gives a tenth of it or raises what ``FAKE_ENDINGS`` has for it."""
    with Path(os.environ["FAKE_CONFIG"], "ran.txt").open("a") as file:
        file.write(f"{cfg.seed}\n")
    name = json.loads(os.environ["FAKE_ENDINGS"]).get(f"s{cfg.seed}")
    if name == "ctrl-c":  # reaches both processes
        os.kill(os.getppid(), signal.SIGINT)
        raise KeyboardInterrupt
    if name:
        raise ending(name)
    return float(cfg.seed / 10)


def main() -> None:
    """Starts the command in the folder of the test."""
    hydra.main(version_base="1.3", config_path=os.environ["FAKE_CONFIG"], config_name="fake")(job)()


if __name__ == "__main__":
    main()
