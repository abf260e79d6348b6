"""The decorator of all commands: composes the configuration, and reports a user's mistake in one line."""

import functools
import gc
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import hydra
from hydra import initialize_config_dir
from hydra._internal.callbacks import Callbacks
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import run_job
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from gedbd.configuration.command_words import (
    MULTIRUN_FLAGS,
    check_config_flags,
    flags_first,
    gnu_options,
    literal_paths,
    parsed_flags,
    searched_folders,
    with_latest_run,
)
from gedbd.configuration.encoder_options import take_model_options
from gedbd.configuration.errors import CommandError, error_line, is_about_corpus, output_paths, without_content
from gedbd.configuration.help import command_help, option_words
from gedbd.configuration.options import check_command_line, delete_unused, is_own, own_folders, register_resolvers
from gedbd.io.command_output import json_output
from gedbd.io.console import (
    SEPARATOR,
    is_first_process,
    is_quiet,
    open_console,
    print_help,
    print_line,
    printable,
    stage,
    take_flags,
    verbosity,
)
from gedbd.io.files import CONF_DIR, private_files
from gedbd.io.locks import LockedError

# Hydra's own help lists options without their comments.
HELP_FLAGS = {"-h", "--help"}
VERSION_FLAG = "--version"
# It logs several lines about a target that cannot be imported, before ``mistakes_in_one_line`` reports it.
LOOKUP_LOGGER = "hydra.utils"
USAGE_STATUS = 2  # the command line is refused before the command starts; the shells' convention
IN_USE_STATUS = 75  # another process holds the folder's lock: EX_TEMPFAIL of sysexits.h, try again later
INTERRUPTED_STATUS = 130  # after Ctrl-C, by the shells' convention
TERMINATED_STATUS = 143  # likewise after SIGTERM
# The password in a server's address, which a message may quote from the command line.
PASSWORD = re.compile(r"(://[^:/@\s]*:)[^@/]*(?=@)|([?&]password=)[^&\s]*")
JSON_OPTION = re.compile(r"\+{0,2}json=(true|yes|on|1)", re.IGNORECASE)

Task = Callable[[DictConfig], Any]
ReadArguments = Callable[[list[str]], list[str]]


def options_for_hydra(
    config_name: str, arguments: Sequence[str], read_arguments: ReadArguments = list, value_flags: Sequence[str] = ()
) -> list[str]:
    """Turns the words of a command line into options for Hydra; raises ValueError if a word is refused."""
    names = option_words(config_name)
    words = gnu_options(arguments, names, value_flags)  # --top-k=5 becomes top_k=5, and --line 3 becomes line=3
    words = read_arguments(words)  # texts and paths become options
    words = searched_folders(words)  # --config-dir FOLDER becomes hydra.searchpath=
    words = literal_paths(words)
    words = flags_first(words)
    check_config_flags(parsed_flags(words), Path(CONF_DIR))
    return with_latest_run(config_name, words) if "run" in names else words  # run=latest becomes run=FOLDER


def command(
    config_name: str, read_arguments: ReadArguments = list, value_flags: Sequence[str] = ()
) -> Callable[[Task], Callable[..., Any]]:
    """Turns a function of the composed configuration into a command.

    Options are composed and checked once, before a run folder is created and before the function imports anything
    large. Hydra composes again only where it has more to do: for the jobs of a sweep, and for its own flags such as
    ``--cfg``. A mistake of the user ends the process with one line, and an empty run folder is deleted;
    ``HYDRA_FULL_ERROR=1`` shows the traceback. Hydra's sweeper receives what the function returns.

    Args:
        config_name: File in ``conf/`` to start from, without its suffix.
        read_arguments: Turns positional texts and paths into options.
        value_flags: Options that may be written as ``--name value``.
    """
    register_resolvers()

    def decorate(task: Task) -> Any:
        @functools.wraps(task)
        def run_task(cfg: DictConfig) -> Any:
            with mistakes_in_one_line(cfg):
                words = HydraConfig.get().overrides.task if HydraConfig.initialized() else []
                for line in take_model_options(cfg, words):
                    print_line(open_console(quiet=is_quiet() or not is_first_process()), line)
                return task(cfg)

        hydra_main = hydra.main(version_base="1.3", config_path=CONF_DIR, config_name=config_name)(run_task)

        def run_command() -> Any:
            logging.getLogger(LOOKUP_LOGGER).setLevel(logging.CRITICAL)
            if answer_flags(config_name):
                return None
            with mistakes_in_one_line(status=USAGE_STATUS):
                arguments, level = take_flags(sys.argv[1:])
            with verbosity(level):
                with mistakes_in_one_line(status=USAGE_STATUS), stage("check the options"):
                    # Lightning starts further processes with ``sys.argv``, and Hydra reads it.
                    sys.argv[1:] = options_for_hydra(config_name, arguments, read_arguments, value_flags)
                    cfg, new_folders = check_command_line(config_name, sys.argv[1:])
                json_options = [word for word in sys.argv[1:] if word.lstrip("+").startswith("json=")]
                # What a sweep prints before its first job goes to standard error too.
                json = bool(json_options) and JSON_OPTION.fullmatch(json_options[-1]) is not None
                if json and any(flag in sys.argv[1:] for flag in MULTIRUN_FLAGS):
                    # It is not passed to the jobs: the same sweep continues with or without it.
                    sys.argv[1:] = [word for word in sys.argv[1:] if not JSON_OPTION.fullmatch(word)]
                with private_files(), json_output(json), own_folders(), deleted_if_empty(new_folders):
                    return hydra_main() if cfg is None else run_once(run_task, cfg)

        @functools.wraps(task)
        def start(*cfg: DictConfig) -> Any:
            if cfg:
                return hydra_main(*cfg)
            try:
                return run_command()
            except KeyboardInterrupt as interrupt:  # unless the command itself says more
                print("interrupted", file=sys.stderr, flush=True)
                raise SystemExit(exit_status(interrupt)) from None
            except CommandError as error:
                # Elsewhere, such as in a test, the caller reads the line from the exception.
                if task.__module__ == "__main__":
                    print(error, file=sys.stderr, flush=True)
                    error.code = error.status
                raise

        return start

    return decorate


