"""Requirements for texts to and from models: plain words, nothing hidden, nothing that poses as a prompt.

They apply to generated texts at the publication, whichever operation proposes them (SLEEP-50).
"""

import html
import re
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, Final, cast

from circadia.characters import visible_text
from circadia.ids import EpisodeId
from circadia.memory.redaction import redact
from circadia.records.bank import Trust
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode, least_trust

_POSES: Final = re.compile(
    r"(?im)"
    r"^[\s>*#_\-|]{0,20}(?:system|assistant|developer|tool|human)(?: (?:prompt|message|override))?[\s*_]{0,5}:"
    r"|^[\s>*#_\-|]{0,20}[\[(](?:system|assistant|developer)[\])]|[\"']role[\"']\s{0,3}:\s{0,3}[\"'](?:system|dev|assist|tool)"
    r"|</?\s{0,3}(?:[a-z]{1,20}:)?(?:circadia|data|system|assistant|user|human|developer|tool|function|invoke|parameter|instruction"
    r"|memory|prompt|important|think|thinking|start_of_turn|end_of_turn|antml|script|style|iframe|img|svg|object|embed|form|link|meta|a\s)[^<>\n]{0,200}>"
    r"|<\|[^|\n]{0,40}\|>|\[/?INST\]|<</?SYS>>"  # marks of chat templates
    r"|\bjavascript:|\bdata:text/|```|~~~|!\[[^\]\n]{0,200}\]\("  # Markdown fences and images
    r"|^\s{0,3}#{1,6}\s"  # Markdown headings, which block headings look like
)
_OCTET: Final = r"(?:25[0-5]|2[0-4]\d|[01]?\d?\d)"
_ADDRESS: Final = re.compile(
    r"(?:(?<![\w+*])(?i:[a-z][a-z0-9+.*-]{1,20}):[\\/]{2}(?:\[[\da-fA-F:.%]{2,60}\])?|(?i:www)\.)[^\s<>\"'()\[\]]+"
    rf"|(?<![\w.]){_OCTET}(?:\.{_OCTET}){{3}}(?!\w|\.\w)"
    r"|(?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]+"
    r"|(?P<host>(?<![\w-])(?<![\w-]\.)[\w-]+(?:\.[\w-]+)*\.(?:[a-z]{2,}|[A-Z]{2,})\b(?:[/:][^\s<>\"'()]*)?)"
)
"""An address of the web, a host or mail; a name with a dot, such as a file's, may look like one."""
_IPV6: Final = re.compile(r"(?<![\w.:])(?=:{0,2}[\da-fA-F])[\da-fA-F]{0,4}:[\da-fA-F:.]{1,40}(?!\w)")
"""A possible IPv6 address; a time of day may look like one."""
_DEFANGED: Final = re.compile(r"\s?[\[({](\.|dot|:|://|@|at)[\])}]\s?", re.I)
"""A character of an address in brackets, as in addresses that nobody should follow."""
_SIGNS: Final = {"dot": ".", "at": "@"}
_IDEOGRAPHIC: Final = re.compile(r"(?<=[A-Za-z\d])[\u3002\uff0e\uff61](?=[A-Za-z\d])")
"""Full stops that stand for a dot in a host name (RFC 3490, 3.1)."""
_FILE: Final = re.compile(
    r"[\w.-]+\.(?:js|jsx|json|yaml|yml|ts|tsx|txt|csv|pdf|docx|xlsx|pptx|png|jpg|jpeg|toml|html|css|cpp|xml|ini|cfg|log|sql)"
)
"""A name whose suffix is no top-level domain."""
COMMAND: Final = re.compile(
    r"(?<=[\w'\"] )(?:--[a-z][\w-]+|-[a-zA-Z]{1,3})(?![\w-])|&&|\|\||\$\([^)\n]*|`[^`\n]+`|\|\s*[a-z][\w-]*|\brm\s+-\w+"
    r"|\b(?:curl|wget|sudo|chmod|chown)\s+[\w$~./\"'-]+"
    r"|\b(?:eval|powershell|pwsh|(?:ba|z|k)?sh|python3?|node|npx|nc|scp|iex|iwr)\s+(?=\S*[$~/\"'=(-]|\S+\.\w)\S+"
    r"|(?<![\w./~])(?:~|\.{1,2})?/[\w.-]+/[\w./-]+|[a-z]:\\[\w\\.-]+"
)
"""Text that a shell would act on."""
_LONG_WORD: Final = re.compile(r"[A-Za-z0-9+/=_-]{80,}")
"""Neither a word nor an address, but something encoded."""


