"""The end of what a launched agent says, without its secrets."""

import re
from collections.abc import Iterable
from typing import Final

TAIL_BYTES: Final = 4096
"""How much of the end is kept."""
_REDACTED: Final = b"[redacted]"
_SHORTEST_SECRET: Final = 6
_TOKEN: Final = re.compile(r"circadia-[a-z]+-[\w-]{43}")
"""As `new_token` makes them."""


class Tail:
    """Keeps the last 4 KiB of a stream; secrets are taken out before anything is kept, also when chunks cut them."""

    def __init__(self, secrets: Iterable[str]) -> None:
        known = {secret.encode("utf-8", "surrogateescape") for secret in secrets if len(secret) >= _SHORTEST_SECRET}
        self._secrets = sorted(known, key=len, reverse=True)
        self._kept = bytearray()
        self._cut = b""
        self._dropped = False

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        data = self._cut + chunk
        for secret in self._secrets:
            data = data.replace(secret, _REDACTED)
        held = max((_partial_secret_length(data, secret) for secret in self._secrets), default=0)
        self._cut = data[len(data) - held :]
        self._kept += data[max(0, len(data) - held - TAIL_BYTES) : len(data) - held]
        self._dropped = self._dropped or len(data) - held > TAIL_BYTES or len(self._kept) > TAIL_BYTES
        del self._kept[:-TAIL_BYTES]

    def text(self) -> str:
        """Return the end as text that a database and a terminal can take."""
        data = bytes(self._kept + self._cut)[-TAIL_BYTES:]
        if self._dropped:
            data = data.lstrip(bytes(range(0x80, 0xC0)))  # the rest of a character that was cut in two
        return data.decode("utf-8", "replace").replace("\0", "\ufffd").strip()


def redact_tail(text: str, secrets: Iterable[str]) -> str:
    """Return the end of the text, without the secrets."""
    tail = Tail(secrets)
    tail.feed(text.encode("utf-8", "replace"))
    return tail.text()


def redact_tokens(text: str) -> str:
    """Return the end of the text, without tokens of this server's."""
    return redact_tail(text, _TOKEN.findall(text))


def _partial_secret_length(data: bytes, secret: bytes) -> int:
    """Return how many bytes at the end of `data` may be the start of the secret."""
    longest = min(len(data), len(secret) - 1)
    return next((n for n in range(longest, 0, -1) if secret.startswith(data[-n:])), 0)
