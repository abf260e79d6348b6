"""The runs whose encoders are probed."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from omegaconf import DictConfig

from gedbd.configuration.saved_options import VERSIONS, read_saved
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


def check_same_corpus(folder: Path, fingerprint: str) -> None:
    """Checks that a run was trained on a corpus, since of another one it may know methods that are tested here.

    Raises:
        ValueError: If its corpus differs, or is not known.
    """
    if not (folder / VERSIONS).is_file():
        raise ValueError(f"{folder} has no {VERSIONS}, so that its corpus is unknown: name a run of task=pretraining")
    if read_object(folder / VERSIONS, "corpus")["corpus"] != fingerprint:
        raise ValueError(
            f"{folder} was trained on another corpus, and may know methods that are tested here: give its dataset"
        )


def group_by_split(runs: Mapping[str, Sequence[Path]]) -> list[tuple[DictConfig, list[int]]]:
    """The splits that the runs were trained with, and the numbers of the runs that share each.

    Run i of one method is compared with run i of another, so both need the same split. With ``seeds=3`` each seed has
    a split of its own.

    Raises:
        ValueError: If two runs that are compared were trained with different splits.
    """
    groups: list[tuple[DictConfig, list[int]]] = []
    for number in range(max(map(len, runs.values()))):
        folders = [several[number] for several in runs.values() if number < len(several)]
        splits = [read_saved(folder).split for folder in folders]
        for folder, split in zip(folders, splits, strict=True):
            if split != splits[0]:
                raise ValueError(
                    f"{folder} was trained with split={split} and {folders[0]} with split={splits[0]}: methods that"
                    " test one may have trained the other; compare runs of the same split and seed"
                )
        known = [numbers for split, numbers in groups if split == splits[0]]
        if known:
            known[0].append(number)
        else:
            groups.append((splits[0], [number]))
    return groups


def _seeds(path: Path) -> list[Path]:
    """The runs of the seeds below a folder, in the order of their numbers; the folder itself if there are none."""
    if not path.is_dir():
        raise ValueError(f"{path} in task.runs: there is no such folder")
    seeds = [folder for folder in path.glob("seed_*") if folder.name.removeprefix("seed_").isdecimal()]
    return sorted(seeds, key=lambda folder: int(folder.name.removeprefix("seed_"))) or [path]
