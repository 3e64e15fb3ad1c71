"""What the program asks of a database for anticipated answers. `base.py` has the rest."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Protocol

from circadia.ids import AgentId, AnswerId, BankId
from circadia.records.answer import Answer, AnswerDay, AnswerFrame, AnswerUse, Dropped


class Answers(Protocol):
    """Ready answers, with what they are made from and what came of them.

    Each change but a use counts in the bank's `answers`, in the same transaction: by that number a process knows that
    what it holds is all there is.
    """

    async def put(self, new: Sequence[Answer]) -> None:
        """Store new ones of one bank, with the bank's next `revision`."""
        ...

    async def get(self, bank_id: BankId, answer_id: AnswerId) -> Answer | None:
        """Return it, a dropped one too."""
        ...

    async def changed(self, bank_id: BankId, *, after: int) -> Sequence[Answer]:
        """Return those of the bank with a greater `revision`, dropped ones too, without text and reasoning."""
        ...

    async def live(
        self, bank_id: BankId, *, agent_id: AgentId | None = None, after: AnswerId | None = None, limit: int = 100
    ) -> Sequence[Answer]:
        """Return those that are not dropped, by id; `after` is the last one of the page before."""
        ...

    async def phrase(self, bank_id: BankId, answer_id: AnswerId, phrasings: Sequence[str]) -> None:
        """Write other phrasings, with the bank's next `revision`."""
        ...

    async def drop(self, bank_id: BankId, ids: Collection[AnswerId], why: Dropped, at: datetime) -> Sequence[Answer]:
        """Drop those that are not yet, blank phrasings, text and reasoning; return them as they were."""
        ...

    async def crowded(self, bank_id: BankId, *, most: int, most_bytes: int, most_an_agent: int) -> Sequence[AnswerId]:
        """Return what is too much of the bank's live ones, and of each of its agents': those used longest ago."""
        ...

    async def purge(self, before: datetime) -> None:
        """Delete what was dropped before then, in all banks, and frames and uses that are older."""
        ...

    async def used(self, uses: Sequence[AnswerUse]) -> Collection[AnswerId]:
        """Write uses down, count them with their answers, and return those answers that had none before."""
        ...

    async def uses(
        self, bank_id: BankId, *, agent_id: AgentId | None = None, judged: bool | None = None, limit: int = 100
    ) -> Sequence[AnswerUse]:
        """Return the newest first; with `judged`, those that were looked at, or were not."""
        ...

    async def judge(self, bank_id: BankId, use_id: str, *, right: bool, at: datetime) -> None:
        """Write what somebody found who looked at a use."""
        ...

    async def see(self, frames: Sequence[AnswerFrame]) -> None:
        """Write frames over what there is of the same bank and scope; `asked` is added to it."""
        ...

    async def frames(self, bank_id: BankId) -> Sequence[AnswerFrame]:
        """Return those of the bank, the one with the last call first."""
        ...

    async def count(self, days: Sequence[AnswerDay]) -> None:
        """Add these counts to those that are there."""
        ...

    async def days(self, bank_id: BankId, *, since: date) -> Sequence[AnswerDay]:
        """Return the bank's counts from this day on, by day."""
        ...

    async def totals(self) -> Mapping[str, int]:
        """Return the sums of all counts of all banks by name, and how many answers are live as `live`."""
        ...

    async def clear(self, bank_id: BankId, at: datetime) -> None:
        """Drop all of the bank as forgotten, with their uses and frames: something was forgotten."""
        ...
