"""The package's imports: folders form floors and wings, modules form no circle, and wings stay apart."""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import gedbd

PACKAGE = Path(gedbd.__file__).parent
# A folder imports only from itself and from those before it; a wing imports no other wing.
FLOORS = (
    *("io", "text", "corpora", "encoders", "sampling", "losses", "retrieval", "evaluation", "configuration"),
    "experiments",
)
WINGS = ("duplicates", "questions", "localization")
ABOVE = ("triage", "service", "api", "commands")
LAYERS = (*FLOORS, *WINGS, *ABOVE)
# It lists what a configuration from a file may build, which includes the classes of wings.
MAY_NAME_WINGS = {"gedbd.configuration.allowed_targets"}


def module_name(file: Path) -> str:
    """``gedbd.corpora`` for gedbd/corpora/__init__.py, ``gedbd.train`` for gedbd/train.py."""
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(file): file for file in sorted(PACKAGE.rglob("*.py"))}


def imported_modules(file: Path) -> dict[str, int]:
    """The modules of the package that a file imports anywhere in it, with the line of the first import."""
    lines: dict[str, int] = {}
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # "from gedbd.text import tokens" imports a module, "from gedbd.text.tokens import Tokens" a name in one.
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES else str(node.module) for name in whole]
        else:
            continue
        for name in names:
            if name in MODULES:
                lines.setdefault(name, node.lineno)
    return lines


@cache
def imports() -> dict[str, dict[str, int]]:
    """What each module imports."""
    return {name: imported_modules(file) for name, file in MODULES.items()}


def layer_of(module: str) -> str:
    """The folder of a module; the modules beside the folders are commands."""
    name = module.split(".")[1] if "." in module else ""
    return name if name in LAYERS else "commands"


def where(module: str, imported: str) -> str:
    """``gedbd/triage/stored_index.py:12: imports gedbd.service.app``."""
    return f"{MODULES[module].relative_to(PACKAGE.parent)}:{imports()[module][imported]}: imports {imported}"


def test_every_folder_has_a_layer():
    folders = {file.parent.relative_to(PACKAGE).parts[0] for file in PACKAGE.rglob("*.py") if file.parent != PACKAGE}
    assert folders <= set(LAYERS)


def test_no_import_points_up():
    upward = [
        where(module, imported)
        for module in MODULES
        if module != "gedbd"
        for imported in imports()[module]
        if LAYERS.index(layer_of(imported)) > LAYERS.index(layer_of(module))
    ]
    assert not upward, "\n".join(upward)


def test_no_modules_import_each_other_in_a_circle():
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_wings_import_floors_only():
    crossing = [
        where(module, imported)
        for module in MODULES
        for imported in imports()[module]
        if layer_of(module) in WINGS and layer_of(imported) not in {*FLOORS, layer_of(module)}
    ]
    assert not crossing, "\n".join(crossing)


def test_no_floor_names_a_wing():
    """Tasks, readers and scorers of a wing are built by the name that ``conf/`` gives under ``_target_``."""
    naming = [
        f"{file.relative_to(PACKAGE.parent)}:{number}: {line.strip()}"
        for module, file in MODULES.items()
        if module not in MAY_NAME_WINGS and layer_of(module) in FLOORS
        for number, line in enumerate(file.read_text().splitlines(), start=1)
        if any(f"{gedbd.__name__}.{wing}" in line for wing in WINGS)
    ]
    assert not naming, "\n".join(naming)
