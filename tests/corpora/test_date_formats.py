"""Recognition of the format of dates."""

import pytest

from gedbd.corpora.dates import find_format


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["2024-01-31", "", "2024-01-31T09:30:00Z"], "ISO8601"),
        (["31.01.2024 09:30", "01.02.2024 10:00"], "%d.%m.%Y %H:%M"),
        (["01/31/2024", "02/01/2024"], "%m/%d/%Y"),
        (["31/01/2024 23:59:01"], "%d/%m/%Y %H:%M:%S"),
        (["1/2/2024 9:05:00 AM"], "%m/%d/%Y %I:%M:%S %p"),
        (["13/2/2024 9:05 PM", "1/2/2024 9:05 AM"], "%d/%m/%Y %I:%M %p"),
        (["1/31/24 9:05"], "%m/%d/%y %H:%M"),
        (["01 Jan 2024 09:05", "31 Dec 2024 10:00"], "%d %b %Y %H:%M"),
        (["January 5, 2024"], "%B %d, %Y"),
        (["05-Jan-2024"], "%d-%b-%Y"),
        (["01/Jan/24 9:05 AM"], "%d/%b/%y %I:%M %p"),
        (["Wed, 31 Jan 2024 09:30:00 +0100"], "%a, %d %b %Y %H:%M:%S %z"),
        # What fits no format is told by the reader, with its row.
        (["31.01.2024", "soon"], "ISO8601"),
        (["31.01.2024", "2024-01-31"], "ISO8601"),
        ([], "ISO8601"),
    ],
)
def test_the_format_that_reads_all_dates(texts, expected):
    assert find_format(texts) == expected


@pytest.mark.parametrize("text", ["01/02/2024", "1-2-2024 10:00", "01/02/24"])
def test_day_and_month_are_not_guessed(text):
    with pytest.raises(ValueError, match=r"may begin with the day .*: set dataset.date_format='%d.*='%m"):
        find_format([text])
