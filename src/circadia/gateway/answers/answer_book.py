"""Records questions, their frames, uses of ready answers and verdicts about them, in the background (ANS-07).

The basis of an answer counts as handed to the agent with it (SLEEP-20). Where nothing that is said may be kept, no
question is recorded; only the outcomes are counted.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import partial
from typing import Final

from circadia.answers.question_text import normalize
from circadia.caches import BoundedDict
from circadia.clock import Clock
from circadia.errors import StorageUnavailable
from circadia.gateway.accounting.write_behind import BacklogSpool, WriteBehindQueue
from circadia.gateway.answers.serving import AnswerAccuracy, Lookup
from circadia.gateway.dialects.frames import without_private_body
from circadia.ids import AnswerId, BankId, IdSource
from circadia.memory.banks import may_keep_question
from circadia.memory.redaction import redact
from circadia.memory.uses import UseMarks
from circadia.records.agent import Agent
from circadia.records.answer import (
    Answer,
    AnswerBasis,
    AnswerDay,
    AnswerFrame,
    AnswerMode,
    AnswerScope,
    AnswerUse,
    LookupOutcome,
    SameQuestionVerdict,
)
from circadia.records.bank import Bank
from circadia.records.fast_record import fast_record
from circadia.records.sleep_call import Benefit
from circadia.stores.base import Store, Tx
from circadia.stores.locks import agent_key, bank_key

OPERATION: Final = "precompute"
"""Operation credited with the savings of served answers."""
BOUND: Final = 10_000
"""Questions queued while the database is unavailable, some kilobytes each at most."""
BATCH: Final = 200
PAUSE_SECONDS: Final = 2.0
"""Time that questions gather before a write."""
EVERY: Final = timedelta(minutes=1)
FRAMES: Final = 10_000
WAITING: Final = 100
"""Frames queued for a write; beyond that, a frame waits for its next question."""

NO_WAY: Final = "none"
LOADING: Final = "loading"

OnLookup = Callable[[str, str, float], None]
"""Counts a lookup: outcome, match kind, and seconds."""


@fast_record
class AnswerBookEntry:
    bank: BankId
    generation: int
    """The bank's generation at the lookup: after a change, text said before must not be written."""
    agent: Agent
    outcome: LookupOutcome
    at: datetime
    use: AnswerUse | None = None
    """The use, if the answer is certainly to this question and the question may be recorded."""
    answer: Answer | None = None
    """The served answer, without its text."""
    basis: AnswerBasis | None = None


BookEntry = AnswerBookEntry | SameQuestionVerdict
ENTRIES: Final = (AnswerBookEntry, SameQuestionVerdict)


@dataclass(kw_only=True, slots=True)
class _FrameEntry:
    """What this process knows of a frame. Of a question it keeps a number, which is never written."""

    generation: int
    """The bank's generation: forgetting removes the bank's frames, too."""
    question: int
    """Hash of the last question."""
    changes: int = 0
    """How often a question differed from the one before it, since the last write."""
    varied: bool = False
    """Whether such a question has been written."""
    written_at: datetime | None = None


