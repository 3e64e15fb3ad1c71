"""A bank with agents whose questions are answered ahead by a mock provider, and a tier's model that a test scripts."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel

from circadia.answers.freshness import fetch_bank_state
from circadia.answers.lookup import AnswerLookup
from circadia.answers.question_drafts import AnswerServices
from circadia.answers.services import LookupResult
from circadia.clock import Clock
from circadia.gateway.answers.drafting import GatewayAnswerDrafter
from circadia.gateway.calls.upstream import Provider, Upstream, provider_headers
from circadia.gateway.dialects.frames import VolatileSpans
from circadia.gateway.dialects.registry import build_dialects
from circadia.gateway.wire.base import Origin
from circadia.gateway.wire.pool import ConnectionPool
from circadia.ids import AgentId, AnswerId, PassId, SessionId
from circadia.llm.chat_model import ChatModel, ModelAnswerError, Prompt
from circadia.llm.prices import PriceList
from circadia.memory.banks import NewBank
from circadia.memory.blocks import BlockAuthor, BlockUpdate
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.episodes import NewEpisode
from circadia.records.agent import Agent, AgentPolicy
from circadia.records.answer import Answer, AnswerBasis, AnswerDay, AnswerFrame, AnswerScope, AnswerUse, MatchKind
from circadia.records.bank import Bank, Trust
from circadia.records.session import Session, SessionStatus
from circadia.records.sleep_pass import Pass, PassStatus, Trigger
from circadia.server.memory_wiring import build_memory_services
from circadia.settings import Settings, UpstreamSettings
from circadia.settings.answers import AnswersSettings
from circadia.settings.sleeptime import SleeptimeSettings
from circadia.sleeptime.answers.prediction import PredictedQuestion, Predictions, QuestionVerdicts
from circadia.sleeptime.answers.sampling import SameAnswerVerdict
from circadia.sleeptime.answers.still_right import AnswerVerdict, AnswerVerdicts
from circadia.sleeptime.budget.model_calls import Limit, PassModelClient, PassPreempted, PendingQuestions
from circadia.sleeptime.engine.answer_reviewer import AnswerReviewer
from circadia.sleeptime.engine.pass_outcome import PassOutcome
from circadia.sleeptime.engine.pass_runner import PassRunner, SleepContext
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.operations.precompute import Precompute
from circadia.sleeptime.publish.effects import Effects
from circadia.sleeptime.publish.publisher import Publisher
from circadia.sleeptime.triggers.pass_lifecycle import PassLifecycle
from circadia.stores.base import Store, Tx
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.testing.clock import START, ManualClock
from circadia.testing.rule_based_model import build_question_verdicts
from circadia.testing.scripted_model import ScriptedChatModel
from circadia.testing.upstream import MockUpstream
from tests.wake.fleet import CountedIds

HOME = "Where does Ann live?"
CAT = "What is the name of Ann's cat?"
JOB = "Which company does Ann work for?"


def expecting(*questions: str | Sequence[str], confidence: float = 0.8) -> Predictions:
    """Return predictions, the likeliest first; each a question, or its phrasings."""
    phrasings = [[each] if isinstance(each, str) else list(each) for each in questions]
    return Predictions(
        questions=[
            PredictedQuestion(phrasings=each, confidence=max(0.0, confidence - at / 100))
            for at, each in enumerate(phrasings)
        ]
    )


def predictions(mind: ScriptedChatModel) -> Sequence[Prompt]:
    """Return the prompts in which a tier's model was asked what is expected."""
    return [each for each in mind.asked if each.rules.startswith("You foresee")]


def tier_mind(
    *answers: BaseModel | ModelAnswerError, alike: bool | ModelAnswerError = True,
    verdicts: Callable[[str], QuestionVerdicts | ModelAnswerError] = build_question_verdicts,
) -> ScriptedChatModel:  # fmt: skip
    """Return a tier's model that expects these one after the other, then nothing.

    It finds answers alike or not, still right after newer turns, and says of questions what `verdicts` says of the
    prompt's data.
    """
    left = list(answers)

    def script(prompt: Prompt, output: type[BaseModel]) -> BaseModel | ModelAnswerError:
        if output is QuestionVerdicts:
            return verdicts(prompt.data)
        if output is AnswerVerdicts:
            keys = re.findall(r"(?m)^## Answer (a\d+)$", prompt.data)
            return AnswerVerdicts(verdicts=[AnswerVerdict(id=key, right=True) for key in keys])
        if output is SameAnswerVerdict:
            return (
                alike
                if isinstance(alike, ModelAnswerError)
                else SameAnswerVerdict(same=alike, answered="help with that" not in prompt.data)
            )
        return left.pop(0) if left else expecting()

    return ScriptedChatModel(script)


