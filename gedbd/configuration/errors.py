"""Error messages of one line: what is wrong, with which option or file, and what to do."""

import errno
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from hydra.errors import InstantiationException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, InterpolationResolutionError, MissingMandatoryValue

from gedbd.configuration.instantiation_errors import creation_line, first_line, lookup_line
from gedbd.configuration.renamed_options import RENAMED_CHOICES, new_name

FULL_BYTES = 1 << 20  # a disk with less free space counts as full
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
RUST_ERROR = re.compile(r"\(os error (\d+)\)")  # safetensors and tokenizers report error numbers in words
CURES = {
    **dict.fromkeys(FULL, "free some space there"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "check its permissions"),
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR), "a file has the name of the folder: move the file"),
    errno.EISDIR: "it is a folder: give a file",
    errno.ENAMETOOLONG: "choose a shorter name",
}
EXAMPLES = {"dataset.path": "bugs.csv", "text.captions": "captions.csv", "tracker.base_url": "https://bugs.example.org"}
TEMPORARY = "TMPDIR"  # the environment variable
FILE_OPTIONS = ("out", "fill")  # temporary files are written to the same folder
PLACE_OPTIONS = ("out", "fill", "cache_dir", "data_dir")


class CommandError(SystemExit):
    """The end of a command with one line and exit status 1.

    Attributes:
        folder: The run folder that Hydra created for the command, if any.
    """

    def __init__(self, line: str, folder: Path | None) -> None:
        super().__init__(line)
        self.folder = folder


def composition_line(error: Exception, words: Sequence[str], names: Sequence[str]) -> str:
    """The message for a command line that Hydra refuses.

    Args:
        error: Hydra's error.
        words: The options on the command line.
        names: Dotted names of all options, sections and groups of the command.
    """
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _unknown_choice(error.missing_cfg_file, error.options or ())
    if isinstance(error, OverrideParseException):
        return (
            f"{error.override} cannot be parsed as option=value: close all brackets and quotes, and write a value with"
            " special characters as 'option=\"value\"'"
        )
    first = first_line(error)
    refused = re.match(r"Could not (?:override|delete from config\.) '(.+?)'", first)
    if refused:
        return _unknown_option(refused[1], names)
    several = re.match(r"Ambiguous value for argument '(.+)'", first)
    if several:
        return f"{several[1]} has several values: add -m to run each of them, or write a list as [1,2]"
    cause = f" {first_line(error.__cause__)}" if error.__cause__ else ""
    return f"{first}{cause} (in {' '.join(words)})"


def error_line(error: BaseException, places: Mapping[str, Path]) -> str | None:
    """The message for an error that the user can correct; None for other errors.

    Args:
        error: What the command raised.
        places: Where the command writes, by the option that says so.
    """
    if isinstance(error, InstantiationException):
        return creation_line(error, error_line(error.__cause__, places) if error.__cause__ else None)
    if isinstance(error, MissingMandatoryValue):
        key = first_line(error).rpartition(" ")[2]
        return f"{key}= is required, for example: {key}={EXAMPLES.get(key, '...')}"
    if isinstance(error, ConfigAttributeError | ConfigKeyError):
        return f"the option {error.full_key} is missing, which this command needs"
    if isinstance(error, InterpolationResolutionError):
        return f"{error.full_key}: {first_line(error)}"
    if isinstance(error, OSError):
        return os_error_line(error, places)
    if isinstance(error, sqlite3.OperationalError):
        written = ", ".join(f"{option}={path}" for option, path in places.items())
        return f"{error}, while writing to {written}: free some space there, or check its permissions"
    # Recognised by name, as importing the classes of Lightning and of the index takes a second.
    if isinstance(error, ValueError) or type(error).__name__ in ("MisconfigurationException", "StoreUnavailable"):
        return first_line(error)
    if isinstance(error, ImportError):
        return lookup_line(error)
    full = _disk_error(error)
    return os_error_line(full, places) if full else None


