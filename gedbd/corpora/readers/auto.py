"""Read an export whose format is recognised: a tracker's JSON or XML, or a CSV file by the names of its columns."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra.utils import get_method
from omegaconf import DictConfig, OmegaConf

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.csv_file import is_of_jira, read_header
from gedbd.corpora.readers.export_pages import JSON_KINDS, kind_of, read_pages, read_records, recognise
from gedbd.io.files import CONF_DIR, IN_PACKAGE, locate

MIN_COLUMNS = 4  # matching columns that identify a format; fewer may match by chance
TABLES = ("csv", "tsv", "txt")
# Names of columns, lower-cased, that tell their field where no format of ``conf/dataset`` fits.
SYNONYMS = {
    "id": ("id", "issue_id", "issue id", "bug_id", "bug id", "key", "number", "#"),
    "title": ("title", "summary", "subject", "name"),
    "description": ("description", "body", "text", "details", "repro steps", "steps to reproduce"),
    "created_at": (
        *("created_at", "created", "created_time", "created time", "created at", "created at (utc)", "created date"),
        *("creation date", "opened", "date submitted", "submitted", "reported", "date"),
    ),
    "component": ("component", "category", "area", "module", "subsystem"),
    "product": ("product", "project"),
    "version": ("version", "product version", "affected versions", "affects version/s"),
    "priority": ("priority", "severity"),
    "status": ("status", "state"),
    "resolution": ("resolution",),
    "url": ("url", "link", "web_url"),
    "labels": ("labels", "tags", "keywords"),
    "resolved_at": (
        *("resolved_at", "resolved", "resolved_time", "resolved date", "closed_at", "closed", "closed at"),
        *("closed at (utc)", "closed date"),
    ),
    "duplicate": ("duplicate", "duplicate_of", "duplicate of", "duplicated_issue", "dup_of", "dupe_of", "duplicates"),
    "group": ("group", "duplicate_group", "cluster"),
}


def read_auto(
    name: str | None,
    path: str,
    columns: Mapping[str, str | None] | None = None,
    **further: Any,
) -> Corpus:
    """Reads a file or folder in any format that gedbd knows; the first warning names the detected format.

    Args:
        name: Short name of the corpus; ``None`` takes it from the path.
        path: The file or folder.
        columns: Field to column of a CSV file, where it is not recognised.
        further: ``ReportOptions``, and further options of ``read_csv``; ``None`` takes those of the format.

    Raises:
        ValueError: The format is not recognised, an option does not apply to it, or the export is malformed.
    """
    location = locate(path) if path.startswith(IN_PACKAGE) else Path(path).expanduser()
    user_columns = {field: column for field, column in (columns or {}).items() if column is not None}
    dataset, cfg = recognised(location, user_columns)
    overrides = {key: value for key, value in further.items() if value is not None}
    unsupported = [
        *(f"columns.{field}" for field in user_columns),
        *(option for option in overrides if option not in cfg),
    ]
    if unsupported and "columns" not in cfg:
        cure = "leave it out, or set dataset=csv" if kind_of(location) == "csv" else "leave it out"
        raise ValueError(f"dataset.{unsupported[0]}= is for CSV files; {location} is read as dataset={dataset}: {cure}")
    if user_columns:
        cfg.columns.update(user_columns)
    cfg.update({"name": name, "path": path} | overrides)
    options: dict[str, Any] = dict(OmegaConf.to_container(cfg))  # type: ignore[arg-type]
    read: Callable[..., Corpus] = get_method(options.pop("_target_"))
    corpus = read(**options)
    notice = f"{location.name} is read as dataset={dataset}"
    return replace(corpus, documents=replace(corpus.documents, warnings=(notice, *corpus.documents.warnings)))


def recognised(location: Path, user_columns: Mapping[str, str]) -> tuple[str, DictConfig]:
    """The format of an export: its name in ``dataset=``, and its options.

    Raises:
        ValueError: There is no such file, or the format is not recognised.
    """
    if not location.exists():
        raise ValueError(f"{location}: no such file or folder; set dataset.path= to an existing one")
    kind = kind_of(location)
    if location.is_dir() or kind in (*JSON_KINDS, "xml"):
        tracker = "jira" if kind == "xml" else _tracker_of(location)
    else:
        header = read_header(location)
        tracker = "jira" if is_of_jira(header) else ""
        if not tracker:
            return _table_of(location, header, user_columns)
    if not tracker:
        raise ValueError(
            f"{location}: the format is not recognised: set dataset= to github, gitlab, jira, bugzilla or csv"
        )
    return tracker, dataset_file(tracker)


def _tracker_of(location: Path) -> str:
    """The tracker whose format the first records have; empty if unknown."""
    pages, _ = read_pages(location, (*JSON_KINDS, "xml", *(TABLES if location.is_file() else ("csv",))))
    for page in pages:
        if kind_of(page.path) in {"xml", "csv"}:
            return "jira"
        for item in read_records(page):
            return recognise(item.record)
    return ""


def _table_of(location: Path, header: list[str], user_columns: Mapping[str, str]) -> tuple[str, DictConfig]:
    """The format that shares the most columns with a file, or ``csv``; other columns are found by their usual names."""
    present = set(header)
    best, most = "csv", MIN_COLUMNS - 1
    for name, cfg in _tables():
        matched = sum(column in present for column in cfg.columns.values() if column)
        if {cfg.columns.id, cfg.columns.title} <= present and matched > most:
            best, most = name, matched
    cfg = dataset_file(best)
    lower = {column.lower(): column for column in header}
    usual = {field: next((lower[name] for name in names if name in lower), None) for field, names in SYNONYMS.items()}
    for field, column in cfg.columns.items():
        if (
            field not in user_columns
            and column not in present
            and (usual.get(str(field)) is not None or field == "duplicate")
        ):
            cfg.columns[field] = usual[str(field)]  # a table may have no column of duplicates
    missing = [field for field in ("id", "title") if user_columns.get(field, cfg.columns[field]) not in present]
    if missing:
        options = " and ".join(f"dataset.columns.{field}=" for field in missing)
        raise ValueError(
            f"{location}: no column is named like {' or '.join(missing)}; the columns are {', '.join(header)[:300]}:"
            f" set {options} to one of them"
        )
    return best, cfg


def _tables() -> Iterator[tuple[str, DictConfig]]:
    """The formats of tables in the folder of configurations."""
    for file in sorted(Path(CONF_DIR, "dataset").glob("*.yaml")):
        cfg = dataset_file(file.stem)
        if "columns" in cfg and OmegaConf.is_missing(cfg, "path"):
            yield file.stem, cfg


def dataset_file(name: str) -> DictConfig:
    """The options in a file of ``conf/dataset``, with those of the files that its defaults name, as Hydra merges them.

    Files of other groups in the defaults are left out.
    """
    cfg: Any = OmegaConf.load(Path(CONF_DIR, "dataset", f"{name}.yaml"))
    files = [file for file in cfg.pop("defaults", ()) if isinstance(file, str)]
    if "_self_" not in files:
        files.append("_self_")
    merged = OmegaConf.merge(*(cfg if file == "_self_" else dataset_file(file) for file in files))
    assert isinstance(merged, DictConfig)
    return merged
