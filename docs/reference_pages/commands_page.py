"""The page of all commands, each with its purpose, examples and options."""

import ast

from gedbd.__main__ import command_names, config_name, module_of
from gedbd.configuration.help import UNREAD, read_command
from reference_pages.docstrings import ROOT
from reference_pages.markdown import code, code_block, paragraphs, prose, table
from reference_pages.option_files import Option, all_options, option_files
from reference_pages.options_page import anchor, option_table

INTRODUCTION = """
# Commands

```bash
gedbd COMMAND [option=value ...]
```

`gedbd --help` lists the commands, `gedbd COMMAND --help` the options of one, and `gedbd --version` prints the version.
`python -m gedbd COMMAND` is the same command. `-m` runs a command once for each value: `gedbd train -m
loss.margin=0.3,0.5`. `-q` prints results, warnings and errors only, `-v` also log lines and the times of stages; the
variable `GEDBD_VERBOSITY` (`quiet` or `verbose`) does so for every command. `json=true` makes a command that prints a
table print one JSON document instead, with all digits, and everything else on standard error. Without a terminal, lines
are not wrapped unless `COLUMNS` is set. `eval "$(gedbd train -sc install=bash)"` completes commands, options and
choices in Bash.

Options may also be written `--name=value`, and `json=true` as `--json`. `run=latest` is the newest finished run in
`outputs/` that the command can use: of `gedbd backtest` for `gedbd index`, of `gedbd train` for `gedbd export`. The
command prints which folder that is; `run=./latest` is a folder of that name.

| exit status | meaning |
|---|---|
| 0 | done |
| 1 | an error, in one line on standard error |
| 2 | the command line was refused before the command began: an unknown command, option or flag, or a wrong value |
| 75 | another process uses the folder: try again later |
| 130, 143 | interrupted by Ctrl-C (SIGINT), or ended by SIGTERM |

This page lists the options of each command; the choices of a group, and their options, are in [Options](options.md).
""".strip()


def commands_page() -> str:
    """The page in Markdown."""
    links = [(f"[`gedbd {name}`](#gedbd-{name})", prose(purpose(name))) for name in command_names()]
    lines = [INTRODUCTION, "", *table(("command", "what it does"), links)]
    for name in command_names():
        lines += _command(name)
    return "\n".join(lines)


def purpose(command: str) -> str:
    """The first line of the docstring of a command, as ``gedbd --help`` shows it."""
    source = ROOT.joinpath(*module_of(command).split(".")).with_suffix(".py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").splitlines()[0]


def _command(name: str) -> list[str]:
    """The section of a command."""
    command = read_command(config_name(name))
    unread = UNREAD.get(config_name(name), set())
    lines = [f"## `gedbd {name}`", "", *paragraphs([command.about]), *code_block(command.examples)]
    lines += option_table([one for one in command_options(name) if one.name.partition(".")[0] not in unread])
    groups = [
        (f"[`{group}`](options.md#{anchor(group)})", code(chosen or "null"))
        for group, chosen in command.groups.items()
        if group not in unread
    ]
    return [*lines, *table(("group", "default"), groups)] if groups else lines


def command_options(name: str) -> list[Option]:
    """The options of a command; those of baselines are on the page of options."""
    (file,) = (file for file in option_files() if (file.group, file.name) == ("", config_name(name)))
    return [option for option in all_options(file) if not option.name.startswith("baselines.")]
