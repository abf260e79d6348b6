from pathlib import Path
from xml.sax.saxutils import quoteattr

import pandas as pd
import py7zr
import pytest

from gedbd.corpora.corpus import Corpus
from gedbd.questions.stackexchange.reader import read_published, read_stackexchange

DUMPS = Path(__file__).parents[4] / "shared" / "data" / "stackexchange"  # beside the repository
BULK = "2013-02-18T03:03:31.110"
ROOTS = {"Posts": "posts", "PostLinks": "postlinks", "Tags": "tags", "PostHistory": "posthistory"}
Rows = list[dict[str, str]]


def question(number: int, **more: str) -> dict[str, str]:
    told = {"Id": str(number), "PostTypeId": "1", "CreationDate": f"2012-01-{number:02}T10:00:00.000"}
    return told | {"Title": f"title {number}", "Body": f"<p>body {number}</p>", "Tags": "<a>"} | more


def answer(number: int, parent: int, date: str) -> dict[str, str]:
    return {"Id": str(number), "PostTypeId": "2", "ParentId": str(parent), "CreationDate": date, "Body": "<p>x</p>"}


def link(duplicate: int, original: int, kind: int = 3, date: str = "2014-05-01T00:00:00.000") -> dict[str, str]:
    return {"CreationDate": date, "PostId": str(duplicate), "RelatedPostId": str(original), "LinkTypeId": str(kind)}


def xml(name: str, rows: Rows) -> bytes:
    elements = [" ".join(f"{key}={quoteattr(value)}" for key, value in row.items()) for row in rows]
    body = "".join(f"  <row {element} />\n" for element in elements)
    root = ROOTS[name]
    return f'\ufeff<?xml version="1.0" encoding="utf-8"?>\n<{root}>\n{body}</{root}>\n'.encode()


def dump(folder: Path, posts: Rows, links: Rows, tags: Rows | None = None, **more: Rows) -> Path:
    files = {"Posts": posts, "PostLinks": links, "Tags": [{"TagName": "a"}] if tags is None else tags} | more
    for name, rows in files.items():
        (folder / f"{name}.xml").write_bytes(xml(name, rows))
    return folder


def read(folder: Path, posts: Rows, links: Rows, **more: Rows) -> Corpus:
    return read_stackexchange(None, str(dump(folder, posts, links, **more)))


def about(corpus: Corpus, word: str) -> list[str]:
    return [warning for warning in corpus.warnings if word in warning]


TWO = [question(1), question(2)]


def test_questions_become_a_table(tmp_path):
    posts = [
        question(3, Body="<p>a <code>x</code></p><pre><code>y &lt; z</code></pre>", Tags="|c++|data-structures|"),
        answer(9, 3, "2012-02-02T00:00:00"),
        answer(4, 3, "2012-02-01T00:00:00.500"),
        question(1, Title="A & <b>", Tags="<c++><data-structures>", Score="9", AcceptedAnswerId="7", AnswerCount="5"),
        {"Id": "5", "PostTypeId": "4", "Body": "a wiki"},
        answer(6, 77, "2012-02-01T00:00:00"),
    ]
    tags = [{"TagName": "c++"}]
    corpus = read(tmp_path, posts, [link(3, 1)], tags=tags)
    table = corpus.reports
    assert table["id"].tolist() == ["1", "3"]
    assert table["title"].tolist() == ["A & <b>", "title 3"]
    assert table["description"].tolist() == ["body 1", "a x"]
    assert table["code"].tolist() == ["", "y < z"]
    with_code = read_stackexchange(None, str(tmp_path), code_blocks=True).reports
    assert with_code["description"].tolist() == ["body 1", "a x\ny < z"]
    assert with_code["code"].equals(table["code"])
    assert table["labels"].tolist() == ["c++;data-structures"] * 2
    assert table["answered"].tolist() == [False, True]
    assert table["answered_at"].tolist() == [pd.NaT, pd.Timestamp("2012-02-01 00:00:00.5", tz="UTC")]
    assert table["created_at"][0] == pd.Timestamp("2012-01-01 10:00", tz="UTC")
    assert corpus.group.tolist() == [0, 0]
    assert corpus.links.table.iloc[0].tolist() == [1, 0, "post link", pd.Timestamp("2014-05-01", tz="UTC")]
    assert corpus.name == tmp_path.name
    assert corpus.warnings == (
        "posts that are neither questions nor answers: 1, left out",
        "answers to a question that is not in the file: 1, left out",
        "tags that are not in Tags.xml: 1, kept (first: data-structures)",
    )


