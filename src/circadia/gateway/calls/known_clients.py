"""Programs that a promise needs to know, by what they send of themselves."""

from collections.abc import Iterable
from typing import Final, NamedTuple


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
