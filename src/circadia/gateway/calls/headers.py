"""Which headers cross the gateway."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final
from urllib.parse import unquote_to_bytes

HOP_BY_HOP: Final = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
        b"trailer", b"transfer-encoding", b"upgrade",
    }
)  # fmt: skip
"""Headers of one connection, not of the message (RFC 9110, 7.6.1)."""
CREDENTIALS: Final = frozenset({b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"})
"""Where a token comes: as OpenAI's SDKs send theirs, as Anthropic's, as those for Azure and as Google's."""
_NOT_UPSTREAM: Final = HOP_BY_HOP | CREDENTIALS | {
    b"host", b"content-length", b"accept-encoding", b"cookie", b"expect",
    b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip",
    b"x-circadia-conversation", b"x-circadia-user", b"x-circadia-trust",
}  # fmt: skip
"""What stays here: the agent's token, what the client library sets anew, and what is meant for Circadia."""
_NOT_BACK: Final = HOP_BY_HOP | {b"set-cookie", b"set-cookie2"}
"""What stays here of an answer; with the headers of CORS, which say what pages of the provider's own site may do."""
_NUMBER: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_BAD_VALUE: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


def named_by_connection(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """Return the headers that `Connection` names as hop-by-hop."""
    lists = [value for name, value in headers if len(name) == 10 and name.lower() == b"connection"]
    return frozenset(part.strip().lower() for value in lists for part in value.split(b",")) if lists else frozenset()


def to_upstream(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the caller's headers that go on. Names are in lower case, as ASGI has them."""
    given = list(headers)
    kept = without_token(given, _NOT_UPSTREAM)
    dropped = named_by_connection(given)
    return [header for header in kept if header[0] not in dropped] if dropped else kept


def without_token(
    headers: Sequence[tuple[bytes, bytes]], dropped: frozenset[bytes] = CREDENTIALS
) -> list[tuple[bytes, bytes]]:
    """Return a caller's headers but for these, and for any other that holds its token (`ocp-apim-subscription-key`)."""
    token = bearer(headers)
    own = token.encode("latin-1") if token else b"\0"  # which stands in no header
    return [header for header in headers if header[0] not in dropped and own not in header[1]]


def query_without_token(headers: Sequence[tuple[bytes, bytes]], query: bytes) -> bytes:
    """Return the query without the parameters that hold the caller's token, as `?key=` does."""
    token = bearer(headers)
    if not query or not token:
        return query
    return b"&".join(part for part in query.split(b"&") if token.encode("latin-1") not in unquote_to_bytes(part))


def as_text(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """Return headers as client libraries take them."""
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


def to_caller(
    headers: Iterable[tuple[bytes, bytes]], *, length: bool, secrets: Collection[bytes] = ()
) -> list[tuple[bytes, bytes]]:
    """Return the upstream's headers that go back, but for those that hold one of the `secrets`.

    `length` says whether its content-length still holds.
    """
    given = [(name.lower(), value) for name, value in headers]
    dropped = _NOT_BACK | named_by_connection(given)
    if not length:
        dropped |= {b"content-length"}
    return [
        (name, value)
        for name, value in given
        if name not in dropped
        and not name.startswith(b"access-control-")
        and not _BAD_VALUE.search(value)
        and not any(secret in value for secret in secrets)
    ]


def first_value(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> str | None:
    """Return the value of the first header of this (lower-case) name."""
    for name, value in headers:
        if name == wanted:
            return value.decode("latin-1")
    return None


def decode_name_header(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> str | None:
    """Return the name that such a header says: UTF-8, as URLs have it, or else Latin-1, as some clients send it."""
    given = first_value(headers, wanted)
    if given is None or given.isascii():
        return given
    try:
        return given.encode("latin-1").decode()
    except UnicodeDecodeError:
        return given


def parse_seconds(text: str | None) -> float | None:
    """Return a header's number of seconds, none if it is no plain number (`Retry-After` may also be a date)."""
    return float(text) if text is not None and _NUMBER.fullmatch(text.strip()) else None


def bearer(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the token that came as `Authorization: Bearer`, else as `x-api-key`, `api-key` or `x-goog-api-key`."""
    given = first_value(headers, b"authorization")
    if given and given[:7].lower() == "bearer ":
        return given[7:].strip() or None
    return (
        first_value(headers, b"x-api-key")
        or first_value(headers, b"api-key")
        or first_value(headers, b"x-goog-api-key")
    )
