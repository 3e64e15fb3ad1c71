"""Takes secrets out of texts by pattern, before they are written (MEM-14).

What patterns cannot find: a password that is only said ("it is correct horse battery staple"), a secret without a
known form or a telling name before it, one that is split over lines or turns, spelled, encoded or in a picture, and
personal data such as names, addresses and phone numbers, which memory is for. Who must keep such things out turns
capture off, or forgets them.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

_KEYS: Final = "|".join(
    (
        r"sk-[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic, OpenRouter
        r"(?:gsk|hf|npm|dop_v1|glsa|lin_api)_[A-Za-z0-9_]{24,}",
        r"xai-[A-Za-z0-9]{24,}",
        r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",  # AWS
        r"gh[pousr]_[A-Za-z0-9]{30,}",
        r"github_pat_[A-Za-z0-9_]{30,}",
        r"glpat-[A-Za-z0-9_-]{20,}",
        r"(?:xox[abeprs]|xapp)-[A-Za-z0-9-]{10,}",  # Slack
        r"AIza[A-Za-z0-9_-]{35}",  # Google
        r"ya29\.[A-Za-z0-9_-]{20,}",
        r"[srp]k_(?:live|test)_[A-Za-z0-9]{16,}",  # Stripe
        r"whsec_[A-Za-z0-9]{16,}",
        r"pypi-[A-Za-z0-9_-]{50,}",
        r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",  # SendGrid
        r"circadia-[a-z]{1,20}-[A-Za-z0-9_-]{40,}",
    )
)
_NAMES: Final = (
    r"pass(?:word|wd|phrase|code)|pwd|secret|api[_-]?key|(?:access|secret|private|account|encryption)[_-]?key"
    r"|(?<=[a-z])[_-]token"
)
_VALUE: Final = r"""(?!\[redacted)(?:"[^"\n]{3,}"|'[^'\n]{3,}'|[^\s"',;(){}\[\]]{4,})"""


def _card(match: re.Match[str]) -> str:
    digits = [int(each) for each in match[0] if each.isdigit()]
    doubled = [each if at % 2 == 0 else sum(divmod(2 * each, 10)) for at, each in enumerate(reversed(digits))]
    return "[redacted: card number]" if sum(doubled) % 10 == 0 else match[0]  # Luhn: ISO/IEC 7812-1, annex B


_ALIKE: Final = str.maketrans("\u017f\u0130\u0131\u212a", "siik")
"""What a pattern that ignores case takes for an ASCII letter, beside its capital."""
_PATTERNS: Final[Sequence[tuple[Sequence[str], re.Pattern[str], str | Callable[[re.Match[str]], str]]]] = (
    (
        ("-----begin ",),
        re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.S),
        "[redacted: private key]",
    ),
    (("eyj",), re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), "[redacted: token]"),
    ((), re.compile(rf"(?<![A-Za-z0-9])(?:{_KEYS})"), "[redacted: key]"),
    (
        ("://",),
        re.compile(r"(?<=[a-z0-9+.-])(://[^\s:/@]{0,100}:)[^\s@/]{1,200}@", re.I),
        r"\1[redacted: password]@",
    ),
    (
        ("bearer",),
        re.compile(r"\b(bearer\s{1,3})(?=\S{0,60}\d)[A-Za-z0-9._~+/=-]{16,}", re.I),
        r"\1[redacted: token]",
    ),
    (
        ("authorization",),
        re.compile(r"(authorization\"?\s{0,3}:\s{0,3}\"?basic\s{1,3})[A-Za-z0-9+/=]{8,}", re.I),
        r"\1[redacted: token]",
    ),
    (
        ("pass", "pwd", "secret", "key", "token"),
        re.compile(rf"((?:{_NAMES})[\w-]{{0,20}}[\"']?\s{{0,3}}(?::=|=>|[:=])\s{{0,3}}){_VALUE}", re.I),
        r"\1[redacted: secret]",
    ),
    (
        ("pass", "pwd", "pin"),
        re.compile(
            r"(\b(?:password|passphrase|passcode|pin|pwd)\s{1,3}(?:is|was)\s{1,3})(?=\S{0,60}[\d!#$%&*?@^_])(?!\[redacted)\S{3,}",
            re.I,
        ),
        r"\1[redacted: secret]",
    ),
    ((), re.compile(r"(?<![\d.])[3-6](?:[ -]?\d){12,18}(?![\d.]?\d)"), _card),
)
"""Signs of which any text with such a secret has one, in small letters, its pattern, and what stands in its place.

To look for a sign takes a tenth of what most patterns take; those without are quick.
"""


def redacted(text: str) -> str:
    """Return the text with `[redacted: kind]` in place of each secret that a pattern finds."""
    small = _small(text)
    for signs, pattern, instead in _PATTERNS:
        if not signs or any(sign in small for sign in signs):
            now = pattern.sub(instead, text)
            if now != text:
                text, small = now, _small(now)
    return text


def _small(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_ALIKE).lower()
