"""What had become of earlier documents, by hand: five documents, one a day."""

import numpy as np
import pandas as pd
import pytest

from gedbd.questions.confirmation.link_history import Resolutions, log_hours

DAYS = pd.to_datetime([f"2024-01-0{day}" for day in range(1, 6)], utc=True)
# The first is resolved after a day, the second after four, the third after half a day; the fourth stays open.
RESOLVED = pd.to_datetime(["2024-01-02", "2024-01-06", "2024-01-03 12:00", None, None], utc=True, format="ISO8601")
NOW = np.datetime64("2024-01-05")


@pytest.fixture
def resolutions():
    return Resolutions(pd.DataFrame({"created_at": DAYS, "resolved_at": RESOLVED}))


def test_reports_with_the_same_tag(resolutions):
    found = resolutions.of_tags(np.array([0, 1, 2, 3]), NOW)
    assert found["same_tag_open"] == 0.5
    assert found["same_tag_resolved_of_last_30_days"] == 0.5
    assert found["same_tag_resolved_of_last_100"] == 0.5
    assert found["same_tag_resolved_within_a_day"] == pytest.approx(2 / 3)  # the fourth is not older than a day
    month_later = resolutions.of_tags(np.array([0, 1, 2, 3]), NOW + np.timedelta64(28, "D"))
    assert month_later["same_tag_open"] == 0.25
    assert month_later["same_tag_resolved_of_last_30_days"] == 0.5  # of January 3 and 4
    assert np.isnan(list(resolutions.of_tags(np.array([], dtype=int), NOW).values())).all()


def test_similar_reports(resolutions):
    found = resolutions.of_similar(np.array([0.9, 0.5, 0.6, 0.8]), NOW)
    assert found["similar_open"] == 0.5
    first, third = np.log10([24, 12])
    assert found["similar_hours"] == pytest.approx((0.9 * first + 0.6 * third) / 1.5)
    so_far = np.log10([24, 24 * 3, 12, 24])
    assert found["similar_hours_so_far"] == pytest.approx(so_far.mean())
    assert (found["nearest_resolved"], found["nearest_hours"]) == (1, first)
    assert found["nearest_lead"] == pytest.approx(0.1)
    assert found["nearest_5_resolved"] == 0.5
    assert found["nearest_5_age"] == pytest.approx(np.median(np.log10([96, 72, 48, 24])))
    assert (found["very_similar"], found["similar_in_30_days"]) == (2, 3)


def test_no_earlier_report(resolutions):
    found = resolutions.of_similar(np.array([]), NOW)
    assert (found.pop("very_similar"), found.pop("similar_in_30_days")) == (0, 0)
    assert np.isnan(list(found.values())).all()


def test_one_report(resolutions):
    found = resolutions.of_document(2, NOW)
    assert found["resolved"] == 1
    assert found["hours_since_resolved"] == pytest.approx(np.log10(36))
    assert found["hours_to_resolve"] == pytest.approx(np.log10(12))
    # Resolved later is not known now.
    assert resolutions.of_document(1, NOW)["resolved"] == 0
    assert np.isnan(resolutions.of_document(1, NOW)["hours_to_resolve"])


def test_without_dates_of_resolution_every_report_is_open():
    resolutions = Resolutions(pd.DataFrame({"created_at": DAYS}))
    assert resolutions.of_tags(np.array([0, 1]), NOW)["same_tag_open"] == 1
    assert resolutions.of_document(0, NOW)["resolved"] == 0


def test_a_time_counts_as_a_minute_at_least():
    hours = log_hours(np.array([-5, 0, 3600], dtype="timedelta64[s]"))
    np.testing.assert_allclose(hours, [np.log10(1 / 60), np.log10(1 / 60), 0])
