"""Checks a command line before Hydra creates a folder and before a command imports anything large.

Hydra reports an unknown option in several lines, and accepts any value: ``optimizer.lr=abc`` fails in PyTorch, after
the corpus was read. Values are compared with defaults that are composed from group choices (``encoder=tiny``) and
config folders alone.

The configuration computes some values here: the folder of a new run or sweep, one per command for all its processes,
and the precision of this machine.
"""

import os
import shutil
import tempfile
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import MISSING, DictConfig, OmegaConf, flag_override

from gedbd.configuration.command_words import SEARCHPATH, option_of, parsed_flags
from gedbd.configuration.encoder_options import take_model_options
from gedbd.configuration.errors import FULL_NAMES, SWITCH_OFF_HINTS, composition_line, os_error_line
from gedbd.configuration.help import option_words, read_command
from gedbd.configuration.option_types import check_types, check_values, dotted_names, plain_options
from gedbd.io.files import CONF_DIR, IN_PACKAGE, corpus_name
from gedbd.io.locks import OWNER, RUN_LOCK

PLAIN_HYDRA = ("hydra.run.dir=", SEARCHPATH)  # Hydra options that a single run handles without hydra.main
REPLACED_BY_STORE = ("out", "index")  # options for an index in a folder; with store= the index is on a server
SEVERAL_FILES = ("callbacks", "debug", "experiment", "logger")  # groups of which several files may be chosen
PROBE = b"\0" * (1 << 16)

# Parent -> folder that the running command created in it; None while no command is running.
_created: dict[Path, Path] | None = None


def check_command_line(config_name: str, arguments: Sequence[str]) -> tuple[DictConfig | None, list[Path]]:
    """Composes the options of a command and checks them.

    With ``--cfg`` and ``--info``, which run nothing, only the names of options are checked, and another configuration
    than the command's is not.

    Returns:
        The options of a single run with Hydra's own, or None if Hydra has more to do, such as a sweep; and the folders
        that a single run will create.

    Raises:
        ValueError: If an option is unknown or missing, or has a value that does not fit, or the folder cannot be
            written.
    """
    flags = parsed_flags(arguments)
    if flags.config_name or flags.config_path or flags.hydra_help or flags.shell_completion:
        return None, []
    words = flags.overrides
    with initialize_config_dir(CONF_DIR, job_name=config_name, version_base="1.3"):
        jobs = list(_jobs(config_name, words))
        shows_only = flags.cfg or flags.info
        first = _compose(config_name, words if shows_only and not flags.multirun else jobs[0])
        if shows_only:
            if OmegaConf.select(first, flags.package or "hydra") is None:
                raise ValueError(f"--package {flags.package}: there is no such section: --cfg job lists them")
            return None, []
        # Some experiments set the mode themselves.
        multirun = flags.multirun or first.hydra.mode == RunMode.MULTIRUN
        for job in jobs if multirun else [words]:
            cfg = first if job == jobs[0] else _compose(config_name, job)
            swept = (cfg.hydra.sweeper.get("params") or {}) if multirun else {}
            _check_job(cfg, config_name, job, swept)
    is_plain = not multirun and all(word.startswith(PLAIN_HYDRA) for word in words if word.lstrip("+~")[:5] == "hydra")
    if cfg.hydra.output_subdir is None:  # the command writes no run folder
        return (cfg if is_plain else None), []
    option = "hydra.sweep.dir" if multirun else "hydra.run.dir"
    folder = Path(OmegaConf.select(cfg, option))
    check_folder(folder, option)
    new_folders = [] if multirun else [path for path in (folder, *folder.parents) if not path.exists()]
    return (cfg if is_plain else None), new_folders


def compose_options(config_name: str, words: Sequence[str]) -> DictConfig:
    """The checked options of a command that is called from Python, without Hydra's own.

    Raises:
        ValueError: If an option is unknown or missing, or has a value that does not fit.
    """
    register_resolvers()
    job = list(words)
    with initialize_config_dir(CONF_DIR, job_name=config_name, version_base="1.3"):
        cfg = _compose(config_name, job)
        _check_job(cfg, config_name, job)
    take_model_options(cfg, words)
    with flag_override(cfg, ["struct", "readonly"], False):
        del cfg["hydra"]
    return cfg


