"""Fields and tags of reports, as codes and lists."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FIELDS = ("product", "component", "version", "priority")
AROUND_SLASH = re.compile(r"^\s*([^/\s][^/]*)/\s*(.*)$")  # the texts before and after the first slash
PROJECT = re.compile(r"^([A-Za-z][A-Za-z0-9_]*)-\d+$")
SEPARATOR = ";"


def check_field(field: str, choices: Sequence[str] = FIELDS) -> None:
    """Raises ValueError if there is no such field to compare."""
    if field not in choices:
        raise ValueError(f"field={field} is unknown: choose {', '.join(choices)}")


def field_codes(reports: pd.DataFrame, field: str) -> np.ndarray:
    """Encodes the values of a field as numbers, ``(N,)``; -1 where it is empty.

    Args:
        reports: N rows of a corpus.
        field: product, component, version or priority; case is ignored.

    Raises:
        ValueError: If there is no such field.
    """
    check_field(field)
    values = (products(reports) if field == "product" else reports[field]).str.strip().str.lower()
    codes, _ = pd.factorize(values.where(values != ""))
    return np.asarray(codes)


def products(reports: pd.DataFrame) -> pd.Series:
    """The product of each report, empty if unknown.

    If its column is empty, the product is the text before a slash in the component, or the project of an id such as
    HDFS-12.
    """
    return pd.Series(product_names(reports), index=reports.index, dtype=str)


def product_names(reports: pd.DataFrame) -> list[str]:
    """The product of each report as a list, see ``products``."""
    names = []
    before_slash = {component: AROUND_SLASH.match(component) for component in dict.fromkeys(reports["component"])}
    for product, component, id_ in zip(reports["product"], reports["component"], reports["id"], strict=True):
        name = product.strip()
        match = None if name else before_slash[component] or PROJECT.match(id_)
        names.append(match[1].strip() if match else name)
    return names


def components(reports: pd.DataFrame) -> pd.Series:
    """The component of each report, without the product in front of a slash."""
    parts = reports["component"].str.extract(AROUND_SLASH).fillna("")
    is_whole = (reports["product"].str.strip() != "") | (parts[1] == "")
    return reports["component"].where(is_whole, parts[1]).str.strip()


def tags_of(table: pd.DataFrame) -> list[tuple[str, ...]]:
    """The distinct tags of each of N documents, in lower case, in the order in which the document lists them.

    Args:
        table: N documents with ``component`` and, where they have any, ``labels``.

    Returns:
        For each document its component, if it has one, and its labels.
    """
    labels = table["labels"] if "labels" in table else pd.Series("", index=table.index)
    tags = []
    for component, names in zip(table["component"], labels, strict=True):
        all_names = [name.strip().lower() for name in (component, *names.split(SEPARATOR))]
        tags.append(tuple(dict.fromkeys(name for name in all_names if name)))
    return tags


def number_tags(tags: Sequence[tuple[str, ...]]) -> dict[str, int]:
    """Numbers the tags of documents 0..T-1, in order of first occurrence."""
    names = dict.fromkeys(tag for document_tags in tags for tag in document_tags)
    return {tag: number for number, tag in enumerate(names)}


def occurrence_matrix(tags: Sequence[tuple[str, ...]], column_of: Mapping[str, int]) -> "csr_array":
    """The indicator matrix of the tags of N documents, ``(N, T)`` int32; tags without a column are left out.

    Args:
        tags: The tags of each document; a tag that is repeated counts once.
        column_of: The column of each tag, 0..T-1, as ``number_tags`` gives them.
    """
    from scipy.sparse import csr_array

    rows: list[int] = []
    columns: list[int] = []
    for row, document_tags in enumerate(tags):
        known = {column_of[tag] for tag in document_tags if tag in column_of}
        columns += sorted(known)
        rows += [row] * len(known)
    ones = np.ones(len(rows), dtype=np.int32)
    positions = (np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64))
    return csr_array((ones, positions), shape=(len(tags), len(column_of)))


def tag_overlap(first: "csr_array", second: "csr_array") -> np.ndarray:
    """Jaccard similarity of the tags of all pairs, ``(A, T), (B, T) -> (A, B)`` float32; 0 if neither has any.

    Args:
        first: Indicator matrix of A documents, see ``occurrence_matrix``.
        second: Indicator matrix of B documents, with the same columns.
    """
    overlap = np.zeros((first.shape[0], second.shape[0]), dtype=np.float32)
    shared = (first @ second.T).tocoo()  # only the pairs that share a tag, so that no union is empty
    row, column = shared.coords
    union = first.sum(axis=1)[row] + second.sum(axis=1)[column] - shared.data
    overlap[row, column] = shared.data / union
    return overlap
