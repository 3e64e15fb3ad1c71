"""Headers between the agent, the gateway and the provider: which pass, and which programs they are known by."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

HOP_BY_HOP: Final = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
        b"trailer", b"transfer-encoding", b"upgrade",
    }
)  # fmt: skip
"""Headers of one connection, not of the message (RFC 9110, 7.6.1)."""
CREDENTIALS: Final = frozenset({b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"})
"""Where each SDK puts its token: OpenAI, Anthropic, Azure and Google."""
_NOT_UPSTREAM: Final = HOP_BY_HOP | CREDENTIALS | {
    b"host", b"content-length", b"accept-encoding", b"cookie", b"expect",
    b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip",
    b"x-circadia-conversation", b"x-circadia-user", b"x-circadia-trust", b"x-circadia-where",
    b"x-circadia-memory",
}  # fmt: skip
"""Request headers that stay here: the agent's token, what the client library sets itself, and Circadia's own."""
_NOT_BACK: Final = HOP_BY_HOP | {
    b"content-length", b"set-cookie", b"set-cookie2",
    b"server", b"via", b"alt-svc", b"strict-transport-security", b"nel", b"report-to",
}  # fmt: skip
"""Response headers that stay here. Those of CORS do too: like the last line, they describe the provider's own site."""
_NUMBER: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_BAD_VALUE: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


def named_by_connection(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """Return the headers that `Connection` names as hop-by-hop."""
    lists = [value for name, value in headers if len(name) == 10 and name.lower() == b"connection"]
    return frozenset(part.strip().lower() for value in lists for part in value.split(b",")) if lists else frozenset()


def to_upstream(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the caller's headers for the upstream. Names must be in lower case, as in ASGI."""
    received = list(headers)
    passed = without_token(received, _NOT_UPSTREAM)
    dropped = named_by_connection(received)
    return [header for header in passed if header[0] not in dropped] if dropped else passed


def without_token(
    headers: Sequence[tuple[bytes, bytes]], dropped: frozenset[bytes] = CREDENTIALS
) -> list[tuple[bytes, bytes]]:
    """Drop the `dropped` headers and any other that contains the caller's token (`ocp-apim-subscription-key`)."""
    token = bearer(headers)
    own = token.encode("latin-1") if token else b"\0"  # a byte that no header contains
    return [header for header in headers if header[0] not in dropped and own not in header[1]]


def query_without_token(headers: Sequence[tuple[bytes, bytes]], query: bytes) -> bytes:
    """Drop the query parameters that contain the caller's token, such as `?key=`."""
    token = bearer(headers)
    if not query or not token:
        return query
    return b"&".join(part for part in query.split(b"&") if token.encode("latin-1") not in unquote_to_bytes(part))


def as_text(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


def to_caller(headers: Iterable[tuple[bytes, bytes]], *, secrets: Collection[bytes] = ()) -> list[tuple[bytes, bytes]]:
    """Return the upstream's headers for the caller, without `secrets` and the length."""
    received = [(name.lower(), value) for name, value in headers]
    dropped = _NOT_BACK | named_by_connection(received)
    return [
        (name, value)
        for name, value in received
        if name not in dropped
        and not name.startswith(b"access-control-")
        and not _BAD_VALUE.search(value)
        and not any(secret in value for secret in secrets)
    ]


def first_value(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> str | None:
    """Return the first value of a header; `wanted` is in lower case."""
    for name, value in headers:
        if name == wanted:
            return value.decode("latin-1")
    return None


def decode_name_header(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> str | None:
    """Return a header that holds a name, decoded as UTF-8 like a URL, else as Latin-1, which some clients send."""
    value = first_value(headers, wanted)
    if value is None or value.isascii():
        return value
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value


def parse_seconds(text: str | None) -> float | None:
    """Parse a plain number of seconds; None for anything else (`Retry-After` may also be a date)."""
    return float(text) if text is not None and _NUMBER.fullmatch(text.strip()) else None


def bearer(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the token from `Authorization: Bearer`, else from `x-api-key`, `api-key` or `x-goog-api-key`."""
    authorization = first_value(headers, b"authorization")
    if authorization and authorization[:7].lower() == "bearer ":
        return authorization[7:].strip() or None
    return (
        first_value(headers, b"x-api-key")
        or first_value(headers, b"api-key")
        or first_value(headers, b"x-goog-api-key")
    )


class _KnownClient(NamedTuple):
    mark: tuple[bytes, bytes]
    """A header and the beginning of its value, in lower case, that only this program sends."""
    names: tuple[bytes, ...]
    """Headers that together name a conversation; a subagent has one of its own more."""
    counts_events: bool = False
    """Whether it gives a stream up that has no events for minutes, whatever bytes come (GATE-93)."""
    header_seconds: float | None = None
    """How long it waits for the headers of an answer, if it does not say so."""
    names_by_cache_key: bool = False
    """Whether `prompt_cache_key` names the conversation too; others use one key for all of theirs."""


_CLIENTS: Final = (
    # Codex: `codex_cli_rs`, `codex_exec`, `codex_vscode`; the older headers have an underscore
    _KnownClient(
        mark=(b"originator", b"codex"), names=(b"session-id", b"thread-id", b"session_id", b"conversation_id"),
        counts_events=True, names_by_cache_key=True,
    ),
    # Claude Code
    _KnownClient(
        mark=(b"x-claude-code-session-id", b""), names=(b"x-claude-code-session-id", b"x-claude-code-agent-id"),
    ),
    # opencode; a subagent has a session of its own
    _KnownClient(
        mark=(b"user-agent", b"opencode/"), names=(b"x-session-id", b"x-opencode-session", b"x-session-affinity"),
    ),
    # Gemini CLI: `GeminiCLI-tui/0.61.0/gemini-3.1-pro-preview (linux; x64; terminal)`
    _KnownClient(mark=(b"user-agent", b"geminicli"), names=(), header_seconds=60.0),
)  # fmt: skip


def counts_events(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether the caller gives a stream up that has no events for minutes, whatever bytes come (GATE-93)."""
    client = _find_client(dict(headers))
    return client is not None and client.counts_events


def header_timeout(headers: Iterable[tuple[bytes, bytes]]) -> float | None:
    """Return the seconds for which the caller waits for the headers of an answer, if it is known not to say so."""
    client = _find_client(dict(headers))
    return None if client is None else client.header_seconds


def find_conversation_name(headers: Iterable[tuple[bytes, bytes]], cache_key: str | None) -> bytes | None:
    """Return a known client's own name for the conversation of a call; None if it sends none (GATE-96)."""
    sent = dict(headers)
    client = _find_client(sent)
    if client is None:
        return None
    name = b"\0".join(sent[header] for header in client.names if sent.get(header))
    if not name and client.names_by_cache_key and cache_key:
        name = cache_key.encode("utf-8", "surrogatepass")
    return name or None


def _find_client(sent: dict[bytes, bytes]) -> _KnownClient | None:
    for client in _CLIENTS:
        header, beginning = client.mark
        value = sent.get(header)
        if value is not None and value.lower().startswith(beginning):
            return client
    return None
