"""How texts must be that go to a model or come from it: plain words, nothing hidden, nothing that poses as a prompt.

What a model has written is held to it at the publication, whatever operation proposes it (SLEEP-50).
"""

import html
import re
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Final

from circadia.ids import EpisodeId
from circadia.memory.redaction import redact
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode
from circadia.visibility import visible_text

_POSES: Final = re.compile(
    r"(?im)"
    r"^[\s>*#_\-|]{0,20}(?:system|assistant|developer|tool|human)(?: (?:prompt|message|override))?[\s*_]{0,5}:"
    r"|^[\s>*#_\-|]{0,20}[\[(](?:system|assistant|developer)[\])]|[\"']role[\"']\s{0,3}:\s{0,3}[\"'](?:system|dev|assist|tool)"
    r"|</?\s{0,3}(?:[a-z]{1,20}:)?(?:circadia|data|system|assistant|user|human|developer|tool|function|invoke|parameter|instruction"
    r"|memory|prompt|important|think|thinking|start_of_turn|end_of_turn|antml|script|style|iframe|img|svg|object|embed|form|link|meta|a\s)[^<>\n]{0,200}>"
    r"|<\|[^|\n]{0,40}\|>|\[/?INST\]|<</?SYS>>"  # marks of templates that models are trained with
    r"|\bjavascript:|\bdata:text/|```|~~~|!\[[^\]\n]{0,200}\]\("  # fences and pictures of Markdown
    r"|^\s{0,3}#{1,6}\s"  # its headings: those of blocks look like that
)
_OCTET: Final = r"(?:25[0-5]|2[0-4]\d|[01]?\d?\d)"
_ADDRESS: Final = re.compile(
    r"(?:(?<![\w+*])(?i:[a-z][a-z0-9+.*-]{1,20}):[\\/]{2}(?:\[[\da-fA-F:.%]{2,60}\])?|(?i:www)\.)[^\s<>\"'()\[\]]+"
    rf"|(?<![\w.]){_OCTET}(?:\.{_OCTET}){{3}}(?!\w|\.\w)"
    r"|(?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]+"
    r"|(?<![\w-])(?<![\w-]\.)[\w-]+(?:\.[\w-]+)*\.(?:[a-z]{2,}|[A-Z]{2,})\b(?:[/:][^\s<>\"'()]*)?"
)
"""An address of the web, of a host or of mail; a name with a dot, such as a file's, may be one too."""
_IPV6: Final = re.compile(r"(?<![\w.:])(?=:{0,2}[\da-fA-F])[\da-fA-F]{0,4}:[\da-fA-F:.]{1,40}(?!\w)")
"""What may be such an address; a time of day may look like one."""
_DEFANGED: Final = re.compile(r"\s?[\[({](\.|dot|:|://|@|at)[\])}]\s?", re.I)
"""A sign of an address in brackets, as people write addresses that nobody is to follow."""
_SIGNS: Final = {"dot": ".", "at": "@"}
_IDEOGRAPHIC: Final = re.compile(r"(?<=[A-Za-z\d])[\u3002\uff0e\uff61](?=[A-Za-z\d])")
"""Full stops that stand for a dot in a host's name (RFC 3490, 3.1)."""
_FILE: Final = re.compile(
    r"[\w.-]+\.(?:js|jsx|json|yaml|yml|ts|tsx|txt|csv|pdf|docx|xlsx|pptx|png|jpg|jpeg|toml|html|css|cpp|xml|ini|cfg|log|sql)"
)
"""A name whose end is none of the net's."""
COMMAND: Final = re.compile(
    r"(?<=[\w'\"] )(?:--[a-z][\w-]+|-[a-zA-Z]{1,3})(?![\w-])|&&|\|\||\$\([^)\n]*|`[^`\n]+`|\|\s*[a-z][\w-]*|\brm\s+-\w+"
    r"|\b(?:curl|wget|sudo|chmod|chown)\s+[\w$~./\"'-]+"
    r"|\b(?:eval|powershell|pwsh|(?:ba|z|k)?sh|python3?|node|npx|nc|scp|iex|iwr)\s+(?=\S*[$~/\"'=(-]|\S+\.\w)\S+"
    r"|(?<![\w./~])(?:~|\.{1,2})?/[\w.-]+/[\w./-]+|[a-z]:\\[\w\\.-]+"
)
"""What a shell would do something with."""
_LONG_WORD: Final = re.compile(r"[A-Za-z0-9+/=_-]{80,}")
"""No word and no address, but something encoded."""


def one_line(text: str) -> str:
    """Return a text in one line, without what nobody sees: no part of it can begin a line of a prompt."""
    return visible_text(" ".join(text.split()))


def unescape_text(text: str) -> str:
    """Return a text as it is read: marks of HTML and wide letters as what they stand for."""
    return text if text.isascii() and "&" not in text else unicodedata.normalize("NFKC", html.unescape(text))


def unfit_reason(text: str) -> str:
    """Return why a model's text may not be kept, empty if it may."""
    if visible_text(text) != text:
        return "it has characters that nobody sees"
    if redact(text) != text:
        return "it has a secret"
    posing = _POSES.search(unescape_text(text))
    if posing is not None:
        return f"it has {posing[0].strip()[:40]!r}, which poses as a part of a prompt"
    if _LONG_WORD.search(text):
        return "it has something encoded"
    return ""


def unfit_reason_for_block(text: str) -> str:
    """Return why a model's text may not get into a block, empty if it may.

    Blocks stand where rules stand, and whoever reads them does what they say: where to look and what to run stays in
    notes, which are data, until a person writes it there.
    """
    if wrong := unfit_reason(text):
        return wrong
    written = refang(unescape_text(text))
    found = [each for start, end in find_addresses(written) if not _FILE.fullmatch(each := written[start:end])]
    found = found or [each[0] for each in COMMAND.finditer(text)]
    return f"{found[0][:40]!r} is an address or a command, which only people write into blocks" if found else ""


def refang(text: str) -> str:
    """Return a text with its addresses as a browser takes them: `evil[.]example` with a plain dot."""
    text = _DEFANGED.sub(lambda match: _SIGNS.get(match[1].lower(), match[1]), text)
    return text if text.isascii() else _IDEOGRAPHIC.sub(".", text)


def find_addresses(text: str) -> list[tuple[int, int]]:
    """Return where the addresses of a refanged text begin and end: of the web, of hosts and of mail."""
    found = [match.span() for match in _ADDRESS.finditer(text)]
    for match in _IPV6.finditer(text):
        number = match[0].rstrip(".") if match[0].endswith("::") else match[0].rstrip(".:")
        with suppress(ValueError):
            ip_address(number)
            found.append((match.start(), match.start() + len(number)))
    return found


def check_wording(change: Change, _: Mapping[EpisodeId, Episode]) -> str:
    """Return what is wrong with the words of a change: a rule of publications."""
    judged = unfit_reason_for_block if change.kind is ChangeKind.WRITE_BLOCK else unfit_reason
    return next((wrong for text in _model_texts(change) if (wrong := judged(text))), "")


def _model_texts(change: Change) -> Iterator[str]:
    """Return the texts that a model wrote; of a block only the lines that were not there."""
    after = change.after or {}
    if change.kind in (ChangeKind.ADD_NOTE, ChangeKind.FLAG):
        yield str(after.get("text", ""))
    elif change.kind is ChangeKind.WRITE_BLOCK:
        before = set(str((change.before or {}).get("value", "")).split("\n"))
        yield from (line for line in str(after.get("value", "")).split("\n") if line not in before)
