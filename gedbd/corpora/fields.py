"""What a tracker's form holds beside the text, as numbers that can be compared."""

import re

import numpy as np
import pandas as pd

FIELDS = ("product", "component", "version", "priority")
PARTS = re.compile(r"^\s*([^/\s][^/]*)/\s*(.*)$")  # what stands before and after the first slash
PROJECT = re.compile(r"^([A-Za-z][A-Za-z0-9_]*)-\d+$")


def check_field(field: str) -> None:
    """Raises ValueError if there is no such field to compare."""
    if field not in FIELDS:
        raise ValueError(f"field={field} is unknown: choose {', '.join(FIELDS)}")


def field_codes(reports: pd.DataFrame, field: str) -> np.ndarray:
    """A number for each value of a field, ``(N,)``; -1 where it is empty.

    Args:
        reports: N rows of a corpus.
        field: product, component, version or priority; upper and lower case are one.

    Raises:
        ValueError: If the field is another.
    """
    check_field(field)
    values = (products(reports) if field == "product" else reports[field]).str.strip().str.lower()
    codes, _ = pd.factorize(values.where(values != ""))
    return np.asarray(codes)


def products(reports: pd.DataFrame) -> pd.Series:
    """The product of each report, empty if unknown.

    Where its column is empty: what the component names before a slash, or the project of an id such as HDFS-12.
    """
    columns = (reports[name] for name in ("product", "component", "id"))
    return pd.Series([product_of(*values) for values in zip(*columns, strict=True)], index=reports.index, dtype=str)


def product_of(product: str, component: str, issue_id: str) -> str:
    """See ``products``."""
    if named := product.strip():
        return named
    if slash := PARTS.match(component):
        return slash[1].strip()
    project = PROJECT.match(issue_id)
    return project[1] if project else ""


def components(reports: pd.DataFrame) -> pd.Series:
    """The component of each report, without a product that it names before a slash."""
    parts = reports["component"].str.extract(PARTS).fillna("")
    own = (reports["product"].str.strip() != "") | (parts[1] == "")
    return reports["component"].where(own, parts[1]).str.strip()
