"""The text of ``--help``: what a command does, examples, and its options with the comments of ``conf/``.

Hydra's own template prints names and values of the composed configuration; it has no access to the comments.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from gedbd.io.files import CONF_DIR

WIDTH = 80
NAME_WIDTH = 28
CHOICE_WIDTH = 22
MAX_DEPTH = 2
NOT_CHOICES = {("graph", "common"), ("graph", "titles")}  # the other files of the group include them
# Groups and sections that a command composes for the functions it shares with training, but does not read.
UNREAD = {"backtest": {"protocol", "ranking"}}
FLAG_LINES = (
    "-q, --quiet     print results, warnings and errors only: no progress",
    "-v, --verbose   also print log lines and stage times, to standard error",
    "-h, --help      print this help",
    "--version       print the version",
)
EXAMPLE = "gedbd "  # prefix of the comment lines that are examples
COMMAND = re.compile(r"(?:# |: )gedbd ([\w-]+)")
LINE = re.compile(r"^(?P<indent> *)(?P<name>\w+):(?P<value>.*?)(?:(?:^|\s)\s*# (?P<comment>.*))?$")
MORE = re.compile(r"^ +# (?P<comment>.*)$")
FALLBACK = re.compile(r"\$\{oc\.(?:select|env):[\w.]+,'?([^'}]*)'?\}")


@dataclass
class Option:
    """An option of a command and its comment; a section of options has no value."""

    name: str
    value: str
    comment: str


@dataclass
class CommandFile:
    """The content of a command's file in ``conf/``."""

    about: str = ""  # what the command does, from the comment at the top
    examples: list[str] = field(default_factory=list)  # command lines, from the same comment
    groups: dict[str, str | None] = field(default_factory=dict)  # the default choice of each group
    options: list[Option] = field(default_factory=list)  # the command's own options


def command_help(name: str) -> str:
    """The help text of a command, such as ``train``, at most 80 columns wide."""
    command = read_command(name)
    unread = UNREAD.get(name, set())
    lines = [command.about, "", *(f"  {example}" for example in command.examples)]
    lines += ["", "Options, given as option=value, with their defaults; ??? means required:"]
    for option in command.options:
        if option.name.partition(".")[0] not in unread:
            entry = f"{option.name}={option.value}" if option.value else f"{option.name}.*"
            lines += _entry(entry, option.comment, NAME_WIDTH)
    groups = []
    for group, default in command.groups.items():
        if group not in unread:
            groups += _group_lines(name, group, default)
    if groups:
        lines += ["", "Groups, given as group=choice; * marks the default:", *groups]
    lines += [
        "",
        *FLAG_LINES,
        "",
        "--cfg job also prints the options of the chosen groups; --hydra-help prints Hydra's help.",
    ]
    for i, line in enumerate(lines):
        if len(line) > WIDTH:
            lines[i] = textwrap.fill(line, WIDTH, subsequent_indent="    " if line.startswith(" ") else "")
    return "\n".join(lines)


@cache
def option_words(name: str) -> frozenset[str]:
    """Names of a command's groups and top-level options: ``dataset`` for ``dataset.path``."""
    command = read_command(name)
    return frozenset([*command.groups, *(option.name.partition(".")[0] for option in command.options)])


def read_command(name: str) -> CommandFile:
    """Reads a command's file in ``conf/`` and the files that its defaults include."""
    path = Path(CONF_DIR, f"{name}.yaml")
    command = CommandFile()
    content = OmegaConf.load(path)
    assert isinstance(content, DictConfig)
    for entry in content.defaults:
        if isinstance(entry, str):
            if entry != "_self_":
                included = read_command(entry)
                command.groups |= included.groups
                command.options += included.options
            continue
        ((group, chosen),) = entry.items()
        group = str(group).removeprefix("override ")
        if not group.startswith("hydra/"):
            command.groups[group] = chosen
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = list(top_comment(lines))
    command.about = " ".join(line for line in comment if not line.startswith(EXAMPLE))
    command.examples = [line for line in comment if line.startswith(EXAMPLE)]
    command.options += options_of(lines)
    return command


def top_comment(lines: list[str]) -> Iterator[str]:
    """The lines of the comment that a file begins with, without Hydra's ``@package``."""
    for line in lines:
        if not line.startswith("#"):
            return
        if not line.startswith("# @package"):
            yield line.removeprefix("#").strip()


def options_of(lines: list[str], max_depth: int = MAX_DEPTH) -> list[Option]:
    """The options of a file with their comments.

    A section at ``max_depth`` is listed without its options.
    """
    options: list[Option] = []
    above: list[str] = []
    for line in lines:
        more = MORE.match(line)
        match = LINE.match(line)
        if more and options:
            options[-1].comment += f" {more['comment']}"
        if more or not match:
            continue
        depth = len(match["indent"]) // 2  # two spaces per level: "    lr: 1" is at depth 2
        above = [*above[:depth], match["name"]]
        value = match["value"].strip()
        comment = match["comment"] or ""
        if above[0] in ("defaults", "hydra") or above[-1].startswith("_") or len(above) > max_depth:
            continue
        if value or comment or len(above) == max_depth:
            options.append(Option(".".join(above), FALLBACK.sub(r"\1", value), comment))
    return options


def _group_lines(command: str, group: str, default: str | None) -> list[str]:
    """The choices of a group with the first sentence of their comments."""
    lines = []
    for path in sorted(Path(CONF_DIR, group).glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        # Experiments name their commands, and only published corpora can be downloaded.
        commands = COMMAND.findall(text) if group == "experiment" else []
        is_local = group != "experiment" and command == "download" and "base_url: http" not in text
        if (group, path.stem) in NOT_CHOICES or is_local or (commands and command not in commands):
            continue
        mark = " *" if path.stem == default else ""
        lines += _entry(f"  {path.stem}{mark}", first_sentence(text), CHOICE_WIDTH)
    return [f"  {group}", *lines] if lines else []


def first_sentence(text: str) -> str:
    """The comment that a file begins with, up to a full stop or a line that ends with a colon."""
    words: list[str] = []
    for line in top_comment(text.splitlines()):
        words.append(line)
        if line.startswith(EXAMPLE) or line.endswith((".", ":")):
            break
    return re.split(r"(?<=[^.])\.(?: |$)", " ".join(words))[0].rstrip(":")


def _entry(name: str, text: str, width: int) -> list[str]:
    """Lines with ``name`` and the wrapped ``text`` beside it, or below it if the name is long."""
    wrapped = textwrap.wrap(text, WIDTH - width - 4) or [""]
    indent = " " * (width + 4)
    if len(name) > width:
        return [f"  {name}", *(indent + line for line in wrapped if line)]
    first, *rest = wrapped
    return [f"  {name:<{width}}  {first}".rstrip(), *(indent + line for line in rest)]
