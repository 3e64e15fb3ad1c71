"""Passes over a stand's bank with the operations that ask, and what came of them."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from circadia.ids import PassId
from circadia.llm.chat_model import ChatModel, ModelAnswerError, Prompt
from circadia.memory.episodes import NewEpisode
from circadia.records.bank import Trust
from circadia.records.change import Change, ChangeKind, ChangeState
from circadia.records.episode import Episode
from circadia.records.note import Note
from circadia.records.sleep_pass import Pass, PassStatus, Trigger
from circadia.sleeptime.budget.model_calls import PassModelClient
from circadia.sleeptime.engine.pass_outcome import PassOutcome
from circadia.sleeptime.engine.pass_runner import PassRunner
from circadia.sleeptime.grounding.change_rules import Rule
from circadia.sleeptime.grounding.source_check import check_grounding
from circadia.sleeptime.grounding.wording import check_wording
from circadia.sleeptime.operations.compress import Compress, SummaryDraft
from circadia.sleeptime.operations.consolidate import Consolidate, ConsolidationAnswer, NoteDraft
from circadia.sleeptime.operations.contradictions import ComparisonAnswer, Contradictions
from circadia.sleeptime.operations.reflect import Reflect, ReflectionAnswer
from circadia.sleeptime.operations.rethink import Rethink, RethinkAnswer
from circadia.sleeptime.proposals.operation import Operation
from circadia.sleeptime.publish.claim_verifier import ClaimVerdict, ClaimVerdicts, ClaimVerifier
from circadia.testing.rule_based_model import RuleBasedModel, parse_rows
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.stand import Stand


def asking_operations() -> Sequence[Operation]:
    """Return all operations that ask, in their order."""
    return (Consolidate(), Contradictions(), Reflect(), Compress(), Rethink())


class Night:
    """Runs one pass after the other."""

    def __init__(
        self, stand: Stand, mind: ChatModel | None = None, operations: Sequence[Operation] | None = None,
        rules: Sequence[Rule] = (check_wording, check_grounding),
    ) -> None:  # fmt: skip
        self.stand = stand
        self.mind = mind or RuleBasedModel()
        self.operations = asking_operations() if operations is None else operations
        self.rules = rules
        self.passes = 0

    async def said(
        self, *texts: str, speaker: str = "ann", at: datetime | None = None, trust: Trust = Trust.PERSON, **more: Any
    ) -> list[Episode]:
        """Remember what somebody says, a minute apart, at a time or now."""
        found: list[Episode] = []
        for text in texts:
            self.stand.clock.advance(60)
            new = NewEpisode(text=text, speaker=speaker, trust=trust, at=at, **more)
            async with self.stand.store.begin_write() as tx:
                kept = (await self.stand.memory.episodes.remember(tx, self.stand.bank, new)).episode
            async with self.stand.store.begin_read() as tx:
                row = await tx.episodes.get(self.stand.bank.id, kept.id)
            assert row is not None
            found.append(row)
        return found

    async def run(self, **more: Any) -> PassOutcome:
        """Run a pass over all that waits."""
        self.passes += 1
        stand = self.stand
        run = await self.new_pass(status=PassStatus.RUNNING, epoch=1, owner="exe", **more)
        async with stand.store.begin_write() as tx:
            await tx.passes.add(run)
        asking = PassModelClient(stand.clock, stand.ids, stand.store, self.mind, run, [])
        running = PassRunner(
            stand.clock, stand.context(rules=self.rules), self.operations, asking, lambda: asyncio.sleep(0),
            verify=ClaimVerifier(),
        )  # fmt: skip
        outcome = await running.run_pass(run, stand.bank)
        async with stand.store.begin_write() as tx:
            ended = replace(outcome.run, status=outcome.status, ended_at=stand.clock.now(), detail=outcome.detail)
            assert await tx.passes.save(ended, origin=outcome.run)
        return outcome

    async def new_pass(self, **more: Any) -> Pass:
        """Return a pass over all that waits."""
        async with self.stand.store.begin_read() as tx:
            state = await tx.sleep_states.get(self.stand.bank.id)
            backlog = await tx.sleep_states.fetch_backlog(self.stand.bank.id, state.cursor)
        return Pass(
            id=PassId(f"p{self.passes}"), bank_id=self.stand.bank.id, trigger=Trigger.IDLE,
            created_at=self.stand.clock.now(), after=state.cursor, upto=max(state.cursor, backlog.last), **more,
        )  # fmt: skip

    async def changes(self, kind: ChangeKind | None = None, state: ChangeState | None = None) -> Sequence[Change]:
        """Return what all passes proposed."""
        async with self.stand.store.begin_read() as tx:
            found = [one for at in range(self.passes) for one in await tx.passes.find_changes(PassId(f"p{at + 1}"))]
        return [each for each in found if kind in (None, each.kind) and state in (None, each.state)]

    async def refused(self) -> Sequence[str]:
        """Return why changes were refused."""
        return [each.why for each in await self.changes(state=ChangeState.REFUSED)]

    async def texts(self, *, retired: bool = False) -> Sequence[str]:
        """Return the texts of the notes."""
        return [each.text for each in await self.notes(retired=retired)]

    async def notes(self, *, retired: bool = False) -> Sequence[Note]:
        """Return the notes that stand, or all of them."""
        return await self.stand.notes(retired=retired)

    async def episode(self, episode: Episode) -> Episode:
        """Return an episode as it is now."""
        async with self.stand.store.begin_read() as tx:
            found = await tx.episodes.get(self.stand.bank.id, episode.id)
        assert found is not None
        return found

    def asked(self) -> Counter[str]:
        """Return how often the model was asked, by schema."""
        assert isinstance(self.mind, RuleBasedModel)
        return Counter(name for name, _ in self.mind.asked)


EMPTY: Mapping[type[BaseModel], BaseModel] = {
    ConsolidationAnswer: ConsolidationAnswer(notes=[]),
    ComparisonAnswer: ComparisonAnswer(found=[]),
    ReflectionAnswer: ReflectionAnswer(beliefs=[]),
    SummaryDraft: SummaryDraft(text="", ids=[]),
    RethinkAnswer: RethinkAnswer(edits=[]),
}
"""What a model says that finds nothing."""


def answering(*answers: BaseModel | Callable[[Prompt], BaseModel | ModelAnswerError]) -> ScriptedChatModel:
    """Return a model that gives these answers in their order, each to the next question of its schema, else nothing.

    A function is asked for each question whose schema it returns.
    """
    left = [each for each in answers if isinstance(each, BaseModel)]
    functions = [each for each in answers if not isinstance(each, BaseModel)]

    def script(prompt: Prompt, output: type[BaseModel]) -> BaseModel | ModelAnswerError:
        for each in left:
            if type(each) is output:
                left.remove(each)
                return each
        for function in functions:
            said = function(prompt)
            if isinstance(said, (output, ModelAnswerError)):
                return said
        return trusting(prompt) if output is ClaimVerdicts else EMPTY[output]

    return ScriptedChatModel(script)


def trusting(prompt: Prompt, *, instructs: bool = False) -> ClaimVerdicts:
    """Return that all claims are said, or that all give orders."""
    ids = re.findall(r"(?m)^(c\d+) ", prompt.data)
    return ClaimVerdicts(verdicts=[ClaimVerdict(id=key, verdict="instructs" if instructs else "said") for key in ids])


def data_of(mind: ScriptedChatModel, words: str) -> Sequence[str]:
    """Return the data of the questions whose rules have these words."""
    return [each.data for each in mind.asked if words in each.rules]


def writing(*texts: str, each: int = 0, **more: list[str]) -> Callable[[Prompt], ConsolidationAnswer]:
    """Return what writes these texts as notes of what was said now: of `each` so many lines, or all of all."""

    def consolidate(prompt: Prompt) -> ConsolidationAnswer:
        new = [row.key for row in parse_rows(prompt.data) if row.part == "Said now"]
        parts = [new[at * each : (at + 1) * each] if each else new for at in range(len(texts))]
        notes = [NoteDraft(text=text, ids=ids, **more) for text, ids in zip(texts, parts, strict=True)]
        return ConsolidationAnswer(notes=notes)

    return consolidate