def check_folder(folder: Path, option: str) -> None:
    """Writes and deletes a temporary file in a folder, or in its nearest existing parent.

    Messages name the folder by ``option``.

    Raises:
        ValueError: If a file is in the way, or nothing can be written there.
    """
    absolute = folder.absolute()
    nearest = next(path for path in (absolute, *absolute.parents) if path.exists())
    if not nearest.is_dir():
        raise ValueError(
            f"{nearest} is a file, so the folder {folder} cannot be created: move the file, or set {option}="
        )
    try:
        with tempfile.TemporaryFile(dir=nearest) as probe:
            probe.write(PROBE)
    except OSError as error:
        refused = OSError(error.errno, error.strerror, str(nearest))
        raise ValueError(os_error_line(refused, {option: folder})) from error


def delete_unused(folder: Path, above: Sequence[Path]) -> None:
    """Deletes a run folder that holds only the files that Hydra writes first, and empty folders above it.

    ``above`` lists these from the lowest up; deletion stops at the first one that is not empty.
    """
    first = {folder / ".hydra" / name for name in ("config.yaml", "hydra.yaml", "overrides.yaml")}
    first |= {folder / RUN_LOCK, folder / f"{RUN_LOCK}{OWNER}"}
    if not {path for path in folder.rglob("*") if not path.is_dir()} <= first:
        return
    shutil.rmtree(folder)
    for path in above:
        if any(path.iterdir()):
            return
        path.rmdir()


def _jobs(config_name: str, words: list[str]) -> Iterator[list[str]]:
    """Options of single runs that together hold every value of a sweep, so that not every combination is composed.

    ``a=1,2 b=3,4`` gives ``a=1 b=3``, ``a=2 b=3`` and ``a=1 b=4``.
    """
    try:
        overrides = OverridesParser.create().parse_overrides(words)
    except HydraException as error:
        raise ValueError(composition_line(error, words, _names(config_name))) from error
    _check_groups(config_name, words)
    alternatives = []
    for override in overrides:
        if override.is_sweep_override() and override.is_hydra_override():
            raise ValueError(f"{override.input_line}: an option of Hydra has one value in all runs: give one")
        if override.is_choice_sweep() and not isinstance(override.value(), Glob):
            alternatives.append([f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()])
        elif not override.is_sweep_override():
            alternatives.append([str(override.input_line)])
    # A sweep over a range or a glob has no listed values, and its option keeps the default here.
    first = [values[0] for values in alternatives]
    yield first
    for position, values in enumerate(alternatives):
        for value in values[1:]:
            yield [*first[:position], value, *first[position + 1 :]]


def _compose(config_name: str, words: list[str]) -> DictConfig:
    """Composes as Hydra will; raises ValueError with one line if Hydra refuses the options."""
    _check_searchpath(words)
    try:
        return compose(config_name, words, return_hydra_config=True)
    except (HydraException, ValueError) as error:
        raise ValueError(composition_line(error, words, _names(config_name))) from error


def _names(config_name: str) -> list[str]:
    """Names of a command's groups and options, from its defaults, which compose whatever the command line is."""
    known = compose(config_name, return_hydra_config=True)
    return [*map(str, known.hydra.runtime.choices), *dotted_names(plain_options(known))]


def _check_groups(config_name: str, words: Sequence[str]) -> None:
    """Raises ValueError if a whole section or option is left out, or a group gets several files and reads one."""
    groups = read_command(config_name).groups
    for word in words:
        name = option_of(word)
        if word.startswith("~") and (name in option_words(config_name) or name in ("hydra", "hydra.callbacks")):
            cure = SWITCH_OFF_HINTS.get(name, f"choose another {name}=" if name in groups else f"leave {word} out")
            raise ValueError(f"{word}: this command needs {name}: {cure}; ~ is for entries within a section")
        if word.startswith("+") and name in groups:
            raise ValueError(f"{word}: this group exists: write {word.lstrip('+')}")
        if name in groups and name not in SEVERAL_FILES and word.partition("=")[2].startswith("["):
            raise ValueError(f"{word}: {name}= takes one choice; to run each of several: -m {name}=A,B")


