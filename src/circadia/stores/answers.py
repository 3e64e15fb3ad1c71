"""What the program asks of a database for anticipated answers. `base.py` has the rest."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Final, NamedTuple, Protocol

from circadia.ids import AgentId, AnswerId, BankId
from circadia.records.answer import Answer, AnswerDay, AnswerFrame, AnswerScope, AnswerUse, DropReason
from circadia.records.ready_view import BankHeads

FRAMES: Final = 8
"""Frames that are kept of an end user's calls to an agent: whose prompt differs from call to call leaves no more."""
SEEN: Final = 1_000
"""Scopes of a bank that are looked through, about 300 bytes each."""


class RecentScope(NamedTuple):
    """A scope in which a call came, without its frame, which may be long."""

    scope: AnswerScope
    at: datetime
    """When the last one came."""


class AnswerEntry(NamedTuple):
    """What a lookup holds of an answer."""

    id: AnswerId
    scope: AnswerScope
    phrasings: Sequence[str]
    confidence: float
    conversation: str | None
    """The only conversation that may find it; none if any may."""
    revision: int
    dropped: str


class AnswerChanges(NamedTuple):
    """What has changed of a bank's answers since somebody looked."""

    answers: Sequence[AnswerEntry]
    """By revision and id; with `whole` by id."""
    whole: bool
    """Whether these are all that there are: what else is held of the bank is none any more."""


class Answers(Protocol):
    """Ready answers, with what they are made from and what came of them.

    Each change but a use counts in the bank's `answers`, in the same transaction, and stands as `revision` in the rows
    that it changed: by that number a process knows that what it holds is all there is. Writers come one after the
    other, so whoever sees a number sees all changes up to it.

    What is dropped stays without its text until it is purged, so that other processes learn of it. The bank keeps the
    greatest revision that was purged; who was away since an earlier one is told all answers instead of the changes.

    What no database can hold (a text with NUL or a lone surrogate) is left out where several are written.
    """

    async def put(self, new: Sequence[Answer]) -> Collection[AnswerId]:
        """Store new ones of one bank, with the bank's next `revision`; return those that were.

        One that rests on another `generation` than the bank's is not: something was forgotten while it was made.
        """
        ...

    async def get(self, bank_id: BankId, answer_id: AnswerId) -> Answer | None:
        """Return it, a dropped one too."""
        ...

    async def find_changed(self, bank_id: BankId, *, after: int) -> AnswerChanges:
        """Return those of the bank with a greater `revision`, dropped ones too.

        All that are live instead (`whole`) if `after` is 0, or if more than what was changed since may be gone.
        """
        ...

    async def find_live(
        self, bank_id: BankId, *, agent_id: AgentId | None = None, after: AnswerId | None = None, limit: int = 100
    ) -> Sequence[Answer]:
        """Return those that are not dropped, by id; `after` is the last one of the page before."""
        ...

    async def count_live(self, bank_id: BankId, at: datetime) -> int:
        """Return how many of the bank are not dropped and hold then."""
        ...

    async def save_phrasings(self, bank_id: BankId, answer_id: AnswerId, phrasings: Sequence[str]) -> None:
        """Write other phrasings, with the bank's next `revision`; nothing if it is dropped."""
        ...

    async def mark_still_right(self, bank_id: BankId, settled: Mapping[AnswerId, BankHeads]) -> None:
        """Write up to which rows a judge found these answers still right; nothing of those that are dropped.

        It counts in no `revision`: whoever finds an answer reads it anew.
        """
        ...

    async def drop(self, bank_id: BankId, ids: Collection[AnswerId], why: DropReason, at: datetime) -> Sequence[Answer]:
        """Drop those that are not yet, blank phrasings, text and reasoning; return them as they were."""
        ...

    async def find_surplus(
        self, bank_id: BankId, *, most: int, most_bytes: int, most_an_agent: int
    ) -> Sequence[AnswerId]:
        """Return what is too much of the bank's live ones, and of each of its agents': those used longest ago first.

        One that was never used counts as used when it was made. `most_bytes` are of phrasings, text, reasoning and what
        they rest on, in UTF-8.
        """
        ...

    async def find_expired(self, bank_id: BankId, now: datetime, *, limit: int) -> Sequence[AnswerId]:
        """Return those that are over and not dropped, by id, so many at most."""
        ...

    async def purge(self, before: datetime) -> None:
        """Delete what was dropped before then, in all banks, and frames and uses that are older."""
        ...

    async def record_uses(self, uses: Sequence[AnswerUse]) -> Collection[AnswerId]:
        """Write uses down, count them with their answers, and return those live answers that had none before.

        One that is written already, and one of an answer that is not there any more, is left out.
        """
        ...

    async def find_uses(
        self, bank_id: BankId, *, agent_id: AgentId | None = None, judged: bool | None = None,
        upto: datetime | None = None, limit: int = 100,
    ) -> Sequence[AnswerUse]:  # fmt: skip
        """Return the newest first; with `judged`, those that were found right or wrong, or were not looked at.

        With `upto` none of later: where the clock was set back, such ones would pass for the newest for long.
        """
        ...

    async def save_judgment(self, bank_id: BankId, use_id: str, *, right: bool | None, at: datetime) -> None:
        """Write what somebody found who looked at a use; none if nobody can tell."""
        ...

    async def save_frames(self, frames: Sequence[AnswerFrame]) -> None:
        """Write frames over what there is of the same bank and scope; `asked` is added to it.

        Those of a bank that is gone are left out. Of each agent and end user the `FRAMES` with the last calls stay.
        """
        ...

    async def find_recent_scopes(self, bank_id: BankId, *, limit: int = SEEN) -> Sequence[RecentScope]:
        """Return in which scopes of the bank calls came last, the last one first."""
        ...

    async def find_scopes(self, bank_id: BankId, agent_id: AgentId, end_user: str) -> Sequence[AnswerScope]:
        """Return in which scopes this person asked this agent."""
        ...

    async def get_frame(self, bank_id: BankId, scope: AnswerScope) -> AnswerFrame | None:
        """Return the frame of a scope."""
        ...

    async def add_counts(self, days: Sequence[AnswerDay]) -> None:
        """Add these counts to those that are there; those of a bank that is gone are left out."""
        ...

    async def find_days(self, bank_id: BankId, *, since: date) -> Sequence[AnswerDay]:
        """Return the bank's counts from this day on, by day."""
        ...

    async def clear(self, bank_id: BankId) -> None:
        """Delete all of the bank, dropped ones too, with their uses and frames: something was forgotten.

        Counts by day stay. Who asks for changes is told that there are none but those that came since.
        """
        ...
