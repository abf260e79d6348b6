"""Methods of Java sources as a corpus, from a folder of sources or a file of methods."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus, Documents
from gedbd.corpora.readers.bug_reports import BUG_FIELDS
from gedbd.corpora.readers.export_pages import read_json_lines
from gedbd.corpora.relevance import Groups
from gedbd.io.console import track
from gedbd.io.files import check_regular, corpus_name
from gedbd.localization.flow_graph.java_source import (
    FALLBACK_ENCODING,
    JavaMethod,
    decode_source,
    find_methods,
    plain_code,
)

# A folder with one of these is the root of a module: a "target" folder in it is build output, elsewhere it is code.
ROOT_MARKS = frozenset(
    (".git", ".project", "build.gradle", "build.gradle.kts", "build.xml", "pom.xml", "settings.gradle", "src")
)
FILE_ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.xz", ".jsonl.zip")
MethodsAndWarnings = tuple[list[JavaMethod], list[str]]  # methods, and warnings about what was left out


def read_java_sources(
    name: str | None, path: str, skip_folders: Sequence[str] = (), max_file_kb: int = 1000, max_method_lines: int = 1000
) -> Corpus:
    """Reads methods and constructors with their bodies, in the order of files and lines.

    A document is a method: ``id`` is ``path:line:name``, ``title`` the name, ``description`` the code; ``comment`` is
    its Javadoc and ``path`` the file. Methods have no dates and no duplicates: of methods that differ only in white
    space and comments, the first is kept.

    Args:
        name: Short name of the corpus; null takes it from the path.
        path: A folder of Java sources, one ``.java`` file, or a file with a JSON object per line that has the strings
            ``path``, ``name``, ``code`` and, optionally, ``comment`` and the integer ``line``.
        skip_folders: Names of folders of build output, which are left out beside a build file or ``src``.
        max_file_kb: Larger files are left out; in units of 1,000 bytes.
        max_method_lines: Longer methods are left out.

    Raises:
        ValueError: If the path is none of these, a line is invalid, or there is no method.
    """
    source = Path(path)
    if not source.exists():
        raise ValueError(f"{path}: no such file or folder; set dataset.path= to an existing one")
    if source.is_dir() or source.suffix == ".java":
        methods, warnings = _read_sources(source, skip_folders, max_file_kb)
    elif source.name.endswith(FILE_ENDINGS):
        methods, warnings = list(track(_read_lines(source), "read methods")), []
    else:
        raise ValueError(f"{path}: not a folder, a .java file or a file of methods ({', '.join(FILE_ENDINGS)})")
    kept, more = _without_long_and_repeated(methods, max_method_lines)
    if not kept:
        reasons = "".join(f" ({warning})" for warning in (*warnings, *more))
        raise ValueError(f"{path}: no Java method with a body found{reasons}: set dataset.path to other sources")
    table = _table(kept)
    documents = Documents(name or corpus_name(source), table, (*warnings, *more), more_texts=("comment",))
    return Corpus(documents, Groups(np.arange(len(table))))


def _read_sources(source: Path, skip_folders: Sequence[str], max_file_kb: int) -> MethodsAndWarnings:
    """The methods of a file, or of all files of a folder."""
    root = source if source.is_dir() else source.parent
    files, warnings = [source], tuple[str, ...]()
    if source.is_dir():
        files, warnings = find_sources(source, skip_folders, max_file_kb)
    methods: list[JavaMethod] = []
    fallbacks: list[str] = []
    for file in track(files, "read Java files"):
        check_regular(file)
        relative = file.relative_to(root).as_posix()
        text, is_fallback = decode_source(file.read_bytes())
        fallbacks += [relative] * is_fallback
        methods += find_methods(text, relative)
    if fallbacks:
        count = f"{len(fallbacks):,}, read as {FALLBACK_ENCODING} (first: {fallbacks[0]})"
        warnings = (*warnings, f"Java files that are not UTF-8: {count}")
    return methods, list(warnings)


def _read_lines(file: Path) -> Iterator[JavaMethod]:
    """The methods of a file with a JSON object per line."""
    for row, record in read_json_lines(file):
        number = record.get("line", 0)
        if not isinstance(number, int):
            raise ValueError(f"{file}, row {row}: 'line' must be a whole number, not {str(number)[:40]!r}")
        texts = {key: record.get(key) or "" for key in ("path", "name", "comment", "code")}
        for key, value in texts.items():
            if not isinstance(value, str) or not (value.strip() or (key, value) == ("comment", "")):
                raise ValueError(f"{file}, row {row}: {key!r} must be a non-empty string")
        yield JavaMethod(line=number, **texts)


def _without_long_and_repeated(methods: Iterable[JavaMethod], max_lines: int) -> MethodsAndWarnings:
    """The methods that are short enough and repeat no earlier one."""
    kept: list[JavaMethod] = []
    too_long: list[str] = []
    repeated: list[str] = []
    seen: set[str] = set()
    for method in methods:
        plain = plain_code(method.code)
        if method.code.count("\n") >= max_lines:
            too_long.append(_id(method))
        elif plain in seen:
            repeated.append(_id(method))
        else:
            seen.add(plain)
            kept.append(method)
    left_out = {
        f"methods of more than {max_lines:,} lines (dataset.max_method_lines)": too_long,
        "methods that differ from an earlier one only in white space and comments": repeated,
    }
    return kept, [f"{what}: {len(ids):,}, left out (first: {ids[0]})" for what, ids in left_out.items() if ids]


def _table(methods: list[JavaMethod]) -> pd.DataFrame:
    """Methods as documents, see ``read_java_sources``."""
    table = pd.DataFrame(methods, columns=list(JavaMethod._fields)).rename(
        columns={"name": "title", "code": "description"}
    )
    ids = pd.Series([_id(method) for method in methods])
    # Several methods with the same name may begin on one line: the second gets "#2".
    number = ids.groupby(ids).cumcount() + 1
    table["id"] = ids.where(number == 1, ids + "#" + number.astype(str))
    table = table.reindex(columns=[*BUG_FIELDS, "comment", "path"], fill_value="")
    return table.assign(created_at=pd.to_datetime(pd.Series([pd.NaT] * len(table)), utc=True))


def _id(method: JavaMethod) -> str:
    return f"{method.path}:{method.line}:{method.name}"


def find_sources(folder: Path, skip_folders: Sequence[str], max_file_kb: int) -> tuple[list[Path], tuple[str, ...]]:
    """The ``.java`` files below a folder, sorted, and warnings; for the options see ``read_java_sources``.

    Hidden files and folders, symbolic links, pipes, build output and files that are too large are left out, each with a
    count. Raises OSError if a folder cannot be read.
    """
    left_out: dict[str, list[str]] = {}
    files: list[Path] = []

    def is_kept(path: Path, skipped: Sequence[str] = ()) -> bool:
        reason = _reason(path, skipped, max_file_kb)
        if reason:
            left_out.setdefault(reason, []).append(path.relative_to(folder).as_posix())
        return not reason

    for source, folders, names in os.walk(folder, onerror=_raise):
        skipped = skip_folders if ROOT_MARKS & {*folders, *names} else ()
        # os.walk descends into the folders that stay in this list.
        folders[:] = [name for name in folders if is_kept(Path(source, name), skipped)]
        sources = [Path(source, name) for name in names if name.endswith(".java")]
        files += [path for path in sources if is_kept(path)]
    files.sort(key=lambda path: path.relative_to(folder).as_posix())
    counts = [f"{reason}: {len(paths):,}, left out (first: {min(paths)})" for reason, paths in left_out.items()]
    return files, tuple(sorted(counts))


def _reason(path: Path, skipped: Sequence[str], max_file_kb: int) -> str:
    """Why a folder or a Java file is left out, empty if it is not."""
    if path.name in skipped:
        return "folders of build output (dataset.skip_folders)"
    if path.is_symlink():
        return "symbolic links to folders and Java files"
    if path.name.startswith("."):
        return "hidden folders and Java files"
    if path.is_dir():
        return ""
    if not path.is_file():
        return "pipes and other special files"  # reading one may block forever
    is_large = path.stat().st_size > 1000 * max_file_kb
    return f"Java files of more than {max_file_kb:,} kB (dataset.max_file_kb)" if is_large else ""


def _raise(error: OSError) -> None:
    raise error
