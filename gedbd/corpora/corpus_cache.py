"""On-disk cache of parsed corpora: an export that was read before is mapped into memory.

A file is in Arrow's format, whose columns pandas uses without copying them. It has one row per document, with its group
in an additional column; the metadata of its schema hold the rest of the corpus. A checksum follows.
"""

import hashlib
import json
import os
import platform
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from gedbd.corpora.corpus import Corpus, Documents, FieldSource
from gedbd.corpora.relevance import Groups, Links
from gedbd.io.files import CONF_DIR, PACKAGE_DIR, check_regular, replacing
from gedbd.io.unpacking import MAX_GB_VARIABLE

MIN_BYTES = 1 << 20  # smaller exports are read quickly
GROUP = "group"  # additional column of a file; no reader has a column of this name
METADATA_KEY = b"gedbd"
LINKS_KEY = b"links"
CHECKSUM_BYTES = 16


class _NotStoredError(ValueError):
    """A corpus that would change if it were stored and read back."""


def cached_corpus(
    read: Callable[[], Corpus], options: Mapping[str, Any], exports: Sequence[Path], cache_dir: str | Path
) -> Corpus:
    """What ``read`` returns, from the cache if the same version has read the same export with the same options before.

    The key covers the contents of the export and the code of this package. A file gets its name only when it is
    complete, and a corpus is kept only if it equals the one that was read: values, types, order and warnings. A damaged
    file is written again. Files of the same export and options, but other contents or another version, are deleted.
    Concurrent runs may share the folder. If nothing can be written there, a warning says so.

    Args:
        read: Reads the corpus.
        options: All that ``read`` depends on besides the export.
        exports: The files and folders that ``read`` reads.
        cache_dir: Folder of the cache files, created if absent.
    """
    files = _files(exports)
    if sum(file.stat().st_size for file in files) < MIN_BYTES:
        return read()
    names = [str(export.absolute()) for export in exports]
    source = _digest({"options": options, "exports": names, "limit": os.environ.get(MAX_GB_VARIABLE)})
    contents = _contents_digest(files)
    key = _digest({"exports": contents, "version": _version()})
    folder = Path(cache_dir).expanduser()
    path = folder / f"corpus-{source}-{key}.arrow"
    try:
        return _read(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        warnings.warn(f"{path} is damaged ({error}): {', '.join(names)} is read again", stacklevel=2)
    corpus = read()
    if _contents_digest(_files(exports)) != contents:  # it was replaced while it was read
        return corpus
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        _store(path, corpus)
        for other in folder.glob(f"corpus-{source}-*.arrow"):
            if other != path:
                other.unlink(missing_ok=True)
    except _NotStoredError:
        path.unlink(missing_ok=True)
    except OSError as error:
        warnings.warn(f"cache_dir={folder}: {', '.join(names)} cannot be cached there ({error.strerror})", stacklevel=2)
    return corpus


def _files(exports: Sequence[Path]) -> list[Path]:
    """The files of an export, those of its folders in the order of their names."""
    files = []
    for export in exports:
        files += sorted(file for file in export.rglob("*") if file.is_file()) if export.is_dir() else [export]
    return files


def _digest(values: Mapping[str, Any]) -> str:
    # The keys are not sorted: the order of options may matter to a reader.
    return hashlib.blake2b(json.dumps(values).encode(), digest_size=12).hexdigest()


def _contents_digest(files: Sequence[Path]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path in files:
        check_regular(path)
        with path.open("rb") as file:
            contents = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).digest()
        digest.update(str(path).encode() + b"\0" + contents)
    return digest.hexdigest()


@cache
def _version() -> str:
    """A hash of all that affects reading: the code of this package, its export formats, and the library versions."""
    libraries = (version("gedbd"), platform.python_version(), pd.__version__, pa.__version__)
    digest = hashlib.blake2b(repr((libraries, pd.get_option("mode.string_storage"))).encode(), digest_size=16)
    files = [*PACKAGE_DIR.rglob("*.py"), *Path(CONF_DIR, "dataset").glob("*.yaml")]
    for file in sorted(files):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _read(path: Path) -> Corpus:
    """Maps a file. Raises OSError if it cannot be read, ValueError if it is damaged."""
    with pa.memory_map(str(path)) as source:
        whole = source.read_buffer()
    size = len(whole) - CHECKSUM_BYTES
    if size < 0 or _checksum(whole[:size]) != whole[size:].to_pybytes():
        raise ValueError("it differs from its checksum")
    documents = pa.ipc.open_file(whole[:size]).read_all()
    metadata = json.loads(documents.schema.metadata[METADATA_KEY])
    links = None
    if metadata["links"] is not None:
        table = pa.ipc.open_stream(documents.schema.metadata[LINKS_KEY]).read_all().to_pandas()
        links = Links(table, *metadata["links"])
    table = documents.drop_columns([GROUP]).to_pandas()
    return Corpus(
        Documents(
            metadata["name"],
            table,
            tuple(metadata["warnings"]),
            tuple(metadata["more_texts"]),
            tuple(metadata["template"]),
            tuple(FieldSource(*field) for field in metadata["fields"]),
            tuple(metadata["unread"]),
        ),
        Groups(documents[GROUP].to_numpy().copy()),  # PyTorch requires writable arrays
        links,
        None if metadata["image_dir"] is None else Path(metadata["image_dir"]),
        metadata["url_template"],
    )


def _store(path: Path, corpus: Corpus) -> None:
    """Writes a file, and raises ``_NotStoredError`` if reading it back does not give the same corpus."""
    try:
        content = _content(corpus)
    except (pa.ArrowException, UnicodeEncodeError) as error:  # lone surrogates, or values of several types
        raise _NotStoredError from error
    with replacing(path) as unfinished, unfinished.open("wb") as file:
        file.write(content)
        file.write(_checksum(content))
    if not _is_same(_read(path), corpus):
        raise _NotStoredError


def _content(corpus: Corpus) -> pa.Buffer:
    """A corpus in Arrow's format."""
    if GROUP in corpus.reports:
        raise _NotStoredError
    documents = pa.Table.from_pandas(corpus.reports).append_column(GROUP, pa.array(corpus.group))
    metadata = {**documents.schema.metadata, METADATA_KEY: json.dumps(_metadata(corpus)).encode()}
    if corpus.links is not None:
        links = pa.Table.from_pandas(corpus.links.table)
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, links.schema) as writer:
            writer.write_table(links)
        metadata[LINKS_KEY] = stream.getvalue().to_pybytes()
    documents = documents.replace_schema_metadata(metadata).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, documents.schema) as writer:
        writer.write_table(documents)
    return sink.getvalue()


