"""What a command line may hold besides Hydra options: flags, texts, paths, and config folders.

Each function is a step of ``gedbd.configuration.command.options_for_hydra``: it takes words and returns words, or
refuses them.
"""

import os
import re
from argparse import ArgumentError, Namespace
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from pathlib import Path

from gedbd.configuration.option_types import names_path
from gedbd.io.console import is_quiet, open_console, print_line

COMPLETION_FLAGS = ("-sc", "--shell-completion")
HYDRA_OPTION = re.compile(r"[~+]{0,2}[A-Za-z_][\w./@-]*=")
NAME_AND_VALUE = re.compile(r"([A-Za-z_][\w./@-]*)=(.*)", re.DOTALL)
QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")  # a quoted value, which may hold blanks
MULTIRUN_FLAGS = ("-m", "--multirun")
GNU_OPTION = re.compile(r"--([A-Za-z_][\w./@-]*)(=.*)?", re.DOTALL)
RUN_FLAG = "--run"  # of Hydra, beside the option ``run``
CONFIG_DIR_FLAGS = ("--config-dir", "-cd")
SEARCHPATH = "hydra.searchpath="
OUTPUTS = Path("outputs")
LATEST = "run=latest"
# Two files that identify a finished run of a kind: the one that is written last, and another one.
BACKTEST = ("matching.json", "config.yaml")
LOCATE_BACKTEST = ("ranker.json", "config.yaml")
TRAINING = ("predictions.parquet", "checkpoints")
SCORED = ("predictions.parquet", "config.yaml")  # a training or a baseline
WRITTEN_BY = {
    "compare": (SCORED, "gedbd train or gedbd baseline"),
    "index": (BACKTEST, "gedbd backtest"),
    "judge": (BACKTEST, "gedbd backtest"),
    "locate": (LOCATE_BACKTEST, "gedbd locate-backtest"),
    "sync": (BACKTEST, "gedbd backtest"),
}
SPECIAL = re.compile(r"(?<!\\)(\\*+)('|\$\{|\Z)")


def gnu_options(arguments: Sequence[str], names: Collection[str], value_flags: Collection[str] = ()) -> list[str]:
    """Turns ``--name=value`` into ``name=value``, and ``--json`` into ``json=true``.

    Words after ``--``, Hydra's flags and words that name no option of the command do not change. ``names`` holds the
    command's groups and top-level options. The value of one of ``value_flags`` is text, and may be the next word:
    ``--line 3 --out=x`` becomes ``line=3 out='x'``.

    Raises:
        ValueError: If a flag names an option without a value, or is ``--json`` and the command has no such option.
    """
    options: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            return [*options, word, *words]
        match = GNU_OPTION.fullmatch(word)
        name = match[1].replace("-", "_") if match else ""  # --top-k=5
        if match and name in value_flags:
            value = match[2][1:] if match[2] else next(words, "")
            if not value:
                raise ValueError(f"{word} needs a value: {word.rstrip('=')} VALUE")
            options.append(f"{name}={value if value.isdecimal() else quoted_text(value)}")
        elif word == "--json" and name not in names:
            raise ValueError(f"--json: this command has no option json; it has {', '.join(sorted(names))}")
        elif word == RUN_FLAG or re.split(r"[./@]", name)[0] not in names:
            options.append(word)
        elif match and (match[2] or word == "--json"):
            options.append(f"{name}{match[2] or '=true'}")
        else:
            following = next(words, "")
            example = following if following and _is_positional(following) else "VALUE"
            raise ValueError(f"{word}: an option is written {name}=, such as {name}={example}")
    return options


def literal_text(arguments: Sequence[str], option: str, names: Collection[str]) -> list[str]:
    """Puts the literal text of a command line into one option for Hydra.

    Words after ``--`` are text, and so are words before it that look like neither options nor flags. Programs write
    ``--`` before text from elsewhere. Without ``--``, a word is an option only if it is ``name=value`` with a name of
    the command and without an interpolation. Other words are text. A word that could be either is refused. A value
    given as ``option=`` is text too.

    Raises:
        ValueError: If a word could be an option or text, or a flag or text.
    """
    words = list(arguments)
    # The shell asks for completions with query=bash, which is not the option query.
    if words and words[0] in COMPLETION_FLAGS:
        return words
    if "--" in words:
        separator = words.index("--")
        before = words[:separator]
        options = [word for word in before if HYDRA_OPTION.match(word) or word.startswith("-")]
        text = [word for word in before if word not in options] + words[separator + 1 :]
    else:
        options = [word for word in words if _is_option(word, option, names)]
        text = [word for word in words if word not in options]
    named = [word for word in options if word.startswith(f"{option}=")]
    text += [word.removeprefix(f"{option}=") for word in named]
    rest = [word for word in options if word not in named]
    return rest + ([f"{option}={quoted_text(' '.join(text))}"] if text else [])


