"""Read the pages of a tracker's export, plain or packed, and split them into records."""

import json
import math
import re
from ast import literal_eval
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from json import JSONDecodeError, JSONDecoder
from pathlib import Path
from typing import Any, NamedTuple

from gedbd.corpora.readers.csv_file import open_packed, read_header, table_rows
from gedbd.corpora.readers.formats import recognise, recognise_table
from gedbd.corpora.readers.record_values import Record, part, text
from gedbd.io.unpacking import UnpackLimit

JSON_KINDS = ("json", "jsonl", "ndjson")
PACKED = (".gz", ".xz", ".zip")
TABLE_KINDS = ("csv", "tsv", "txt")
WRAPPERS = (
    *("data", "repository", "project", "search", "issues", "bugs", "nodes", "edges", "node", "items"),
    *("value", "tickets", "results", "result"),
)
READ_AS_RECORDS = ("github", "gitlab")  # the formats whose lists pandas flattens to tables with a column for each key
NO_VALUE = ("", "NaN", "None", "null")  # the cells that pandas and others write where there is no value
DECLARED = re.compile(rb"\s*<\?xml[^>]{0,100}?encoding=[\"']([\w.-]+)")  # encoding of an XML file
CONSTANTS = {"Infinity": math.inf, "-Infinity": -math.inf}  # pandas writes NaN where there is no value
ERROR_KEYS = ("message", "errors", "errorMessages", "error", "error_description")
SPACE = re.compile(r"\s*")

JsonLine = dict[str, Any]
# "createdAt" -> "created_At", which is lower-cased afterwards.
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class ExportPage(NamedTuple):
    """One file of an export."""

    path: Path
    text: str


class ExportRecord(NamedTuple):
    """One issue as the tracker exports it."""

    position: str  # file, and number of the record in it, counted from 1, for messages
    record: Record


def read_pages(path: Path, kinds: Sequence[str]) -> tuple[Iterator[ExportPage], tuple[str, ...]]:
    """Reads one file, or all files of a folder in alphabetical order.

    Args:
        path: File or folder.
        kinds: Endings of the files to read, which may be packed as ``.gz``, ``.xz`` or ``.zip``.

    Returns:
        The pages, each read when the iterator reaches it, and a warning about other files in the folder.

    Raises:
        ValueError: The path does not exist, or there is no file of these kinds. While pages are read: a page is
            damaged, or the unpacked pages exceed the limit.
    """
    if not path.exists():
        raise ValueError(f"{path}: no such file or folder; set dataset.path= to an existing one")
    files = [path]
    warnings: tuple[str, ...] = ()
    if path.is_dir():
        all_files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
        files = [file for file in all_files if kind_of(file) in kinds]
        left_out = [file.name for file in all_files if file not in files]
        if not files:
            raise ValueError(f"{path}: the folder holds no file ending in .{', .'.join(kinds)}, packed or not")
        if left_out:
            warnings = (f"other files in {path.name}: {len(left_out):,}, ignored (first: {left_out[0]})",)
    elif kind_of(path) not in kinds:
        if kind_of(path) in TABLE_KINDS:
            tracker = recognise_table(read_header(path)) or "csv"
            raise ValueError(f"{path}: this looks like a table, read by dataset={tracker}: set it")
        raise ValueError(
            f"{path}: its name must end in .{', .'.join(kinds)}, followed by .gz, .xz or .zip if it is packed"
        )
    limit = UnpackLimit()
    return (ExportPage(file, read_text(file, tuple(kinds), limit)) for file in files), warnings


def kind_of(file: Path) -> str:
    """The suffix of a file's name before that of its compression: ``json`` for ``issues.json.gz`` and ``issues.gz``."""
    packed = file.suffix.lower() in PACKED
    # "issues.json.gz" has the stem "issues.json"; an archive without a second ending holds JSON.
    kind = Path(file.stem if packed else file.name).suffix.lower().removeprefix(".")
    return "json" if packed and not kind else kind


def read_text(file: Path, kinds: tuple[str, ...], limit: UnpackLimit) -> str:
    """Unpacks and decodes a file in UTF-8, in UTF-16, which some consoles write, or as its XML declaration says.

    Raises:
        ValueError: The archive is damaged or exceeds the limit, or the file has another encoding.
    """
    with open_packed(file, file.suffix, kinds, limit) as stream:
        content = stream.read()
    declared = DECLARED.match(content)
    encoding = declared[1].decode() if declared else json.detect_encoding(content)
    try:
        return content.decode(encoding)
    except LookupError as error:
        raise ValueError(f"{file}: the encoding {encoding} is unknown; export the issues as UTF-8") from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{file}: byte {error.start:,} is not valid {encoding.upper()}; export the issues again"
        ) from error


