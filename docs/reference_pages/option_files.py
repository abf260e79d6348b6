"""The options of ``conf/``, described by the comments of their files or the docstrings of what they build."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gedbd.configuration.help import EXAMPLE, options_of, top_comment
from reference_pages.docstrings import ROOT, parameters_of

CONF = ROOT / "conf"
PACKAGE = re.compile(r"^# @package (\w+)$", re.MULTILINE)
OTHER_OPTION = re.compile(r"\$\{([\w.]+)\}")  # a value that is that of another option
ELLIPTIC = re.compile(r"(or|see|likewise|such as)\b")  # a comment that adds to what the name says
NONE = re.compile(r"\bNone\b")
VALUE = re.compile(r"(true|false|null)\b|[^\s(]*(?:[:,_=\d]|\/|\.\w)")
ALL_LEVELS = 99
OF_TRAINING = ("shared", "train", "baseline")  # commands whose options other files set
# libyaml, which is ten times as quick, where it is installed.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
NOT_OPTIONS = {"defaults", "hydra"}


@dataclass(frozen=True)
class Option:
    """An option of one file.

    Attributes:
        name: Dotted name, as it is given on the command line.
        default: Its value in the file as text; empty for a section.
        comment: What the file says about it.
        parameter: What the docstring of the parameter says that it becomes.
    """

    name: str
    default: str
    comment: str
    parameter: str

    @property
    def description(self) -> str:
        """The description; empty if there is none."""
        if self.comment and self.parameter and ELLIPTIC.match(self.comment):
            return f"{self.parameter.removesuffix('.')}; {self.comment}"
        return self.comment or self.parameter


@dataclass
class OptionFile:
    """A file of ``conf/``.

    Attributes:
        group: Its group, such as ``encoder``; empty for the file of a command.
        name: Its name without suffix.
        about: What it is for, from the comment that it begins with.
        examples: Command lines, from the same comment.
        chosen: The choices of other groups that it makes.
        includes: Files of the same group that it includes.
        options: Its own options.
        swept: The values of a sweep, by option.
    """

    group: str
    name: str
    about: list[str] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)
    chosen: dict[str, str] = field(default_factory=dict)
    includes: list[str] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    swept: dict[str, str] = field(default_factory=dict)


@cache
def option_files() -> tuple[OptionFile, ...]:
    """All files of ``conf/``, those of commands first."""
    paths = sorted(CONF.rglob("*.yaml"), key=lambda path: (path.parent != CONF, path))
    return tuple(read_option_file(path) for path in paths)


def read_option_file(path: Path, conf: Path = CONF) -> OptionFile:
    """Reads a file of a folder of configuration."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    content = yaml.load(text, Loader=LOADER) or {}
    group = path.parent.relative_to(conf).as_posix().removeprefix(".")
    package = PACKAGE.search(text)
    package_name = group.replace("/", ".") if package is None else package[1].removeprefix("_global_")
    above = f"{package_name}." if package_name else ""
    comment = list(top_comment(lines))
    written = {option.name: option for option in options_of(lines, ALL_LEVELS)}
    options = []
    for name, value, parameter in _leaves(content):
        found = written.get(name)
        # What is in braces on one line has the comment of its section.
        named = found or written.get(name.rpartition(".")[0])
        comment_of = named.comment if named else ""
        if name.partition(".")[0] not in NOT_OPTIONS and (value is not None or comment_of):
            default = found.value if found and value and not found.value.startswith(">") else value or ""
            options.append(Option(f"{above}{name}", default, comment_of, parameter))
    sweeper = content.get("hydra", {}).get("sweeper", {})
    return OptionFile(
        group=group,
        name=path.stem,
        about=[line for line in comment if not line.startswith(EXAMPLE)],
        examples=[line for line in comment if line.startswith(EXAMPLE)],
        chosen=_chosen(content.get("defaults", [])),
        includes=_includes(content.get("defaults", [])),
        options=options,
        swept={name: str(values) for name, values in sweeper.get("params", {}).items()} if sweeper else {},
    )


def all_options(file: OptionFile) -> list[Option]:
    """The options of a file and of those that it includes, where it has no value of its own."""
    found: dict[str, Option] = {}
    for name in file.includes:
        (included,) = (one for one in option_files() if (one.group, one.name) == (file.group, name))
        found |= {option.name: option for option in all_options(included)}
    for option in file.options:
        former = found.get(option.name)
        if former is not None and not option.description:
            option = Option(option.name, option.default, former.comment, former.parameter)
        found[option.name] = option
    return list(found.values())


@cache
def _descriptions() -> dict[str, str]:
    """The description of each option of training, by name: from its command, or else from a group."""
    found: dict[str, str] = {}
    for file in option_files():
        if file.group != "experiment" and (file.group or file.name in OF_TRAINING):
            for option in file.options:
                if option.description:
                    found.setdefault(option.name, option.description)
    return found


def description_of(option: Option) -> str:
    """The description of an option, of the option that it sets, or of its section; empty if there is none."""
    other = OTHER_OPTION.fullmatch(option.default)
    same = f"As `{other[1]}`, unless another value is given." if other else ""
    known = _descriptions()
    return option.description or known.get(option.name, same) or known.get(option.name.rpartition(".")[0], "")


def sentence(text: str) -> str:
    """A comment as a sentence. One that begins with a value, such as "false: ...", keeps its small letter."""
    begun = text if VALUE.match(text) else f"{text[:1].upper()}{text[1:]}"
    return begun if begun.endswith((".", ";", ":")) or not begun else f"{begun}."


def _leaves(content: dict[str, Any], above: str = "", target: str = "") -> Iterator[tuple[str, str | None, str]]:
    """All options and sections.

    Args:
        content: A section.
        above: Its dotted name with a dot at the end.
        target: What it builds.

    Yields:
        Dotted name, value as text or None for a section, and what a docstring says about it.
    """
    target = str(content.get("_target_", target))
    parameters = parameters_of(target) if target else {}
    for name, value in content.items():
        if name.startswith("_"):
            continue
        if isinstance(value, dict) and value:
            yield f"{above}{name}", None, _null(parameters.get(name, ""))
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", as_text(value), _null(parameters.get(name, ""))


def _chosen(defaults: list[Any]) -> dict[str, str]:
    """The choices that a defaults list makes, by group; ``override /split: time`` is ``split``: ``time``."""
    found: dict[str, str] = {}
    for entry in defaults:
        for group, choice in entry.items() if isinstance(entry, dict) else ():
            name = str(group).removeprefix("override ").removeprefix("/")
            if name not in ("hydra/job_logging", "hydra/hydra_logging"):
                found[name] = "null" if choice is None else str(choice)
    return found


def _includes(defaults: list[Any]) -> list[str]:
    """The files of the same group that a defaults list names; ``gpu@trainer`` is ``gpu``."""
    return [entry.partition("@")[0] for entry in defaults if isinstance(entry, str) and entry != "_self_"]


def _null(text: str) -> str:
    """A docstring in the words of YAML."""
    return NONE.sub("null", text)


def as_text(value: Any) -> str:
    """A value as it is written in YAML on one line."""
    text = str(yaml.dump(value, Dumper=DUMPER, default_flow_style=True, width=10_000))
    return text.removesuffix("\n...\n").strip()