def _is_option(word: str, option: str, names: Collection[str]) -> bool:
    """Whether a word is an option of the command. Raises ValueError if it could be text as well."""
    has_blank = re.search(r"\s", word) is not None
    if word.startswith("-") and word != "-" and not has_blank:
        raise ValueError(f"{word} could be a flag or part of the text: put flags first, then --, then the text")
    match = NAME_AND_VALUE.fullmatch(word)
    if match is None:
        return False
    name, value = match.groups()
    known = re.split(r"[./@]", name)[0] in names
    is_path = names_path(name) and os.path.exists(value)
    if known and (name == option or is_path or ("${" not in value and (not has_blank or QUOTED.fullmatch(value)))):
        return True
    if known and "\n" not in word:
        raise ValueError(
            f"{word!r} could be an option or part of the text: write -- between the options and the text; if it is an"
            f" option, end the command line with --, or write {name}=\"'{value}'\""
        )
    if not known and not has_blank:
        near = get_close_matches(name, list(names), n=1)
        hint = f"did you mean {near[0]}?" if near else "--help lists all options."
        raise ValueError(f"unknown option {name}: {hint} To search for {word}, write -- before the text")
    return False


def positional_list(arguments: Sequence[str], option: str) -> list[str]:
    """Puts the positional arguments into a list in one option for Hydra.

    ``["a b", "out=x", "c"]`` becomes ``["out=x", "paths=['a b','c']"]`` for the option ``paths``. What is neither
    ``name=value`` nor a flag is positional, and so is an existing path such as ``seed=1,lr=0.1``.
    """
    values = [word for word in arguments if _is_positional(word)]
    options = [word for word in arguments if not _is_positional(word)]
    quoted = ",".join(map(quoted_text, values))
    return options + ([f"{option}=[{quoted}]"] if values else [])


def positional_options(arguments: Sequence[str], options: Sequence[str]) -> list[str]:
    """Assigns the positional arguments to the options that are not set, in order.

    ``["a b", "c", "out=x"]`` becomes ``["run='a b'", "against='c'", "out=x"]`` for the options ``run`` and ``against``.

    Raises:
        ValueError: If there are more positional arguments than options, or a flag is unknown.
    """
    words = list(arguments)
    parsed_flags(words)
    unset = [option for option in options if not any(word.startswith(f"{option}=") for word in words)]
    positions = [position for position, word in enumerate(words) if _is_positional(word)]
    if len(positions) > len(unset):
        free = " and ".join(f"{option}=" for option in options)
        raise ValueError(f"{words[positions[len(unset)]]} is one too many: give a value for each of {free}")
    for option, position in zip(unset, positions, strict=False):
        words[position] = f"{option}={quoted_text(words[position])}"
    return words


def _is_positional(word: str) -> bool:
    return not word.startswith("-") and ("=" not in word or os.path.exists(word))


def literal_paths(arguments: Sequence[str]) -> list[str]:
    """Quotes existing paths, in whose names Hydra would read a list, a choice or an interpolation.

    ``run=outputs/seed=1,lr=0.1`` becomes ``run='outputs/seed=1,lr=0.1'`` if there is such a folder.

    Raises:
        ValueError: If a path holds ``${``, which saved options cannot.
    """
    words = []
    for word in arguments:
        match = NAME_AND_VALUE.fullmatch(word)
        is_path = match is not None and names_path(match[1]) and os.path.exists(match[2])
        if is_path and "${" in word:
            raise ValueError(f"{word}: options cannot hold a path with ${{ in it: rename it")
        words.append(f"{match[1]}={path_value(match[2])}" if match and is_path else word)
    return words


def path_value(path: str | Path) -> str:
    """A path as the value of an option, with quotes if Hydra reads anything else without them."""
    from hydra.core.override_parser.overrides_parser import OverridesParser  # slow import
    from hydra.errors import HydraException

    text = str(path)
    try:
        value = OverridesParser.create().parse_override(f"path={text}").value()
    except HydraException:
        value = None
    return text if value == text and "$" not in text else quoted_text(text)


