"""Programs that a promise needs to know, by what they send of themselves."""

from collections.abc import Iterable
from typing import Final

_CODEX: Final = b"codex"
"""Beginning of Codex's `originator`: `codex_cli_rs`, `codex_exec`, `codex_vscode`."""
_GEMINI_CLI: Final = b"GeminiCLI"
"""Beginning of its user agent: `GeminiCLI-tui/0.61.0/gemini-3.1-pro-preview (linux; x64; terminal)`."""
_GEMINI_CLI_SECONDS: Final = 60.0


def counts_events(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether the caller gives a stream up that has no events for minutes, whatever bytes come (GATE-93)."""
    return any(name == b"originator" and value.lower().startswith(_CODEX) for name, value in headers)


def header_timeout(headers: Iterable[tuple[bytes, bytes]]) -> float | None:
    """Return the seconds for which the caller waits for the headers of an answer, if it is known not to say so."""
    is_gemini_cli = any(name == b"user-agent" and value.startswith(_GEMINI_CLI) for name, value in headers)
    return _GEMINI_CLI_SECONDS if is_gemini_cli else None
