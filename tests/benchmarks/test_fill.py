"""Tables of the benchmark in a page."""

import pytest
from fill import check_page, fill_tables
from measure import Row

SEARCH = "<!-- benchmark: search -->\nold\n<!-- end -->"
START = "<!-- benchmark: start -->\nkept\n<!-- end -->"
TITLE = r"demo, a machine \1, 2026-11-24"
PAGE = f"Before.\n\n{SEARCH}\n\n{START}\nAfter.\n"


def test_the_table_of_a_section_is_replaced_and_all_else_stays():
    rows = [Row("one search", "p50", 14.0, "ms", "bm25s alone", 0.5, "p95 20.0 ms", spread=(12.0, 16.0))]
    filled = fill_tables(PAGE, {"search": rows}, {"search": TITLE})
    table = filled.partition("<!-- end -->")[0]
    assert f"{TITLE}." in table
    assert "| one search | p50 | 14 [12, 16] | ms | 0.5 | bm25s alone | p95 20.0 ms |" in table
    assert "old" not in filled
    assert filled.startswith("Before.\n\n<!-- benchmark: search -->\n")
    assert filled.endswith(f"\n\n{START}\nAfter.\n")
    assert fill_tables(filled, {"search": rows}, {"search": TITLE}) == filled


def test_a_page_without_a_place_is_refused_in_one_line(tmp_path):
    page = tmp_path / "speed.md"
    with pytest.raises(SystemExit, match="no such file"):
        check_page(page, ["search"])
    page.write_text(PAGE)
    check_page(page, ["search", "start"])
    with pytest.raises(SystemExit, match=r"no place for million; add <!-- benchmark: million -->"):
        check_page(page, ["search", "million"])
