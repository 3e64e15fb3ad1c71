"""Store protocol for anticipated answers."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Final, NamedTuple, Protocol

from circadia.ids import AgentId, AnswerId, BankId
from circadia.records.answer import (
    Answer,
    AnswerDay,
    AnswerFrame,
    AnswerScope,
    AnswerUse,
    DropReason,
    SameQuestionVerdict,
)
from circadia.records.index_entry import BankHeads

FRAMES: Final = 8
"""Frames kept per agent and end user. It bounds callers whose prompt differs from call to call."""
VERDICTS: Final = 20_000
"""Verdicts of a judge that are kept per bank, the newest: about 300 bytes each."""
SEEN: Final = 1_000
"""Scopes of a bank that are read, about 300 bytes each."""


class RecentScope(NamedTuple):
    """A scope in which a call came, without the frame, which may be long."""

    scope: AnswerScope
    at: datetime
    """Time of the last call."""


class AnswerEntry(NamedTuple):
    """An answer as the lookup holds it."""

    id: AnswerId
    scope: AnswerScope
    phrasings: Sequence[str]
    confidence: float
    conversation: str | None
    """The only conversation that may use it; none allows all."""
    revision: int
    dropped: str


class AnswerChanges(NamedTuple):
    """Changes to a bank's answers since a revision."""

    answers: Sequence[AnswerEntry]
    """By revision and id; if `whole`, by id."""
    whole: bool
    """Whether these are all answers: the reader then discards any others of the bank."""


class Answers(Protocol):
    """Ready answers with their frames, uses and daily counts.

    Each change except a use increments the bank's `answers` in the same transaction, and is stored as `revision` of the
    changed rows: by that number a process knows whether its copy is complete. Writers are serialized, so a reader of a
    number sees all changes up to it.

    A dropped answer stays without its text until it is purged, so that other processes see the drop. The bank keeps the
    greatest purged revision; a reader that is behind it gets all answers instead of the changes.

    Batch writes skip texts that no database can store (NUL or a lone surrogate).
    """

    async def put(self, new: Sequence[Answer]) -> Collection[AnswerId]:
        """Store new answers of one bank with its next `revision`; return those that were stored.

        An answer for another `generation` than the bank's is skipped: something was forgotten while it was made.
        """
        ...

    async def get(self, bank_id: BankId, answer_id: AnswerId) -> Answer | None:
        """Return the answer, even if dropped."""
        ...

    async def find_changed(self, bank_id: BankId, *, after: int) -> AnswerChanges:
        """Return the bank's answers with a greater `revision`, dropped ones too.

        If `after` is 0, or drops since then were purged, return all live answers instead (`whole`).
        """
        ...

    async def find_live(
        self, bank_id: BankId, *, agent_id: AgentId | None = None, after: AnswerId | None = None, limit: int = 100
    ) -> Sequence[Answer]:
        """Return live answers by id; `after` is the last one of the previous page."""
        ...

    async def count_live(self, bank_id: BankId, at: datetime) -> int:
        """Return the number of the bank's answers that are live and not expired at that time."""
        ...

    async def save_phrasings(self, bank_id: BankId, answer_id: AnswerId, phrasings: Sequence[str]) -> None:
        """Write new phrasings with the bank's next `revision`; ignore a dropped answer."""
        ...

    async def mark_still_right(self, bank_id: BankId, settled: Mapping[AnswerId, BankHeads]) -> None:
        """Write the row numbers up to which a judge confirmed these answers; ignore dropped ones.

        It does not change `revision`, since each use reads the answer again.
        """
        ...

    async def drop(self, bank_id: BankId, ids: Collection[AnswerId], why: DropReason, at: datetime) -> Sequence[Answer]:
        """Drop answers that are live and clear phrasings, text and reasoning; return them as they were."""
        ...

    async def find_surplus(
        self, bank_id: BankId, *, most: int, most_bytes: int, most_an_agent: int
    ) -> Sequence[AnswerId]:
        """Return the live answers that exceed the limits of the bank or of an agent, least recently used first.

        An unused answer counts as used when it was made. `most_bytes` covers phrasings, text, reasoning and basis in
        UTF-8.
        """
        ...

    async def find_expired(self, bank_id: BankId, now: datetime, *, limit: int) -> Sequence[AnswerId]:
        """Return up to `limit` expired answers that are not dropped, by id."""
        ...

    async def find_banks_with_expired(self, now: datetime, *, limit: int) -> Collection[BankId]:
        """Return the banks of the `limit` answers that expired first, without dropped ones."""
        ...

    async def record_uses(self, uses: Sequence[AnswerUse]) -> Collection[AnswerId]:
        """Store uses and count them in their answers; return the live answers used for the first time.

        Uses that are stored already, and those of deleted answers, are skipped.
        """
        ...

    async def find_uses(
        self, bank_id: BankId, *, agent_id: AgentId | None = None, judged: bool | None = None,
        upto: datetime | None = None, limit: int = 100,
    ) -> Sequence[AnswerUse]:  # fmt: skip
        """Return uses, newest first; `judged` selects those with, or without, a judgment.

        `upto` excludes later ones: after the clock was set back they would count as the newest for long.
        """
        ...

    async def save_judgment(self, bank_id: BankId, use_id: str, *, right: bool | None, at: datetime) -> None:
        """Write the judgment of a use; none means undecided."""
        ...

    async def save_verdicts(self, verdicts: Sequence[SameQuestionVerdict]) -> None:
        """Insert or overwrite verdicts by id, except those about answers that are not live.

        They are deleted when their answer is dropped or gets new phrasings. The last `VERDICTS` per bank are kept.
        """
        ...

    async def find_verdicts(self, bank_id: BankId, ids: Collection[str]) -> Sequence[SameQuestionVerdict]: ...

    async def save_frames(self, frames: Sequence[AnswerFrame]) -> None:
        """Insert or overwrite frames by bank and scope, adding up `asked`.

        Frames of deleted banks are skipped. The last `FRAMES` per agent and end user are kept.
        """
        ...

    async def find_recent_scopes(self, bank_id: BankId, *, limit: int = SEEN) -> Sequence[RecentScope]:
        """Return the bank's scopes, most recently called first."""
        ...

    async def find_scopes(self, bank_id: BankId, agent_id: AgentId, end_user: str) -> Sequence[AnswerScope]:
        """Return the scopes in which this person asked this agent."""
        ...

    async def get_frame(self, bank_id: BankId, scope: AnswerScope) -> AnswerFrame | None: ...

    async def add_counts(self, days: Sequence[AnswerDay]) -> None:
        """Add these counts to the stored ones, skipping deleted banks."""
        ...

    async def find_days(self, bank_id: BankId, *, since: date) -> Sequence[AnswerDay]:
        """Return the bank's counts from this day on, by day."""
        ...

    async def clear(self, bank_id: BankId) -> None:
        """Delete the bank's answers, dropped ones too, with their uses, verdicts and frames: something was forgotten.

        Daily counts are kept. Readers of changes then get all live answers as `whole`.
        """
        ...
