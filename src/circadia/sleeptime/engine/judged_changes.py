"""The changes of a page with what is wrong with each: what stays, and what a step is asked for once more (SLEEP-83)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from circadia.records.change import Change, ChangeKind
from circadia.sleeptime.proposals.operation import RefusedText
from circadia.sleeptime.publish.claim_verifier import MISSING, VERDICT


@dataclass(frozen=True)
class JudgedChanges:
    changes: Sequence[Change]
    reasons: Sequence[str]
    """Why each is refused, empty if it is not."""

    @property
    def kept(self) -> Sequence[Change]:
        """Return what was not refused; what a refused text was to replace stands, so that a better one can do it."""
        return [change for change, why in self._pairs if not why and not _is_replaced_by(change, self._refused)]

    @property
    def settled(self) -> Sequence[Change]:
        """Return what is not proposed once more: all but what a refused text was to replace."""
        return [change for change in self.changes if not _is_replaced_by(change, self._refused)]

    def list_refused(self, changes: Sequence[Change]) -> Sequence[RefusedText]:
        """Return the texts among a step's changes that were refused, but for want of a verdict."""
        reasons = {
            (change.operation, _text_of(change)): why
            for change, why in self._pairs
            if why and (change.after or {}).get(VERDICT) != MISSING
        }
        texts = {_text_of(change): change.operation for change in changes}
        return [
            RefusedText(text=text, reason=reasons[name, text])
            for text, name in texts.items()
            if (name, text) in reasons
        ]

    def followed_by(self, later: "JudgedChanges") -> "JudgedChanges":
        """Return these and later ones, which may take away a note in place of a refused text."""
        taken = {change.target for change in later.changes if change.kind is ChangeKind.RETIRE_NOTE}
        pairs = [
            pair for pair in self._pairs if pair[0].target not in taken or not _is_replaced_by(pair[0], self._refused)
        ]
        pairs += later._pairs
        return JudgedChanges([change for change, _ in pairs], [why for _, why in pairs])

    @cached_property
    def _pairs(self) -> list[tuple[Change, str]]:
        return list(zip(self.changes, self.reasons, strict=True))

    @cached_property
    def _refused(self) -> Collection[str]:
        return {change.target for change, why in self._pairs if why}


def _text_of(change: Change) -> str:
    return str((change.after or {}).get("text", ""))


def _is_replaced_by(change: Change, targets: Collection[str]) -> bool:
    """Return whether a change takes away a note for another one that is among these."""
    return change.kind is ChangeKind.RETIRE_NOTE and (change.after or {}).get("instead") in targets
