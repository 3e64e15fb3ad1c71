"""What a model is given to answer a question with: nothing, all, the hits of BM25, a context, or a memory to ask."""

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, Field

from circadia.evaluation.arms import ANSWER_TOKENS, QUESTION, ReasonedAnswer, load_rules
from circadia.evaluation.asker import Asker, EvaluationUsage
from circadia.evaluation.locomo import DialogueTurn
from circadia.evaluation.memory.talks import AskedQuestion, AskedTalk
from circadia.evaluation.pass_harness import PassHarness
from circadia.llm.chat_model import Prompt
from circadia.memory.context import estimate_tokens
from circadia.records.agent import AgentPolicy
from circadia.records.bank import Bank
from circadia.records.episode import Episode
from circadia.sleeptime.proposals.prompts import add_fence

LOOK_UPS: Final = 4
"""Questions that a model may ask the memory before it must answer."""
HITS: Final = 8
"""Lines of a look-up: the default of the tool `recall`."""
MEMORY: Final = "## Remembered"
_WORD: Final = re.compile(r"[^\W_]+")


class MemoryArm(StrEnum):
    NOTHING = "nothing"
    ALL = "all"
    """The whole talk."""
    BM25 = "bm25"
    """The turns that full text with stems ranks best, in as many tokens as the context of the question has."""
    CONTEXT = "context"
    """What the gateway adds to a call."""
    RECALL = "recall"
    """The same, and the tool `recall`."""


class RecallStep(BaseModel):
    """A step of a model with a memory to ask."""

    reasoning: str = Field(description="What is known, and what is lacking.")
    look_up: str | None = Field(default=None, description="A question for the memory; null if there is an answer.")
    answer: str = Field(default="", description="The answer alone.")


class TalkAnswerer:
    """Answers the questions about one talk, whose bank is filled."""

    def __init__(self, running: PassHarness, bank: Bank, talk: AskedTalk, policy: AgentPolicy) -> None:
        self._running = running
        self._bank = bank
        self._talk = talk
        self._policy = policy

    async def show(self, arm: MemoryArm, question: AskedQuestion) -> str:
        """Return what an arm gives a model."""
        if arm is MemoryArm.NOTHING:
            return ""
        if arm is MemoryArm.ALL:
            return "\n".join(map(_render_turn, self._talk.turns))
        context = await self._build_context(question.text)
        if arm is MemoryArm.BM25:
            turns = _rank_turns(self._talk.turns, question.text, estimate_tokens(context))
            return "\n".join(map(_render_turn, turns))
        return context

    async def answer(self, asker: Asker, arm: MemoryArm, question: AskedQuestion) -> tuple[str, EvaluationUsage]:
        """Return a model's answer, empty if it is unusable, and the usage. Raises UpstreamFailed."""
        shown = await self.show(arm, question)
        if arm is MemoryArm.RECALL:
            return await self._answer_with_tool(asker, shown, question)
        given, spent = await asker.ask(
            _build_prompt("memory_answer", shown, question), ReasonedAnswer, most_tokens=ANSWER_TOKENS
        )
        return "" if given is None else given.answer, spent

    async def _answer_with_tool(self, asker: Asker, shown: str, question: AskedQuestion) -> tuple[str, EvaluationUsage]:
        spent, step = EvaluationUsage(), None
        for _ in range(LOOK_UPS + 1):
            prompt = _build_prompt("memory_recall", shown, question)
            step, used = await asker.ask(prompt, RecallStep, most_tokens=ANSWER_TOKENS)
            spent += used
            if step is None or step.look_up is None or not step.look_up.strip():
                break
            shown += f"\n\n## Looked up: {' '.join(step.look_up.split())}\n{await self._look_up(step.look_up)}"
        return "" if step is None else step.answer, spent

    async def _build_context(self, text: str) -> str:
        memory = self._running.memory
        question = await memory.retrieval.prepare_question(text)
        async with self._running.store.begin_read() as tx:
            bank = await tx.banks.get(self._bank.id) or self._bank
            context = await memory.contexts.build(
                tx, bank, question, stable_tokens=self._policy.stable_tokens,
                fitting_tokens=self._policy.fitting_tokens,
            )  # fmt: skip
        return "\n\n".join(part for part in (context.stable, context.fitting) if part)

    async def _look_up(self, text: str) -> str:
        memory = self._running.memory
        question = replace(await memory.retrieval.prepare_question(text), limit=HITS)
        async with self._running.store.begin_read() as tx:
            bank = await tx.banks.get(self._bank.id) or self._bank
            hits = await memory.retrieval.find(tx, bank, question)
        items = [(hit, hit.item.speaker if isinstance(hit.item, Episode) else "note") for hit in hits]
        lines = [f"- {hit.item.at.date()} {who}: {' '.join(hit.text.split())}" for hit, who in items]
        return "\n".join(lines) or "Nothing is remembered of that."


def _build_prompt(rules: str, shown: str, question: AskedQuestion) -> Prompt:
    parts = [MEMORY, shown or "Nothing.", "", f"{QUESTION}, asked on {question.at.date()}", question.text]
    return Prompt(rules=load_rules(rules), data=add_fence("\n".join(parts)))


def _render_turn(turn: DialogueTurn) -> str:
    return f"- {turn.at.date()} {turn.speaker}: {' '.join(turn.text.split())}"


def _rank_turns(turns: Sequence[DialogueTurn], question: str, room: int) -> list[DialogueTurn]:
    """Return the best turns that fit into `room` tokens, in order of time, by SQLite's BM25."""
    words = " OR ".join(f'"{word}"' for word in _WORD.findall(question))
    if not words:
        return []
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE VIRTUAL TABLE turns USING fts5(text, tokenize = 'porter unicode61')")
        rows = [(place, turn.indexed_text) for place, turn in enumerate(turns)]
        database.executemany("INSERT INTO turns (rowid, text) VALUES (?, ?)", rows)
        found = database.execute("SELECT rowid FROM turns WHERE turns MATCH ? ORDER BY bm25(turns)", (words,))
        places: list[int] = []
        for row in found:
            place = int(row[0])
            cost = estimate_tokens(_render_turn(turns[place])) + 1
            if cost <= room:
                room -= cost
                places.append(place)
    return [turns[place] for place in sorted(places)]
