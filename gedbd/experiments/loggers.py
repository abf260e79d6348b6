"""The loggers of a run, and one Weights & Biases run for each training and each baseline: its name, resumption, end."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.loggers import Logger, WandbLogger

from gedbd.configuration.allowed_targets import check_plain
from gedbd.configuration.command import plain_words, typed_words
from gedbd.configuration.command_words import option_of
from gedbd.experiments.distributed import is_first
from gedbd.experiments.sweep_jobs import JOB_FOLDER, Pruned
from gedbd.io.files import corpus_name, read_object, write_text

WANDB_FILE = "wandb.json"  # in the run folder: id, name and group of its W&B run
MAX_NAME_CHARACTERS = 128  # W&B refuses longer names and groups
MAX_TAG_CHARACTERS = 64
TAG_GROUPS = ("experiment", "encoder", "text", "split", "pairs", "graph", "fusion", "loss", "backend")
NOT_IN_NAME = ("logger", "ckpt_path", "seeds", "data_dir", "cache_dir")  # options that do not describe the model
# Modules by class of a Lightning logger, which needs one of them.
PACKAGES = {"TensorBoardLogger": ("tensorboardX", "tensorboard"), "MLFlowLogger": ("mlflow",)}
INTERRUPTED = 255  # the exit code that W&B itself reports after Ctrl-C


def check_loggers(loggers: DictConfig | None) -> None:
    """Checks before any work that the chosen loggers are installed, and that ``logger=wandb`` can send runs.

    Raises:
        ValueError: If an entry is not a logger, its package is missing, or W&B needs an API key that is missing or
            invalid.
    """
    for key, logger in (loggers or {}).items():
        name = str(key)
        if logger is None:
            continue
        if not OmegaConf.is_dict(logger) or "_target_" not in logger:
            raise ValueError(f"logger.{name}={logger} is no logger: give it as {{_target_: package.Class}}")
        modules = PACKAGES.get(logger._target_.rpartition(".")[2], ())
        if modules and not any(find_spec(module) for module in modules):
            raise ValueError(f"logger={name} needs {modules[0]}: pip install 'gedbd[{name}]'")
        if _is_wandb(logger) and is_first():
            _check_login(logger)


def _check_login(logger: DictConfig) -> None:
    import wandb  # large, and most runs do not use it

    mode = logger.get("mode") or ("offline" if logger.get("offline") else wandb.setup().settings.mode)
    if mode in ("offline", "dryrun", "disabled"):
        return
    try:
        logged_in = wandb.login(verify=False, prompt=False)
    except wandb.Error as error:
        raise ValueError(f"logger=wandb: {error}") from error
    if not logged_in:
        raise ValueError(
            "logger=wandb needs an API key: run `wandb login` or set WANDB_API_KEY; WANDB_MODE=offline logs to a file"
        )


def describe_job(cfg: DictConfig, folder: Path, job_type: str) -> dict[str, Any]:
    """Labels of the W&B run of the current Hydra job.

    ``folder`` is that of the job, or one inside it if the job trains several seeds.

    Returns:
        Name: in a sweep the options that differ between its jobs, otherwise all typed options, and the seed if the job
        trains several. Group: the name of the folder of the sweep or of the seeds. Tags: the corpus, and
        ``group=option`` for the groups of the configuration.
    """
    job = HydraConfig.get()
    job_dir = Path(job.runtime.output_dir)
    trains_seeds = folder.resolve() != job_dir.resolve()
    options = [option for option in typed_words() if option_of(option).partition(".")[0] not in NOT_IN_NAME]
    group = None
    if JOB_FOLDER in os.environ:
        sweep = job_dir.parent
        group = sweep.name[:MAX_NAME_CHARACTERS]
        command = sweep / "multirun.yaml"  # Hydra writes it before the first job
        shared = set(plain_words(OmegaConf.load(command).hydra.overrides.task)) if command.is_file() else set()
        options = [option for option in options if option not in shared] or options
    elif trains_seeds:
        group = job_dir.name[:MAX_NAME_CHARACTERS]
        options = []
    if trains_seeds:
        options = [*(option for option in options if option_of(option) != "seed"), f"seed={cfg.seed}"]
    corpus = str(cfg.dataset.name or corpus_name(Path(cfg.dataset.path)))
    tags = [corpus] if job_type == "train" else [corpus, str(cfg.name)]
    chosen = {key: job.runtime.choices.get(key) for key in TAG_GROUPS}
    tags += [f"{key}={option}" for key, option in chosen.items() if option]
    name = " ".join(options) or f"{corpus} {cfg.encoder.name}"
    tags = [tag[:MAX_TAG_CHARACTERS] for tag in tags]
    return {"name": name[:MAX_NAME_CHARACTERS], "group": group, "tags": tags, "job_type": job_type}


@contextmanager
def open_loggers(cfg: DictConfig, folder: Path, job_type: str) -> Iterator[list[Logger]]:
    """Opens the configured loggers while the block runs, and logs the run's configuration.

    A W&B run is resumed if the folder's run did not finish or continues from a checkpoint. It always ends with the
    block: as failed after an error, as interrupted after Ctrl-C, as successful if Optuna prunes it. Other processes of
    a distributed run get loggers that do nothing.

    Raises:
        ValueError: If W&B refuses the run, or an entry is not a Lightning logger.
    """
    options = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(options, dict)
    hyperparameters = {str(key): value for key, value in options.items()}
    loggers: list[Logger] = []
    with ExitStack() as opened:
        for name, settings in (hyperparameters["logger"] or {}).items():
            if settings is None:
                continue
            if _is_wandb(settings):
                labels = describe_job(cfg, folder, job_type)
                logger = opened.enter_context(_wandb_run(settings, folder, labels, bool(cfg.get("ckpt_path"))))
            else:
                folder_option = {"save_dir": str(folder)} if settings.get("save_dir", "") is None else {}
                logger = instantiate(settings, **folder_option)
            if not isinstance(logger, Logger):
                raise ValueError(f"logger.{name}._target_={settings['_target_']} is no logger of Lightning")
            logger.log_hyperparams(hyperparameters)
            loggers.append(logger)
        yield loggers


@contextmanager
def _wandb_run(options: dict[str, Any], folder: Path, labels: dict[str, Any], resumed: bool) -> Iterator[WandbLogger]:
    """Opens a new W&B run, or resumes that of the folder, which keeps its id; it ends with the block."""
    import wandb

    values = labels | {"save_dir": str(folder)}
    stored = folder / WANDB_FILE
    if stored.is_file() and (resumed or not (folder / "predictions.parquet").is_file()):
        values |= read_stored(stored)
    if wandb.setup().settings.sweep_id:
        values["id"] = None  # the agent of a W&B sweep sets the id
    options = dict(options)
    if not options.pop("upload_titles", False):  # titles are printed too
        options["settings"] = {"console": "off"} | (options.get("settings") or {})
    options |= {key: value for key, value in values.items() if not options.get(key)}
    if options.get("offline"):
        options["mode"] = "offline"  # Lightning sets WANDB_MODE, which W&B has read by now
    try:
        made: WandbLogger = instantiate(options, _convert_="all")
        if is_first():
            folder.mkdir(parents=True, exist_ok=True)
            try:
                run = made.experiment
            except wandb.Error as error:
                raise ValueError(f"logger=wandb: {error}; WANDB_MODE=offline logs to a file") from error
            about = {"id": run.id, "name": run.name, "group": run.group or None}
            write_text(stored, json.dumps(about, indent=2) + "\n")
        yield made
    except BaseException as error:
        failed = INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
        wandb.finish(exit_code=0 if isinstance(error, Pruned) else failed)
        raise
    wandb.finish()


def read_stored(path: Path) -> dict[str, str | None]:
    """Id, name and group of the W&B run of a run folder, which may come from someone else.

    Raises:
        ValueError: If the file is damaged, or holds an interpolation or values that are not text.
    """
    content = read_object(path)
    values = {name: content.get(name) for name in ("id", "name", "group")}
    check_plain(values, str(path))
    for name, value in values.items():
        if not (value is None or isinstance(value, str)):
            raise ValueError(f"{path} is damaged: {name} is not text")
    return values


def _is_wandb(logger: Mapping[str, Any]) -> bool:
    return str(logger.get("_target_")).endswith(".WandbLogger")