def one_line(text: str) -> str:
    """Return a text in one line without invisible characters: no part of it can begin a line of a prompt."""
    return visible_text(" ".join(text.split()))


def unescape_text(text: str) -> str:
    """Return a text as it is read, with HTML entities and wide letters decoded."""
    return text if text.isascii() and "&" not in text else unicodedata.normalize("NFKC", html.unescape(text))


def unfit_reason(text: str) -> str:
    """Return why a generated text is rejected, empty if it is not."""
    if visible_text(text) != text:
        return "it has invisible characters"
    if redact(text) != text:
        return "it has a secret"
    posing = _POSES.search(unescape_text(text))
    if posing is not None:
        return f"it has {posing[0].strip()[:40]!r}, which poses as a part of a prompt"
    if _LONG_WORD.search(text):
        return "it has something encoded"
    return ""


def unfit_reason_for_block(text: str, *, by_person: bool = False) -> str:
    """Return why a generated text may not get into a block, empty if it may (SLEEP-34, SLEEP-85).

    Blocks are part of the instructions, and their readers follow them. So places to look and commands to run stay in
    notes, which are data, unless a person has said them. Addresses of the web and of mail only people write into
    blocks, and what is spelled so that it is no address at first sight.
    """
    if wrong := unfit_reason(text):
        return wrong
    written = refang(unescape_text(text))
    if by_person:
        forbidden = [match[0] for match in _ADDRESS.finditer(written) if match["host"] is None]
        hidden = [match[0] for match in _ADDRESS.finditer(written) if match[0] not in text]
        forbidden += hidden or [written[start:end] for start, end in _find_ipv6(written)]
    else:
        forbidden = [url for start, end in find_addresses(written) if not _FILE.fullmatch(url := written[start:end])]
        forbidden = forbidden or [match[0] for match in COMMAND.finditer(text)]
    return f"{forbidden[0][:40]!r} is an address or a command, which only people write into blocks" if forbidden else ""


def refang(text: str) -> str:
    """Return a text with plain addresses, as a browser takes them: `evil[.]example` with a plain dot."""
    text = _DEFANGED.sub(lambda match: _SIGNS.get(match[1].lower(), match[1]), text)
    return text if text.isascii() else _IDEOGRAPHIC.sub(".", text)


def find_addresses(text: str) -> list[tuple[int, int]]:
    """Return the positions of addresses in a refanged text: of the web, of hosts and of mail."""
    return [*(match.span() for match in _ADDRESS.finditer(text)), *_find_ipv6(text)]


def _find_ipv6(text: str) -> Iterator[tuple[int, int]]:
    for match in _IPV6.finditer(text):
        number = match[0].rstrip(".") if match[0].endswith("::") else match[0].rstrip(".:")
        with suppress(ValueError):
            ip_address(number)
            yield match.start(), match.start() + len(number)


def check_wording(change: Change, rows: Mapping[EpisodeId, Episode]) -> str:
    """Return what is wrong with the words of a change: a rule of publications."""
    if change.kind is not ChangeKind.WRITE_BLOCK:
        return next((wrong for text in _model_texts(change) if (wrong := unfit_reason(text))), "")
    edit = cast("Mapping[str, Any]", (change.after or {}).get("edit") or {})
    by_person = any(least_trust(rows[key]) is Trust.PERSON for key in edit.get("ids", ()) if key in rows)
    judged = (unfit_reason_for_block(text, by_person=by_person) for text in _model_texts(change))
    return next((wrong for wrong in judged if wrong), "")


def _model_texts(change: Change) -> Iterator[str]:
    """Yield the texts that a model wrote; of a block only the new lines."""
    after = change.after or {}
    if change.kind in (ChangeKind.ADD_NOTE, ChangeKind.FLAG):
        yield str(after.get("text", ""))
    elif change.kind is ChangeKind.WRITE_BLOCK:
        before = set(str((change.before or {}).get("value", "")).split("\n"))
        yield from (line for line in str(after.get("value", "")).split("\n") if line not in before)
