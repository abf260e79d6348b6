"""Addresses of reports."""

from contextlib import nullcontext

import pandas as pd
import pytest

from gedbd.corpora.urls import MAX_URL_LENGTH, check_template, report_urls, web_url, with_urls
from gedbd.io.http import check_same_server


@pytest.mark.parametrize(
    "url",
    [
        "https://bugs.example.org/show_bug.cgi?id=12",
        "http://localhost:8080/browse/ABC-1#comment",
        "HTTPS://EXAMPLE.ORG",
        "https://example.org/büge/ä(1)",
        "https://[::1]:80/a",
    ],
)
def test_web_addresses_are_kept_and_stripped(url):
    assert web_url(f" {url}\n") == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "javascript:alert(1)",
        "JavaScript://example.org/%0aalert(1)",
        "data:text/html,<script>",
        "file:///etc/passwd",
        "ftp://example.org/1",
        "//example.org/1",
        "example.org/1",
        "https:example.org",
        "https://",
        "https:///1",
        "https://user:secret@example.org/1",
        "https://example.org\\@evil.org/",
        "https://example.org/a b",
        'https://example.org/"onclick="x',
        "https://example.org/<b>",
        "https://example.org/\x1b]8;;https://evil.org\x1b\\",
        "https://example.org/\u202egro.live",
        "https://example.org/\ud800",
        "https://example.org/" + "x" * MAX_URL_LENGTH,
    ],
)
def test_everything_else_is_refused(text):
    assert web_url(text) == ""


@pytest.mark.parametrize(
    "template",
    [
        "",
        "https://b.org/show_bug.cgi?id=",
        "https://b.org/show_bug.cgi?id={id}",
        "ftp://b.org/{issue_id}",
        "javascript:open({issue_id})",
        "https://{issue_id}/",
        "https://{issue_id}.b.org/x",
        "https://b.org{issue_id}",
        "https://user:secret@b.org/{issue_id}",
        "https://b.org/{issue_id} x",
        12,
    ],
)
def test_bad_templates_are_refused_in_one_line(template):
    with pytest.raises(ValueError, match=r"dataset\.url_template=.* must be an http or https address") as error:
        check_template(template)
    assert "\n" not in str(error.value)


def test_an_address_of_its_own_goes_before_the_template():
    reports = pd.DataFrame(
        {"id": ["1", "A B/2?x=é", "3", "4"], "url": ["https://a.org/1", "", "javascript:alert(1)", " "]},
        index=[2, 3, 4, 5],
    )
    urls, warnings = report_urls(reports, "https://b.org/s?id={issue_id}")
    expected = ["https://a.org/1", "https://b.org/s?id=A%20B%2F2%3Fx%3D%C3%A9", "https://b.org/s?id=3"]
    assert urls.tolist() == [*expected, "https://b.org/s?id=4"]
    warning = "addresses of reports that are not http or https: 1, dropped; the reports are kept (first: row 4)"
    assert warnings == [warning]
    assert report_urls(reports, None)[0].tolist() == ["https://a.org/1", "", "", ""]


def test_a_table_of_reports_gets_the_addresses_of_the_ids_in_it():
    reports = pd.DataFrame({"id": ["1", "2", "3"], "url": ["https://b.org/1", "", "https://b.org/3"]})
    table = pd.DataFrame({"probability": [0.9, 0.8], "report": ["3", "2"], "suggested": ["1", "3"], "right": [1, 2]})
    linked = with_urls(table, reports)
    columns = ["probability", "report", "url of report", "suggested", "url of suggested", "right"]
    assert list(linked.columns) == columns
    assert linked["url of report"].tolist() == ["https://b.org/3", ""]
    assert linked["url of suggested"].tolist() == ["https://b.org/1", "https://b.org/3"]
    assert list(table.columns) == ["probability", "report", "suggested", "right"]
    assert with_urls(table, reports.assign(url="")).equals(table)
    assert with_urls(table, reports, ["suggested"]).columns.tolist().count("url of report") == 0


@pytest.mark.parametrize(
    ("leads", "fine", "fine_for_files"),
    [
        ("http://a.org/x", True, True),
        ("http://A.org:80/", True, True),
        ("https://a.org/", True, True),
        ("https://files.a.org/", False, True),
        ("http://files.a.org/", False, False),
        ("https://files.a.org:8443/", False, False),
        ("https://a.org:8443/", False, False),
        ("http://a.org:8080/", False, False),
        ("https://a.org.evil.org/", False, False),
        ("https://evila.org/", False, False),
        ("https://a.org@evil.org/", False, False),
        ("http://127.0.0.1/", False, False),
        ("//evil.org/", False, False),
        ("file:///etc/hostname", False, False),
    ],
)
def test_a_response_leads_to_the_same_server_only(leads, fine, fine_for_files):
    for subdomains, expected in ((False, fine), (True, fine_for_files)):
        with nullcontext() if expected else pytest.raises(ValueError, match=r"another server.*set tracker.base_url"):
            check_same_server(leads, "http://a.org/api", "tracker.base_url", subdomains)
