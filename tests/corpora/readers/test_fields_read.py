import json

import pytest

from gedbd.corpora.corpus_cache import cached_corpus
from gedbd.corpora.readers.auto import read_auto

READ = "id <- {} (3), title <- {} (3), created_at <- {} (3; first 2024-01-02 09:05 UTC)"
CSV = READ.format("id", "title", "created_at")
EMPTY = (
    "no values: description, product, component, version, os, priority, status, resolution, attachments, url, labels"
)
EMPTY += ", resolved_at"
NO_IDS = [("Group of teams", "a"), ("Original estimate", "2"), ("Parent", "2"), ("Votes", "2"), ("num_duplicates", "2")]
DATES = ["2024-01-02T09:05:00Z", "2024-01-03T09:05:00Z", "2024-01-04T09:05:00Z"]


def table(name, cells):
    rows = [
        f"{n},{n}: it fails,{date},{cell}" for n, (date, cell) in enumerate(zip(DATES, cells, strict=True), start=1)
    ]
    return "\n".join([f"id,title,created_at,{name}", *rows])


def records(id_key, further, **last):
    known = [{id_key: n, "title": f"{n}: it fails", "created_at": date} for n, date in enumerate(DATES, start=1)]
    return json.dumps([*(record | further for record in known[:2]), known[2] | further | last])


@pytest.mark.parametrize(
    ("file", "content", "line", "option"),
    [
        ("b.csv", table("duplicate_of", ["", "", "1"]), f"{CSV}, duplicate <- duplicate_of (1); {EMPTY}", None),
        ("b.csv", table("Who,When", ["a,b"] * 3), f"{CSV}; {EMPTY}; not read: Who, When", None),
        # The name, or the cells, tell that a column names duplicates.
        *(
            (
                "b.csv",
                table(name, ["", "", cell]),
                f"{CSV}; {EMPTY}; not read: {name}",
                f"\"dataset.columns.duplicate='{name}'\"",
            )
            for name, cell in [("Related to", "#2"), ("canonicalIssue", "Issue 1"), ("Twin", "2"), ("see also", "1;2")]
        ),
        *(("b.csv", table(name, ["", "", cell]), f"{CSV}; {EMPTY}; not read: {name}", None) for name, cell in NO_IDS),
        ("b.csv", table("is_original", ["0", "1", "1"]), f"{CSV}; {EMPTY}; not read: is_original", None),
        ("b.csv", table("Row", ["1", "2", "3"]), f"{CSV}; {EMPTY}; not read: Row", None),
        (
            "b.json",
            records("iid", {"state": "opened", "weight": 1, "due_date": None}, same_as=[1], web_url="https://h/o/r"),
            f"{READ.format('iid', 'title', 'created_at')}, status <- state (3), url <- web_url (1);"
            " no values: description, labels, resolved_at; not read: weight, same_as",
            "\"dataset.fields.duplicate='same_as'\"",
        ),
        (
            "b.json",
            json.dumps(
                [
                    {
                        "id": n,
                        "rev": 1,
                        "fields": {"System.Title": "It fails", "System.CreatedDate": DATES[n - 1], "Custom.Twin": twin},
                    }
                    for n, twin in [(1, None), (2, ""), (3, 2)]
                ]
            ),
            READ.format("id", 'fields."System.Title"', 'fields."System.CreatedDate"') + "; no values",
            r"""fields.duplicate='fields.\"Custom.Twin\"'" """.strip(),
        ),
    ],
)
def test_what_was_read_is_said_in_one_line_and_columns_of_duplicates_are_pointed_out(
    tmp_path, file, content, line, option
):
    path = tmp_path / file
    path.write_text(content)
    corpus = read_auto(None, str(path))
    assert corpus.documents.fields_line.startswith(line)
    pointed_out = [warning for warning in corpus.warnings if "may name duplicates" in warning]
    assert len(pointed_out) == (option is not None)
    assert all(f"{option} reads it" in warning for warning in pointed_out)


def test_what_was_read_is_kept_in_the_cache(tmp_path):
    path = tmp_path / "bugs.csv"
    path.write_text(table("Twin", ["", "", "x" * (1 << 20)]))  # large enough for the cache
    first, again = (cached_corpus(lambda: read_auto(None, str(path)), {}, [path], tmp_path / "cache") for _ in range(2))
    assert (again.documents.fields, again.documents.unread) == (first.documents.fields, ("Twin",))
