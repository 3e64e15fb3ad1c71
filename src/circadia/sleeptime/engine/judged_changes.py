"""The changes of a page with what is wrong with each: what stays, and what a step is asked for once more (SLEEP-83)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from circadia.records.change import Change, ChangeKind
from circadia.sleeptime.grounding.change_rules import FinalRefusal, source_ids_of
from circadia.sleeptime.proposals.operation import RefusedText

MENDED: Final = "mended"
"""Key in `Change.after` of a refused text from whose sources the second try has made one that is kept."""


@dataclass(frozen=True)
class JudgedChanges:
    """What the rules and the model's verdicts leave of a page's changes."""

    changes: Sequence[Change]
    reasons: Sequence[str]
    """Why each is refused, empty if it is not."""

    def list_kept(self) -> Sequence[Change]:
        """Return what was not refused; what a refused text was to replace stands, so that a better one can do it."""
        return [change for change, why in self._pairs if not why and not _is_replaced_by(change, self._refused_targets)]

    def list_settled(self) -> Sequence[Change]:
        """Return what is not proposed once more: all but what a refused text was to replace."""
        return [change for change in self.changes if not _is_replaced_by(change, self._refused_targets)]

    def list_refused_notes(self) -> set[str]:
        """Return the ids of the notes that were refused, which do not exist."""
        return {change.target for change, why in self._pairs if why and change.kind is ChangeKind.ADD_NOTE}

    def list_refused(self, changes: Sequence[Change]) -> Sequence[RefusedText]:
        """Return the texts among a step's changes that were refused for a reason that another text may take away.

        A text that stands with other sources is not refused.
        """
        reasons = {
            (change.operation, _text_of(change)): why
            for change, why in self._pairs
            if why and not isinstance(why, FinalRefusal)
        }
        kept = {(change.operation, _text_of(change)) for change, why in self._pairs if not why}
        texts = {text: change.operation for change in changes if (text := _text_of(change))}
        return [
            RefusedText(text=text, reason=reasons[name, text])
            for text, name in texts.items()
            if (name, text) in reasons.keys() - kept
        ]

    def join(self, later: "JudgedChanges") -> "JudgedChanges":
        """Return these and later ones, which may take away a note in place of a refused text, or have it mended."""
        taken = {change.target for change in later.changes if change.kind is ChangeKind.RETIRE_NOTE}
        added = (change for change in later.list_kept() if change.kind is ChangeKind.ADD_NOTE)
        given = {key for change in added for key in source_ids_of(change)}
        pairs: list[tuple[Change, str]] = []
        for change, why in self._pairs:
            if why and change.kind is ChangeKind.ADD_NOTE and given.intersection(source_ids_of(change)):
                pairs.append((replace(change, after={**(change.after or {}), MENDED: True}), why))
            elif change.target not in taken or not _is_replaced_by(change, self._refused_targets):
                pairs.append((change, why))
        pairs += later._pairs
        return JudgedChanges([change for change, _ in pairs], [why for _, why in pairs])

    @cached_property
    def _pairs(self) -> list[tuple[Change, str]]:
        return list(zip(self.changes, self.reasons, strict=True))

    @cached_property
    def _refused_targets(self) -> Collection[str]:
        return {change.target for change, why in self._pairs if why}


def _text_of(change: Change) -> str:
    return str((change.after or {}).get("text", ""))


def _is_replaced_by(change: Change, targets: Collection[str]) -> bool:
    """Return whether a change takes away a note for another one that is among these."""
    return change.kind is ChangeKind.RETIRE_NOTE and (change.after or {}).get("instead") in targets
