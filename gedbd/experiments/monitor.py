"""The metric ``monitor``, by which a training chooses its best epoch: whether it is logged, and what it has chosen."""

from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from gedbd.configuration.allowed_targets import named_targets
from gedbd.evaluation.pairwise import METRICS
from gedbd.io.table_files import read_csv


def direction(monitor: str) -> str:
    """Whether the best value of a logged metric is the smallest (``min``), as of losses, or the largest (``max``)."""
    return "min" if monitor.endswith("loss") else "max"


def check_monitor(monitor: str, ranked: Sequence[str], may_log_more: bool = False) -> None:
    """Raises ValueError if a metric is not logged.

    Args:
        monitor: The metric.
        ranked: The metrics of the validation queries.
        may_log_more: Whether a callback or task of the user may log further ones; Lightning says if it does not.
    """
    names = [f"val/{name}" for name in ("loss", *METRICS, *ranked)]
    if monitor not in names and not (may_log_more and monitor.startswith("val/")):
        raise ValueError(
            f"monitor={monitor} is not logged: choose one of {', '.join(names)}; for more, see protocol=,"
            " ranking.top_k, ranking.parts and the split; val/NAME of your own needs +callbacks.mine._target_= that"
            " logs it"
        )


def may_be_own(cfg: DictConfig) -> bool:
    """Whether ``monitor`` may be a metric that a callback or task of the user logs, which gedbd does not know."""
    sections = {name: OmegaConf.to_container(cfg[name]) for name in ("callbacks", "task") if cfg.get(name)}
    packages = {target.partition(".")[0] for target in named_targets(sections)}
    return str(cfg.monitor).startswith("val/") and not packages <= {"gedbd", "pytorch_lightning"}


def value_of_best(folder: Path, monitor: str, metric: str) -> float:
    """A metric of a run's best checkpoint, which is the epoch with the best value of ``monitor``."""
    epochs = read_csv(folder / "metrics.csv", metric, monitor)
    return float(epochs[metric][epochs_of_best(folder, monitor) - 1])


def epochs_of_best(folder: Path, monitor: str) -> int:
    """For how many epochs a run's best checkpoint was trained."""
    values = read_csv(folder / "metrics.csv", monitor)[monitor]
    best = values.argmin() if direction(monitor) == "min" else values.argmax()
    return int(best) + 1
