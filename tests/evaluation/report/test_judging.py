"""Pages whose rows get buttons for a verdict."""

import base64
import hashlib
import re

import pandas as pd

from gedbd.evaluation.report.judging import Judging, Verdict
from gedbd.evaluation.report.report_page import write_report
from gedbd.evaluation.report.section import Section

EVIL = "</script><b>\"'"
PAIRS = pd.DataFrame({"verdict": ["", "duplicate"], "report": ["3", EVIL], "suggested": ["1", "2"]})
JUDGING = Judging("key <1>", "judgements.csv", "out", "gedbd judge", (Verdict(EVIL, "2", "accept"),))


def page_of(tmp_path, judging):
    return write_report(
        tmp_path, "T", "sum", [Section("Pairs", "text", [PAIRS], asks_verdicts=True)], judging=judging
    ).read_text()


def test_rows_get_hidden_buttons_and_text(tmp_path):
    page = page_of(tmp_path, JUDGING)
    cells = re.findall(r'<td class="verdict".*?</td>', page)
    assert [re.findall('<span class="state">(.*?)</span>', cell) for cell in cells] == [["no verdict"], ["duplicate"]]
    assert [re.findall("<button.*?</button>", cell) for cell in cells] == [
        [
            '<button type="button" value="accept" hidden>duplicate</button>',
            '<button type="button" value="reject" hidden>not a duplicate</button>',
        ]
    ] * 2
    assert 'data-report="3" data-suggested="1"' in cells[0]
    text = (tmp_path / "report.md").read_text()
    assert "| duplicate |" in text
    assert "<button" not in text


def test_text_of_a_tracker_is_no_part_of_the_program(tmp_path):
    page = page_of(tmp_path, JUDGING)
    scripts = re.findall("<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == page.count("</script>") == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    policy = re.search('Content-Security-Policy" content="(.*?)"', page)
    assert policy
    assert f"script-src &#39;sha256-{digest}&#39;" in policy[1]
    assert "<b>" not in page


def test_a_page_without_verdicts_has_no_program(tmp_path):
    page = page_of(tmp_path, None)
    assert "<script" not in page
    assert "<button" not in page
    assert '<td class="verdict" dir="auto">duplicate</td>' in page
