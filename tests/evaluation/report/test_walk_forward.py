from collections.abc import Callable

import pandas as pd
import pytest

from gedbd.evaluation.report.optional_sections import walk_forward
from gedbd.evaluation.report.run_settings import group_settings
from gedbd.evaluation.run_folders import Run

YEARS = {2012: [1, 2, 0], 2013: [4], 2014: [1, 1]}


def leave_year(
    leave: Callable[..., Run], name: str, year: int, ranks: list[int], contents: str, *protocols: str
) -> Run:
    """A run of one method whose queries of a year are found at some ranks."""
    split = ["split=year", f"split.year={year}"]
    run = leave(f"{name}_{year}", f"name={name}", *split, command="baseline", corpus=contents)
    found = pd.DataFrame({"id": [f"{year}-{place}" for place in range(len(ranks))], "rank": ranks, "method": name})
    found = found.assign(group=found["id"], reachable=found["rank"] > 0, average_precision=0.0)
    found = found.assign(**{"average_precision@1": 0.0, "average_precision@10": 0.0})
    tables = [found.assign(protocol=protocol) for protocol in protocols or ("earlier",)]
    pd.concat(tables).to_parquet(run.folder / "queries.parquet", index=False)
    return run


def test_queries_of_all_years_are_pooled_and_shown_year_by_year(leave):
    runs = []
    for year, ranks in YEARS.items():
        runs.append(leave_year(leave, "bm25", year, ranks, f"contents of {year}"))
        runs.append(leave_year(leave, "tfidf", year, [1] * len(ranks), f"contents of {year}"))
    section = walk_forward("demo", group_settings(runs))
    assert section is not None
    pooled, by_year = section.tables
    assert pooled[["model", "years", "queries"]].to_numpy().tolist() == [
        ["bm25", "2012 to 2014", 6],
        ["tfidf", "2012 to 2014", 6],
    ]
    assert pooled["mrr"].tolist() == pytest.approx([(1 + 1 / 2 + 0 + 1 / 4 + 1 + 1) / 6, 1])
    assert pooled["rr@10"].tolist() == pytest.approx([5 / 6, 1])
    assert (pooled["mrr_low"] <= pooled["mrr"]).all()
    mine = by_year[by_year["model"] == "bm25"]
    assert mine["year"].tolist() == ["2012", "2013", "2014"]
    assert mine["mrr"].tolist() == pytest.approx([0.5, 0.25, 1])
    assert [name for name, _, _ in section.figures] == ["years_rr@10_earlier_demo", "years_mrr_earlier_demo"]
    assert len(section.figures[1][2].axes[0].get_lines()) >= 2
    assert len({setting.label for setting in group_settings(runs)}) == 6


def test_protocols_have_tables_of_their_own(leave):
    runs = [leave_year(leave, "bm25", year, ranks, "x", "earlier", "by_week") for year, ranks in YEARS.items()]
    section = walk_forward("demo", group_settings(runs))
    assert section is not None
    assert [table["ranked"][0] for table in section.tables] == ["earlier", "earlier", "by week", "by week"]


def test_one_year_is_no_walk(leave):
    runs = [leave_year(leave, "bm25", 2012, [1], "x"), leave("other", "name=bm25", command="baseline")]
    assert walk_forward("demo", group_settings(runs)) is None
