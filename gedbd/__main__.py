"""Runs a command by its name: ``gedbd search index=my-index``, or ``python -m gedbd search index=my-index``."""

import ast
import os
import runpy
import sys
import textwrap
from difflib import get_close_matches
from importlib import import_module

from gedbd import __version__
from gedbd.configuration.command_words import COMPLETION_FLAGS
from gedbd.io.console import print_help
from gedbd.io.files import PACKAGE_DIR

WIDTH = 80
NAME_WIDTH = 16
TRAIN = "train"  # the one command beside the package: Lightning starts further processes by its module


def main() -> None:
    """Runs the command that the first argument names."""
    first, *rest = sys.argv[1:] or ["--help"]
    if first in ("-h", "--help"):
        print_help(overview())
    elif first == "--version":
        print(f"gedbd {__version__}")
    elif first in COMPLETION_FLAGS:
        complete(rest)
    elif first not in command_names():
        near = get_close_matches(first, command_names(), n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "gedbd --help lists all commands"
        print(f"error: unknown command {first}: {hint}", file=sys.stderr)
        from gedbd.configuration.command import USAGE_STATUS  # it imports Hydra

        raise SystemExit(USAGE_STATUS)
    elif set(COMPLETION_FLAGS) & set(rest):
        run_completion(first, rest)
    else:
        sys.argv = ["gedbd", *rest]
        # Further processes would import modules from the current folder, which may be a stranger's; this one does not.
        os.environ["PYTHONSAFEPATH"] = "1"
        run(first)


def run(command: str) -> None:
    """Runs a command; a mistake of its user ends the process with one line."""
    from gedbd.configuration.errors import CommandError  # it imports Hydra

    if command == TRAIN:  # as ``python -m`` does: Lightning starts further processes by the name of ``__main__``
        runpy.run_module(module_of(command), run_name="__main__", alter_sys=True)
        return
    try:
        import_module(module_of(command)).main()
    except CommandError as error:
        print(error, file=sys.stderr, flush=True)
        raise SystemExit(error.status) from None


def command_names() -> list[str]:
    """The names of all commands, in alphabetical order."""
    modules = [path.stem for path in (PACKAGE_DIR / "commands").glob("[a-z]*.py")]
    return sorted(module.replace("_", "-") for module in [*modules, TRAIN])


def config_name(command: str) -> str:
    """The name of a command's file in ``conf/``, without its suffix: ``flow_graph`` of ``flow-graph``."""
    return command.replace("-", "_")


def module_of(command: str) -> str:
    """The module of a command: ``gedbd.commands.flow_graph`` of ``flow-graph``."""
    return "gedbd.train" if command == TRAIN else f"gedbd.commands.{config_name(command)}"


def overview() -> str:
    """The text of ``gedbd --help``, at most 80 columns wide: every command with the first line of its docstring."""
    lines = ["Usage: gedbd COMMAND [option=value ...]", ""]
    for name in command_names():
        # Parsed, not imported: a command may import large libraries.
        source = PACKAGE_DIR.joinpath(*module_of(name).split(".")[1:]).with_suffix(".py").read_text(encoding="utf-8")
        about = f"  {name:<{NAME_WIDTH}}{str(ast.get_docstring(ast.parse(source))).splitlines()[0]}"
        lines += textwrap.wrap(about, WIDTH, subsequent_indent=" " * (NAME_WIDTH + 2), break_on_hyphens=False)
    lines += ["", "gedbd COMMAND --help lists the options of a command; gedbd --version prints the"]
    lines.append("version. Every command accepts -q (print results, warnings and errors only) and")
    lines.append("-v (also log lines and times).")
    lines.append('Tab completion in Bash: eval "$(gedbd train -sc install=bash)"')
    return "\n".join(lines)


def complete(arguments: list[str]) -> None:
    """Answers a shell that completes a line, and names the commands where none is complete.

    Hydra's completion knows programs of one command: it calls ``gedbd -sc query=bash`` without the command's name. The
    name is taken from the line, and Hydra sees the line without it.

    Args:
        arguments: What Hydra's plugin expects, such as ``query=bash``.
    """
    line = os.environ.get("COMP_LINE", "")
    words = line.split(maxsplit=2)
    is_query = any(argument.startswith("query=") for argument in arguments)
    if not is_query:
        run_completion("train", ["-sc", *arguments])
    elif len(words) < 2 or (len(words) == 2 and not line.endswith(" ")):
        begun = words[1] if len(words) == 2 else ""
        print(" ".join(name for name in command_names() if name.startswith(begun)))
    elif words[1] in command_names():
        os.environ["COMP_LINE"] = f"{words[0]} {words[2] if len(words) == 3 else ''}"
        run_completion(words[1], ["-sc", *arguments])


def run_completion(name: str, arguments: list[str]) -> None:
    """Runs Hydra's completion for a command; it takes the program's name from ``sys.argv``."""
    sys.argv = ["gedbd", *arguments]
    import_module(module_of(name)).main()


if __name__ == "__main__":
    main()
