from datetime import UTC, datetime

from gedbd.corpora.readers.issue import FieldChange, Issue, Link, distinct, reset_to_creation

CREATED = datetime(2024, 1, 1, tzinfo=UTC)


def day(number: int, second: int = 0) -> datetime:
    return datetime(2024, 1, number, 0, 0, second, tzinfo=UTC)


def created(values: dict, *changes: FieldChange) -> dict:
    return dict(reset_to_creation(Issue("1", "", CREATED, None, values, changes=changes)).values)


def test_changes_are_undone_from_the_last_to_the_first():
    changes = (FieldChange(day(3), "title", "second", "third"), FieldChange(day(2), "title", "first", "second"))
    assert created({"title": ("third",)}, *changes) == {"title": ("first",)}
    assert created({"title": ("third",)}, *reversed(changes)) == {"title": ("first",)}


def test_what_the_reporter_chose_on_creation_stays():
    changes = [FieldChange(day(1, second), "component", "", "map", whole=False) for second in (10, 11)]
    assert created({"component": ("map",)}, changes[0]) == {"component": ("map",)}
    assert created({"component": ("map",)}, changes[1]) == {"component": ()}


def test_one_of_several_values_goes_back():
    went = FieldChange(day(2), "version", "1.0", "", whole=False)
    came = FieldChange(day(2), "version", "", "2.0", whole=False)
    assert created({"version": ("2.0", "3.0")}, went, came) == {"version": ("3.0", "1.0")}


def test_the_surest_of_two_links_stays():
    links = (Link("1", "dupe_of"), Link("2", "comment"), Link("1", "comment"))
    assert distinct(links) == [Link("1", "dupe_of"), Link("2", "comment")]