def test_links_of_other_types_make_no_groups_and_dropped_ones_are_counted(tmp_path):
    posts = [question(1), question(2), question(3), question(4)]
    links = [link(2, 1, kind=1), link(3, 1), link(3, 1), link(4, 99), link(98, 1), link(4, 4), link(1, 2, kind=7)]
    corpus = read(tmp_path, posts, links)
    assert corpus.group.tolist() == [0, 1, 0, 3]
    assert len(corpus.links) == 1
    assert about(corpus, "(LinkTypeId 1): 1, not used")
    assert about(corpus, "types other") == ["links of types other than 1 and 3: 1, not used"]
    assert about(corpus, "not a question in the file") == [
        "duplicate links to or from a post that is not a question in the file: 2, dropped (first: row 4)"
    ]
    assert about(corpus, "repeat") == ["duplicate links that repeat an earlier one: 1, dropped"]
    assert about(corpus, "to itself")[0].startswith("duplicate links from a report to itself: 1, dropped")


@pytest.mark.parametrize("has_history", [True, False])
def test_links_made_in_bulk_take_the_date_of_closing(tmp_path, has_history):
    posts = [question(1), question(2, ClosedDate="2012-03-01T00:00:00.000"), question(3), question(4), question(5)]
    links = [link(2, 1, date=BULK), link(3, 1, date=BULK), link(4, 1, date=BULK), link(5, 1, date="2012-04-01")]
    closed = [("3", "10", "2012-05-01"), ("3", "10", "2012-06-01"), ("3", "10", "2014-01-01"), ("4", "2", "2012-07-01")]
    history = [{"PostId": id_, "PostHistoryTypeId": kind, "CreationDate": date} for id_, kind, date in closed]
    corpus = read(tmp_path, posts, links, **({"PostHistory": history} if has_history else {}))
    third = pd.Timestamp("2012-06-01", tz="UTC") if has_history else pd.NaT
    expected = [pd.Timestamp("2012-03-01", tz="UTC"), third, pd.NaT, pd.Timestamp("2012-04-01", tz="UTC")]
    assert corpus.links.table["made_at"].tolist() == expected
    told = ["duplicate links made in bulk on 2013-02-18: 1, given the date at which the duplicate was closed"]
    told += [
        "duplicate links made in bulk on 2013-02-18: 1, given the date of closing in PostHistory.xml"
    ] * has_history
    told += [f"duplicate links made in bulk on 2013-02-18: {2 - has_history}, given no date, because none is known"]
    assert about(corpus, "in bulk") == told
    if has_history:
        unread = read_stackexchange(None, str(tmp_path), post_history=False)
        assert unread.links.table["made_at"].isna().sum() == 2


def test_an_original_may_be_newer(tmp_path):
    corpus = read(tmp_path, TWO, [link(1, 2)])
    assert corpus.links.pairs.tolist() == [[0], [1]]
    assert about(corpus, "newer") == ["originals that are newer than their duplicates: 1, kept"]


