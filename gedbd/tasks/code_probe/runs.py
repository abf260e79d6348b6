"""The runs whose encoders are probed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from gedbd.configuration.saved_options import VERSIONS, read_config
from gedbd.io.files import read_object

ENCODER = "encoder"


def find_encoders(runs: Mapping[str, Sequence[str]]) -> dict[str, list[Path]]:
    """The run folders of each method, one for each seed; methods without runs are left out.

    Args:
        runs: By method, run folders of ``task=pretraining``, or folders with a run for each seed in ``seed_*``.

    Raises:
        ValueError: If there is none, or a folder has no encoder.
    """
    found = {str(method): [run for path in paths for run in _seeds(Path(path))] for method, paths in runs.items()}
    found = {method: folders for method, folders in found.items() if folders}
    if not found:
        raise ValueError("task.runs names no run: give folders of task=pretraining, as task.runs.graph=[outputs/RUN]")
    for folder in (folder for folders in found.values() for folder in folders):
        if not (folder / ENCODER).is_dir():
            raise ValueError(f"{folder} has no {ENCODER}/: name a finished run of task=pretraining in task.runs")
    return found


def check_same_corpus(folder: Path, fingerprint: str, split: Mapping[str, Any]) -> None:
    """Checks that a run has not been trained on methods that are tested here.

    Raises:
        ValueError: If its corpus or split differs, or is not known.
    """
    if not (folder / VERSIONS).is_file():
        raise ValueError(f"{folder} has no {VERSIONS}, so that its corpus is unknown: name a run of task=pretraining")
    if read_object(folder / VERSIONS, "corpus")["corpus"] != fingerprint:
        raise ValueError(
            f"{folder} was trained on another corpus and may know methods that are tested here: give its dataset"
        )
    saved = read_config(folder).get("split")
    theirs = OmegaConf.to_container(saved) if OmegaConf.is_config(saved) else saved
    if theirs != dict(split):
        raise ValueError(
            f"{folder} was trained with split={theirs}, here it is {dict(split)}, so that it may know methods that are"
            " tested here: give the same"
        )


def _seeds(path: Path) -> list[Path]:
    """The runs of the seeds below a folder, in the order of their numbers; the folder itself if there are none."""
    if not path.is_dir():
        raise ValueError(f"{path} in task.runs: there is no such folder")
    seeds = [folder for folder in path.glob("seed_*") if folder.name.removeprefix("seed_").isdecimal()]
    return sorted(seeds, key=lambda folder: int(folder.name.removeprefix("seed_"))) or [path]
