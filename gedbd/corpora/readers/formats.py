"""The formats of exports: the files of ``conf/dataset``, and how each of them is recognised."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml
from omegaconf import DictConfig, OmegaConf

from gedbd.io.files import CONF_DIR

FOLDER = Path(CONF_DIR, "dataset")
COMMENTED = {"id", "comments"}  # the keys of a record that holds only the comments of a bug of Bugzilla
ONE_COLUMN = ("id", "duplicate", "group")  # a column named duplicate beside duplicate_of holds flags or counts
Columns = Mapping[str, Any]  # field to the name of its column, to several names, or to None


def recognise(record: Mapping[str, Any]) -> str:
    """The format whose ``recognised_by.keys`` a record has; empty if unknown."""
    if record.keys() == COMMENTED:
        return "bugzilla"
    return next((name for keys, name in _known_sets("keys") if keys <= record.keys()), "")


def recognise_table(header: Iterable[str]) -> str:
    """The format whose ``recognised_by.columns`` a table has, in any case of letters; empty if unknown."""
    present = {column.strip().lower() for column in header}
    return next((name for columns, name in _known_sets("columns") if columns <= present), "")


@cache
def _known_sets(kind: Literal["keys", "columns"]) -> tuple[tuple[frozenset[str], str], ...]:
    """The sets of names that identify a format, the largest first, and the format of each."""
    known = []
    for file in sorted(FOLDER.glob("*.yaml")):
        content = yaml.load(file.read_text(), yaml.CSafeLoader)  # several times faster than OmegaConf
        sets = content.get("recognised_by", {}).get(kind, ())
        known += [(frozenset(map(str.lower, names) if kind == "columns" else names), file.stem) for names in sets]
    return tuple(sorted(known, key=lambda pair: -len(pair[0])))


def dataset_file(name: str) -> DictConfig:
    """The options in a file of ``conf/dataset``, with those of the files that its defaults name, as Hydra merges them.

    Files of other groups in the defaults are left out.
    """
    cfg: Any = OmegaConf.load(FOLDER / f"{name}.yaml")
    files = [file for file in cfg.pop("defaults", ()) if isinstance(file, str)]
    if "_self_" not in files:
        files.append("_self_")
    merged = OmegaConf.merge(*(cfg if file == "_self_" else dataset_file(file) for file in files))
    assert isinstance(merged, DictConfig)
    return merged


def columns_in(columns: Columns, header: Iterable[str]) -> dict[str, Any]:
    """The columns of a table that hold each field.

    Args:
        columns: Field to column, or to several, of which those in the table are read, in any case of letters.
        header: The columns of the table.

    Returns:
        Field to column, or to the list of several columns of which the first that is not empty counts in each row; to
        the first of ``columns`` if the table has none of them. The fields of ``ONE_COLUMN`` have a single column.
    """
    spelled: dict[str, str] = {}
    for column in header:
        spelled.setdefault(column.lower(), column)
    found: dict[str, Any] = {}
    for field, named in columns.items():
        if named is None or isinstance(named, str):
            found[field] = named
            continue
        present = [spelled[name.lower()] for name in named if name.lower() in spelled]
        found[field] = present if len(present) > 1 and field not in ONE_COLUMN else (*present, *named)[0]
    return found
