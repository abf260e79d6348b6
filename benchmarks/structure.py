"""Counts what a reader meets: lines, modules, their importers, names that mean two things, pages of the manual.

python benchmarks/structure.py          # the tree
python benchmarks/structure.py --run    # also how many files and functions a search and a training step run
python benchmarks/structure.py --list   # also which files these are
"""

import argparse
import ast
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAMS = {
    "a search": ["search", "index=index", "crash when pasting a picture"],
    "training one batch": [
        *("train", "dataset=demo", "encoder=tiny", "trainer.max_epochs=1", "+trainer.limit_train_batches=1"),
        *("+trainer.limit_val_batches=1", "+trainer.limit_test_batches=1", "trainer.accelerator=cpu"),
    ],
}
# Counts the functions of the package that a command calls: a function is a file and the line that it begins in.
COUNTED = """
import sys
from pathlib import Path
import gedbd
package = str(Path(gedbd.__file__).parent)
functions = set()
def count(frame, event, argument):
    if event == "call" and frame.f_code.co_filename.startswith(package) and frame.f_code.co_name[0] != "<":
        functions.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))
import threading
threading.setprofile(count)
sys.setprofile(count)
from gedbd.__main__ import main
try:
    main()
except SystemExit:
    pass
finally:
    sys.setprofile(None)
    files = sorted({file.removeprefix(package + "/") for file, _ in functions})
    print(*files, len(files), len(functions), file=sys.stderr)
"""


def python_files(folder: str) -> list[Path]:
    """The Python files of a folder."""
    return sorted((ROOT / folder).rglob("*.py"))


def lines_of(files: list[Path]) -> int:
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def importers(files: list[Path]) -> dict[str, set[str]]:
    """The modules that import each module of the package."""
    names = {module_name(file): file for file in files}
    found: dict[str, set[str]] = defaultdict(set)
    for name, file in names.items():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                whole = [f"{node.module}.{alias.name}" for alias in node.names]
                imported = [one if one in names else str(node.module) for one in whole]
            else:
                continue
            for one in imported:
                if one in names and one != name:
                    found[one].add(name)
    return found


def arrows(files: list[Path]) -> set[tuple[str, str]]:
    """Pairs of folders, or of modules beside them, of which the first imports the second."""
    pairs = set()
    for imported, names in importers(files).items():
        for name in names:
            pairs.add((room(name), room(imported)))
    return {(first, second) for first, second in pairs if first != second}


def room(module: str) -> str:
    """``gedbd.io`` of gedbd.io.files; the package itself is one."""
    return ".".join(module.split(".")[:2])


def public_names(files: list[Path]) -> Counter[str]:
    """How many modules define each public class."""
    return Counter(
        node.name
        for file in files
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def count_tree() -> None:
    files = python_files("gedbd")
    modules = [file for file in files if file.name != "__init__.py"]
    found = importers(files)
    single = [file for file in modules if len(found[module_name(file)]) == 1]
    names = [name for name, count in public_names(modules).items() if count > 1]
    stems = Counter(file.stem for file in modules)
    shared = [name for name, count in stems.items() if count > 1]
    print(f"gedbd: {lines_of(files):,} lines, {len(files)} files, {len(modules)} of them modules")
    for folder in sorted(path for path in (ROOT / "gedbd").iterdir() if path.is_dir() and any(path.glob("*.py"))):
        own = python_files(f"gedbd/{folder.name}")
        print(
            f"  {folder.name}: {lines_of(own):,} lines, {len([one for one in own if one.stem != '__init__'])} modules"
        )
    print(f"tests: {lines_of(python_files('tests')):,} lines")
    pages = sorted((ROOT / "docs").rglob("*.md"))
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
    print(f"README.md: {lines_of([ROOT / 'README.md'])} lines")
    print(f"docs: {lines_of(pages):,} lines, {words:,} words, {len(pages)} pages")
    pairs = arrows(files)
    print(f"arrows between folders: {len(pairs)}; tests/test_imports.py checks that none points up")
    print(f"modules with one importer: {len(single)}")
    print(f"public classes that share a name: {len(names)} ({', '.join(sorted(names))})")
    print(f"names of files that several modules have: {len(shared)} ({', '.join(sorted(shared))})")
    long = [f"{module_name(file)} {lines_of([file])}" for file in modules if lines_of([file]) > 600]
    print(f"modules of over 600 lines: {', '.join(long) or 'none'}")


def count_runs(lists_files: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = [sys.executable, "-m", "gedbd", "index", "dataset=demo", "encoder=tiny", "out=index"]
        subprocess.run(made, cwd=folder, check=True, capture_output=True)
        for name, words in PROGRAMS.items():
            done = subprocess.run(
                [sys.executable, "-c", COUNTED, *words], cwd=folder, check=True, capture_output=True, text=True
            )
            *words, num_files, num_functions = done.stderr.splitlines()[-1].split()
            print(f"{name}: {num_files} files, {num_functions} functions")
            if lists_files:
                print("  " + "\n  ".join(words))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="store_true", help="also run a search and a training step")
    parser.add_argument("--list", action="store_true", help="likewise, and list the files")
    given = parser.parse_args()
    count_tree()
    if given.run or given.list:
        count_runs(given.list)


if __name__ == "__main__":
    main()
