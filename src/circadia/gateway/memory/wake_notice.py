"""The line that tells a woken agent how long it slept, who woke it, and what waits (GATE-65)."""

from typing import Final

from circadia.characters import visible_text

_UNCOUNTED: Final = "?"


def notice_key(slept_seconds: float, woken_by: str, unread: int | None) -> str:
    """Return what a conversation keeps of a notice: its numbers, and who woke the agent."""
    return f"{slept_seconds:.0f} {_UNCOUNTED if unread is None else unread} {_plain_text(woken_by)}"


def render_wake_notice(key: str) -> str:
    """Return the fenced line that tells a woken agent that its prompt is old (GATE-65).

    It states the sleep time, who woke the agent, and the unread messages, if they are counted, and how to read them.
    """
    seconds, count, woken_by = key.split(" ", 2)
    unread = None if count == _UNCOUNTED else int(count)
    woken = f", woken by {woken_by}" if woken_by else ""
    number = "there may be" if unread is None else unread
    mail = (
        "no unread messages"
        if unread == 0
        else f"{number} unread message{'s' if unread != 1 else ''}: call wait_for_message on the Circadia MCP server"
    )
    return f"<circadia-notice>You slept {_format_duration(float(seconds))}{woken}; {mail}.</circadia-notice>"


def _format_duration(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _plain_text(text: str) -> str:
    """Return the text without characters that could end the fence or the line."""
    printable = (character for character in visible_text(text) if character.isprintable() and character not in "<>")
    return "".join(printable)[:100]
