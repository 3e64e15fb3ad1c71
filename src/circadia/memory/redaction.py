"""Redact secrets in texts by pattern before they are written (MEM-14).

Patterns cannot find a password that is only mentioned ("it is correct horse battery staple"), a secret without a known
form or a name before it, one that is split over lines or turns, spelled, encoded or in a picture, and personal data
such as names, addresses and phone numbers, which memory is for. To keep those out, turn capture off or forget them.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

_KEYS: Final = "|".join(
    (
        r"sk-[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic, OpenRouter
        # By the vendor's prefix; the rest has no fixed form.
        r"(?:gsk|hf|npm|fw|r8|ntn|secret|figd|shp(?:at|ca|pa|ss)|sb[ap]|sb_secret|sntry[su]|dckr_[op]at|gl(?:c|sa)|do[opr]_v1"
        r"|lin_(?:api|oauth)|tgp_v1|lsv2_(?:pt|sk)|pscale_(?:tkn|pw|oauth)|ph[cx]|vck|vercel_blob_rw|rdme|rubygems|shippo_live"
        r"|ddp|tfp|ops|re_[A-Za-z0-9]{8}|sgp(?:_[0-9a-f]{16})?)_[A-Za-z0-9]{20,}(?:[_-][A-Za-z0-9]{1,99}){0,9}",
        r"(?:xai|pplx|csk|tvly(?:-[a-z]{3,4})?)-[A-Za-z0-9]{24,}",
        r"(?:GOCSPX|NR(?:AK|II|JS)|PMAK|nvapi|sq0[a-z]{3}|xkeysib|bedrock-api-key)-[A-Za-z0-9_-]{22,}|pul-[0-9a-f]{40}",
        r"(?:hv[bsr]|dp\.(?:st|ct|pt|sa|scim|audit)(?:\.[a-z0-9_-]{2,35})?)\.[A-Za-z0-9_-]{24,}",  # Vault, Doppler
        r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}|ABSK[A-Za-z0-9+/=]{100,}",  # AWS
        r"LTAI[A-Za-z0-9]{16,20}|AKID[A-Za-z0-9]{32}|AQVN[A-Za-z0-9_-]{35,}",  # Alibaba, Tencent, Yandex
        r"gh[pousr]_[A-Za-z0-9]{30,}",
        r"github_pat_[A-Za-z0-9_]{30,}",
        r"(?:gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct)-|GR1348941)[A-Za-z0-9_-]{20,}",  # GitLab
        r"(?:xox[abeprs]|xapp)-[A-Za-z0-9-]{10,}",  # Slack
        r"AIza[A-Za-z0-9_-]{35}",  # Google
        r"ya29\.[A-Za-z0-9_-]{20,}|1//0[A-Za-z0-9_-]{30,}",
        r"[srp]k_(?:live|test)_[A-Za-z0-9]{16,}",  # Stripe
        r"whsec_[A-Za-z0-9]{16,}",
        r"pypi-[A-Za-z0-9_-]{50,}",
        r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",  # SendGrid
        r"AT(?:ATT|CTT|BB)[A-Za-z0-9_=-]{28,}",  # Atlassian
        r"EAA[A-Za-z0-9]{60,}",  # Meta
        r"(?:dapi|SK|key-)[0-9a-f]{32}",  # Databricks, Twilio, Mailgun
        r"AGE-SECRET-KEY-1[A-Z0-9]{50,}",
        r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,}",  # Terraform
        r"(?:bot)?\d{8,10}:AA[A-Za-z0-9_-]{32,}",  # Telegram
        r"[MNO][A-Za-z0-9]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",  # Discord
        r"sl\.[A-Za-z0-9_-]{100,}|AKCp[A-Za-z0-9]{60,}|cmVmd[A-Za-z0-9]{55,}",  # Dropbox, JFrog
        r"sk\.eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{16,}|eyJrIjoi[A-Za-z0-9_=-]{40,}",  # Mapbox, Grafana
        r"A3-[A-Z0-9]{6}-[A-Z0-9]{6}(?:-[A-Z0-9]{5}){4}",  # 1Password
        r"[xyz]prv[1-9A-HJ-NP-Za-km-z]{100,}|[5KL][1-9A-HJ-NP-Za-km-z]{50,51}(?![A-Za-z0-9])",  # Bitcoin
        r"circadia-[a-z]{1,20}-[A-Za-z0-9_-]{40,}",
    )
)
_ABROAD: Final = (
    "passwort|kennwort|mot de passe|contrase\u00f1a|contrasena|senha|wachtwoord|l\u00f6senord"
    "|adgangskode|has\u0142o|heslo|salasana|\u015fifre|\u043f\u0430\u0440\u043e\u043b\u044c|\u5bc6\u7801|\u5bc6\u78bc"
    "|\u30d1\u30b9\u30ef\u30fc\u30c9|\ube44\ubc00\ubc88\ud638|passord|jelsz\u00f3|lozinka|geslo|parola|parol\u0103|parool"
    "|\u03ba\u03c9\u03b4\u03b9\u03ba\u03cc\u03c2|\u0643\u0644\u0645\u0629 \u0627\u0644\u0645\u0631\u0648\u0631"
    "|\u0643\u0644\u0645\u0629 \u0627\u0644\u0633\u0631|\u05e1\u05d9\u05e1\u05de"
    "|\u092a\u093e\u0938\u0935\u0930\u094d\u0921"
    "|m\u1eadt kh\u1ea9u|kata sandi|\u0e23\u0e2b\u0e31\u0e2a\u0e1c\u0e48\u0e32\u0e19"
    "|\u0631\u0645\u0632 \u0639\u0628\u0648\u0631"
)
"""The word for password in German, French, Spanish, Portuguese, Dutch, Swedish, Danish, Polish, Czech, Finnish,
Turkish, Russian, Chinese, Japanese, Korean, Norwegian, Hungarian, Croatian, Slovene, Italian, Romanian, Estonian,
Greek, Arabic, Hebrew, Hindi, Vietnamese, Indonesian, Thai and Persian."""
_NAMES: Final = (
    r"pass(?:word|wd|phrase|code)|pwd|secret|api[_-]?key"
    r"|(?:access|secret|private|account|encryption|subscription)[_-]?key|(?<=[a-z])[_-]token|(?:access|auth|refresh)token"
)
_KEY_SAID: Final = (
    r"\b(?:(?:api|access|secret|private|account|auth|client|signing|master|encryption|licen[cs]e|wpa|wi-?fi)[ _-]"
    r"(?:key|token|secret)|(?:my|our|your|the|this) (?:[\w.-]{1,20} ){0,2}key|token|secret)\b"
)
_ARE: Final = "->|[-\u2013\u2014\u2192]"
_SAID: Final = rf"(?:['\u2019]s|\s{{1,3}}(?:is|was|ist|est|es|\u00e8|{_ARE}))\s{{1,3}}"
_SAID_ABROAD: Final = (
    rf"\s{{1,3}}(?:ist|lautet|est|es|e|\u00e9|\u00e8|\u00e4r|er|to|on|je|este|l\u00e0|adalah"
    r"|\u0647\u0648|\u0647\u064a"
    rf"|\u05d4\u05d9\u05d0|\u03b5\u03af\u03bd\u03b1\u03b9|\u0939\u0948|{_ARE})\s{{1,3}}"
    r"|\s?(?:\u2014|\u044d\u0442\u043e|\u662f|\u306f|\ub294)\s?"
)
_OF: Final = (
    r"(?:\s(?:of|for|to|on|von|vom|f\u00fcr|zum|zur|des|der|de|del|della|di|du|do|da|pour|para|per|van|voor|til|till|f\u00f6r"
    r"|af|av|od|pro|dla|\u043e\u0442|\u0434\u043b\u044f|\u043a)(?:\s[\w.'\u2019-]{1,30}){1,4}?)?"
)
"""What a password is for, between its name and the verb."""
_MARKS: Final = r"[\"'`*\\]{0,4}"
"""What surrounds names and values: quotes, also nested, and marks of bold text or code."""
_VALUE: Final = r"""(?!\[redacted)(?:"[^"\n]{3,}"|'[^'\n]{3,}'|[^\s"',;(){}\[\]]{4,})"""


def _redact_card(match: re.Match[str]) -> str:
    digits = [int(digit) for digit in match[0] if digit.isdigit()]
    doubled = [digit if at % 2 == 0 else sum(divmod(2 * digit, 10)) for at, digit in enumerate(reversed(digits))]
    return "[redacted: card number]" if sum(doubled) % 10 == 0 else match[0]  # Luhn: ISO/IEC 7812-1, annex B


def _redact_account(match: re.Match[str]) -> str:
    text = "".join(filter(str.isalnum, match[0]))
    number = int("".join(str(int(each, 36)) for each in text[4:] + text[:4]))
    return "[redacted: account number]" if number % 97 == 1 else match[0]  # IBAN: ISO 13616-1, checked by ISO 7064


def _assignment_pattern(names: str) -> re.Pattern[str]:
    """Return a pattern for `name: value` and similar forms."""
    return re.compile(
        rf"((?:{names})[\w-]{{0,20}}(?:\s\([^()\n]{{1,40}}\))?{_MARKS}\s{{0,3}}(?::=|=>|[:=\uff1a])"
        rf"(?:[*`\\]{{1,3}}(?=\s)|\s?[|>][+-]?(?=\n))?\s{{0,9}}"
        rf"[*`\\]{{0,3}}){_VALUE}",
        re.I,
    )


def _statement_pattern(names: str, said: str) -> re.Pattern[str]:
    """Return a pattern for `name is value`, where the value has a digit or a special character."""
    return re.compile(rf"((?:{names})(?:{said}))(?=\S{{0,60}}[\d!#$%&*?@^_])(?!\[redacted)\S{{3,}}", re.I)


_LOOKALIKES: Final = (("\u017f", "s"), ("\u0130", "i"), ("\u0131", "i"), ("\u212a", "k"))
"""Characters that a case-insensitive pattern takes for an ASCII letter."""
_LONG: Final = re.compile(r"[A-Za-z0-9_.:-]{15}")
"""Present in each key of `_KEYS` and in few other texts; searching for it takes a tenth of the time."""
_PATTERNS: Final[
    Sequence[tuple[Sequence[str] | re.Pattern[str], re.Pattern[str], str | Callable[[re.Match[str]], str]]]
] = (
    (
        ("-----begin ",),
        re.compile(
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r".*?(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
            re.S,
        ),
        "[redacted: private key]",
    ),
    (("eyj",), re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), "[redacted: token]"),
    (_LONG, re.compile(rf"(?<![A-Za-z0-9])(?:{_KEYS})"), "[redacted: key]"),
    (
        ("hook", "ifttt"),
        re.compile(
            r"(hooks\.slack\.com/[a-z]{1,20}/|discord(?:app)?\.com/api/webhooks/\d{5,25}/|hooks\.zapier\.com/hooks/catch/"
            r"|\.office\.com/webhook(?:b2)?/|maker\.ifttt\.com/trigger/[^\s/]{1,60}/(?:json/)?with/key/)[A-Za-z0-9/@_-]{20,}",
            re.I,
        ),
        r"\1[redacted: key]",
    ),
    (("://",), re.compile(r"(://[^\s:/@]{0,100}:)[^\s@/]{1,200}@", re.I), r"\1[redacted: password]@"),
    (("://",), re.compile(r"(://)(?=[^\s@/]{0,99}\d)[A-Za-z0-9_-]{20,200}@"), r"\1[redacted: token]@"),
    (
        ("sig", "token", "auth", "key=", "code="),
        re.compile(
            r"([?&](?:x-(?:amz|goog)-)?(?:sig|signature|security-token|token|auth|key|code)=)[^\s&#\"'<>]{16,}", re.I
        ),
        r"\1[redacted: token]",
    ),
    (("bearer",), re.compile(r"\b(bearer\s{1,3})(?=\S{0,60}\d)[A-Za-z0-9._~+/=-]{16,}", re.I), r"\1[redacted: token]"),
    (
        ("authorization",),
        re.compile(
            rf"(authorization{_MARKS}\s{{0,3}}[:=]\s{{0,3}}{_MARKS}(?:(?:basic|token|ssws|api-?key)\s{{1,3}}"
            r"|(?=\S{0,60}\d)(?=\S{16})))[A-Za-z0-9._~+/=-]{8,}",
            re.I,
        ),
        r"\1[redacted: token]",
    ),
    (
        ("token",),
        re.compile(
            rf"(\btoken{_MARKS}\s{{0,3}}[:=]\s{{0,3}}{_MARKS})(?=\S{{0,60}}\d)(?=\S{{0,60}}[a-z])[\w.~+/=-]{{20,}}",
            re.I,
        ),
        r"\1[redacted: token]",
    ),
    (
        ("cookie",),
        re.compile(rf"(\bcookie{_MARKS}\s{{0,3}}:\s{{0,3}}{_MARKS})(?=[\w.-]{{1,60}}=)[^\r\n\"'`]{{8,}}", re.I),
        r"\1[redacted: cookie]",
    ),
    (("pass", "pwd", "secret", "key", "token"), _assignment_pattern(_NAMES), r"\1[redacted: secret]"),
    (_ABROAD.split("|"), _assignment_pattern(_ABROAD), r"\1[redacted: secret]"),
    (
        ("</",),
        re.compile(rf"(<[\w.:-]{{0,30}}(?:{_NAMES}|token)>)(?!\[redacted)[^<>\s]{{3,200}}(?=</)", re.I),
        r"\1[redacted: secret]",
    ),
    (
        ("pass", "pw", "pin"),
        _statement_pattern(rf"\b(?:password|passphrase|passcode|passwd|pin|pwd?){_OF}", _SAID),
        r"\1[redacted: secret]",
    ),
    (
        ("login",),
        re.compile(
            r"(\blogin\s{1,3}\S{1,100}\s{1,3}password\s{1,3})(?=\S{0,60}[\d!#$%&*?@^_])(?!\[redacted)\S{3,}", re.I
        ),
        r"\1[redacted: password]",
    ),
    (
        ("login", "credentials", "username"),
        re.compile(
            r"(\b(?:login|credentials|username):?\s{1,3}\S{1,100}\s/\s{1,3})(?=\S{0,60}[\d!#$%&*?@^_])"
            r"(?!\[redacted|v?\d+\.)[^\s/]{6,}",
            re.I,
        ),
        r"\1[redacted: password]",
    ),
    (
        ("pass", "pw", "mdp"),  # a short name, or no separator: only likely values
        re.compile(
            r"((?:\b(?:password|passphrase|passcode|passwd|pwd?)\s{1,3}|(?:\b|_)(?:pass|pwd?|mdp)\s{0,3}[:=]\s{0,3})"
            r"(?!\[redacted|sha|md\d|v?\d+\.))(?=\S{0,60}\d)(?=\S{0,60}[a-z])[^\s\"',;()\[\]{}<>`]{6,}(?![\w(])",
            re.I,
        ),
        r"\1[redacted: secret]",
    ),
    (
        ("key", "token", "secret"),
        re.compile(
            rf"({_KEY_SAID}{_MARKS}(?:['\u2019]s|\s{{1,3}}(?:is|was|{_ARE})|\s{{0,3}}[:=])?\s{{1,3}}{_MARKS})"
            r"(?=\S{0,60}\d)(?=\S{0,60}[a-z])[\w.~+/=-]{16,}(?![\w(])",
            re.I,
        ),
        r"\1[redacted: key]",
    ),
    (
        ("--",),
        re.compile(
            r"(--[\w-]{0,20}(?:password|passwd|passphrase|secret|token|api-?key)[\w-]{0,10}\s[\"']?)(?![-$<{%]|\[redacted)"
            r"(?=\S{0,60}[\d!#%&*?@^_])[^\s\"']{4,}",
            re.I,
        ),
        r"\1[redacted: secret]",
    ),
    (
        ("sshpass", "redis-cli", "mysql"),
        re.compile(
            r"(\b(?:sshpass\s{1,3}-p\s?|redis-cli\b[^\n]{0,100}?\s-a\s|mysql(?:dump|admin)?\b[^\n]{0,100}?\s-p)[\"']?)"
            r"(?![$<{]|\[redacted)[^\s\"']{3,}"
        ),
        r"\1[redacted: password]",
    ),
    (
        ("value",),
        re.compile(
            rf"(\b(?:name|key){_MARKS}\s{{0,3}}[:=]\s{{0,3}}{_MARKS}[\w.-]{{0,30}}(?:{_NAMES}|token|pass)[\w.-]{{0,20}}{_MARKS}"
            rf"[\s,]{{1,20}}{_MARKS}value{_MARKS}\s{{0,3}}[:=]\s{{0,3}}){_VALUE}",
            re.I,
        ),
        r"\1[redacted: secret]",
    ),
    (
        ("env ", "arg ", "set"),
        re.compile(
            r"(\b(?:ENV|ARG|setx?)\s[A-Z0-9_]{0,30}(?:PASS[A-Z]{0,6}|SECRET|KEY|TOKEN|PWD)\s)(?!\[redacted)[^\s=]{6,}"
        ),
        r"\1[redacted: secret]",
    ),
    (
        ("sess", "connect.sid"),
        re.compile(r"(\b(?:(?:php|j|asp\.net_)?sess(?:ion)?_?id|connect\.sid)=)(?=\S{0,60}\d)[\w%.+/-]{16,}", re.I),
        r"\1[redacted: cookie]",
    ),
    (("$",), re.compile(r"\$(?:1|5|6|y|2[abxy]|apr1|argon2(?:id?|d))\$[\w./$+=,-]{12,}"), "[redacted: password hash]"),
    (
        ("private-lines",),
        re.compile(r"(Private-Lines: \d{1,4}\s)(?!\[redacted)[A-Za-z0-9+/=\s]{1,9000}(?=\sPrivate-|\Z)"),
        r"\1[redacted: private key]",
    ),
    (
        ('kty"', "kty'"),
        re.compile(r"([\"'](?:d|p|q|dp|dq|qi|k)[\"']\s{0,3}:\s{0,3}[\"'])[A-Za-z0-9_-]{20,}"),
        r"\1[redacted: private key]",
    ),
    (
        ("seed", "recovery", "mnemonic", "backup"),
        re.compile(
            r"(\b(?:(?:seed|recovery|backup|mnemonic|secret)\s(?:phrase|words)|mnemonic|seed)\s{0,3}(?:is|was|[:=])?\s{1,3})"
            r"(?:[a-z]{3,8}[\s,]{1,3}){11,23}[a-z]{3,8}\b",
            re.I,
        ),
        r"\1[redacted: seed phrase]",
    ),
    (
        ("cvv", "cvc", "otp", "code", "ssn", "social security"),
        re.compile(
            r"(\b(?:cvv2?|cvc2?|otp|(?:verification|security|2fa|mfa|login|sms|one[- ]time)\s(?:pass)?code|ssn"
            r"|social security(?: number)?)(?:\s{0,3}[:=]|\s{1,3}(?:is|was))?\s{0,3})"
            r"(?:\d{3}[- ]\d{2}[- ]\d{4}|\d{3,9})\b(?![.,-]\d)",
            re.I,
        ),
        r"\1[redacted: code]",
    ),
    (_ABROAD.split("|"), _statement_pattern(rf"(?:{_ABROAD}){_OF}", _SAID_ABROAD), r"\1[redacted: secret]"),
    (("pin",), re.compile(r"(\bpin(?:[ -]?code)?\s{0,3}[:=]\s{0,3})\d{4,8}\b", re.I), r"\1[redacted: secret]"),
    (
        ("curl",),
        re.compile(
            r"(\bcurl\b[^\n]{0,300}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,100}:)(?!\[redacted)[^\s\"']{1,200}", re.I
        ),
        r"\1[redacted: password]",
    ),
    (
        re.compile(r"[A-Za-z]{2}\d\d"),
        re.compile(r"\b[A-Z]{2}\d\d(?:[ \u00a0-]?[A-Z0-9]{4}){2,7}(?:[ \u00a0-]?[A-Z0-9]{1,3})?\b", re.I | re.A),
        _redact_account,
    ),
    (
        ("",),
        re.compile(
            r"(?:[3-6]|2(?=[2-7]))(?<![\d.]\d)(?:(?:[ \u00a0\u2009\u202f-]?\d){12,18}|\d{3}(?:\.\d{4}){3})(?![\d.]?\d)"
        ),
        _redact_card,
    ),
)
"""Signs, of which any text with such a secret has one in lower case; its pattern; the replacement."""
_SIGNS: Final = sorted({sign for signs, _, _ in _PATTERNS if not isinstance(signs, re.Pattern) for sign in signs})
"""All signs: searching each once takes a tenth of the time of the patterns."""


def redact(text: str) -> str:
    """Return the text with each secret that a pattern finds replaced by `[redacted: kind]`."""
    signs_found = _find_signs(text)
    for signs, pattern, replacement in _PATTERNS:
        if signs.search(text) if isinstance(signs, re.Pattern) else not signs_found.isdisjoint(signs):
            redacted = pattern.sub(replacement, text)
            if redacted != text:
                text, signs_found = redacted, _find_signs(redacted)
    return text


def _find_signs(text: str) -> set[str]:
    small = text
    for lookalike, letter in () if text.isascii() else _LOOKALIKES:
        small = small.replace(lookalike, letter)
    small = small.lower()
    return {sign for sign in _SIGNS if sign in small}
