"""Read the corpora of https://github.com/logpai/bughub: one CSV file of reports, two of labels."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.bug_reports import BUG_FIELDS, build_corpus, split_links
from gedbd.corpora.readers.csv_file import read_table, take_columns
from gedbd.corpora.urls import check_template, shown_url

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
    """Read the reports; the links of label files that lie beside them are added to their own.

    Args:
        name: Short name of the corpus, as in ``dataset=``.
        data_dir: Where all corpora lie.
        folder: The corpus's folder in there, named as in the repository.
        file: The repository's file of reports; its name counts, packed or not, and ``reports.csv`` does too.
        base_url: Public address of the repository's files.
        subset: ``all`` reports, or those that the ``train`` or the ``test`` label file lists.
        rows: Published number of ``reports``; another one is remarked on.
        date_format: ``ISO8601``, or as in ``datetime.strptime``.
        url_template: Address of a report, with ``{issue_id}`` in place of its id; null for none.

    Raises:
        ValueError: A file is missing or not as it should be.
    """
    check_template(url_template)
    place = Path(data_dir) / folder
    path = find_reports(place, file)
    if path is None:
        raise ValueError(f"{place / file}: no such file; {how_to_fetch(name, data_dir, folder, file, base_url)}")
    table, notices = read_table(path)
    reports, column_notices = take_columns(table, COLUMNS, path)
    reports = reports.assign(duplicate=clean_links(reports["duplicate"]))
    notices += column_notices + count_notices(path, len(reports), (rows or {}).get("reports"))
    labels = read_subset(place, subset)
    if labels is not None:
        reports, label_notices = add_labels(reports, labels, subset)
        notices += label_notices
    mutual = labels is not None
    links = split_links(reports["id"], reports["duplicate"])
    return build_corpus(name, reports, links, str(path), COLUMNS, notices, date_format, mutual, url_template)


def read_labels(name: str, data_dir: str, folder: str, part: str, url_template: str | None = None) -> Corpus:
    """Read one label file (``train`` or ``test``) as a corpus of reports without text and dates.

    Raises:
        ValueError: The file is missing or not as it should be.
    """
    path = find_labels(Path(data_dir) / folder, part)
    reports = label_rows(path).reindex(columns=[*BUG_FIELDS, "duplicate"], fill_value="")
    links = split_links(reports["id"], reports["duplicate"])
    title = f"{name} {part}"
    return build_corpus(title, reports, links, str(path), LABEL_COLUMNS, mutual=True, url_template=url_template)


def read_parts(
    name: str,
    data_dir: str,
    folder: str,
    file: str,
    base_url: str,
    subset: str = "all",
    rows: Mapping[str, int] | None = None,
    date_format: str = "ISO8601",
    url_template: str | None = None,
) -> list[Corpus]:
    """Read what lies there of: the reports, the ``train`` and the ``test`` label file, each as a corpus.

    Takes the arguments of ``read_bughub``. Without the reports, the label files say in a notice that they are alone.

    Raises:
        ValueError: As ``read_bughub``, where there are no label files either.
    """
    place = Path(data_dir) / folder
    there = [part for part in PARTS if find_table(place, part)]
    parts = [read_labels(name, data_dir, folder, part, url_template) for part in there]
    if not parts or find_reports(place, file):
        reports = read_bughub(name, data_dir, folder, file, base_url, subset, rows, date_format, url_template)
        return [reports, *parts]
    advice = how_to_fetch(name, data_dir, folder, file, base_url)
    alone = f"{file} is not in {place}: the numbers come from this label file alone; {advice}"
    return [_with_warning(alone, part) for part in parts]


def _with_warning(warning: str, corpus: Corpus) -> Corpus:
    """A corpus with a warning in front of the others."""
    documents = replace(corpus.documents, warnings=(warning, *corpus.warnings))
    return replace(corpus, documents=documents)


def find_table(place: Path, *stems: str) -> Path | None:
    """The first file in ``place`` that has one of these names, plain or packed."""
    files = (place / f"{stem}{ending}" for stem in stems for ending in ENDINGS)
    return next((file for file in files if file.is_file()), None)


def find_reports(place: Path, file: str) -> Path | None:
    """The file of reports."""
    return find_table(place, Path(file).stem, "reports")


def find_labels(place: Path, part: str) -> Path:
    """The label file of ``part``.

    Raises:
        ValueError: There is none.
    """
    path = find_table(place, part)
    if path is None:
        raise ValueError(
            f"{place / part}.csv: no such file; it lists the reports of the subset {part!r}. "
            "Put it there, or set dataset.subset=all"
        )
    return path


def how_to_fetch(name: str, data_dir: str, folder: str, file: str, base_url: str) -> str:
    """The command that fetches a corpus, and where it comes from."""
    return (
        f"fetch {shown_url(base_url)}/{folder}/{file} with: python -m gedbd.download dataset={name} data_dir={data_dir}"
    )


def count_notices(path: Path, num_rows: int, published: int | None) -> tuple[str, ...]:
    """Remark on a file that does not have the published number of reports."""
    if published in {None, num_rows}:
        return ()
    return (f"reports in {path.name}: {num_rows:,} where {published:,} are published; numbers will differ",)


def read_subset(place: Path, subset: str) -> pd.DataFrame | None:
    """Rows of the label files that ``subset`` needs, null where there are none and none is needed.

    Raises:
        ValueError: The subset is unknown or its label file is missing.
    """
    if subset not in {"all", *PARTS}:
        raise ValueError(f"dataset.subset={subset}: no such subset; choose all, {' or '.join(PARTS)}")
    if subset == "all":
        paths = [path for part in PARTS if (path := find_table(place, part))]
    else:
        paths = [find_labels(place, subset)]
    tables = [label_rows(path) for path in paths]
    return pd.concat(tables, ignore_index=True) if tables else None


def label_rows(path: Path) -> pd.DataFrame:
    """``id`` and ``duplicate`` of one label file, indexed by row.

    Raises:
        ValueError: A column is missing, or the file is not as it should be.
    """
    table, _ = read_table(path)
    missing = [column for column in LABEL_COLUMNS.values() if column not in table.columns]
    if missing:
        raise ValueError(f"{path}, row 1: no column {missing[0]!r}; the columns are {', '.join(table.columns)}")
    return pd.DataFrame({"id": table["Issue_id"].str.strip(), "duplicate": clean_links(table["Duplicate"])})


def add_labels(reports: pd.DataFrame, labels: pd.DataFrame, subset: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Add the links of the label files, and keep only the reports they list unless ``subset`` is ``all``.

    Returns:
        The reports, and a notice about listed reports that are not among them.
    """
    ids = reports["id"].str.strip()
    links = labels.groupby("id")["duplicate"].agg(";".join)
    reports = reports.assign(duplicate=reports["duplicate"] + ";" + ids.map(links).fillna(""))
    unknown = labels.loc[~labels["id"].isin(ids), "id"]
    notice = f"reports that only the label files name: {len(unknown):,}, left out (first: {unknown.min()})"
    kept = reports if subset == "all" else reports[ids.isin(labels["id"])]
    return kept, (notice,) if len(unknown) else ()


def clean_links(duplicates: pd.Series) -> pd.Series:
    """Empty what means none, and turn numbers written with a decimal point (``183.0``) into ids."""
    return duplicates.str.strip().replace("NULL", "").str.replace(r"\.0\b", "", regex=True)