def read_records(page: ExportPage) -> Iterator[ExportRecord]:
    """Yields the issues of a JSON page: a list, one issue per line, or a response of a tracker's API.

    The rows of a table in which pandas flattened such a list are issues too, see ``nested``.

    Raises:
        ValueError: The file is not JSON, is cut off, is an error message of the server, or holds no issues; or a table
            is malformed, or not one of ``READ_AS_RECORDS``.
    """
    if kind_of(page.path) in TABLE_KINDS:
        header, rows = table_rows(page.text.encode(), page.path)
        tracker = recognise_table(header) or "csv"
        if tracker not in READ_AS_RECORDS:
            raise ValueError(f"{page.path}: this looks like a table, read by dataset={tracker}: set it")
        for number, row in rows:
            yield ExportRecord(f"{page.path}, row {number}", nested(dict(zip(header, row, strict=True))))
        return
    count = 0  # through all values of the page
    for value in read_values(page):
        for record in unwrap(value, page.path):
            count += 1
            if not isinstance(record, dict):
                raise ValueError(
                    f"{page.path}, record {count}: {str(record)[:40]!r} is not an issue; a JSON object is expected"
                )
            yield ExportRecord(f"{page.path}, record {count}", record)


def nested(cells: Mapping[str, str]) -> Record:
    """The record of a row that ``pandas.json_normalize`` wrote: the column ``user.login`` is ``login`` of ``user``.

    A cell that holds a list or an object as Python or JSON writes it becomes that value.
    """
    record: JsonLine = {}
    for column, cell in cells.items():
        *path, key = column.split(".")
        value = value_of(cell)
        if path and value is None:
            continue
        place = record
        for name in path:
            inner = place.setdefault(name, {})
            place = inner if isinstance(inner, dict) else {}
        place[key] = value
    return record


def value_of(cell: str) -> Any:
    """The value of a cell: a list, an object, true, false, or its text; ``None`` for an empty one."""
    written = cell.strip()
    if written in NO_VALUE:
        return None
    if written.lower() in {"true", "false"}:
        return written.lower() == "true"
    if written[0] + written[-1] not in {"[]", "{}"}:
        return cell
    for read in (json.loads, literal_eval):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            return read(written)
    return cell


def read_values(page: ExportPage) -> Iterator[Any]:
    """Yields the JSON values of a page, which may follow each other with or without line breaks.

    Raises:
        ValueError: The page is not JSON. The message names line and column.
    """
    decoder = JSONDecoder(object_hook=plain_value, parse_constant=CONSTANTS.get)
    position = SPACE.match(page.text).end()  # type: ignore[union-attr]
    while position < len(page.text):
        try:
            value, position = decoder.raw_decode(page.text, position)
        except JSONDecodeError as error:
            raise ValueError(f"{page.path}, line {error.lineno}, column {error.colno}: {reason(error)}") from error
        except (RecursionError, ValueError) as error:
            raise ValueError(f"{page.path}: not readable as JSON ({error}); export the issues again") from error
        yield value
        position = SPACE.match(page.text, position).end()  # type: ignore[union-attr]


def plain_value(value: Record) -> Any:
    """A JSON object, or the value that it stands for in MongoDB's extended JSON: ``{"$oid": "5f"}`` is ``5f``."""
    if len(value) != 1:
        return value
    ((kind, inner),) = value.items()
    if kind == "$date" and isinstance(inner, int):
        return datetime.fromtimestamp(inner / 1000, UTC).isoformat()
    if kind in {"$oid", "$date"}:
        return inner
    return int(inner) if kind in {"$numberInt", "$numberLong"} and str(inner).lstrip("-").isdecimal() else value


def reason(error: JSONDecodeError) -> str:
    """Explains a syntax error: the file is cut off, another format, or malformed."""
    rest = error.doc[error.pos :].strip()
    if not rest or error.msg.startswith("Unterminated string"):
        return "the file ends in the middle of a record, so it was truncated; export the issues again"
    if error.doc.lstrip().startswith("<"):
        return "this is a web page or XML, not JSON; export the issues as JSON"
    return f"not readable as JSON ({error.msg}); export the issues again"


def unwrap(value: Any, path: Path, is_inner: bool = False) -> Iterator[Any]:
    """Yields the records inside lists, ``nodes``, ``edges`` and the other wrappers of a tracker's API.

    Raises:
        ValueError: The value is an error message of the server, or an object without a list of issues.
    """
    if isinstance(value, list):
        for item in value:
            is_edge = isinstance(item, dict) and isinstance(item.get("node"), dict)  # of a GraphQL connection
            if isinstance(item, list) or is_edge or is_of_perceval(item):
                yield from unwrap(item, path)
            else:
                yield item
    elif is_of_perceval(value):
        yield data_of_perceval(value)
    elif isinstance(value, dict) and (rows := rows_in(value)):
        yield from rows
    elif not isinstance(value, dict) or recognise(value):
        yield value
    else:
        check_no_event(value, path)
        inner = next((key for key in WRAPPERS if isinstance(value.get(key), list | dict)), None)
        if inner is None and len(value) == 1 and isinstance(next(iter(value.values())), list):
            inner = next(iter(value))
        if inner is None:
            if is_inner:
                raise ValueError(f"{path}: the object has no list of issues; its keys are {_keys_of(value)}")
            yield value  # an issue of an unknown tracker, such as a line of JSON lines
            return
        listed = value[inner]
        if inner in {"issues", "bugs"} and isinstance(listed, dict) and not {"nodes", "edges"} & set(listed):
            # Bugzilla gives the comments of several bugs by number.
            if not listed or not all(isinstance(entry, dict) and "comments" in entry for entry in listed.values()):
                raise ValueError(f"{path}: {inner!r} is an object; a list of issues is expected")
            listed = [{"id": number, "comments": entry["comments"]} for number, entry in listed.items()]
        yield from unwrap(listed, path, is_inner=True)