def searched_folders(arguments: Sequence[str]) -> list[str]:
    """Moves each ``--config-dir FOLDER`` into ``hydra.searchpath=``.

    Unlike the flag, the option also applies when the defaults are composed again.

    Raises:
        ValueError: If the flag has no folder or one that does not exist, or ``hydra.searchpath=`` is set too.
    """
    rest = []
    folders = []
    words = iter(arguments)
    for word in words:
        flag, equals, value = word.partition("=")
        if flag not in CONFIG_DIR_FLAGS:
            rest.append(word)
            continue
        folder = value if equals else next(words, "")
        if not folder:
            raise ValueError(f"{flag} needs a folder: {flag}=FOLDER")
        folders.append(Path(folder).expanduser().absolute())
        if not folders[-1].is_dir():
            raise ValueError(f"{flag}={folder}: no such folder; give one that holds groups, as conf/ does")
    if folders and any(word.startswith(SEARCHPATH) for word in rest):
        raise ValueError(f"give all folders in one option: {SEARCHPATH}[file://FOLDER,file://FOLDER]")
    entries = ",".join(quoted_text(f"file://{folder}") for folder in folders)
    return rest + ([f"{SEARCHPATH}[{entries}]"] if folders else [])


def flags_first(arguments: Sequence[str]) -> list[str]:
    """Moves Hydra's flags to the front: it refuses flags between options."""
    options: list[str] = parsed_flags(arguments).overrides
    return [word for word in arguments if word not in options] + options


def parsed_flags(arguments: Sequence[str]) -> Namespace:
    """The flags of a command line as Hydra reads them; ``overrides`` holds the options.

    Raises:
        ValueError: If a word begins with a hyphen and is no flag of Hydra, or a flag has no value or a wrong one.
    """
    from hydra._internal.utils import get_args_parser  # slow import

    parser = get_args_parser()
    parser.exit_on_error = False
    try:
        parsed, unknown = parser.parse_known_intermixed_args(arguments)
    except ArgumentError as error:
        raise ValueError(f"{error.argument_name}: {error.message}") from error
    unknown += [word for word in parsed.overrides if word.startswith("-")] + ["--"] * ("--" in arguments)
    if parsed.experimental_rerun:
        unknown.append("--experimental-rerun")  # it would load a pickle
    if unknown:
        raise ValueError(f"unknown flag {unknown[0]}: options are written name=value; --help lists them and the flags")
    for flag in ("resolve", "package"):
        if getattr(parsed, flag) and not parsed.cfg:
            raise ValueError(f"--{flag} is for the options that --cfg prints: add --cfg job")
    return parsed


def check_config_flags(flags: Namespace, conf: Path) -> None:
    """Raises ValueError if a Hydra flag names a configuration that does not exist; Hydra would print its usage."""
    path = Path(flags.config_path or conf)
    file = path / f"{flags.config_name.removesuffix('.yaml')}.yaml" if flags.config_name else path
    if not file.exists():
        raise ValueError(
            f"{file} does not exist: leave --config-name and --config-path out; {CONFIG_DIR_FLAGS[0]} FOLDER adds"
            " your own files, which group=NAME chooses, such as experiment=NAME"
        )


def option_of(word: str) -> str:
    """Name of the option that a word of the command line sets: ``optimizer.lr`` for ``+optimizer.lr=1``."""
    return word.partition("=")[0].lstrip("+~")


def section_of(word: str) -> str:
    """Section of a word: ``graph`` for ``graph=knn``, ``graph.pca_dim=5`` and ``+encoder@graph.titles=bert``."""
    option = option_of(word)
    return (option.partition("@")[2] or option).partition(".")[0]


def quoted_text(text: str) -> str:
    """Quotes a text, so that Hydra and OmegaConf interpret none of its characters."""
    return f"'{SPECIAL.sub(_escaped, text)}'"


def _escaped(match: re.Match[str]) -> str:
    """Escapes a quote (for Hydra) or an interpolation (for OmegaConf), and the backslashes before it."""
    return match[1] * 2 + (f"\\{match[2]}" if match[2] else "")


def with_latest_run(config_name: str, words: Sequence[str]) -> list[str]:
    """Replaces ``run=latest`` by the newest finished run, and prints its folder.

    Raises:
        ValueError: If there is no such run in ``outputs/``.
    """
    if LATEST not in words:
        return list(words)
    (last_file, second_file), command = WRITTEN_BY.get(config_name, (TRAINING, "gedbd train"))
    files = [file for file in OUTPUTS.rglob(last_file) if (file.parent / second_file).exists()]
    if not files:
        raise ValueError(f"{LATEST}: no finished run of {command} in {OUTPUTS}/ of the current folder")
    folder = max(files, key=lambda file: file.stat().st_mtime).parent
    if not is_quiet():
        print_line(open_console(stderr=True), f"{LATEST}: run={folder}")
    return [f"run={path_value(folder)}" if word == LATEST else word for word in words]
