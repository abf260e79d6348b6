"""One-line error messages: what is wrong, with which option or file, and what to do."""

import errno
import os
import re
import shlex
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from hydra.errors import InstantiationException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, InterpolationResolutionError, MissingMandatoryValue

from gedbd.configuration.help import NOT_CHOICES
from gedbd.configuration.option_types import interpolation_problem, unknown_trainer_option
from gedbd.io.console import first_line
from gedbd.io.files import CONF_DIR

CALL = re.compile(r"call to target '(?P<target>.+?)'(?:.*full_key: (?P<key>\S+))?", re.DOTALL)
LOCATING = re.compile(r"Error locating target '(?P<target>.+?)'(?:.*full_key: (?P<key>\S+))?", re.DOTALL)
LOADING = re.compile(r"Error loading '(?P<target>.+?)'")
CORPUS = re.compile(r"full_key: (dataset(?:\.\w+)?)$")
KEY = re.compile(r"full_key: (\S+)$")
TRACEBACK = "HYDRA_FULL_ERROR=1 shows where"
FULL_BYTES = 1 << 20  # a disk with less free space counts as full
DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
RUST_ERROR = re.compile(r"\(os error (\d+)\)")  # safetensors and tokenizers report error numbers in words
CURES = {
    **dict.fromkeys(DISK_FULL_ERRORS, "free some space there"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "check its permissions"),
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR), "a file has the name of the folder: move the file"),
    errno.EISDIR: "it is a folder: give a file",
    errno.ENAMETOOLONG: "choose a shorter name",
}
EXAMPLES = {"dataset.path": "bugs.csv", "text.captions": "captions.csv", "tracker.base_url": "https://bugs.example.org"}
TEMPORARY = "TMPDIR"  # the environment variable
# Words of the papers and of other programs, and the options that they mean.
FULL_NAMES = {
    "batch": "batch_size",
    "d": "graph.pca_dim",
    "epochs": "trainer.max_epochs",
    "gpus": "trainer.devices",
    "lambda": "fusion.lambda_text",
    "lr": "optimizer.lr",
    "margin": "loss.margin",
    "model": "encoder",  # or encoder.model
    "pca": "graph.pca_dim",
}
# Words that users write to switch a group off, and what to write instead.
NO_CHOICE = ("none", "null", "false", "off")
SWITCH_OFF_HINTS = {
    "callbacks": "callbacks=none switches early stopping off",
    "debug": "leave debug= out for a whole run",
    "experiment": "leave experiment= out for the defaults",
    "logger": "leave logger= out; without it a run writes only metrics.csv (logger=csv)",
}
# Files of Hydra's plugins, and what installs them.
PLUGINS = {
    "hydra/launcher/joblib": "joblib",
    "hydra/launcher/submitit_local": "submitit",
    "hydra/launcher/submitit_slurm": "submitit",
}
# Recognised by name, as importing Lightning takes a second.
USERS_ERRORS = {"MisconfigurationException", "StoreUnavailable"}
FILE_OPTIONS = ("out", "fill")  # temporary files are written to the same folder
OUTPUT_OPTIONS = ("out", "fill", "cache_dir", "data_dir")


class CommandError(SystemExit):
    """Ends a command with a one-line message."""

    def __init__(self, line: str, folder: Path | None, status: int = 1) -> None:
        super().__init__(line)
        self.folder = folder
        self.status = status


