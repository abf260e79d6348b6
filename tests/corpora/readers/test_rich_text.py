import pytest

from gedbd.corpora.readers.rich_text import document_text, html_text, shown_markdown


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("plain", "plain"),
        ("<p>one</p><p>two &amp; &lt;three&gt;&nbsp;</p>", "one\n\ntwo & <three>"),
        ("a<br/>b", "a\nb"),
        ("<ul><li>a</li><li>b</li></ul>", "- a\n- b"),
        ("<pre>x\n  y</pre>", "```\nx\n  y\n```"),
        ("<blockquote>said</blockquote>mine", "> said\nmine"),
        ("<table><tr><td>a</td><td>b</td></tr></table>", "a b"),
        ("<style>p {}</style><script>alert(1)</script>seen", "seen"),
        ("</pre></blockquote></script>odd <b", "odd <b"),
    ],
)
def test_html_becomes_text(html, text):
    assert html_text(html) == text


def test_a_document_nested_without_end_is_refused():
    node: dict = {"type": "paragraph"}
    for _ in range(200):
        node = {"type": "bulletList", "content": [node]}
    with pytest.raises(ValueError, match="Atlassian Document Format is damaged"):
        document_text(node)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a <!-- b\n\nc --> d", "a  d"),
        ("<!-- read the rules -->\n\nIt crashes.\n", "It crashes."),
        ("```xml\n<!-- kept -->\n```\n<!-- gone -->", "```xml\n<!-- kept -->\n```"),
        ("`<!-- kept -->`", "`<!-- kept -->`"),
        ("a <!-- without an end", "a <!-- without an end"),
        ("### Steps\n\n_No response_\n\n### More\n\nNone", "### Steps\n\n### More\n\nNone"),
        ("It says _No response_ here.", "It says _No response_ here."),
    ],
)
def test_what_no_reader_of_markdown_sees_is_left_out(text, shown):
    assert shown_markdown(text) == shown


@pytest.mark.parametrize("piece", ["<!-- ", "`", "```\n", "<!-- a -->", "~~~ ", "-->"])
@pytest.mark.usefixtures("hang_guard")
def test_hostile_markdown_takes_linear_time(piece):
    shown_markdown("<!-- a --> " + piece * (200_000 // len(piece)))
