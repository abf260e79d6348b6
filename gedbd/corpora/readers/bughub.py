"""Read the corpora of https://github.com/logpai/bughub: a CSV file of reports and two of labels."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.bug_reports import BUG_FIELDS, RESOLVED_AT, build_corpus, resolution_dates
from gedbd.corpora.readers.csv_file import read_table, take_columns
from gedbd.corpora.readers.duplicate_cells import split_links
from gedbd.corpora.urls import check_template
from gedbd.io.http import shown_url

PARTS = ("train", "test")
COLUMNS: dict[str, str | None] = {
    "id": "Issue_id",
    "title": "Title",
    "description": "Description",
    "created_at": "Created_time",
    "component": "Component",
    "version": "Version",
    "priority": "Priority",
    "status": "Status",
    "resolution": "Resolution",
    "resolved_at": "Resolved_time",
    "duplicate": "Duplicated_issue",
}
LABEL_COLUMNS: dict[str, str | None] = {"id": "Issue_id", "duplicate": "Duplicate"}
ENDINGS = (".csv", ".csv.xz", ".csv.gz", ".csv.zip", ".xz", ".gz", ".zip")


def read_bughub(
    name: str,
    data_dir: str,
    folder: str,
    file: str,
    base_url: str,
    subset: str = "all",
    rows: Mapping[str, int] | None = None,
    date_format: str = "ISO8601",
    url_template: str | None = None,
) -> Corpus:
    """Reads the reports, and adds the links of the label files in the same folder.

    Args:
        name: Short name of the corpus, as in ``dataset=``.
        data_dir: Folder of all corpora.
        folder: Folder of this corpus, named as in the repository.
        file: The repository's file of reports. Packed files and ``reports.csv`` are found too.
        base_url: Public address of the repository's files.
        subset: ``all`` reports, or those that the ``train`` or the ``test`` label file lists.
        rows: Published number of ``reports``; a different number gives a warning.
        date_format: ``ISO8601``, or a format of ``datetime.strptime``.
        url_template: Address of a report, in which ``{issue_id}`` stands for its id; ``None`` for no address.

    Raises:
        ValueError: A file is missing or malformed.
    """
    check_template(url_template)
    directory = Path(data_dir) / folder
    path = find_reports(directory, file)
    if path is None:
        raise ValueError(f"{directory / file}: no such file; {how_to_fetch(name, data_dir, folder, file, base_url)}")
    table, warnings = read_table(path)
    reports = take_columns(table, COLUMNS, path)
    resolved_at, date_warnings = resolution_dates(reports[RESOLVED_AT], date_format)
    reports = reports.assign(**{RESOLVED_AT: resolved_at})
    published = (rows or {}).get("reports")
    warnings += date_warnings
    if published not in {None, len(reports)}:
        notice = f"reports in {path.name}: {len(reports):,}, but {published:,} were published; figures will differ"
        warnings = (*warnings, notice)
    labels = read_subset(directory, subset)
    if labels is not None:
        ids = reports["id"].str.strip()
        named = labels.groupby("id")["duplicate"].agg(";".join)
        reports = reports.assign(duplicate=reports["duplicate"] + ";" + ids.map(named).fillna(""))
        unknown = labels.loc[~labels["id"].isin(ids), "id"]
        if len(unknown):
            notice = f"reports that occur only in the label files: {len(unknown):,}, left out (first: {unknown.min()})"
            warnings = (*warnings, notice)
        if subset != "all":
            reports = reports[ids.isin(labels["id"])]
    mutual = labels is not None
    links = split_links(reports["id"], reports["duplicate"])
    return build_corpus(
        name, reports, links, str(path), COLUMNS, warnings, date_format, mutual, url_template=url_template
    )


def read_labels(name: str, data_dir: str, folder: str, part: str, url_template: str | None = None) -> Corpus:
    """Reads one label file, ``train`` or ``test``, as a corpus of reports without text and dates."""
    path = find_labels(Path(data_dir) / folder, part)
    reports = label_rows(path).reindex(columns=[*BUG_FIELDS, "duplicate"], fill_value="")
    links = split_links(reports["id"], reports["duplicate"])
    title = f"{name} {part}"
    return build_corpus(title, reports, links, str(path), LABEL_COLUMNS, mutual=True, url_template=url_template)


def read_parts(
    name: str, data_dir: str, folder: str, file: str, base_url: str, url_template: str | None = None, **options: Any
) -> list[Corpus]:
    """Reads each existing file as a corpus: the reports, the ``train`` and the ``test`` label file.

    Takes the arguments of ``read_bughub``. If the reports are missing, a warning of the label files says so.

    Raises:
        ValueError: See ``read_bughub``; missing reports are an error only if the label files are missing too.
    """
    directory = Path(data_dir) / folder
    present = [part for part in PARTS if find_table(directory, part)]
    parts = [read_labels(name, data_dir, folder, part, url_template) for part in present]
    if not parts or find_reports(directory, file):
        reports = read_bughub(name, data_dir, folder, file, base_url, url_template=url_template, **options)
        return [reports, *parts]
    advice = how_to_fetch(name, data_dir, folder, file, base_url)
    notice = f"{file} is not in {directory}: all figures come from this label file alone; {advice}"
    return [replace(part, documents=replace(part.documents, warnings=(notice, *part.warnings))) for part in parts]


def find_table(directory: Path, *stems: str) -> Path | None:
    """The first file in ``directory`` that has one of these names, plain or packed; ``None`` if there is none."""
    files = [directory / f"{stem}{ending}" for stem in stems for ending in ENDINGS]
    return next((file for file in files if file.is_file()), None)


def find_reports(directory: Path, file: str) -> Path | None:
    """The file of reports."""
    return find_table(directory, Path(file).stem, "reports")


def find_labels(directory: Path, part: str) -> Path:
    """The label file of ``part``. Raises ValueError if there is none."""
    path = find_table(directory, part)
    if path is None:
        raise ValueError(
            f"{directory / part}.csv: no such file; it lists the reports of the subset {part!r}. "
            "Put it there, or set dataset.subset=all"
        )
    return path


def how_to_fetch(name: str, data_dir: str, folder: str, file: str, base_url: str) -> str:
    """The command that downloads a corpus, and the address that it comes from."""
    return (
        f"fetch {shown_url(base_url)}/{folder}/{file} with: gedbd download dataset={name} data_dir={data_dir};"
        " meanwhile, dataset=demo needs no file"
    )


def read_subset(directory: Path, subset: str) -> pd.DataFrame | None:
    """Rows of the label files of ``subset``; ``None`` if there are none and ``subset`` is ``all``.

    Raises:
        ValueError: The subset is unknown or its label file is missing.
    """
    if subset not in {"all", *PARTS}:
        raise ValueError(f"dataset.subset={subset}: no such subset; choose all, {' or '.join(PARTS)}")
    if subset == "all":
        label_files = [find_table(directory, part) for part in PARTS]
        paths = [path for path in label_files if path]
    else:
        paths = [find_labels(directory, subset)]
    tables = [label_rows(path) for path in paths]
    return pd.concat(tables, ignore_index=True) if tables else None


def label_rows(path: Path) -> pd.DataFrame:
    """``id`` and ``duplicate`` of one label file, indexed by row. Raises ValueError if it is malformed."""
    table, _ = read_table(path)
    missing = [column for column in LABEL_COLUMNS.values() if column not in table.columns]
    if missing:
        raise ValueError(f"{path}, row 1: no column {missing[0]!r}; the columns are {', '.join(table.columns)}")
    return pd.DataFrame({"id": table["Issue_id"].str.strip(), "duplicate": table["Duplicate"]})