class AnswerBook(WriteBehindQueue[BookEntry]):
    def __init__(
        self, clock: Clock, ids: IdSource, store: Store, spool: BacklogSpool[BookEntry], trust: AnswerAccuracy,
        saw: OnLookup, *, frames: bool,
    ) -> None:  # fmt: skip
        """`frames` enables recording frames, for banks that ask ahead."""
        super().__init__(
            clock, store, spool, what="questions for ready answers", bound=BOUND, batch=BATCH,
            pause_seconds=PAUSE_SECONDS,
        )  # fmt: skip
        self._ids = ids
        self._trust = trust
        self._saw = saw
        self._keeps_frames = frames
        self._marks = UseMarks()
        self._seen: BoundedDict[tuple[BankId, AnswerScope], _FrameEntry] = BoundedDict(FRAMES)
        self._frames: dict[tuple[BankId, AnswerScope], tuple[int, tuple[AnswerFrame, bool]]] = {}

    def forget(self) -> None:
        """Drop what is known of the database; what waits to be written stays."""
        self._trust.forget()
        self._seen.clear()

    def note(self, lookup: Lookup) -> None:
        match, now = lookup.found.match, self._clock.now()
        is_match = match is not None and lookup.outcome is not LookupOutcome.MISS
        way = match.kind.value if match is not None and is_match else LOADING if lookup.found.loading else NO_WAY
        self._saw(lookup.outcome.value, way, lookup.seconds)
        may_keep = may_keep_question(lookup.bank, lookup.question.call.agent)
        if self._keeps_frames:
            self._note_frame(lookup, now, may_keep=may_keep)
        answer = lookup.found.answer if is_match else None
        served = answer if lookup.outcome is LookupOutcome.HIT else None
        self.put(
            AnswerBookEntry(
                bank=lookup.bank.id, generation=lookup.bank.generation, agent=lookup.question.call.agent,
                outcome=lookup.outcome, at=now,
                use=self._build_use(lookup, now) if is_match and may_keep and lookup.is_same_question else None,
                answer=None if served is None else replace(served, text="", reasoning=""),
                basis=None if answer is None else answer.basis,
            )
        )  # fmt: skip

    async def write(self, batch: Sequence[BookEntry]) -> None:
        frames, self._frames = self._frames, {}
        entries = [line for line in batch if isinstance(line, AnswerBookEntry)]
        try:
            storable = [(was, await asyncio.to_thread(without_private_body, *each)) for was, each in frames.values()]
            async with self._store.begin_write() as tx:
                bank_ids = {line.bank_id if isinstance(line, SameQuestionVerdict) else line.bank for line in batch}
                bank_ids |= {bank_id for bank_id, _ in frames}
                await tx.hold(*map(bank_key, bank_ids), *(agent_key(entry.agent.id) for entry in entries))
                await self.mark_written(tx)
                banks = {bank_id: bank for bank_id in bank_ids if (bank := await tx.banks.get(bank_id)) is not None}
                if new_frames := [frame for was, frame in storable if _is_current(banks.get(frame.bank_id), was)]:
                    await tx.answer_frames.save_frames(new_frames)
                await tx.answer_uses.save_verdicts([line for line in batch if isinstance(line, SameQuestionVerdict)])
                await self._write(tx, banks, [entry for entry in entries if entry.bank in banks])
        except StorageUnavailable:
            self._frames = {**frames, **self._frames}
            raise

    async def _write(self, tx: Tx, banks: Mapping[BankId, Bank], batch: Sequence[AnswerBookEntry]) -> None:
        days = {(entry.bank, entry.at.date()): AnswerDay(bank_id=entry.bank, day=entry.at.date()) for entry in batch}
        saved = dict[tuple[BankId, date], Benefit]()
        uses = [
            entry.use
            for entry in batch
            if entry.use is not None and _is_current(banks.get(entry.bank), entry.generation)
        ]
        first = set(await tx.answer_uses.record_uses(uses)) if uses else set[AnswerId]()
        for entry in batch:
            key = (entry.bank, entry.at.date())
            new = entry.use is not None and entry.use.answer_id in first
            if entry.use is not None and new:
                first.discard(entry.use.answer_id)
            days[key] = _count_outcome(days[key], entry.outcome, new=new)
            if entry.answer is not None:
                saved[key] = _add_benefit(saved.get(key), entry.answer, entry.at.date())
        await tx.answer_uses.add_counts(list(days.values()))
        if saved:
            await tx.benefits.add(list(saved.values()))
        await self._mark(tx, batch)
        for (bank_id, _), agent in {(entry.bank, entry.agent.id): entry.agent for entry in batch}.items():
            if agent.policy.answer_mode is AnswerMode.SERVE:
                await self._trust.update_trust(tx, banks[bank_id], agent)

    async def _mark(self, tx: Tx, batch: Sequence[AnswerBookEntry]) -> None:
        """Mark the basis of the answers as handed to an agent, even where nothing that is said may be kept."""
        handed: dict[BankId, list[AnswerBasis]] = {}
        for entry in batch:
            if entry.basis is not None:
                handed.setdefault(entry.bank, []).append(entry.basis)
        now = self._clock.now()
        for bank_id, bases in handed.items():
            if due := self._marks.find_unmarked(bases, now):
                await self._marks.write(tx, bank_id, due, now)
                tx.after_commit(partial(self._marks.remember_marked, due))

    def _build_use(self, lookup: Lookup, now: datetime) -> AnswerUse | None:
        """Return the record of a use; None if the question contains a secret."""
        answer, match, question = lookup.found.answer, lookup.found.match, lookup.question.framed.question
        if answer is None or match is None or redact(question) != question:
            return None
        return AnswerUse(
            id=self._ids.new("use"), bank_id=lookup.bank.id, answer_id=answer.id, scope=lookup.question.scope,
            question=question, phrasing=match.phrasing, match_kind=match.kind,
            served=lookup.outcome is LookupOutcome.HIT, at=now,
        )  # fmt: skip

    def _note_frame(self, lookup: Lookup, now: datetime, *, may_keep: bool) -> None:
        """Queue the frame once a minute, and at once when a second, different question has come in it (ANS-21)."""
        frame = lookup.question.to_answer_frame(lookup.bank, now)
        key, question = (lookup.bank.id, frame.scope), hash(normalize(lookup.question.framed.question).text)
        entry = self._seen.get(key)
        if entry is None or entry.generation != lookup.bank.generation:
            entry = self._seen[key] = _FrameEntry(generation=lookup.bank.generation, question=question)
        entry.changes += entry.question != question
        entry.question = question
        is_new = entry.changes > 0 and not entry.varied
        is_recent = entry.written_at is not None and timedelta() <= now - entry.written_at < EVERY
        if (is_recent and not is_new) or len(self._frames) >= WAITING:
            return
        self._frames[key] = (lookup.bank.generation, (replace(frame, asked=entry.changes), may_keep))
        entry.varied, entry.changes, entry.written_at = entry.varied or is_new, 0, now


def _is_current(bank: Bank | None, generation: int) -> bool:
    return bank is not None and bank.generation == generation


def _count_outcome(day: AnswerDay, outcome: LookupOutcome, *, new: bool) -> AnswerDay:
    return replace(
        day, served=day.served + (outcome is LookupOutcome.HIT), hints=day.hints + (outcome is LookupOutcome.HINT),
        misses=day.misses + (outcome is LookupOutcome.MISS), used=day.used + new,
    )  # fmt: skip


def _add_benefit(before: Benefit | None, answer: Answer, day: date) -> Benefit:
    """Add the cost of preparing a served answer, which the call saved."""
    if before is None:
        before = Benefit(
            bank_id=answer.bank_id, operation=OPERATION, day=day, uses=0, saved_tokens=0, saved_seconds=0.0,
            saved_nanousd=0, unpriced_tokens=0,
        )  # fmt: skip
    return replace(
        before, uses=before.uses + 1, saved_tokens=before.saved_tokens + answer.tokens,
        saved_seconds=before.saved_seconds + answer.seconds, saved_nanousd=before.saved_nanousd + (answer.nanousd or 0),
        unpriced_tokens=before.unpriced_tokens + (answer.tokens if answer.nanousd is None else 0),
    )  # fmt: skip
