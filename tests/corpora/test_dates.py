"""The fast path for dates of the common format gives what the general parser gives."""

import random

import pandas as pd
import pytest

from gedbd.corpora.dates import OutOfRangeError, parse_date, parse_dates

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
