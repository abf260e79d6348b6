"""Dates: recognition of their format, and a fast path that gives what the general parser gives."""

import random

import pandas as pd
import pytest

from gedbd.corpora.dates import OutOfRangeError, find_format, parse_date, parse_dates

WRITTEN = (
    *("2024-01-31T09:30:00", "2024-01-31 09:30:00.123", "2024-02-30T09:30:00", "1969-12-31T00:00:00", ""),
    *("2199-12-31T23:59:59.123456", "2200-12-31T23:59:59", "2201-01-01T00:00:00", "2024-01-31T24:00:00"),
    *("2024-01-31T23:60:00", "2024-01-31T23:59:60", "2024-01-31T23:59:59.12", "2024-01-31T23:59:59.1234"),
    *(" 2024-01-31T09:30:00", "2024-13-01T00:00:00", "0001-01-01T00:00:00", "2024-01-31T09:30:00+01:00"),
)


def one_by_one(text: str) -> tuple[pd.Timestamp, bool]:
    try:
        return pd.Timestamp(parse_date(text)), False
    except OutOfRangeError:
        return pd.NaT, True
    except ValueError:
        return pd.NaT, False


def test_columns_are_read_as_single_dates_are():
    rng = random.Random(0)
    texts = list(WRITTEN)
    for _ in range(1_000):
        signs = list(rng.choice([text for text in WRITTEN if text]))
        signs[rng.randrange(len(signs))] = rng.choice("0123456789-T :.Z")
        texts.append("".join(signs))
    dates, outside = parse_dates(pd.Series(texts))
    expected = [one_by_one(text) for text in texts]
    assert str(dates.dtype) == "datetime64[us, UTC]"
    assert dates.notna().sum() > 50
    assert one_by_one("2200-12-31T23:59:59") == (pd.Timestamp("2200-12-31T23:59:59", tz="UTC"), False)
    pd.testing.assert_series_equal(dates, pd.Series([date for date, _ in expected], dtype=dates.dtype))
    assert outside.tolist() == [is_outside for _, is_outside in expected]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "dataset.date_format=null must be a format such as .*; leave it out for ISO 8601"),
        (2024, "dataset.date_format=2024 must be a format"),
        ("mixed", "dataset.date_format=mixed guesses"),
    ],
)
def test_what_is_no_format_of_dates_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        parse_dates(pd.Series(["2024-01-31"]), given)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["2024-01-31", "", "2024-01-31T09:30:00Z"], "ISO8601"),
        (["31.01.2024 09:30", "01.02.2024 10:00"], "%d.%m.%Y %H:%M"),
        (["01/31/2024", "02/01/2024"], "%m/%d/%Y"),
        (["31/01/2024 23:59:01"], "%d/%m/%Y %H:%M:%S"),
        (["1/31/2024 9:05:00 AM UTC"], "%m/%d/%Y %I:%M:%S %p"),
        (["13/2/2024 9:05 PM", "01/02/2024 9:05 AM"], "%d/%m/%Y %I:%M %p"),
        (["1/31/24 9:05"], "%m/%d/%y %H:%M"),
        (["01 Jan 2024 09:05", "31 Dec 2024 10:00"], "%d %b %Y %H:%M"),
        (["January 5, 2024"], "%B %d, %Y"),
        (["05-Jan-2024"], "%d-%b-%Y"),
        (["01/Jan/24 9:05 AM"], "%d/%b/%y %I:%M %p"),
        (["1/2/2024 9:05 AM"], "%m/%d/%Y %I:%M %p"),  # only US English writes no zeros before both
        (["Tuesday, January 2, 2024 10:00:00 AM"], "en:%b %d, %Y %I:%M:%S %p"),
        (["Wed, 31 Jan 2024 09:30:00 +0100"], "%a, %d %b %Y %H:%M:%S %z"),
        # What fits no format is told by the reader, with its row.
        (["31.01.2024", "soon"], "ISO8601"),
        (["31.01.2024", "2024-01-31"], "ISO8601"),
        ([], "ISO8601"),
    ],
)
def test_the_format_that_reads_all_dates(texts, expected):
    assert find_format(texts) == expected


@pytest.mark.parametrize("text", ["01/02/2024", "1-2-2024 10:00", "01/02/24", "01/02/2024 9:05 AM"])
def test_day_and_month_are_not_guessed(text):
    with pytest.raises(ValueError, match=r"may begin with the day .*: set dataset.date_format='%d.*='%m"):
        find_format([text])
