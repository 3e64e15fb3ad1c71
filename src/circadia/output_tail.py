"""The end of a program's or an agent's output, without its secrets."""

import re
from collections.abc import Iterable
from typing import Final

TAIL_BYTES: Final = 4096
_REDACTED: Final = b"[redacted]"
_MIN_SECRET_LENGTH: Final = 6
_TOKEN: Final = re.compile(r"circadia-[a-z]+-[\w-]{43}")
"""The format of `new_token`."""


class Tail:
    """Keeps the last 4 KiB of a stream; secrets are removed first, even if chunks cut them."""

    def __init__(self, secrets: Iterable[str]) -> None:
        known = {secret.encode("utf-8", "surrogateescape") for secret in secrets if len(secret) >= _MIN_SECRET_LENGTH}
        self._secrets = sorted(known, key=len, reverse=True)
        self._kept = bytearray()
        self._cut = b""
        self._dropped = False

    def feed(self, chunk: bytes) -> None:
        data = self._cut + chunk
        for secret in self._secrets:
            data = data.replace(secret, _REDACTED)
        withheld = max((_partial_secret_length(data, secret) for secret in self._secrets), default=0)
        self._cut = data[len(data) - withheld :]
        self._kept += data[max(0, len(data) - withheld - TAIL_BYTES) : len(data) - withheld]
        self._dropped = self._dropped or len(data) - withheld > TAIL_BYTES or len(self._kept) > TAIL_BYTES
        del self._kept[:-TAIL_BYTES]

    def text(self) -> str:
        """Return the end as text that databases and terminals accept."""
        data = bytes(self._kept + self._cut)[-TAIL_BYTES:]
        if self._dropped:
            data = data.lstrip(bytes(range(0x80, 0xC0)))  # the rest of a character that was cut in two
        return data.decode("utf-8", "replace").replace("\0", "\ufffd").strip()


def redact_tail(text: str, secrets: Iterable[str]) -> str:
    tail = Tail(secrets)
    tail.feed(text.encode("utf-8", "replace"))
    return tail.text()


def redact_tokens(text: str) -> str:
    """Return the end of the text, without this server's tokens."""
    return redact_tail(text, _TOKEN.findall(text))


def _partial_secret_length(data: bytes, secret: bytes) -> int:
    """Return the number of bytes at the end of `data` that may begin the secret."""
    longest = min(len(data), len(secret) - 1)
    return next((n for n in range(longest, 0, -1) if secret.startswith(data[-n:])), 0)