def composition_line(error: Exception, words: Sequence[str], names: Sequence[str]) -> str:
    """The message for a command line that Hydra refuses.

    ``names`` are the dotted names of all options, sections and groups of the command.
    """
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _unknown_choice(error.missing_cfg_file, error.options or ())
    if isinstance(error, OverrideParseException):
        if "=" not in str(error.override):
            return _not_an_option(str(error.override), words, names)
        return (
            f"{error.override} cannot be parsed as option=value: close all brackets and quotes, and write a value with"
            " special characters as 'option=\"value\"'"
        )
    first = first_line(error)
    refused = re.match(r"Could not (?:override|delete from config\.) '(.+?)'", first)
    if refused:
        return _unknown_option(refused[1], words, names)
    no_file = _unknown_group_file(words) if first.startswith("Config group override must be") else None
    if no_file:
        return no_file
    several = re.match(r"(?:Ambiguous value for argument|Sweep parameters) '(.+?)'(?: requires|$)", first)
    if several:
        return f"{several[1]} has several values: add -m to run each of them, or write a list as [1,2]"
    present = re.match(r"Could not append to config. An item is already at '(.+)'", first)
    if present:
        return f"+{present[1]}: this option exists: write {present[1]}= without the +"
    merged = re.match(r"Error merging override (.+)", first)
    cause = f" ({first_line(error.__cause__)})" if error.__cause__ else ""
    if merged:
        return f"{merged[1]}: this value does not fit the option{cause}: --hydra-help explains those of Hydra"
    return f"these options cannot be composed: {first}{cause}, in {' '.join(words)}"


def _not_an_option(word: str, words: Sequence[str], names: Sequence[str]) -> str:
    """The message for a word without ``=``: a path, or the end of a value with a blank."""
    before = words[words.index(word) - 1] if word in words[1:] else ""
    if "=" in before and not Path(word).exists():
        return f"{word} is no option=value: if it is a part of the value before it, write '{before} {word}' in quotes"
    path = next((name for name in ("dataset.path", "index") if name in names), None)
    cure = f"write {shlex.quote(f'{path}={word}')}" if path else "--help lists the options"
    return f"{word} is no option=value: {cure}"


def error_line(error: BaseException, outputs: Mapping[str, Path]) -> str | None:
    """The message for an error that the user can correct; None for other errors.

    ``outputs`` are the paths that the command writes, by option.
    """
    if isinstance(error, InstantiationException):
        return creation_line(error, error_line(error.__cause__, outputs) if error.__cause__ else None)
    if isinstance(error, MissingMandatoryValue):
        key = first_line(error).rpartition(" ")[2]
        return f"{key}= is required, for example: {key}={EXAMPLES.get(key, '...')}"
    if isinstance(error, ConfigAttributeError | ConfigKeyError):
        return f"this command needs the option {error.full_key}, which is missing"
    if isinstance(error, InterpolationResolutionError):
        return f"{error.full_key}: {interpolation_problem(error)}"
    if isinstance(error, OSError):
        return os_error_line(error, outputs)
    if isinstance(error, sqlite3.OperationalError):
        written = ", ".join(f"{option}={path}" for option, path in outputs.items())
        return f"{error}, while writing to {written}: free some space there, or check its permissions"
    if isinstance(error, ValueError) or USERS_ERRORS & {kind.__name__ for kind in type(error).__mro__}:
        return first_line(error)
    if isinstance(error, ImportError):
        # A target that Hydra looks up without calling it.
        loading = LOADING.match(str(error))
        return import_line(f"_target_={loading[1]}", loading[1], error) if loading else None
    full = _disk_error(error)
    return os_error_line(full, outputs) if full else None


def is_about_corpus(error: BaseException) -> bool:
    """Whether the corpus of the section ``dataset`` cannot be read."""
    return isinstance(error, InstantiationException) and CORPUS.search(str(error)) is not None


def without_content(line: str) -> str:
    """A reader's message without what it quotes: a run of a stranger may name any file of this machine."""
    place, colon, problem = line.partition(": ")
    if not colon or "no such file" in problem:
        return line if colon else "the corpus that this run names cannot be read"
    return f"{place}: not readable as the corpus that this run names; gedbd describe dataset.path= says why"


