"""Scores of the first candidates as further features of a ranker, which orders all candidates a second time."""

from collections.abc import Iterable, Mapping

import numpy as np

BEHIND = " behind"


def column_names(scorers: Iterable[str]) -> tuple[str, ...]:
    """The features that scorers of these names give: the score, and how far it is behind the best one."""
    return tuple(f"{name}{kind}" for name in scorers for kind in ("", BEHIND))


def pair_columns(order: np.ndarray, scores: Mapping[str, np.ndarray]) -> np.ndarray:
    """Features of the C candidates of a query, ``(C, F)`` float32 in the order of ``column_names``.

    Args:
        order: ``(C,)`` places of the candidates in the order of the first ranker, the best first.
        scores: Of each scorer its scores in that order, ``(C,)`` or fewer; what lacks a score is NaN, which boosted
            trees take as missing.
    """
    columns = []
    for own in scores.values():
        column = np.full(len(order), np.nan, dtype=np.float32)
        column[order[: len(own)]] = own
        known = column[~np.isnan(column)]
        columns += [column, column - known.max() if len(known) else column]
    return np.stack(columns, axis=1) if columns else np.empty((len(order), 0), dtype=np.float32)
