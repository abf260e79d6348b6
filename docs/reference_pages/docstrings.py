"""What docstrings say about parameters, read without importing a module.

An option's section names with ``_target_`` what it builds: its options are the parameters of that, and where their file
does not describe them, its docstring or a comment beside or above the field does.
"""

import ast
import re
from functools import cache
from inspect import cleandoc
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECTION = re.compile(r"^(?:Args|Attributes):\n((?:[ ]{4}.*\n|\n)+)", re.MULTILINE)
# "margin: Largest cosine ..." at four spaces, and lines at eight spaces that continue it.
PARAMETER = re.compile(r"^ {4}(\w+): (.+(?:\n {8,}.+)*)", re.MULTILINE)
FIELD = re.compile(r" {4}(\w+): [^#]+?(?:  # (.+))?$")  # of a record, with or without a comment beside it
REFERENCE = re.compile(r"See ``(\w+)``")

Definition = ast.ClassDef | ast.FunctionDef


@cache
def parameters_of(target: str) -> dict[str, str]:
    """The descriptions of the parameters of a class, with those of its base classes, or of a function.

    Args:
        target: Its dotted name, such as ``gedbd.losses.TripletLoss``.

    Returns:
        Descriptions by name of the parameter; empty if the target is not part of this repository.
    """
    module, _, name = target.rpartition(".")
    located = _locate(module, name)
    if located is None:  # a method, such as EarlierReports.find
        module, _, above = module.rpartition(".")
        owner = _locate(module, above)
        method = owner and _defined(owner[1].body, name)
        located = (owner[0], method) if owner and method else None
    if located is None:
        return {}
    module, definition = located
    described: dict[str, str] = {}
    for base in definition.bases if isinstance(definition, ast.ClassDef) else []:
        described |= parameters_of(f"{module}.{ast.unparse(base)}")
    if isinstance(definition, ast.ClassDef):
        lines = _file_of(module).read_text(encoding="utf-8").splitlines()[definition.lineno : definition.end_lineno]
        described |= _fields(lines)
    for section in SECTION.findall(f"{cleandoc(ast.get_docstring(definition) or '')}\n"):
        described |= {name: " ".join(text.split()) for name, text in PARAMETER.findall(section)}
    return {name: _followed(text, module, name) for name, text in described.items()}


def _fields(lines: list[str]) -> dict[str, str]:
    """The fields of a record with the comments beside or above them."""
    described = {}
    comment: list[str] = []
    for line in lines:
        field = FIELD.match(line)
        if field is not None and (field[2] or comment):
            described[field[1]] = field[2] or " ".join(comment)
        comment = [*comment, line.removeprefix("    # ")] if line.startswith("    # ") else []
    return described


def _followed(text: str, module: str, parameter: str) -> str:
    """A description, or the one that it refers to: "See ``Encoder``." is replaced by that of ``Encoder``."""
    match = REFERENCE.match(text)
    if match is None or _locate(module, match[1]) is None:
        return text
    return parameters_of(f"{module}.{match[1]}").get(parameter, text)


def _locate(module: str, name: str) -> tuple[str, Definition] | None:
    """A definition and the module that holds it: the named one, or the one that it imports the name from."""
    file = _file_of(module)
    if not module or not file.is_file():
        return None
    body = _statements(file)
    definition = _defined(body, name)
    if definition is not None:
        return module, definition
    for node in body:
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            return _locate(str(node.module), name)
    return None


def _file_of(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _statements(file: Path) -> list[ast.stmt]:
    return ast.parse(file.read_text(encoding="utf-8")).body


def _defined(body: list[ast.stmt], name: str) -> Definition | None:
    """The class or function of a name among statements."""
    for node in body:
        if isinstance(node, Definition) and node.name == name:
            return node
    return None
