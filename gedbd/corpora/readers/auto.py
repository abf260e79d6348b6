"""Read an export whose format is recognised: a tracker's JSON or XML, or a table by the names of its columns."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from hydra.utils import get_method
from omegaconf import DictConfig, OmegaConf

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.csv_file import names_of, read_header
from gedbd.corpora.readers.export_pages import JSON_KINDS, TABLE_KINDS, kind_of, read_pages
from gedbd.corpora.readers.formats import columns_in, dataset_file, recognise, recognise_table
from gedbd.corpora.readers.record_export import records_on
from gedbd.io.files import IN_PACKAGE, locate

MAX_KEYS = 12  # shown of a record that is not recognised


def read_auto(name: str | None, path: str, columns: Mapping[str, str | None] | None = None, **further: Any) -> Corpus:
    """Reads a file or folder in any format that gedbd knows; the first warning names the detected format.

    Args:
        name: Short name of the corpus; ``None`` takes it from the path.
        path: The file or folder.
        columns: Field to column of a table, or to key of a record, where the format is not recognised.
        further: ``ReportOptions``, and further options of ``read_csv``; ``None`` takes those of the format.

    Raises:
        ValueError: The format is not recognised, an option does not apply to it, or the export is malformed.
    """
    location = locate(path) if path.startswith(IN_PACKAGE) else Path(path).expanduser()
    user_columns = {field: column for field, column in (columns or {}).items() if column is not None}
    overrides = {key: value for key, value in further.items() if value is not None}
    dataset, cfg = recognised(location, user_columns, overrides.get("separator"), overrides.get("encoding"))
    unsupported = [
        *(f"columns.{field}" for field in user_columns if "columns" not in cfg),
        *(option for option in overrides if option not in cfg),
    ]
    if unsupported:
        cure = "leave it out, or set dataset=csv" if kind_of(location) in TABLE_KINDS else "leave it out"
        raise ValueError(
            f"dataset.{unsupported[0]}= does not apply to dataset={dataset}, as which {location} is read: {cure}"
        )
    cfg.update({"name": name, "path": path} | overrides)
    options: dict[str, Any] = dict(OmegaConf.to_container(cfg))  # type: ignore[arg-type]
    read: Callable[..., Corpus] = get_method(options.pop("_target_"))
    corpus = read(**options)
    notice = f"{location.name} is read as dataset={dataset}"
    return replace(corpus, documents=replace(corpus.documents, warnings=(notice, *corpus.documents.warnings)))


def recognised(
    location: Path, user_columns: Mapping[str, str], separator: str | None = None, encoding: str | None = None
) -> tuple[str, DictConfig]:
    """The format of an export: its name in ``dataset=``, and its options.

    Args:
        location: The file or folder.
        user_columns: Field to column, or to key of a record, as the user named them.
        separator: That of a table, as the user named it; ``None`` to detect it.
        encoding: Likewise.

    Raises:
        ValueError: There is no such file, or the format is not recognised.
    """
    if not location.exists():
        raise ValueError(f"{location}: no such file or folder; set dataset.path= to an existing one")
    is_table = not location.is_dir() and kind_of(location) not in (*JSON_KINDS, "xml")
    if is_table:
        header = read_header(location, separator, encoding)
        dataset = recognise_table(header) or "csv"
        cfg = dataset_file(dataset)
        if "columns" in cfg:
            cfg.columns.update(user_columns)
            cfg.columns = columns_in(cfg.columns, header)
            _check_columns(cfg.columns, header, location)
            if user_columns.get("duplicate") is None and cfg.columns.get("duplicate") not in header:
                cfg.columns.duplicate = None  # a table may have no column of duplicates
        return dataset, cfg
    dataset, keys = _format_of_pages(location)
    if dataset:
        return dataset, dataset_file(dataset)
    if {"id", "title"} <= user_columns.keys():
        cfg = dataset_file("records")
        cfg.fields.update({field: f'"{column}"' for field, column in user_columns.items()})
        return "records", cfg
    raise ValueError(
        f"{location}: the format is not recognised; its first keys are {', '.join(keys[:MAX_KEYS]) or 'none'}: set"
        " dataset=records, and dataset.fields.id= and dataset.fields.title= to two of them"
    )


def _format_of_pages(location: Path) -> tuple[str, list[str]]:
    """The format of the first record of an export, empty if unknown, and the keys of that record."""
    pages, _ = read_pages(location, (*JSON_KINDS, "xml", "csv"))
    for page in pages:
        if kind_of(page.path) in TABLE_KINDS:
            header = read_header(page.path)
            return recognise_table(header), header
        for item in islice(records_on(page), 1):
            return recognise(item.record), list(item.record)
    return "", []


def _check_columns(columns: Mapping[str, Any], header: list[str], location: Path) -> None:
    """Raises ValueError if a table has no column of ids or of titles."""
    missing = [field for field in ("id", "title") if not {*names_of(columns[field])} <= {*header}]
    if missing:
        options = " and ".join(f"dataset.columns.{field}=" for field in missing)
        raise ValueError(
            f"{location}: no column is named like {' or '.join(missing)}; the columns are {', '.join(header)[:300]}:"
            f" set {options} to one of them"
        )
