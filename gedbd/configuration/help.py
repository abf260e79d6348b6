"""What ``--help`` prints: the options of a command and the groups it composes, read from ``conf/`` and its comments."""

import re
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

WIDTH = 80
NAME_WIDTH = 28
MAX_DEPTH = 2
NOT_OPTIONS = {("graph", "titles")}  # shared by the others of its folder
COMMAND = re.compile(r"python -m gedbd\.(\w+)")
LINE = re.compile(r"^(?P<indent> *)(?P<name>\w+):(?P<value>.*?)(?:(?:^|\s)\s*# (?P<comment>.*))?$")
MORE = re.compile(r"^ +# (?P<comment>.*)$")
FALLBACK = re.compile(r"\$\{oc\.(?:select|env):[\w.]+,'?([^'}]*)'?\}")


@dataclass
class Option:
    """An option of a command or a section of options, which has no value, and what its comment says."""

    name: str
    value: str
    comment: str


@dataclass
class Command:
    """What a command's file in ``conf/`` says.

    Attributes:
        about: The comment it begins with: an example and what the command does.
        groups: The option that each group has by default.
        options: Its own options.
    """

    about: str = ""
    groups: dict[str, str | None] = field(default_factory=dict)
    options: list[Option] = field(default_factory=list)


def command_help(conf: Path, name: str) -> str:
    """The help text of a command, at most 80 columns wide.

    Args:
        conf: Folder of the configuration.
        name: The command, such as ``train``.
    """
    command = read_command(conf, name)
    lines = textwrap.wrap(command.about, WIDTH)
    groups = [line for group, chosen in command.groups.items() for line in _group(conf, name, group, chosen)]
    if groups:
        lines += ["", "Groups, chosen as group=option; the one in brackets is the default:", *groups]
    lines += ["", "Options, given as option=value with these defaults; ??? must be given:"]
    for option in command.options:
        lines += _entry(f"{option.name}={option.value}" if option.value else f"{option.name}.*", option.comment)
    lines += ["", "--cfg job prints all options of the chosen groups too, --hydra-help what Hydra offers."]
    return "\n".join(line for long in lines for line in (textwrap.wrap(long, WIDTH) if len(long) > WIDTH else [long]))


def read_command(conf: Path, name: str) -> Command:
    """Reads a command's file and the files that its defaults include."""
    path = conf / f"{name}.yaml"
    command = Command()
    content = OmegaConf.load(path)
    assert isinstance(content, DictConfig)
    for entry in content.defaults:
        if isinstance(entry, str):
            if entry != "_self_":
                included = read_command(conf, entry)
                command.groups |= included.groups
                command.options += included.options
            continue
        ((group, chosen),) = entry.items()
        group = str(group).removeprefix("override ")
        if not group.startswith("hydra/"):
            command.groups[group] = chosen
    lines = path.read_text().splitlines()
    about = [line.removeprefix("# ") for line in lines[: next(n for n, text in enumerate(lines) if text[:1] != "#")]]
    command.about = " ".join(about)
    command.options += _options(lines)
    return command


def _options(lines: list[str]) -> list[Option]:
    """The options of a file with their comments; sections of sections are named, not listed."""
    found: list[Option] = []
    above: list[str] = []
    for line in lines:
        more, match = MORE.match(line), LINE.match(line)
        if more and found:
            found[-1].comment += f" {more['comment']}"
        if more or not match:
            continue
        depth = len(match["indent"]) // 2
        above = [*above[:depth], match["name"]]
        value, comment = match["value"].strip(), match["comment"] or ""
        if above[0] in ("defaults", "hydra") or above[-1].startswith("_") or len(above) > MAX_DEPTH:
            continue
        if value or comment or len(above) == MAX_DEPTH:
            found.append(Option(".".join(above), FALLBACK.sub(r"\1", value), comment))
    return found


def _group(conf: Path, command: str, group: str, chosen: str | None) -> list[str]:
    """The options of a group; of experiments those that name the command in their comments, or none."""
    names = []
    for path in sorted((conf / group).glob("*.yaml")):
        comments = "".join(line for line in path.read_text().splitlines() if line.startswith("#"))
        commands = set(COMMAND.findall(comments))
        serves = group != "experiment" or not commands or command in commands
        if serves and (group, path.stem) not in NOT_OPTIONS:
            names.append(f"[{path.stem}]" if path.stem == chosen else path.stem)
    return _entry(group, " ".join(names)) if names else []


def _entry(name: str, text: str) -> list[str]:
    """``name`` and, beside it or below it, ``text``."""
    wrapped = textwrap.wrap(text, WIDTH - NAME_WIDTH - 4) or [""]
    indent = " " * (NAME_WIDTH + 4)
    if len(name) > NAME_WIDTH:
        return [f"  {name}", *(indent + line for line in wrapped if line)]
    first, *rest = wrapped
    return [f"  {name:<{NAME_WIDTH}}  {first}".rstrip(), *(indent + line for line in rest)]