def _disk_error(error: BaseException | None) -> OSError | None:
    """Finds the disk-full error behind a library's error: among its causes, or as an error number in its message."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in DISK_FULL_ERRORS:
            return error
        in_words = RUST_ERROR.search(str(error))
        if in_words and int(in_words[1]) in DISK_FULL_ERRORS:
            return OSError(int(in_words[1]), os.strerror(int(in_words[1])))
        error = error.__cause__ or error.__context__
    return None


def output_paths(cfg: DictConfig, run_folder: Path | None) -> dict[str, Path]:
    """Paths that a command writes to, by option."""
    named = {name: cfg.get(name) for name in OUTPUT_OPTIONS if not OmegaConf.is_missing(cfg, name)}
    outputs = {name: Path(value).expanduser() for name, value in named.items() if isinstance(value, str)}
    folder = {} if run_folder is None else {"hydra.run.dir": run_folder}
    return folder | outputs | {TEMPORARY: Path(tempfile.gettempdir())}


def os_error_line(error: OSError, outputs: Mapping[str, Path]) -> str:
    """The message for an error of the operating system: the file, the reason, and what to do.

    Where a disk is full, the error names no file.
    """
    file = error.filename2 or error.filename
    if error.errno is None or (file is None and error.errno not in DISK_FULL_ERRORS):
        return first_line(error)
    # No file means a full disk: name the options that write to it, or all if no disk is full any more.
    if file is None:
        existing = {
            option: next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
            for option, folder in outputs.items()
        }
        full = [option for option, path in existing.items() if shutil.disk_usage(path).free < FULL_BYTES]
        options = full or list(outputs)
    else:
        options = list(_options_of(Path(str(file)), outputs))
    subject = str(file or " or ".join(f"{option}={outputs[option]}" for option in options))
    reason = os.strerror(error.errno).lower()
    cure = CURES.get(error.errno, "check the path")
    other = f", or set {options[0]}= to another place" if options and error.errno != errno.ENOENT else ""
    return f"{subject}: {reason}; {cure}{other}"


def _options_of(path: Path, outputs: Mapping[str, Path]) -> Iterator[str]:
    """Options that name a folder above a file, or a path below it."""
    for option, folder in outputs.items():
        above = folder.absolute()
        below = path.absolute()
        if option in FILE_OPTIONS:
            above = above.parent
        if below.is_relative_to(above) or (option != TEMPORARY and above.is_relative_to(below)):
            yield option


def _unknown_choice(missing: str, options: Sequence[str]) -> str:
    # A choice may hold slashes, as model names do; so may the names of Hydra's groups.
    group, _, choice = missing.rpartition("/") if missing.startswith("hydra/") else missing.partition("/")
    if missing in PLUGINS:
        return f"{group}={choice} needs another package: pip install 'gedbd[{PLUGINS[missing]}]'"
    choices = [option for option in options if (group, option) not in NOT_CHOICES]
    if not choices:
        return f"{group}={choice}: {missing}.yaml does not exist"
    near = get_close_matches(choice, choices, n=1)
    hints = [f"did you mean {near[0]}?"] if near else []
    if choice in NO_CHOICE and group in SWITCH_OFF_HINTS:
        hints = [f"{SWITCH_OFF_HINTS[group]}."]
    if group == "encoder":
        hints.append(f"for a folder, or a model of the hub: encoder=bert encoder.model={choice}.")
    own_files = "" if hints or choice in NO_CHOICE else "; files of your own need --config-dir FOLDER"
    first, *rest = [*hints, f"choose one of {', '.join(choices)}{own_files}"]
    return " ".join([f"{group}={choice} is unknown: {first}", *(hint[0].upper() + hint[1:] for hint in rest)])


def _unknown_group_file(words: Sequence[str]) -> str | None:
    """The message for ``logger=false``, ``logger=null`` and ``logger=5``, which name no file; None if there is none."""
    for word in words:
        group, _, choice = word.partition("=")
        options = sorted(file.stem for file in Path(CONF_DIR, group).glob("*.yaml")) if group else []
        if options and choice not in options:
            return _unknown_choice(f"{group}/{choice.lower()}", options)
    return None


def _unknown_option(option: str, words: Sequence[str], names: Sequence[str]) -> str:
    """The message for an unknown option; it suggests one of ``FULL_NAMES``, of the same last name, or a similar one."""
    if option in names:  # the names are those of the default choices
        group = option.partition(".")[0]
        chosen = next((word for word in words if word.startswith(f"{group}=")), f"the chosen {group}")
        return f"{chosen} has no option {option}: leave it out, or choose another {group}="
    if option.startswith("trainer.") and "trainer.max_epochs" in names:
        typed = next((word for word in words if word.startswith(f"{option}=")), f"{option}=")
        return unknown_trainer_option(typed, names)
    last = option.rpartition(".")[2]  # max_epochs may be a part of trainer.max_epochs
    same = [name for name in names if name.rpartition(".")[2] == last]
    meant = [FULL_NAMES[option]] if FULL_NAMES.get(option) in names else []
    near = meant or same or get_close_matches(option, names, n=1)
    hint = f": did you mean {near[0]}?" if near else ": --help lists all options"
    section, _, within = option.partition(".")
    can_add = within and any(name.startswith(f"{section}.") for name in names)
    return f"unknown option {option}{hint}" + (f" (to add a new option: +{option}=)" if can_add else "")


def creation_line(error: InstantiationException, cause_line: str | None) -> str:
    """The message for an object that Hydra cannot create.

    ``cause_line`` is the message for its cause, if the user can correct that.
    """
    cause = error.__cause__
    locating = LOCATING.search(str(error))
    if locating:
        section = f"{locating['key']}." if locating["key"] else ""
        return import_line(f"{section}_target_={locating['target']}", locating["target"], cause)
    if cause is None:
        key = KEY.search(str(error))
        return f"{key[1]}: {first_line(error)}" if key else first_line(error)
    call_match = CALL.search(str(error))
    if call_match is None:
        return _with_section(error, cause_line) or f"{first_line(error)} {_type_and_message(cause)}; {TRACEBACK}"
    section = f"{call_match['key']}: " if call_match["key"] else ""
    failed = f"{section}{call_match['target']} fails: {_type_and_message(cause)}; {TRACEBACK}"
    return _refused_argument(call_match, cause) or _with_section(error, cause_line) or failed


def import_line(option: str, target: str, cause: BaseException | None) -> str:
    """The message for a target that cannot be imported."""
    if cause is not None and LOADING.match(str(cause)):  # Hydra wraps Python's error
        cause = cause.__cause__
    top = target.partition(".")[0]
    missing = cause.name if isinstance(cause, ModuleNotFoundError) else None
    if missing == top:
        if Path(top).is_dir() or Path(f"{top}.py").is_file():
            return f"cannot import {top}: {option}; begin with PYTHONPATH=. to import from the current folder"
        return f"cannot import {top}: {option}; put its folder on PYTHONPATH"
    if missing and f"{target}.".startswith(f"{missing}."):  # gedbd.losses has no module gedbd.losses.hinge
        module, _, name = missing.rpartition(".")
        return f"{option}: {module} has no {name}"
    return f"cannot import {option}: {_type_and_message(cause)}"


def _refused_argument(call_match: re.Match[str], cause: BaseException) -> str | None:
    """The message for an option that a class refuses, such as one added to Lightning's Trainer."""
    section = f"{call_match['key']}." if call_match["key"] else ""
    unknown = re.search(r"unexpected keyword argument '(.+?)'", str(cause))
    if isinstance(cause, TypeError) and unknown:
        return f"{section}{unknown[1]}= is not an argument of {call_match['target']}: leave it out"
    missing = re.search(r"missing \d+ required .* arguments?: '(.+?)'", str(cause))
    if isinstance(cause, TypeError) and missing:
        return f"{section}{missing[1]}= is required by {call_match['target']}"
    if call_match["target"].startswith("pytorch_lightning") and not isinstance(cause, OSError):
        return f"{call_match['key'] or 'trainer'}: Lightning's Trainer refuses it: {first_line(cause)}"
    return None


def _with_section(error: InstantiationException, line: str | None) -> str | None:
    """Adds the section to the options in a reader's message: ``base_url=`` becomes ``dataset.base_url=``.

    A section may be nested: ``dataset.reports.path`` in a history.
    """
    section = CORPUS.search(str(error))
    if section is None or line is None:
        return line
    return re.sub(r"^(?=[a-z_]+=)|(?<![\w/.])dataset\.(?=\w)", f"{section[1]}.", line)


def _type_and_message(error: BaseException | None) -> str:
    """An error's type and message."""
    return f"{type(error).__name__}: {first_line(error)}"
