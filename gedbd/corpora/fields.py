"""Fields of a report besides its text: products, components, and their values as numbers."""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

FIELDS = ("product", "component", "version", "priority")
AROUND_SLASH = re.compile(r"^\s*([^/\s][^/]*)/\s*(.*)$")  # the texts before and after the first slash
PROJECT = re.compile(r"^([A-Za-z][A-Za-z0-9_]*)-\d+$")


def check_field(field: str, choices: Sequence[str] = FIELDS) -> None:
    """Raises ValueError if there is no such field to compare."""
    if field not in choices:
        raise ValueError(f"field={field} is unknown: choose {', '.join(choices)}")


def field_codes(reports: pd.DataFrame, field: str) -> np.ndarray:
    """A number for each value of a field, ``(N,)``; -1 where it is empty.

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
    """See ``products``."""
    names = []
    for product, component, id_ in zip(reports["product"], reports["component"], reports["id"], strict=True):
        named = AROUND_SLASH.match(component) or PROJECT.match(id_)
        names.append(product.strip() or (named[1].strip() if named else ""))
    return names


def components(reports: pd.DataFrame) -> pd.Series:
    """The component of each report, without the product in front of a slash."""
    parts = reports["component"].str.extract(AROUND_SLASH).fillna("")
    own = (reports["product"].str.strip() != "") | (parts[1] == "")
    return reports["component"].where(own, parts[1]).str.strip()
