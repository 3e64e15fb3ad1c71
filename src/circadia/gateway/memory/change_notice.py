"""Reports to an agent, in one line on its next call, the changes to its memory while it slept (SLEEP-62)."""

from collections.abc import Mapping
from typing import Final, cast

from circadia.caches import BoundedDict
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
    """The changes by passes since the last report; a hint that a restart forgets."""

    def __init__(self, signals: Signals, tier: SleeptimeService) -> None:
        self._tier = tier
        self._counts: BoundedDict[BankId, dict[str, int]] = BoundedDict(REMEMBERED)
        signals.listen(TOPIC, self._on_pass_event)

    def counts(self, bank: Bank) -> str:
        """Return the changes to report, as `render_changes` takes them; empty if the bank's policy disables it."""
        counts = self._counts.get(bank.id)
        if counts is None or not self._tier.policy(bank).tell:
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