def test_missing_fields_are_told(tmp_path):
    bare = [{"Id": str(number), "PostTypeId": "1", "Title": "t", "AnswerCount": str(number)} for number in range(3)]
    corpus = read(tmp_path, bare, [link(1, 0)])
    assert corpus.reports["answered"].tolist() == [False, True, True]
    assert corpus.reports[["answered_at", "created_at"]].isna().all(axis=None)
    for line in ("no question has Body: descriptions are empty", "no question has Tags: they have no labels"):
        assert line in corpus.warnings
    assert about(corpus, "CreationDate") == ["no question has CreationDate: they are ordered by id"]
    assert about(corpus, "no answers in the file")
    some = read(tmp_path, [*TWO, *[question(3) | {"Tags": ""}], bare[0] | {"Id": "4"}], [])
    assert about(some, "Tags") == ["questions without Tags: 1, kept"]
    assert about(some, "without a date") == [
        "reports without a date: 1, each given the date of the report with the next lower id (first: row 4)"
    ]
    assert about(some, "marked") == ["no report is marked as a duplicate, so every report is a group of its own"]


def test_without_tags_file_without_links_and_with_one_question(tmp_path):
    dump(tmp_path, [question(1)], [])
    (tmp_path / "Tags.xml").unlink()
    corpus = read_stackexchange("mine", str(tmp_path))
    assert len(corpus) == 1
    assert corpus.name == "mine"
    assert "no Tags.xml, so the tags of the questions are not checked" in corpus.warnings
    assert about(corpus, "only one report")


def test_the_last_questions_keep_their_links(tmp_path):
    dump(tmp_path, [question(1), question(2), question(3, Body="<pre>c</pre>")], [link(3, 2), link(2, 1)])
    corpus = read_stackexchange(None, str(tmp_path), last_n=2, url_template="https://a.org/q/{issue_id}")
    assert corpus.reports["id"].tolist() == ["2", "3"]
    assert corpus.reports["code"].tolist() == ["", "c"]
    assert corpus.links.pairs.tolist() == [[1], [0]]
    assert corpus.reports["url"].tolist() == ["https://a.org/q/2", "https://a.org/q/3"]


def test_dates_out_of_range_and_dates_of_answers_that_cannot_be_read(tmp_path):
    posts = [question(1), question(2, CreationDate="0001-01-01T00:00:00"), answer(3, 1, "soon")]
    corpus = read(tmp_path, posts, [])
    (line,) = about(corpus, "outside the years 1970 to 2200: 1, treated as missing")
    assert line.endswith("(first: Posts.xml, row 2, column 'CreationDate')")
    assert corpus.reports["answered"].tolist() == [True, False]
    assert about(corpus, "readable date") == ["answered questions without a readable date of an answer: 1"]


def archive(path: Path, *names: str) -> Path:
    rows = {"Posts": TWO, "PostLinks": [link(2, 1)], "Tags": [{"TagName": "a"}]}
    with py7zr.SevenZipFile(path, "w") as packed:
        for name in names:
            packed.writestr(xml(name, rows[name]), f"folder/{name}.xml")
    return path


def test_a_published_archive_knows_its_site_and_leaves_nothing_behind(tmp_path):
    path = archive(tmp_path / "cs.stackexchange.com.7z", "Posts", "PostLinks", "Tags")
    for place in (path, tmp_path):
        corpus = read_stackexchange(None, str(place))
        assert corpus.group.tolist() == [0, 0]
        assert corpus.name == "cs"
        assert corpus.reports["url"][0] == "https://cs.stackexchange.com/questions/1"
        assert corpus.warnings == tuple(about(corpus, "no answers in the file"))
        assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_one_archive_a_file(tmp_path):
    for name in ("Posts", "PostLinks", "Tags"):
        archive(tmp_path / f"stackoverflow.com-{name}.7z", name)
    for place in (tmp_path, tmp_path / "stackoverflow.com-Posts.7z"):
        corpus = read_stackexchange(None, str(place))
        assert corpus.group.tolist() == [0, 0]
        assert corpus.name == "stackoverflow"


