"""Writes by one process' services and lookups by another's, in one order, with what must come of each lookup.

Now and then a judge who is right reads the new turns.

What must come of it is worked out from the writes alone: each answer has a subject, and lists of what it rests on.
"""

import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Self

from benchmarks.talks import small_talk
from circadia.answers.lookup import AnswerLookup
from circadia.clock import SystemClock, system_milliseconds
from circadia.ids import AgentId, AnswerId, RandomIds
from circadia.memory.banks import BankService, NewBank
from circadia.memory.blocks import BlockAuthor, BlockService, BlockUpdate
from circadia.memory.context import ContextBuilder
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.episodes import EpisodeService, NewEpisode, searched_text
from circadia.memory.forgetting import forget
from circadia.memory.search.columns import Array
from circadia.memory.search.question import Question
from circadia.memory.search.retrieval import Retrieval
from circadia.memory.search.terms import question_terms
from circadia.memory.search.vectors import stored_vector
from circadia.records.answer import Answer, AnswerScope, DropReason, LookupOutcome
from circadia.records.bank import Bank, BankPolicy, Trust
from circadia.records.episode import Episode
from circadia.settings.answers import AnswersSettings
from circadia.stores.base import Store, Tx
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals

SCOPE: Final = AnswerScope(agent_id=AgentId("agt_bench"), frame="f")
SEED: Final = 5
TTL: Final = timedelta(hours=24)
FITTING: Final = 200
"""Tokens of the part of a context that fits the question."""
UNREAD: Final = 5
"""One of so many episodes has no vector when it is looked for."""
_SYLLABLES: Final = ("ka", "lo", "mi", "ren", "ta", "vo", "sil", "da", "pe", "nor", "bu", "shi", "gra", "el", "tor")
_THINGS: Final = ("invoice", "trailer", "lathe", "contract", "bicycle", "server", "garden", "ticket", "parcel")
_PLACES: Final = ["Berlin", "Lagos", "Turin", "Osaka", "Denver", "Malmo", "Porto", "Cairo", "Quebec", "Hobart"]


@dataclass(kw_only=True, slots=True)
class Outcomes:
    """What came of the operations."""

    operations: int = 0
    writes: int = 0
    related: int = 0
    """Writes that made at least one answer void."""
    lookups: int = 0
    expected: int = 0
    """Lookups for an answer that still stood."""
    found: int = 0
    """Of those, how many found it."""
    void: int = 0
    """Lookups for an answer that stood no more."""
    stale: int = 0
    """Of those, how many found one."""
    lived: float = 0.0
    """Writes that an answer lived through on average, until the lookups for it."""
    seconds: float = 0.0


@dataclass(kw_only=True, slots=True)
class _Subject:
    """What answers are about, and what is ready."""

    name: str
    thing: str
    answer: Answer | None = None
    stands: bool = False
    made_at: int = 0
    """How many writes there were then."""
    source: Episode | None = None

    @property
    def question(self) -> str:
        return f"In which town does {self.name} keep the {self.thing}?"


class Process:
    """The services of one process, on a store of its own."""

    def __init__(self, store: Store, embedder: BundledEmbedder) -> None:
        self.store = store
        clock, ids = SystemClock(), RandomIds(system_milliseconds)
        retrieval = Retrieval(clock, _NoVectors(), max_bytes=10**11)
        events = EventLog(clock, LocalSignals())
        self.episodes, self.blocks = EpisodeService(clock, ids, events), BlockService(clock, events)
        self.banks, self.contexts = BankService(clock, ids, events, {}), ContextBuilder(retrieval)
        self.clock = clock
        self.lookup = AnswerLookup(clock, retrieval, embedder, AnswersSettings.model_validate({}))


class _NoVectors:
    """Contexts are found by words alone, which is as good here and needs no time."""

    def vectors_nowait(self, question: str) -> Mapping[str, Array] | None:
        return None

    async def vectors(self, question: str) -> Mapping[str, Array]:
        return {}


