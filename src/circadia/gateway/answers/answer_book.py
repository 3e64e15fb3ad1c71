"""Writes down, behind the calls, what was asked, in which frame, and what ready answers were used for (ANS-07).

What an answer rests on counts as handed to the agent with it (SLEEP-20).
Where nothing may be kept of what is said, no question is written down; what came of the calls is counted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import partial
from typing import Final

from circadia.answers.lookup import LookupOutcome
from circadia.bounded_dict import BoundedDict
from circadia.clock import Clock
from circadia.errors import StorageUnavailable
from circadia.gateway.accounting.write_behind import WriteBehindQueue
from circadia.gateway.answers.serving import Lookup
from circadia.gateway.answers.trust import AnswerAccuracy
from circadia.ids import AnswerId, BankId, IdSource
from circadia.memory.redaction import redact
from circadia.memory.search.question_counter import may_keep_question
from circadia.memory.uses import UseMarks
from circadia.records.agent import Agent
from circadia.records.answer import Answer, AnswerBasis, AnswerDay, AnswerFrame, AnswerMode, AnswerScope, AnswerUse
from circadia.records.bank import Bank
from circadia.records.benefit import Benefit
from circadia.records.per_call import per_call
from circadia.stores.base import Store, Tx

OPERATION: Final = "precompute"
"""Who is credited with what served answers save."""
BOUND: Final = 10_000
"""Questions that wait to be written while the database is away, some kilobytes each at most."""
BATCH: Final = 200
PAUSE_SECONDS: Final = 2.0
"""Time that they gather."""
EVERY: Final = timedelta(minutes=1)
"""A frame that is known is written so often at most."""
FRAMES: Final = 10_000
"""Frames of which it is kept when they were written."""
WAITING: Final = 100
"""Frames that wait to be written, beyond which others are left for their next question."""
LONGEST_FRAME: Final = 262_144
"""Characters of a frame; in a longer one nothing is asked ahead."""

NO_WAY: Final = "none"
"""In the place of how an answer was found, where none was."""
LOADING: Final = "loading"
"""The same where the answers were still being loaded."""

OnLookup = Callable[[str, str, float], None]
"""Counts a lookup: what the call got, by which way it was found, and how many seconds that took."""


@per_call
class AnswerBookEntry:
    """What is to be written of one question."""

    bank: BankId
    """Where it was looked up."""
    generation: int
    """The bank's by then: once it has moved, what was said before must not be written any more."""
    agent: Agent
    """Who was asked."""
    outcome: LookupOutcome
    """What the call got."""
    at: datetime
    """When."""
    use: AnswerUse | None = None
    """The use, if what was found is surely an answer to it, and what was asked may be written down."""
    answer: Answer | None = None
    """The answer that was served, without its words."""
    rests: AnswerBasis | None = None
    """What the answer rests on that was served or shown; none if none was."""


@dataclass(kw_only=True, slots=True)
class _FrameEntry:
    """When a frame was written last, and how many questions came in it since."""

    at: datetime
    generation: int
    """The bank's by then: to forget there takes its frames, too."""
    asked: int = 0


