"""The line that tells a woken agent that its prompt is old (GATE-65)."""

from circadia.gateway.hold.gate import Admission
from circadia.visibility import visible_text


def wake_notice(passage: Admission, unread: int) -> str:
    """Return the fenced notice: sleep time, who woke the agent, unread messages and how to read them."""
    woken = f", woken by {_plain_text(passage.woken_by)}" if passage.woken_by else ""
    mail = (
        f"{unread} unread message{'s' if unread != 1 else ''}: call wait_for_message on the Circadia MCP server"
        if unread
        else "no unread messages"
    )
    return f"<circadia-notice>You slept {_format_duration(passage.slept_seconds)}{woken}; {mail}.</circadia-notice>"


def _format_duration(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _plain_text(text: str) -> str:
    """Remove characters that could end the fence or the line."""
    shown = (each for each in visible_text(text) if each.isprintable() and each not in "<>")
    return "".join(shown)[:100]