def _check_searchpath(words: list[str]) -> None:
    """Raises ValueError if a folder in ``hydra.searchpath=`` does not exist, for which Hydra only warns."""
    searched = [word for word in words if word.startswith(SEARCHPATH)]
    for override in OverridesParser.create().parse_overrides(searched):
        value = override.value()
        for entry in value if isinstance(value, list) else [value]:
            scheme, separator, path = str(entry).rpartition("://")
            if (not separator or scheme == "file") and not Path(path).is_dir():
                raise ValueError(f"{SEARCHPATH}{entry}: no such folder; give one that holds groups, as conf/ does")


def _check_job(cfg: DictConfig, config_name: str, words: list[str], swept: Container[str] = ()) -> None:
    """Raises ValueError if nothing reads an option of a single run, it is missing, or its value or file does not fit.

    ``swept`` are options whose values the sweeper chooses.
    """
    replaced = REPLACED_BY_STORE if cfg.get("store") else ()
    for name, value in plain_options(cfg).items():
        if value == MISSING and name not in swept and name not in replaced:
            raise ValueError(f"{name}= is required, for example: {read_command(config_name).examples[0]}")
    choices = tuple(word for word in words if _is_choice(word, cfg.hydra.runtime.choices))
    # Hydra adds an option or a group of any name with +, whether or not something reads it.
    if any(word.startswith("+") for word in words):
        defaults = _defaults(config_name, tuple(word for word in choices if not word.startswith("+")))
        added = {option_of(word).partition(".")[0] for word in words if word.startswith("+")}
        unused = sorted(name for name in added if name in cfg and name not in defaults)
        if unused:
            meant = FULL_NAMES.get(unused[0])
            cure = f"did you mean {meant}?" if meant in _names(config_name) else "leave it out"
            raise ValueError(f"+{unused[0]}: this command does not use the section {unused[0]}: {cure}")
    if len(choices) < len(words):
        check_types(cfg, _defaults(config_name, choices))
    check_values(cfg)
    _check_files(cfg)


@lru_cache(maxsize=32)  # most jobs of a sweep make the same choices
def _defaults(config_name: str, choices: tuple[str, ...]) -> DictConfig:
    """The options of a command with the choices of groups alone."""
    return compose(config_name, list(choices))


def _check_files(cfg: DictConfig) -> None:
    """Raises ValueError if a checkpoint or a corpus does not exist."""
    corpus_path = OmegaConf.select(cfg, "dataset.path", throw_on_missing=False)
    if (
        isinstance(corpus_path, str)
        and not corpus_path.startswith(IN_PACKAGE)
        and not Path(corpus_path).expanduser().exists()
    ):
        raise ValueError(f"{corpus_path}: no such file or folder; set dataset.path= to an existing one")
    path = cfg.get("ckpt_path")
    if path is not None and not Path(path).is_file():
        raise ValueError(f"ckpt_path={path}: no such file; give checkpoints/last.ckpt of a run folder")


def _is_choice(word: str, choices: DictConfig) -> bool:
    """Whether a word chooses a file of a group, such as ``encoder=tiny``, or adds a config folder."""
    key = option_of(word)
    # A list of choices, such as logger=[csv,wandb], is not among the choices that Hydra names.
    is_group = key in choices or Path(CONF_DIR, key).is_dir()
    return is_group or "@" in key or "/" in key or word.startswith(SEARCHPATH)


def register_resolvers() -> None:
    """Lets interpolations of configurations call the functions of this module, such as ``${started:}``."""
    for resolver in (run_dir, sweep_dir, started, auto_precision, encoding_precision):
        OmegaConf.register_new_resolver(resolver.__name__, resolver, use_cache=True, replace=True)


