"""What a tracker's form holds beside the text, as numbers that can be compared."""

import numpy as np
import pandas as pd

FIELDS = ("product", "component", "version", "priority")


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
    named, (before_slash, _) = reports["product"].str.strip(), _parts_of(reports["component"])
    project = reports["issue_id"].str.extract(r"^([A-Za-z][A-Za-z0-9_]*)-\d+$", expand=False)
    return named.where(named != "", before_slash.where(before_slash != "", project).fillna("")).str.strip()


def components(reports: pd.DataFrame) -> pd.Series:
    """The component of each report, without a product that it names before a slash."""
    _, after_slash = _parts_of(reports["component"])
    own = (reports["product"].str.strip() != "") | (after_slash == "")
    return reports["component"].where(own, after_slash).str.strip()


def _parts_of(component: pd.Series) -> tuple[pd.Series, pd.Series]:
    """What stands before and after the first slash; nothing without one."""
    parts = component.str.extract(r"^\s*([^/\s][^/]*)/\s*(.*)$").fillna("")
    return parts[0], parts[1]
