"""Programs that a promise needs to know, by what they send of themselves."""

from collections.abc import Iterable
from typing import Final

_CODEX: Final = b"codex"
"""Beginning of Codex's `originator`: `codex_cli_rs`, `codex_exec`, `codex_vscode`."""


def counts_events(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether the caller gives a stream up that has no events for minutes, whatever bytes come (GATE-93)."""
    return any(name == b"originator" and value.lower().startswith(_CODEX) for name, value in headers)