class AnswerBook(WriteBehindQueue[AnswerBookEntry]):
    """What nobody waits for."""

    def __init__(
        self, clock: Clock, ids: IdSource, store: Store, trust: AnswerAccuracy, saw: OnLookup, *, frames: bool
    ) -> None:  # fmt: skip
        """`frames` says whether anybody asks ahead, so that frames are of use."""
        super().__init__(
            clock, what="questions for ready answers", bound=BOUND, batch=BATCH, pause_seconds=PAUSE_SECONDS
        )
        self._ids = ids
        self._store = store
        self._trust = trust
        self._saw = saw
        self._keeps_frames = frames
        self._marks = UseMarks()
        self._seen: BoundedDict[tuple[BankId, AnswerScope], _FrameEntry] = BoundedDict(FRAMES)
        self._frames: dict[tuple[BankId, AnswerScope], tuple[int, AnswerFrame]] = {}
        """Those that are to be written, with the generation of their bank by then."""

    def note(self, lookup: Lookup) -> None:
        """Have it written soon."""
        match, now = lookup.found.match, self._clock.now()
        found = match is not None and lookup.outcome is not LookupOutcome.MISS
        way = match.kind.value if match is not None and found else LOADING if lookup.found.loading else NO_WAY
        self._saw(lookup.outcome.value, way, lookup.seconds)
        if self._keeps_frames:  # whatever may be kept of what is said: nothing of that is in a frame
            self._note_frame(lookup, now)
        kept = may_keep_question(lookup.bank, lookup.asked.call.agent)
        answer = lookup.found.answer if found else None
        served = answer if lookup.outcome is LookupOutcome.HIT else None
        self.put(
            AnswerBookEntry(
                bank=lookup.bank.id, generation=lookup.bank.generation, agent=lookup.asked.call.agent,
                outcome=lookup.outcome, at=now,
                use=self._build_use(lookup, now) if found and kept and lookup.is_same_question else None,
                answer=None if served is None else replace(served, text="", reasoning=""),
                rests=None if answer is None else answer.rests,
            )
        )  # fmt: skip

    async def write(self, batch: Sequence[AnswerBookEntry]) -> None:
        """Write them, and the frames that were seen, in one transaction."""
        frames, self._frames = self._frames, {}
        try:
            async with self._store.begin_write() as tx:
                named = {each.bank for each in batch} | {bank_id for bank_id, _ in frames}
                banks = {each: bank for each in named if (bank := await tx.banks.get(each)) is not None}
                seen = [frame for (bank, _), (was, frame) in frames.items() if _is_current(banks.get(bank), was)]
                if seen:
                    await tx.answers.save_frames(seen)
                await self._write(tx, banks, [each for each in batch if each.bank in banks])
        except StorageUnavailable:
            self._frames = {**frames, **self._frames}
            raise

    async def _write(self, tx: Tx, banks: Mapping[BankId, Bank], batch: Sequence[AnswerBookEntry]) -> None:
        days = {(each.bank, each.at.date()): AnswerDay(bank_id=each.bank, day=each.at.date()) for each in batch}
        saved = dict[tuple[BankId, date], Benefit]()
        uses = [
            each.use for each in batch if each.use is not None and _is_current(banks.get(each.bank), each.generation)
        ]
        first = set(await tx.answers.record_uses(uses)) if uses else set[AnswerId]()
        for each in batch:
            key = (each.bank, each.at.date())
            new = each.use is not None and each.use.answer_id in first
            if each.use is not None and new:
                first.discard(each.use.answer_id)
            days[key] = _count_outcome(days[key], each.outcome, new=new)
            if each.answer is not None:
                saved[key] = _add_benefit(saved.get(key), each.answer, each.at.date())
        await tx.answers.add_counts(list(days.values()))
        if saved:
            await tx.benefits.add(list(saved.values()))
        await self._mark(tx, batch)
        for (bank_id, _), agent in {(each.bank, each.agent.id): each.agent for each in batch}.items():
            if agent.policy.answers is AnswerMode.SERVE:
                await self._trust.update_trust(tx, banks[bank_id], agent)

    async def _mark(self, tx: Tx, batch: Sequence[AnswerBookEntry]) -> None:
        """Mark what the answers rest on as handed to an agent: also where nothing may be kept of what is said."""
        resting: dict[BankId, list[AnswerBasis]] = {}
        for each in batch:
            if each.rests is not None:
                resting.setdefault(each.bank, []).append(each.rests)
        now = self._clock.now()
        for bank_id, rests in resting.items():
            if due := self._marks.find_unmarked(rests, now):
                await self._marks.write(tx, bank_id, due, now)
                tx.after_commit(partial(self._marks.remember_marked, due))

    def _build_use(self, lookup: Lookup, now: datetime) -> AnswerUse | None:
        """Return what is written of a use; none if the question has a secret in it."""
        answer, match, question = lookup.found.answer, lookup.found.match, lookup.asked.framed.question
        if answer is None or match is None or redact(question) != question:
            return None
        return AnswerUse(
            id=self._ids.new("use"), bank_id=lookup.bank.id, answer_id=answer.id, scope=lookup.asked.scope,
            question=question, phrasing=match.phrasing, way=match.kind.value,
            served=lookup.outcome is LookupOutcome.HIT, at=now,
        )  # fmt: skip

    def _note_frame(self, lookup: Lookup, now: datetime) -> None:
        """Have the frame written if it is new, or was written a while ago."""
        key = (lookup.bank.id, lookup.asked.scope)
        seen = self._seen.get(key)
        if seen is not None:
            seen.asked += 1
            if seen.generation == lookup.bank.generation and timedelta() <= now - seen.at < EVERY:
                return
        frame = lookup.asked.to_answer_frame(lookup.bank, now, 1 if seen is None else seen.asked)
        if frame is None or len(frame.body) > LONGEST_FRAME or len(self._frames) >= WAITING:
            return
        self._frames[key] = (lookup.bank.generation, frame)
        self._seen[key] = _FrameEntry(at=now, generation=lookup.bank.generation)


def _is_current(bank: Bank | None, generation: int) -> bool:
    return bank is not None and bank.generation == generation


def _count_outcome(day: AnswerDay, outcome: LookupOutcome, *, new: bool) -> AnswerDay:
    return replace(
        day, served=day.served + (outcome is LookupOutcome.HIT), hints=day.hints + (outcome is LookupOutcome.HINT),
        misses=day.misses + (outcome is LookupOutcome.MISS), used=day.used + new,
    )  # fmt: skip


def _add_benefit(before: Benefit | None, answer: Answer, day: date) -> Benefit:
    """Add what a served answer took when it was worked out: its call was spared that."""
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
