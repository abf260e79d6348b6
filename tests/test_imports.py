"""The package's imports: folders form layers, modules form no circle, and tasks stay apart."""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import gedbd

PACKAGE = Path(gedbd.__file__).parent
# A folder imports only from itself and from those before it.
LAYERS = (
    *("io", "configuration", "code", "corpora", "text", "encoders", "sampling", "losses", "retrieval"),
    *("evaluation", "experiments", "tasks", "triage", "service", "api", "commands"),
)
MAY_NAME_TASKS = {"gedbd", "gedbd.configuration.allowed_targets"}  # the latter lists what configuration may build


def module_name(file: Path) -> str:
    """``gedbd.corpora`` for gedbd/corpora/__init__.py, ``gedbd.train`` for gedbd/train.py."""
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(file): file for file in sorted(PACKAGE.rglob("*.py"))}


def imported_modules(file: Path) -> dict[str, int]:
    """The modules of the package that a file imports anywhere in it, with the line of the first import."""
    found: dict[str, int] = {}
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
            if name in MODULES and name != "gedbd":
                found.setdefault(name, node.lineno)
    return found


@cache
def imports() -> dict[str, dict[str, int]]:
    """What each module imports."""
    return {name: imported_modules(file) for name, file in MODULES.items()}


def layer_of(module: str) -> str:
    """The folder of a module; the modules beside the folders are commands."""
    name = module.split(".")[1] if "." in module else ""
    return name if name in LAYERS else "commands"


def task_of(module: str) -> str:
    """``duplicates`` for a module below gedbd.tasks.duplicates, empty for all others."""
    parts = module.split(".")
    return parts[2] if parts[1:2] == ["tasks"] and len(parts) > 2 else ""


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


def test_no_task_imports_another():
    crossing = [
        where(module, imported)
        for module in MODULES
        for imported in imports()[module]
        if task_of(module) and task_of(imported) not in {"", task_of(module)}
    ]
    assert not crossing, "\n".join(crossing)


def test_only_tasks_and_commands_name_a_task():
    named = f"{gedbd.__name__}.tasks"
    naming = [
        f"{file.relative_to(PACKAGE.parent)}:{number}: {line.strip()}"
        for module, file in MODULES.items()
        if module not in MAY_NAME_TASKS and layer_of(module) not in {"tasks", "commands"}
        for number, line in enumerate(file.read_text().splitlines(), start=1)
        if named in line
    ]
    assert not naming, "\n".join(naming)