def check_no_event(value: Record, path: Path) -> None:
    """Raises ValueError if an object is the event of a webhook or an error message of the server."""
    if {"action", "issue"} <= set(value) or "object_kind" in value or "webhookEvent" in value:
        raise ValueError(
            f"{path}: this looks like a webhook event, not an export; its keys are {_keys_of(value)}: export the issues"
        )
    # GraphQL lists its errors as objects; other servers send texts, or "error": true beside a message.
    messages = [value[key] for key in ERROR_KEYS if value.get(key) and value[key] is not True]
    first = next(iter(messages), "")
    first = first[0] if isinstance(first, list) else first
    message = str(first.get("message", first) if isinstance(first, dict) else first)
    if message:
        raise ValueError(f"{path}: this is an error message of the server, {message[:120]!r}; export the issues again")


def is_of_perceval(value: Any) -> bool:
    """Whether this is a document of Perceval (GrimoireLab), a separate program that fetches from most trackers."""
    return isinstance(value, dict) and {"backend_name", "data", "origin"} <= value.keys()


def data_of_perceval(document: Record) -> Record:
    """The issue in a document of Perceval, with its comments where the tracker has them, and the address ``origin``."""
    data = dict(part(document, "data"))
    backend = text(document, "backend_name").lower()
    comments = data.get("comments_data")
    if backend == "github":
        data["comments"] = comments
    elif backend == "gitlab":
        data["notes"] = data.get("notes_data")
    elif backend == "jira" and comments is not None:
        data["fields"] = dict(part(data, "fields")) | {"comment": {"comments": comments}}
    return data | {"origin": text(document, "origin")}


def _keys_of(value: Record) -> str:
    return ", ".join(list(value)[:8]) or "none"


def rows_in(value: Record) -> list[Record]:
    """The rows of a table as pandas writes it, an object of columns, or a list of names and one of rows; else none."""
    if {"columns", "data"} <= set(value):
        names, rows = value["columns"], value["data"]
        if isinstance(names, list) and all(isinstance(row, list) and len(row) == len(names) for row in rows):
            return [dict(zip(names, row, strict=True)) for row in rows]
        return []
    columns = [column if isinstance(column, dict) else {} for column in value.values()]
    numbers = list(columns[0]) if len(columns) > 1 else []
    if not all(str.isdecimal(number) for number in numbers) or any(set(column) != set(numbers) for column in columns):
        return []
    return [{name: column[number] for name, column in value.items()} for number in numbers]


def with_rest_names(value: Any) -> Any:
    """Renames all keys to those of REST, and turns the connections of GraphQL into lists."""
    if isinstance(value, list):
        return [with_rest_names(item) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("nodes"), list):
        return with_rest_names(value["nodes"])
    if isinstance(value.get("edges"), list):
        return [with_rest_names(edge.get("node") if isinstance(edge, dict) else edge) for edge in value["edges"]]
    return {HUMP.sub("_", key).lower(): with_rest_names(item) for key, item in value.items()}


def read_json_lines(path: Path) -> Iterator[tuple[int, JsonLine]]:
    """Yields the row (from 1) and the object of each line of a file; skips empty lines.

    Unpaired surrogates, which JSON allows and files do not, become question marks.

    Args:
        path: The file, plain or packed as ``.xz``, ``.gz`` or ``.zip``.

    Raises:
        ValueError: A line holds no JSON object, or the file is damaged; the message names file and row.
    """
    with open_packed(path, path.suffix, kinds=("jsonl",)) as stream:
        for row, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                if b"\\u" in line or not line.isascii():
                    record = json.loads(json.dumps(record, ensure_ascii=False).encode("utf-8", "replace"))
            except (ValueError, RecursionError) as error:
                reason = str(error).partition("\n")[0]
                raise ValueError(f"{path}, row {row}: not readable as JSON ({reason}); fetch the file again") from error
            if not isinstance(record, dict):
                raise ValueError(f"{path}, row {row}: a JSON object is expected, not {str(record)[:40]!r}")
            yield row, record