def answer_flags(config_name: str) -> bool:
    """Prints the help or the version if the command line asks for it; returns whether it does."""
    flags = set(takewhile(SEPARATOR.__ne__, sys.argv[1:]))
    if HELP_FLAGS & flags:
        print_help(command_help(config_name))
    elif VERSION_FLAG in flags:
        print(f"gedbd {version('gedbd')}")
    return bool({*HELP_FLAGS, VERSION_FLAG} & flags)


def run_once(task: Task, cfg: DictConfig) -> Any:
    """Runs a command on composed options, as Hydra does after it composes them."""
    OmegaConf.clear_cache(cfg)  # evaluates the run folder's name again: the earlier one may be taken by now
    with open_dict(cfg), initialize_config_dir(CONF_DIR, version_base="1.3"):
        cfg.hydra.mode = RunMode.RUN
        context = HydraContext(config_loader=GlobalHydra.instance().config_loader(), callbacks=Callbacks())
        return run_job(task, cfg, "hydra.run.dir", None, context, configure_logging=False).return_value


@contextmanager
def mistakes_in_one_line(cfg: DictConfig | None = None, status: int = 1) -> Iterator[None]:
    """Ends the process with one line if the user made a mistake; other errors pass through.

    A lock that another process holds has an exit status of its own.
    """
    try:
        yield
    except Exception as error:  # any type: ``error_line`` decides whether the user can correct it
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        line = error_line(error, output_paths(cfg or OmegaConf.create(), _run_folder()))
        if line is None:
            raise
        if cfg is not None and is_about_corpus(error) and _corpus_is_of_run(cfg):
            line = without_content(line)
        safe_line = PASSWORD.sub(r"\1\2***", printable(line))
        exit_code = IN_USE_STATUS if isinstance(error, LockedError) else status
        raise CommandError(f"error: {safe_line}", _run_folder(), exit_code) from error


def _corpus_is_of_run(cfg: DictConfig) -> bool:
    """Whether the files of a run, not the command line, name the corpus that a command reads."""
    has_run = any(OmegaConf.select(cfg, name, throw_on_missing=False) for name in ("run", "ckpt_path"))
    return has_run and not any(word.startswith(("dataset", "experiment")) for word in typed_words())


def typed_words(kind: Literal["task", "hydra"] = "task") -> list[str]:
    """The options of the running command as typed, or those of Hydra.

    Interpolations in them are not resolved: a value such as that of ``hydra.job.override_dirname`` may not be passed on
    without quotes.
    """
    overrides = HydraConfig.get().overrides
    return plain_words(overrides.task if kind == "task" else overrides.hydra)


def plain_words(words: Any) -> list[str]:
    """The words of a list of OmegaConf, which resolves interpolations in each word that is read from it."""
    unresolved: Any = OmegaConf.to_container(words) if OmegaConf.is_config(words) else words
    return list(map(str, unresolved))


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends training as Ctrl-C does."""


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Raises ``Terminated`` on SIGTERM. Only the main thread receives signals; in others nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous_handler = signal.signal(signal.SIGTERM, raise_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous_handler)


def raise_terminated(number: int, frame: FrameType | None) -> None:
    """The handler of SIGTERM."""
    raise Terminated


def exit_status(interrupt: KeyboardInterrupt) -> int:
    """The exit status of a command that was interrupted."""
    return TERMINATED_STATUS if isinstance(interrupt, Terminated) else INTERRUPTED_STATUS


@contextmanager
def deleted_if_empty(new: Sequence[Path]) -> Iterator[None]:
    """Deletes the folder of a run that fails before it writes anything.

    ``new`` holds the folder and those of its parents that did not exist before. The folder that is then created may
    have a later time in its name.
    """
    try:
        yield
    except CommandError as error:
        if error.folder is not None and (new or is_own(error.folder)):
            delete_unused(error.folder, above=new[1:])
        raise


def _run_folder() -> Path | None:
    """The folder that Hydra created for the running command, if any."""
    if not HydraConfig.initialized() or HydraConfig.get().output_subdir is None:
        return None
    return Path(HydraConfig.get().runtime.output_dir)


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pauses the garbage collector while large libraries are imported, which takes a fifth off their import time.

    What they create lives as long as the process, so it is frozen: later collections skip it. Only the first call
    freezes: a later one would also freeze the garbage of earlier jobs in a sweep.
    """
    gc.disable()
    try:
        yield
    finally:
        _freeze_once()
        gc.enable()


@functools.cache
def _freeze_once() -> None:
    gc.freeze()
