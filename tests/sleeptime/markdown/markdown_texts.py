"""Markdown files of all kinds for property tests."""

from hypothesis import strategies as st

LINES = (
    "- an entry", "- an entry of two\n  lines", "* star", "+ plus", "1. first", "2) second", "-   wide", "  - indented",
    "- a\n  - nested\n    1. deeper", "- item <!-- keep -->", "- [ ] open task", "- ", "-", "- [Title](file.md) — hook",
    "\t- tab", "- \x0cform feed\x0b", "- a\u2028b\u0085c", "a paragraph", "a paragraph\nof two lines", "naïve – ü 日本",
    "# Title", "## Section", "### Part", "Title\n=====", "---", "***", "```\ncode\n- no entry\n```", "~~~",
    "    indented code", "> quoted\n> - text", "| a | b |\n|---|---|\n| 1 | 2 |", "<!-- a comment -->", "<!-- keep -->",
    "<!-- open", "<div>\nhtml\n</div>", "[ref]: http://example.org",
)  # fmt: skip
LINE_ENDS = ("\n", "\n", "\n", "\r\n", "\r", "\n\n", "\n\n\n", "\n  \n", "\r\n\r\n")
BEGINNINGS = (
    "",
    "",
    "",
    "\ufeff",
    "---\nname: a\ntype: user\n---\n",
    "---\nopen\n",
    "\ufeff---\r\nlimit: 5\r\n---\r\n\r\n",
    "\n\n",
)


@st.composite
def markdown_files(draw: st.DrawFn) -> bytes:
    """Return a file of pieces of Markdown with any line ends, some without the last one, some not UTF-8."""
    pieces = draw(st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from(LINE_ENDS)), max_size=8))
    text = draw(st.sampled_from(BEGINNINGS)) + "".join(line + end for line, end in pieces)
    data = text.encode()
    if draw(st.booleans()):
        data = data.rstrip(b"\r\n")
    if draw(st.booleans()) and data:
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=3)) + data[at:]
    return data