def _disk_error(error: BaseException | None) -> OSError | None:
    """The full disk behind a library's error: its cause, or an error number in its message."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return error
        in_words = RUST_ERROR.search(str(error))
        if in_words and int(in_words[1]) in FULL:
            return OSError(int(in_words[1]), os.strerror(int(in_words[1])))
        error = error.__cause__ or error.__context__
    return None


def written_places(cfg: DictConfig, run_folder: Path | None) -> dict[str, Path]:
    """Where a command writes, by the option that says so.

    Args:
        cfg: The command's configuration.
        run_folder: The command's run folder, if it has one.
    """
    named = {name: cfg.get(name) for name in PLACE_OPTIONS if not OmegaConf.is_missing(cfg, name)}
    places = {name: Path(value).expanduser() for name, value in named.items() if isinstance(value, str)}
    folder = {} if run_folder is None else {"hydra.run.dir": run_folder}
    return folder | places | {TEMPORARY: Path(tempfile.gettempdir())}


def os_error_line(error: OSError, places: Mapping[str, Path]) -> str:
    """The message for an error of the operating system: the file, the reason, and what to do.

    Args:
        error: The error; where a disk is full, it names no file.
        places: See ``error_line``.
    """
    file = error.filename2 or error.filename
    if error.errno is None or (file is None and error.errno not in FULL):
        return first_line(error)
    # Without a file the disk is full: the options whose disk it is, or all if none of them is full any more.
    near = (_full(places) or places) if file is None else _options_of(Path(str(file)), places)
    options = list(near)
    subject = str(file or " or ".join(f"{option}={places[option]}" for option in options))
    reason = os.strerror(error.errno).lower()
    cure = CURES.get(error.errno, "check the path")
    other = f", or set {options[0]}= to another place" if options and error.errno != errno.ENOENT else ""
    return f"{subject}: {reason}; {cure}{other}"


def _options_of(path: Path, places: Mapping[str, Path]) -> Iterator[str]:
    """Options that name a folder above a file, or a path below it."""
    for option, place in places.items():
        above = place.absolute()
        below = path.absolute()
        if option in FILE_OPTIONS:
            above = above.parent
        if below.is_relative_to(above) or (option != TEMPORARY and above.is_relative_to(below)):
            yield option


def _full(places: Mapping[str, Path]) -> list[str]:
    """Options whose path is on a full disk."""
    found = []
    for option, place in places.items():
        absolute = place.absolute()
        nearest = next(path for path in (absolute, *absolute.parents) if path.exists())
        if shutil.disk_usage(nearest).free < FULL_BYTES:
            found.append(option)
    return found


def _unknown_choice(missing: str, options: Sequence[str]) -> str:
    group, _, choice = missing.rpartition("/")
    renamed = RENAMED_CHOICES.get(f"{group}={choice}")
    if renamed:
        return f"{group}={choice} is now called {renamed}"
    if not options:
        return f"{group}={choice}: {missing}.yaml does not exist"
    near = get_close_matches(choice, options, n=1)
    hint = f"did you mean {near[0]}? Choose" if near else "choose"
    return f"{group}={choice} is unknown: {hint} one of {', '.join(options)}"


def _unknown_option(option: str, names: Sequence[str]) -> str:
    """The message, with the new name, the option of the same last name, or the most similar one."""
    renamed = new_name(option, {name.partition(".")[0] for name in names})
    if renamed:
        return f"the option {option} is now called {renamed}"
    last = option.rpartition(".")[2]  # max_epochs may be a part of trainer.max_epochs
    same = [name for name in names if name.rpartition(".")[2] == last]
    near = same or get_close_matches(option, names, n=1)
    hint = f": did you mean {near[0]}?" if near else ": --help lists all options"
    return f"unknown option {option}{hint} (to add a new option: +{option}=)"