class Hall:
    """A bank `ann` with blocks and turns; an agent `guide` that is bound to it; its provider."""

    def __init__(
        self, store: Store, up: MockUpstream, provider: Provider, embedder: BundledEmbedder, start: datetime
    ) -> None:
        self.store = store
        self.up = up
        self.clock = ManualClock(start)
        self.ids = CountedIds()
        self.signals = LocalSignals()
        self.memory = build_memory_services(
            Settings.model_validate({}), self.clock, self.ids, EventLog(self.clock, self.signals), embedder
        )
        self.tier: Mapping[str, Any] = {}
        self.words = embedder
        self.settings = AnswersSettings.model_validate({})
        self.provider = provider
        self.limits: list[Limit] = []
        self.flying: PendingQuestions = {}
        self.passes = 0
        self.bank = Bank(id="", name="", created_at=self.clock.now())  # pyright: ignore[reportArgumentType]
        self.lookup = self._answer_lookup()

    def set(self, **settings: Any) -> None:
        """Change settings."""
        self.settings = self.settings.model_copy(update=settings)
        self.lookup = self._answer_lookup()

    def _answer_lookup(self) -> AnswerLookup:
        return AnswerLookup(self.clock, self.memory.retrieval, self.words, self.settings)

    async def begin(self) -> None:
        """Make the bank and its agent."""
        async with self.store.begin_write() as tx:
            self.bank = await self.memory.banks.create(tx, NewBank(name="ann"), by="test")
            now = self.clock.now()
            await tx.sessions.add(
                Session(
                    id=SessionId("ses_1"), name="default", status=SessionStatus.OPEN, created_at=now, touched_at=now
                )
            )
        await self.agent("guide")
        await self.write_block("Ann lives in Porto.\nAnn's cat is called Tom.\nAnn works for a company, Acme.")

    async def agent(self, name: str, **policy: Any) -> Agent:
        """Make an agent, or change its policy."""
        async with self.store.begin_write() as tx:
            found = await tx.agents.get(AgentId(f"agt_{name}"))
            wanted = AgentPolicy.model_validate({"bank": "ann", "upstreams": ("mock",), **policy})
            if found is None:
                now = self.clock.now()
                found = Agent(
                    id=AgentId(f"agt_{name}"), session_id=SessionId("ses_1"), session="default", name=name,
                    token_hash=name, policy=wanted, created_at=now, since=now,
                )  # fmt: skip
                await tx.agents.add(found)
            else:
                found = replace(found, policy=wanted)
                await tx.agents.save(found)
        return found

    async def gone(self, name: str) -> None:
        """Delete an agent."""
        async with self.store.begin_write() as tx:
            found = await tx.agents.get(AgentId(f"agt_{name}"))
            assert found is not None
            await tx.agents.save(replace(found, deleted_at=self.clock.now()))

    async def said(self, *texts: str, speaker: str = "user", trust: Trust = Trust.PERSON, **more: Any) -> None:
        """Remember turns, a minute apart."""
        for text in texts:
            self.clock.advance(60)
            new = self.turn(text, speaker=speaker, trust=trust, **more)
            async with self.store.begin_write() as tx:
                await self.memory.episodes.remember(tx, self.bank, new)

    def turn(self, text: str, *, speaker: str = "user", trust: Trust = Trust.PERSON, **more: Any) -> NewEpisode:
        """Return what somebody says now."""
        return NewEpisode(text=text, speaker=speaker, trust=trust, **more)

    async def write_block(self, value: str) -> None:
        """Write the block that stands in each prompt."""
        async with self.store.begin_write() as tx:
            edit = BlockUpdate(value=value)
            await self.memory.blocks.write(tx, self.bank, "ann", edit, writer=BlockAuthor.PERSON, by="op")

    async def seen(self, agent: str = "guide", user: str = "", model: str = "mock-1", **body: Any) -> AnswerFrame:
        """Have a call of the agent seen, as the gateway does."""
        call = {"model": model, "messages": [{"role": "system", "content": "Be short."}], **body}
        asked = {**call, "messages": [*call["messages"], {"role": "user", "content": "Hi!"}]}
        codec = self.provider.dialects["chat_completions"].answer_codec
        assert codec is not None
        framed = codec.frame_call({**asked}, VolatileSpans())
        assert framed is not None
        scope = AnswerScope(agent_id=AgentId(f"agt_{agent}"), end_user=user, frame=framed.digest)
        frame = AnswerFrame(
            bank_id=self.bank.id, scope=scope, upstream="mock", target="/v1/chat/completions",
            dialect="chat_completions", model=model, body=framed.body, at=self.clock.now(),
        )  # fmt: skip
        async with self.store.begin_write() as tx:
            await tx.answer_frames.save_frames([frame])
        return frame

    async def run(self, mind: ChatModel | None, *, stop: asyncio.Event | None = None, **more: Any) -> PassOutcome:
        """Run a pass that only makes answers ready."""
        return await self.work(await self.begun(**more), mind, stop)

    async def begun(self, **more: Any) -> Pass:
        """Return a pass that has begun."""
        self.passes += 1
        async with self.store.begin_write() as tx:
            state = await tx.sleep_states.get(self.bank.id)
            last = (await tx.sleep_states.fetch_backlog(self.bank.id, state.cursor)).last
            more.setdefault("trigger", Trigger.IDLE)
            run = Pass(
                id=PassId(f"p{self.passes}"), bank_id=self.bank.id, epoch=1, owner="exe",
                status=PassStatus.RUNNING, created_at=self.clock.now(), after=state.cursor,
                upto=max(state.cursor, last), **more,
            )  # fmt: skip
            await tx.passes.add(run)
        return run

    async def work(self, run: Pass, mind: ChatModel | None, stop: asyncio.Event | None = None) -> PassOutcome:
        """Work a pass through, with what a new process would have; so a killed one is worked through again."""
        stop = stop or asyncio.Event()
        async with self.store.begin_read() as tx:
            run = await tx.passes.get(run.id) or run

        async def go_on() -> None:
            if stop.is_set():
                raise PassPreempted

        asking = None
        if mind is not None:
            asking = PassModelClient(
                self.clock,
                self.ids,
                self.store,
                mind,
                run,
                self.limits,
                stop=stop,
                open_questions=self.flying,
                alone=True,
            )
        operations = [Precompute()] if mind is not None else []
        running = PassRunner(self.clock, self.context(answer_services=self.readying()), operations, asking, go_on)
        outcome = await running.run_pass(run, self.bank)
        async with self.store.begin_write() as tx:
            ended = replace(outcome.run, status=outcome.status, ended_at=self.clock.now(), detail=outcome.detail)
            assert await tx.passes.save(ended, origin=outcome.run)
        return outcome

    def context(self, **more: Any) -> SleepContext:
        """Return what passes over the bank run with."""
        settings = SleeptimeSettings.model_validate(self.tier)
        rows = PassLifecycle(self.clock, self.ids, EventLog(self.clock, self.signals))
        publisher = Publisher(self.clock, Effects(self.clock, self.memory))
        tier = SleeptimeService(self.clock, self.memory.events, settings, rows, publisher)
        return SleepContext(
            store=self.store, signals=self.signals, ids=self.ids, sleeptime=tier, operations=lambda _, __, ___: [],
            retrieval=self.memory.retrieval, **more,
        )  # fmt: skip

    def readying(self) -> AnswerServices:
        """Return what a new process would make answers ready with."""
        return AnswerServices(
            drafter=GatewayAnswerDrafter(self.clock, self.store, self.memory, self.lookup, {"mock": self.provider}),
            validator=self._answer_lookup(), settings=self.settings, clock=self.clock, ids=self.ids,
        )  # fmt: skip

    def reviewer(self, mind: ChatModel) -> AnswerReviewer:
        """Return what a new process would have newer turns read with."""
        context = self.context(answer_services=self.readying(), model=mind, words=self.words)
        return AnswerReviewer(self.clock, context, alone=True, leads=lambda: True)

    async def put(self, frame: AnswerFrame, question: str, text: str) -> Answer:
        """Make an answer ready that has nothing in its prompt."""
        now = self.clock.now()
        async with self.store.begin_write() as tx:
            state = await fetch_bank_state(tx, await self.present(tx))
            blocks = {each.label: each.version for each in await tx.blocks.find_all(self.bank.id)}
            new = Answer(
                id=AnswerId(self.ids.new("ans")), bank_id=self.bank.id, scope=frame.scope, phrasings=(question,),
                confidence=0.9, text=text,
                basis=AnswerBasis(blocks=blocks, heads=state.heads, generation=state.generation),
                read_upto=state.heads.episodes, made_at=now, expires_at=now + timedelta(days=1),
            )  # fmt: skip
            assert await tx.answers.put([new])
        return new

    async def present(self, tx: Tx) -> Bank:
        found = await tx.banks.get(self.bank.id)
        assert found is not None
        return found

    async def ready(self) -> Sequence[Answer]:
        """Return what is ready, in the order in which it was made."""
        async with self.store.begin_read() as tx:
            return await tx.answers.find_live(self.bank.id)

    async def questions(self) -> list[str]:
        """Return the questions that are ready."""
        return [each.phrasings[0] for each in await self.ready()]

    async def found(self, frame: AnswerFrame, question: str) -> LookupResult:
        """Look a question up, as the gateway does."""
        async with self.store.begin_read() as tx:
            bank = await tx.banks.get(self.bank.id)
            assert bank is not None
            await self.lookup.explain(tx, bank, frame.scope, question)  # waits until all is loaded
            return await self.lookup.find(tx, bank, frame.scope, question)

    async def used(
        self, answer: Answer, question: str, *, phrasing: str = "", match_kind: MatchKind = MatchKind.EXACT
    ) -> AnswerUse:
        """Have an answer used, as the gateway does."""
        self.clock.advance(1)
        use = AnswerUse(
            id=self.ids.new("use"), bank_id=self.bank.id, answer_id=answer.id, scope=answer.scope, question=question,
            phrasing=phrasing or question, match_kind=match_kind, served=True, at=self.clock.now(),
        )  # fmt: skip
        async with self.store.begin_write() as tx:
            new = await tx.answer_uses.record_uses([use])
            await tx.answer_uses.add_counts(
                [AnswerDay(bank_id=self.bank.id, day=use.at.date(), served=1, used=len(new))]
            )
        return use

    async def day(self) -> AnswerDay:
        """Return the sums of the last week's counts."""
        async with self.store.begin_read() as tx:
            days = await tx.answer_uses.find_days(self.bank.id, since=(self.clock.now() - timedelta(days=7)).date())
        names = ("made", "used", "wasted", "wasted_tokens", "right", "wrong")
        sums = {name: sum(getattr(each, name) for each in days) for name in names}
        return AnswerDay(bank_id=self.bank.id, day=self.clock.now().date(), **sums)

    async def calls(self) -> int:
        """Return how many model calls passes have paid for."""
        async with self.store.begin_read() as tx:
            return (await tx.sleep_calls.sum_cost()).calls


