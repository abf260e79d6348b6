"""The page of all options of the groups of ``conf/``."""

from collections.abc import Sequence
from functools import cache

from gedbd.configuration.help import NOT_CHOICES, read_command
from reference_pages.groups import GROUPS
from reference_pages.markdown import code, code_block, paragraphs, prose, table
from reference_pages.option_files import (
    Option,
    OptionFile,
    all_options,
    description_of,
    option_files,
    sentence,
)

EACH_APART = {"task", "experiment"}  # what their files say is too long for a table
COMMENTED_VALUES = ("encoder.",)  # options whose comments say why a value was chosen
HEADER = ("option", "default", "description")
INTRODUCTION = """
# Options

Everything that a command line can change is a file in `conf/`. An option is given as `option=value`, and the choice of
a group as `group=choice`; the options of the choice then begin with the name of the group:

```bash
gedbd train encoder=roberta encoder.max_tokens=256 loss=supervised_contrastive loss.temperature=0.1
```

`???` marks an option that must be given, `null` one that is not set, and `${...}` the value of another option.
`+name=value` adds an option that a file does not have, `~name` leaves one out. The options of a command itself are
[with the command](commands.md). `gedbd COMMAND --help` prints its options and choices, `gedbd COMMAND --cfg job` the
resulting configuration.

This page is made from the comments in `conf/` and the docstrings of what the options build.
""".strip()
BASELINES = """
## `baselines`

The methods of `gedbd baseline name=...`, with the options of each.
""".strip()


def options_page() -> str:
    """The page in Markdown."""
    lines = [INTRODUCTION, ""]
    links = [(f"[`{group}`](#{anchor(group)})", about) for group, about in GROUPS.items()]
    links.append(("[`baselines`](#baselines)", "The methods that `gedbd baseline` measures."))
    lines += table(("group", "what it says"), links)
    for group, about in GROUPS.items():
        lines += [f"## `{group}`", "", about, "", *_defaults(group)]
        files = [file for file in option_files() if file.group == group]
        lines += _apart(files) if group in EACH_APART else _together(files)
    return "\n".join([*lines, BASELINES, "", *_baselines()])


def anchor(group: str) -> str:
    """The anchor of a group's heading."""
    return group.replace("/", "")


def _defaults(group: str) -> list[str]:
    """The default choice of a group with the commands that have it."""
    by_choice: dict[str, list[str]] = {}
    for file in option_files():
        if not file.group and file.name != "shared":
            groups = _groups_of(file.name)
            if group in groups:
                by_choice.setdefault(groups[group] or "null", []).append(f"`{file.name.replace('_', '-')}`")
    found = [f"`{choice}` of {', '.join(commands)}" for choice, commands in by_choice.items()]
    return [f"Default: {'; '.join(found)}.", ""] if found else []


@cache
def _groups_of(command: str) -> dict[str, str | None]:
    """The default choice of each group of a command."""
    return read_command(command).groups


def _about(file: OptionFile) -> str:
    """What a file says about itself, in a cell of a table; items of a list begin a line."""
    lines = [f"<br>{prose(line)}" if line.startswith("- ") else prose(line) for line in file.about]
    return " ".join(lines)


def _together(files: Sequence[OptionFile]) -> list[str]:
    """A table of choices, and one of options for all choices that have the same ones."""
    choices = [file for file in files if (file.group, file.name) not in NOT_CHOICES]
    lines = table(
        ("choice", "what it is"),
        [(code(file.name), _about(file)) for file in choices],
    )
    by_options: dict[tuple[tuple[str, str], ...], list[OptionFile]] = {}
    for file in choices:
        options = tuple(sorted((option.name, option.parameter) for option in all_options(file)))
        by_options.setdefault(options, []).append(file)
    for options, alike in by_options.items():
        if options:
            lines += [f"Options of {', '.join(code(file.name) for file in alike)}:", ""]
            lines += table(HEADER, _rows_of(alike))
    return lines


def _rows_of(files: Sequence[OptionFile]) -> list[tuple[str, str, str]]:
    """A row for each option of choices that have the same ones."""
    found: dict[str, list[tuple[str, Option]]] = {}
    for file in files:
        for option in all_options(file):
            found.setdefault(option.name, []).append((file.name, option))
    return [_merged(values) for values in found.values()]


def _merged(values: list[tuple[str, Option]]) -> tuple[str, str, str]:
    """The row of an option of several choices.

    Where their files comment on it in different words, these stand beside the values.
    """
    first = values[0][1]
    is_on_value = len({option.comment for _, option in values}) > 1 or first.name.startswith(COMMENTED_VALUES)
    is_told_apart = is_on_value and bool(first.parameter)
    description = first.parameter if is_told_apart else max((description_of(option) for _, option in values), key=len)
    choices: dict[tuple[str, str], list[str]] = {}
    for choice, option in values:
        choices.setdefault((option.default, option.comment if is_told_apart else ""), []).append(choice)
    cells = []
    for (value, comment), names in choices.items():
        where = f" {', '.join(names)}" if len(choices) > 1 else ""
        cells.append(f"{code(value)}{where}{f' ({prose(comment)})' if comment else ''}")
    return code(shown_name(first)), "<br>".join(cells), prose(sentence(description))


def _apart(files: Sequence[OptionFile]) -> list[str]:
    """A section for each choice."""
    lines: list[str] = []
    for file in files:
        lines += [f"### `{file.group}={file.name}`", "", *paragraphs(file.about)]
        lines += code_block(file.examples) if file.examples else []
        chosen = [code(f"{group}={choice}") for group, choice in file.chosen.items()]
        if chosen:
            lines += [f"Chooses {', '.join(chosen)}.", ""]
        if file.includes:
            lines += [f"Includes {', '.join(code(f'{file.group}={name}') for name in file.includes)}.", ""]
        lines += option_table(file.options)
        if file.swept:
            swept = [(code(name), code(values)) for name, values in file.swept.items()]
            lines += table(("swept option", "values"), swept)
    return lines


def option_table(options: Sequence[Option]) -> list[str]:
    """A table of options; no lines if there are none."""
    rows = [(code(shown_name(one)), code(one.default), prose(sentence(description_of(one)))) for one in options]
    return table(HEADER, rows) if rows else []


def shown_name(option: Option) -> str:
    """The name of an option, with ``.*`` for a section."""
    return option.name if option.default else f"{option.name}.*"


def _baselines() -> list[str]:
    """The options of each baseline; all are in one file."""
    (file,) = (file for file in option_files() if (file.group, file.name) == ("", "baseline"))
    by_baseline: dict[str, list[Option]] = {}
    for option in file.options:
        section, _, rest = option.name.partition(".")
        if section == "baselines":
            by_baseline.setdefault(rest.partition(".")[0], []).append(option)
    lines = []
    for name, options in by_baseline.items():
        about = [option for option in options if option.name == f"baselines.{name}"]
        lines += [f"### `name={name}`", ""]
        lines += [prose(sentence(option.comment)) for option in about]
        lines += ["", *option_table([option for option in options if option not in about])]
    return lines