def test_the_published_archive_or_the_files_in_its_folder(tmp_path):
    options = {"data_dir": str(tmp_path), "folder": "ask", "file": "ask.7z", "base_url": "https://a.org/x"}
    with pytest.raises(ValueError, match=r"ask\.7z: no such file; fetch https://a.org/x/ask.7z with: .*dataset=ask "):
        read_published("ask", **options)
    (tmp_path / "ask").mkdir()
    dump(tmp_path / "ask", TWO, [link(2, 1)])
    assert len(read_published("ask", **options)) == 2
    archive(tmp_path / "ask" / "ask.7z", "Posts", "PostLinks")
    assert len(read_published("ask", **options)) == 2


@pytest.mark.parametrize(
    ("posts", "links", "message"),
    [
        (TWO, [link(8, 9), link(7, 9)], r"PostLinks\.xml: none of its 2 duplicate links .* it belongs to another site"),
        (
            [answer(1, 2, "2012-01-01")],
            [],
            r"Posts\.xml: no question, which is a row with PostTypeId 1, among its 1 rows",
        ),
        ([], [], r"Posts\.xml: no question"),
        ([question(1), question(1)], [], r"rows 1 and 2, column 'Id': the id '1' occurs twice"),
        ([question(1), {"PostTypeId": "1"}], [], r"row 2, column 'Id': the report has no id"),
        ([question(1, CreationDate="soon")], [], r"row 1, column 'CreationDate': unreadable date 'soon'"),
        (TWO, [link(1, 2, date="soon")], r"PostLinks\.xml, row 1, column 'CreationDate': unreadable date 'soon'"),
    ],
)
def test_wrong_content_is_named(tmp_path, posts, links, message):
    with pytest.raises(ValueError, match=message) as raised:
        read(tmp_path, posts, links)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nowhere", "nowhere: no such folder or archive"),
        ("Posts.xml", r"Posts\.xml: give the folder with Posts\.xml and PostLinks\.xml, or a \.7z archive"),
        (".", r"holds no PostLinks\.xml, plain or packed"),
        ("empty", r"holds no Posts\.xml"),
        ("two", r"two: it holds archives of 2 sites; set dataset\.path to one: .*a\.7z"),
        ("half.7z", r"half\.7z: the archive is damaged"),
        ("links.7z", r"links\.7z: it holds no Posts\.xml"),
    ],
)
def test_paths_without_a_dump(tmp_path, place, message):
    (tmp_path / "Posts.xml").write_bytes(xml("Posts", TWO))
    (tmp_path / "empty").mkdir()
    (tmp_path / "two").mkdir()
    whole = archive(tmp_path / "two" / "a.7z", "Posts").read_bytes()
    (tmp_path / "two" / "b.7z").write_bytes(whole)
    if place.endswith("7z"):
        (tmp_path / "half.7z").write_bytes(whole[: len(whole) // 2])
        archive(tmp_path / "links.7z", "PostLinks")
    with pytest.raises(ValueError, match=message) as raised:
        read_stackexchange(None, str(tmp_path / place))
    assert "\n" not in str(raised.value)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("site", "size", "links", "answered", "dated", "first", "last"),
    [
        ("solana", 2112, 23, 1643, 1643, "Solana Mobile Dev", "Getting RPC Response error -32602, while"),
        ("cs", 6118, 212, 5288, 0, "Euler cycles in biconnected components", "Any good python Lex Ranking tool"),
        ("travel_until_2015_07", 11851, 721, 11253, 11253, "What are some Caribbean cruises", "US Citizen with UK"),
    ],
)
def test_real_dumps_have_their_counts_and_their_first_and_last_record(site, size, links, answered, dated, first, last):
    if not DUMPS.is_dir():
        pytest.skip(f"{DUMPS} is not here")
    corpus = read_stackexchange(None, str(DUMPS / site))
    assert (len(corpus), len(corpus.links)) == (size, links)
    assert corpus.links.table["made_at"].notna().all()
    assert corpus.reports["answered"].sum() == answered
    assert corpus.reports["answered_at"].notna().sum() == dated
    assert corpus.reports["title"].iloc[0].startswith(first)
    assert corpus.reports["title"].iloc[-1].startswith(last)
