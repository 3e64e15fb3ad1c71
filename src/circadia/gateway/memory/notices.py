"""What an agent learns of its sleep: how long it was, who ended it, and what passes did to its memory meanwhile."""

from collections.abc import Mapping
from typing import Final, cast

from circadia.caches import BoundedDict
from circadia.characters import visible_text
from circadia.ids import BankId
from circadia.records.bank import Bank
from circadia.records.change import ChangeKind
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.triggers.pass_lifecycle import TOPIC
from circadia.stores.signals.base import Signals

REMEMBERED: Final = 1_000
"""Banks with changes to report, about 200 bytes each."""
_WORDS: Final[Mapping[ChangeKind, tuple[str, str]]] = {
    ChangeKind.ADD_NOTE: ("note was added", "notes were added"),
    ChangeKind.RETIRE_NOTE: ("note was retired", "notes were retired"),
    ChangeKind.DEMOTE_EPISODE: ("statement counts less", "statements count less"),
    ChangeKind.WRITE_BLOCK: ("block was rewritten", "blocks were rewritten"),
    ChangeKind.FLAG: ("contradiction was found", "contradictions were found"),
}


def render_changes(counts: str) -> str:
    """Return the line that reports changes, such as `add_note=2 flag=1`."""
    numbers = [(ChangeKind(kind), int(n)) for kind, _, n in (each.partition("=") for each in counts.split())]
    parts = [f"{n} {_WORDS[kind][n > 1]}" for kind, n in numbers]
    return f"While nobody spoke with you, this memory was worked over: {', '.join(parts)}."


class ChangeNotice:
    """Reports to an agent the changes by passes to its memory while it slept (SLEEP-62); a restart forgets them."""

    def __init__(self, signals: Signals, sleeptime: SleeptimeService) -> None:
        self._sleeptime = sleeptime
        self._counts: BoundedDict[BankId, dict[str, int]] = BoundedDict(REMEMBERED)
        signals.listen(TOPIC, self._on_pass_event)

    def counts(self, bank: Bank) -> str:
        """Return the changes to report, as `render_changes` takes them; empty if the bank's policy disables it."""
        counts = self._counts.get(bank.id)
        if counts is None or not self._sleeptime.policy(bank).tell:
            return ""
        return " ".join(f"{kind.value}={n}" for kind in ChangeKind if (n := counts.get(kind.value, 0)))

    def mark_shown(self, bank: Bank, counts: str) -> None:
        """Clear the reported changes; if more came since, the next line repeats them with the new ones."""
        if counts == self.counts(bank):
            del self._counts[bank.id]

    def _on_pass_event(self, key: str, data: Mapping[str, object]) -> None:
        counts = cast("Mapping[str, int]", data.get("counts", {}))
        done = {kind.value: counts[kind.value] for kind in ChangeKind if counts.get(kind.value)}
        if data["ended"] and done:
            before = self._counts.get(BankId(key), {})
            self._counts[BankId(key)] = {
                kind_name: before.get(kind_name, 0) + done.get(kind_name, 0) for kind_name in {*before, *done}
            }


_UNCOUNTED: Final = "?"


def notice_key(slept_seconds: float, woken_by: str, unread: int | None) -> str:
    """Return what a conversation keeps of a notice: its numbers, and who woke the agent, with the cause.

    `woken_by` is the actor of the change: a name, or a cause and a name (`mentioned by lead`).
    """
    cause, _, name = woken_by.rpartition(" by ")
    who = f"{name} ({cause.replace('_', ' ')})" if cause else woken_by
    return f"{slept_seconds:.0f} {_UNCOUNTED if unread is None else unread} {_plain_text(who)}"


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
