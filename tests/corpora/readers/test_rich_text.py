import pytest

from gedbd.corpora.readers.rich_text import document_text, html_text


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