@dataclass(kw_only=True)
class InterleavedOperations:
    """The operations."""

    writer: Process
    reader: Process
    embedder: BundledEmbedder
    bank: Bank
    subjects: list[_Subject]
    draw: random.Random
    told: Outcomes = field(default_factory=Outcomes)

    @classmethod
    async def made(cls, one: Store, other: Store, embedder: BundledEmbedder, answers: int) -> Self:
        """Make a bank in the one store, which the other sees, with a fact about each subject and its answer."""
        draw = random.Random(SEED)
        names = list(dict.fromkeys("".join(draw.choices(_SYLLABLES, k=3)).capitalize() for _ in range(2 * answers)))
        subjects = [_Subject(name=name, thing=draw.choice(_THINGS)) for name in names[:answers]]
        writer, reader = Process(one, embedder), Process(other, embedder)
        async with one.begin_write() as tx:
            policy = BankPolicy(duplicate_seconds=0)
            bank = await writer.banks.create(tx, NewBank(name="bench", policy=policy), by="benchmark")
        made = cls(writer=writer, reader=reader, embedder=embedder, bank=bank, subjects=subjects, draw=draw)
        for subject in subjects:
            await made._move(subject)
            await made._answer(subject)
        made.told = Outcomes()
        for subject in subjects:
            subject.made_at = 0
        return made

    async def run(self, operations: int, *, related: float = 1.0, judged: float = 10.0) -> Outcomes:
        """Do so many, and return what came of them.

        `related` times as many writes as usual concern an answer; `judged` percent are looks of the judge.
        """
        began = time.monotonic()
        ways: dict[Callable[[_Subject], Awaitable[None]], float] = {
            self._look: 60, self._chat: 30, self._answer_again: 8, self._judge: judged, self._move: related,
            self._write_block: related / 5, self._demote: related / 5, self._pin: related / 50,
            self._forget: related / 50,
        }  # fmt: skip
        for way in self.draw.choices(list(ways), list(ways.values()), k=operations):
            await way(self.draw.choice(self.subjects))
        self.told.operations, self.told.seconds = operations, time.monotonic() - began
        self.told.lived /= max(self.told.expected, 1)
        return self.told

    async def _look(self, subject: _Subject) -> None:
        async with self.reader.store.begin_read() as tx:
            found = await self.reader.lookup.find(tx, await self._present(tx), SCOPE, subject.question)
        ours = found.answer is not None and subject.answer is not None and found.answer.id == subject.answer.id
        served = found.outcome is LookupOutcome.HIT
        self.told.lookups += 1
        if subject.stands:
            self.told.expected += 1
            self.told.found += served and ours
            self.told.lived += self.told.writes - subject.made_at
        else:
            self.told.void += 1
        self.told.stale += served and not (ours and subject.stands)

    async def _chat(self, _: _Subject) -> None:
        await self._remember(f"{small_talk(self.draw)} {self.draw.randrange(10**6)}", "Eve")

    async def _move(self, subject: _Subject) -> None:
        text = f"{subject.name} keeps the {subject.thing} in {self.draw.choice(_PLACES)} now."
        subject.source = await self._remember(text, "Eve")
        self._void(lambda each: each is subject)

    async def _write_block(self, subject: _Subject) -> None:
        value = f"{subject.name} likes {self.draw.choice(_PLACES)}."
        await self._block(f"about {subject.name}", value, pinned=False)
        self._void(lambda each: each is subject)

    async def _pin(self, _: _Subject) -> None:
        await self._block("tone", f"Be brief, at most {self.draw.randrange(10**6)} words.", pinned=True)
        self._void(lambda _: True)

    async def _demote(self, subject: _Subject) -> None:
        source = subject.source
        if source is None or source.stale:
            return
        async with self.writer.store.begin_write() as tx:
            await self.writer.episodes.demote(
                tx, self.bank, source.id, by="benchmark", reason="old", evidence="none"
            )  # fmt: skip
            subject.source = await self.writer.episodes.get(tx, self.bank, source.id)
        self._void(lambda each: each.answer is not None and source.number in each.answer.basis.episodes)

    async def _forget(self, _: _Subject) -> None:
        episode = await self._remember(f"A secret {self.draw.randrange(10**6)}", "Eve")
        async with self.writer.store.begin_write() as tx:
            await forget(tx, self.bank, [episode.id])
        self._void(lambda _: True)

    async def _answer_again(self, _: _Subject) -> None:
        """Answer a question anew whose answer stands no more, as a pass does."""
        void = [each for each in self.subjects if not each.stands]
        if void:
            await self._answer(self.draw.choice(void))

    async def _judge(self, _: _Subject) -> None:
        """Have a judge who is right read the new turns: he marks what still stands, and drops the rest."""
        by_answer = {each.answer.id: each for each in self.subjects if each.answer is not None}
        async with self.writer.store.begin_read() as tx:
            live = await tx.answers.find_live(self.bank.id, limit=len(self.subjects))
            newest = (await tx.episodes.find_all(self.bank.id, newest_first=True, limit=1))[0].number
        right = [each.id for each in live if by_answer[each.id].stands]
        wrong = [each.id for each in live if not by_answer[each.id].stands]
        async with self.writer.store.begin_write() as tx:
            await tx.answers.mark_still_right(self.bank.id, right, newest)
            await tx.answers.drop(self.bank.id, wrong, DropReason.VOID, self.writer.clock.now())

    async def _answer(self, subject: _Subject) -> None:
        question = Question(terms=question_terms(subject.question))
        async with self.writer.store.begin_read() as tx:
            bank = await self._present(tx)
            context = await self.writer.contexts.build(tx, bank, question, stable_tokens=500, fitting_tokens=FITTING)
            basis = await self.writer.lookup.fetch_basis(tx, bank, context)
        now = self.writer.clock.now()
        answer = Answer(
            id=AnswerId(f"ans_{self.draw.getrandbits(64):016x}"), bank_id=self.bank.id, scope=SCOPE, confidence=1.0,
            phrasings=(subject.question,), text=f"{subject.name}: {self.draw.random()}", basis=basis, made_at=now,
            read_upto=basis.heads.episodes, expires_at=now + TTL,
        )  # fmt: skip
        async with self.writer.store.begin_write() as tx:
            if subject.answer is not None:
                await tx.answers.drop(self.bank.id, [subject.answer.id], DropReason.REPLACED, now)
            await tx.answers.put([answer])
        subject.answer, subject.stands, subject.made_at = answer, True, self.told.writes

    async def _remember(self, text: str, speaker: str) -> Episode:
        self.told.writes += 1
        new = NewEpisode(text=text, speaker=speaker, trust=Trust.PERSON, conversation=None)
        async with self.writer.store.begin_write() as tx:
            made = (await self.writer.episodes.remember(tx, self.bank, new)).episode
            episode = await self.writer.episodes.get(tx, self.bank, made.id)
            if episode.number % UNREAD:
                (vector,) = await self.embedder.embed([searched_text(episode.at, speaker, text)])
                await tx.episodes.save_vectors({episode.number: stored_vector(vector)}, self.embedder.name)
        return episode

    async def _block(self, label: str, value: str, *, pinned: bool) -> None:
        self.told.writes += 1
        async with self.writer.store.begin_write() as tx:
            edit = BlockUpdate(value=value, pinned=pinned)
            await self.writer.blocks.write(tx, self.bank, label, edit, writer=BlockAuthor.PERSON, by="benchmark")

    def _void(self, concerns: Callable[[_Subject], bool]) -> None:
        """Note which answers a write concerns."""
        void = [each for each in self.subjects if each.stands and concerns(each)]
        for each in void:
            each.stands = False
        self.told.related += bool(void)

    async def _present(self, tx: Tx) -> Bank:
        found = await tx.banks.get(self.bank.id)
        assert found is not None
        return found