def _metadata(corpus: Corpus) -> dict[str, Any]:
    """All of a corpus except its tables and groups."""
    links = corpus.links
    return {
        "name": corpus.name,
        "warnings": corpus.warnings,
        "more_texts": corpus.documents.more_texts,
        "template": corpus.documents.template,
        "fields": corpus.documents.fields,
        "unread": corpus.documents.unread,
        "links": None if links is None else (links.num_queries, links.num_documents),
        "image_dir": None if corpus.image_dir is None else str(corpus.image_dir),
        "url_template": corpus.url_template,
    }


def _checksum(content: pa.Buffer) -> bytes:
    return hashlib.blake2b(content, digest_size=CHECKSUM_BYTES).digest()


def _is_same(first: Corpus, second: Corpus) -> bool:
    """Whether two corpora are equal, including the types of all values."""
    if _metadata(first) != _metadata(second) or first.group.dtype != second.group.dtype:
        return False
    tables = [(first.reports, second.reports)]
    if first.links is not None and second.links is not None:
        tables.append((first.links.table, second.links.table))
    for pair in tables:
        # pandas treats None and NaN as equal, so a table with objects other than strings does not count as the same.
        objects = [table[name] for table in pair for name in table if table[name].dtype == object]
        types = [[type(table.index), table.columns.dtype, *table.dtypes] for table in pair]
        if types[0] != types[1] or not all(isinstance(value, str) for column in objects for value in column):
            return False
    is_equal = all(one.index.equals(other.index) and one.equals(other) for one, other in tables)
    return is_equal and bool((first.group == second.group).all())
