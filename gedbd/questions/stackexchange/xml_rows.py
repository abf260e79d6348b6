"""Stream the rows of one XML file of a dump, such as ``<posts><row Id="1" .../></posts>``.

The file is not trusted: a document type, which could define entities, is refused, and so is anything but a flat list of
rows.
"""

from collections.abc import Generator, Mapping
from functools import partial
from pathlib import Path
from xml.parsers import expat

from gedbd.corpora.readers.csv_file import open_packed
from gedbd.corpora.readers.jira_xml import is_cut_off, safe_parser
from gedbd.io.console import byte_progress
from gedbd.io.unpacking import UnpackLimit

CHUNK_BYTES = 1 << 20
MAX_ROW_BYTES = 1 << 24  # a body has at most 30,000 characters before it becomes HTML
PACKED = (".xz", ".gz")
FETCH_AGAIN = "fetch the dump again"

Attributes = Mapping[str, str]


def read_rows(path: Path, root: str, limit: UnpackLimit) -> Generator[Attributes]:
    """Yield the attributes of each row, while a bar shows the progress.

    Args:
        path: The file, plain or packed as ``.xz`` or ``.gz``.
        root: The element that holds the rows: ``posts``, ``postlinks``, ``tags`` or ``posthistory``.
        limit: Limits the unpacked bytes, see ``gedbd.io.unpacking``.

    Raises:
        ValueError: The file is not such a list of rows, is cut off or damaged, or unpacks to too much. The message
            names the file and the line or row.
    """
    rows = _Rows(path, root)
    # How many bytes a packed file unpacks to is not known, so its bar has no end.
    total = None if path.suffix.lower() in PACKED else path.stat().st_size
    with byte_progress(transient=True) as progress, open_packed(path, path.suffix, limit=limit) as stream:
        task = progress.add_task(path.name, total=total)
        for chunk in iter(partial(stream.read, CHUNK_BYTES), b""):
            yield from rows.of_chunk(chunk)
            progress.advance(task, len(chunk))
        rows.check_end()


class _Rows:
    """Parses a file chunk by chunk; ``root`` is the name of its outermost element."""

    def __init__(self, path: Path, root: str) -> None:
        self._path = path
        self._root = root
        self._depth = 0
        self._count = 0
        self._bytes_since_row = 0
        self._found: list[Attributes] = []
        self._parser = safe_parser(path)
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end

    def of_chunk(self, chunk: bytes) -> list[Attributes]:
        """The rows that begin before the end of a chunk and after that of the chunk before."""
        self._found = []
        self._parse(chunk, is_last=False)
        self._count += len(self._found)
        self._bytes_since_row = len(chunk) if self._found else self._bytes_since_row + len(chunk)
        # The parser reads an unfinished tag again with every chunk.
        if self._bytes_since_row > MAX_ROW_BYTES:
            raise ValueError(
                f"{self._path}, row {self._count + 1}: more than {MAX_ROW_BYTES:,} bytes, which no post has"
            )
        return self._found

    def check_end(self) -> None:
        """Raises ValueError if the file ends before its last element does."""
        self._found = []  # those of the last chunk are counted
        self._parse(b"", is_last=True)

    def _parse(self, chunk: bytes, is_last: bool) -> None:
        try:
            self._parser.Parse(chunk, is_last)
        except expat.ExpatError as error:
            place = f"{self._path}, line {error.lineno}, column {error.offset + 1}"
            message = f"{place}: not readable as XML ({expat.errors.messages[error.code]})"
            if is_cut_off(error):
                row = self._count + len(self._found)
                message = f"{self._path}: the file ends after {row:,} rows, without </{self._root}>"
            raise ValueError(f"{message}; {FETCH_AGAIN}") from error

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth == 2 and name == "row":
            self._found.append(attributes)
        elif self._depth > 1 or name != self._root:
            expected = self._root if self._depth == 1 else "row"
            where = f"{self._path}, line {self._parser.CurrentLineNumber}"
            told = f"unexpected <{name[:40]}>, expected <{expected}>; this is not the {self._root} file of a dump"
            raise ValueError(f"{where}: {told}")

    def _end(self, name: str) -> None:
        self._depth -= 1