@contextmanager
def own_folders() -> Iterator[None]:
    """Lets ``run_dir`` and ``sweep_dir`` create folders while a command runs; those that stay empty are deleted."""
    global _created
    _created = {}
    try:
        yield
    finally:
        created = _created
        _created = None
        for folder in created.values():
            with suppress(OSError):  # not empty, or already deleted
                folder.rmdir()


def is_own(folder: Path) -> bool:
    """Whether the running command has created this folder."""
    return _created is not None and folder.absolute() in {path.absolute() for path in _created.values()}


def run_dir(ckpt_path: str | None, dataset: str | None, path: str | None, encoder: str) -> str:
    """Folder of a new run, or of the run that continues from a checkpoint."""
    if ckpt_path:
        return str(Path(ckpt_path).parent.parent)
    name = dataset or corpus_name(Path(str(path)))
    above = Path("outputs") / str(name) / encoder
    in_sweep = HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN
    # In a sweep, Lightning passes this folder to the processes of a job, which write nothing there.
    return str(above / started() if in_sweep else _own(above))


def sweep_dir() -> str:
    """Folder of a new sweep."""
    return str(_own(Path("outputs/sweeps")))


def started() -> str:
    """Start time of a run in UTC, which names its folder; the same in all of its processes.

    UTC, since local times repeat for an hour when daylight saving ends. Under torchrun, the first process that asks
    shares the time through torchrun's store, as the clocks of machines differ. Tasks of a SLURM job step use the name
    of the step instead, so that a requeued job finds its folder with Lightning's checkpoint.
    """
    now = f"{datetime.now(UTC):%Y-%m-%d_%H-%M-%SZ}"
    store = _torchrun_store()
    if store is not None:
        return str(store.compare_set("gedbd/started", "", now).decode())
    return _slurm_step() or now


def _own(above: Path) -> Path:
    """A folder named after the start time; a running command also creates it.

    Under torchrun the first process creates it and shares its name.
    """
    if _created is None:
        return above / started()
    if above in _created:
        return _created[above]
    if _slurm_step():
        _created[above] = above / _slurm_step()
    elif (store := _torchrun_store()) is None:
        _created[above] = _create(above, started())
    else:
        if os.environ["RANK"] == "0":
            store.set(f"gedbd/{above}", _create(above, started()).name)
        _created[above] = above / str(store.get(f"gedbd/{above}").decode())
    return _created[above]


def _create(above: Path, name: str) -> Path:
    """Creates a folder that did not exist, with this name or with the suffix -2, -3, ...

    The file system decides between two commands: only one of them can create a folder.
    """
    number = 1
    while True:
        folder = above / (name if number == 1 else f"{name}-{number}")
        above.mkdir(parents=True, exist_ok=True)
        try:
            folder.mkdir()
        except (FileExistsError, FileNotFoundError):  # another command created it, or deleted its parent
            number += 1
        else:
            return folder


def _torchrun_store() -> Any | None:
    """The store that the processes of torchrun share; None outside of torchrun."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    from torch.distributed.rendezvous import rendezvous

    store, _, _ = next(rendezvous("env://"))
    return store


def _slurm_step() -> str:
    """Name of the SLURM job step of this process; empty outside of SLURM and for a step with one task."""
    interactive = os.environ.get("SLURM_JOB_NAME") in ("bash", "interactive")
    if os.environ.get("SLURM_NTASKS", "1") == "1" or "SLURM_STEP_ID" not in os.environ or interactive:
        return ""
    return f"slurm_{os.environ['SLURM_JOB_ID']}.{os.environ['SLURM_STEP_ID']}"


def auto_precision() -> str:
    """Bfloat16 on a GPU that supports it, else float32: CPUs without matrix units are slower in bfloat16."""
    import torch

    return "bf16-mixed" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "32-true"


def encoding_precision() -> str:
    """Precision of ``backend=auto``: bfloat16 on a GPU that supports it, else float32."""
    return "bfloat16" if auto_precision() == "bf16-mixed" else "float32"
