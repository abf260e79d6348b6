"""Reads the reports of a tracker: ``gedbd.load_corpus``."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from gedbd.api.calls import choices, plain_errors
from gedbd.configuration.command_words import quoted_text
from gedbd.configuration.option_types import check_values
from gedbd.configuration.options import compose_options
from gedbd.corpora.corpus import Corpus, keep_last

if TYPE_CHECKING:
    import pandas as pd

TABLE_OPTIONS = ("date_format", "image_dir", "keep_template", "last_n", "name", "url_template")


def load_corpus(
    source: "str | Path | pd.DataFrame",
    format: str | None = None,
    *,
    columns: Mapping[str, str | None] | None = None,
    last_n: int | None = None,
    **options: Any,
) -> Corpus:
    """Reads the reports of a tracker, and the duplicate groups among them.

    Args:
        source: A file, a folder of pages, or a table; ``"demo"`` for the bundled corpus, or the name of another file in
            ``conf/dataset/`` without a path, such as ``"eclipse"``, for a downloaded corpus.
        format: ``csv``, ``github``, ``gitlab``, ``jira``, ``bugzilla`` or another file in ``conf/dataset/``; None
            detects format and columns as ``dataset=auto`` does.
        columns: Column of each field in a CSV file or table, where it differs from ``conf/dataset/csv.yaml``, such as
            ``{"title": "Summary"}``; None for a field without a column. Columns of a table may also have the names of
            the fields, such as ``title``.
        last_n: Number of latest reports to keep; None for all.
        options: Further options of the format, as ``dataset.*`` on the command line: ``encoding="cp1252"``.

    Returns:
        The corpus: ``len(corpus)`` reports in chronological order, the table ``corpus.reports``, the ``(N,)`` group
        numbers ``corpus.group`` and ``corpus.warnings``, the reader's warnings.

    Raises:
        ValueError: If the source is missing or malformed (with file, row and column), or an option is unknown.

    Example:
        >>> import gedbd
        >>> corpus = gedbd.load_corpus("demo")
        >>> corpus
        Corpus('demo': 425 reports, 280 of them in 107 duplicate groups, 2022-01-12 to 2024-12-11)
        >>> corpus.reports.loc[0, "title"]
        "New Year's Eve messages are archived under the wrong year"
    """
    all_options = {"columns": columns, "last_n": last_n} | options
    chosen = {name: value for name, value in all_options.items() if value is not None}
    if not isinstance(last_n, int | None):
        raise ValueError(f"last_n={last_n!r} must be a whole number, or None for all reports")
    if not isinstance(source, str | Path):
        if format is not None:
            raise ValueError(f"format={format!r} applies to files only: leave it out for a table")
        return _corpus_from_table(source, chosen)
    if "dataset" in chosen:
        raise ValueError(f"dataset={chosen['dataset']!r} is an option of commands: in Python, give it as format=")
    with plain_errors():
        name = format
        if name is None:
            name, detected_columns = _detect_format(str(source), columns or {})
            if detected_columns:
                chosen["columns"] = detected_columns | dict(columns or {})
        words = [f"dataset={name}"]
        if name not in choices("dataset"):
            raise ValueError(f"format={name!r} is unknown: choose one of {', '.join(choices('dataset'))}")
        if _has_path(name):
            if not Path(source).expanduser().exists():
                raise ValueError(f"{source}: no such file or folder")
            words.append(f"dataset.path={quoted_text(str(source))}")
        elif str(source) != name:
            raise ValueError(f"format={name!r} is the name of a corpus: use load_corpus({name!r})")
        cfg = compose_options("describe", words)
        num_kept = None if "last_n" in cfg.dataset else chosen.pop("last_n", None)
        _set_options(cfg.dataset, name, chosen)
        check_values(cfg)
        dataset: Any = OmegaConf.to_container(cfg.dataset, resolve=True)
        from gedbd.experiments.corpus_reading import read_corpus

        corpus = replace(read_corpus(OmegaConf.create(dataset)), source=dataset)
        return corpus if num_kept is None else keep_last(corpus, num_kept)


def _has_path(name: str) -> bool:
    """Whether a file in ``conf/dataset`` needs the path of an export."""
    from gedbd.corpora.readers.formats import dataset_file

    return OmegaConf.is_missing(dataset_file(name), "path")


def _detect_format(source: str, columns: Mapping[str, str | None]) -> tuple[str, dict[str, str | None]]:
    """The format of a file or folder and the columns of a CSV file, as detected by ``dataset=auto``.

    Args:
        source: The file or folder, or the name of a corpus.
        columns: Known columns.
    """
    if source in choices("dataset") and not _has_path(source):
        return source, {}
    from gedbd.corpora.readers.auto import recognised

    path = Path(source).expanduser()
    if not path.exists():
        names = [name for name in choices("dataset") if not _has_path(name)]
        raise ValueError(f"{source}: no such file or folder, and not one of the known corpora: {', '.join(names)}")
    name, cfg = recognised(path, {field: column for field, column in columns.items() if column is not None})
    return name, {str(field): column for field, column in cfg.get("columns", {}).items()}


def _set_options(dataset: Any, name: str, chosen: Mapping[str, Any]) -> None:
    """Sets options of the section ``dataset``; raises ValueError for an unknown one."""
    for option, value in chosen.items():
        if option not in dataset:
            known = [str(key) for key in dataset if key not in ("_target_", "path")]
            raise ValueError(f"unknown option {option} of format={name!r}: choose {', '.join(known)}")
        OmegaConf.update(dataset, option, dict(value) if isinstance(value, Mapping) else value, force_add=True)


def _corpus_from_table(table: "pd.DataFrame", chosen: dict[str, Any]) -> Corpus:
    """Reads a table in memory, whose columns are named as in ``conf/dataset/csv.yaml`` or as the fields."""
    from gedbd.corpora.readers.csv_export import read_frame
    from gedbd.corpora.readers.csv_file import names_of
    from gedbd.corpora.readers.formats import columns_in, dataset_file

    defaults: Any = OmegaConf.to_container(dataset_file("csv").columns)
    defaults |= {field: field for field in defaults if field in table}
    columns = columns_in(defaults, map(str, table.columns))
    columns = {field: named for field, named in columns.items() if named is None or {*names_of(named)} <= {*table}}
    columns |= chosen.pop("columns", {})
    unknown = [name for name in chosen if name not in TABLE_OPTIONS]
    if unknown:
        raise ValueError(f"unknown option {unknown[0]} for a table")
    return read_frame(table, columns, **chosen)


def dataset_options(corpus: Corpus) -> DictConfig:
    """The section ``dataset`` of a corpus for the saved options, without a path for a table in memory."""
    if not isinstance(corpus, Corpus):
        raise ValueError(f"{corpus!r:.80} is not a corpus: read it with gedbd.load_corpus(...)")
    unknown = {"_target_": "gedbd.corpora.readers.csv_export.read_csv", "name": corpus.name, "path": "???"}
    return OmegaConf.create(dict(corpus.source or unknown))