@asynccontextmanager
async def provided(up: MockUpstream, clock: Clock) -> AsyncGenerator[Provider]:
    """Give a running mock provider as the gateway has it."""
    given = UpstreamSettings.model_validate({"base_url": up.base_url})
    pool = ConnectionPool(
        Origin.from_url(up.base_url), provider_headers("mock", given, "sk-mock"), None, max_connections=4,
        connect_timeout_seconds=5, answer_timeout_seconds=5,
    )  # fmt: skip
    try:
        yield Provider(
            upstream=Upstream("mock", given, "sk-mock", pool, clock, max_answer_bytes=10**6),
            dialects=build_dialects("openai"), prices=PriceList(base_url=up.base_url, api="openai"), rules=(),
        )  # fmt: skip
    finally:
        await pool.close()


@asynccontextmanager
async def hall(
    store: Store, embedder: BundledEmbedder, reply: str | Callable[[dict[str, Any]], str] | None = None,
    start: datetime = START,
) -> AsyncGenerator[Hall]:  # fmt: skip
    """Give a hall with a provider that says `reply`, or else the question with its context."""
    async with MockUpstream(key="sk-mock", reply=reply) as up, provided(up, ManualClock()) as provider:
        made = Hall(store, up, provider, embedder, start)
        await made.begin()
        yield made


def sent(up: MockUpstream) -> Sequence[Mapping[str, Any]]:
    """Return the bodies that the provider got."""
    return [each.json() for each in up.requests]
