"""A made-up week of two people and their coding assistant, with a model that is never wrong: what memory keeps of it.

Each night a pass runs over the day, as the server runs it. The model knows the week: it writes each note that the lines
in its prompt say, in the words of the suite, and judges a text true if the lines that it cites say it. So each true
note that is refused, each line of a block that is false by then, and each question that is not answered is the tier's
own fault.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel

from benchmarks.report import Goal, Report
from circadia.clock import system_milliseconds
from circadia.evaluation.recall.pass_harness import PassHarness, RecordingModel, open_pass_harness
from circadia.ids import RandomIds
from circadia.llm.chat_model import Prompt
from circadia.llm.usage import Usage
from circadia.memory.banks import BankService, NewBank
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.episodes import EpisodeService, NewEpisode
from circadia.records.bank import Bank, Trust
from circadia.records.change import Change, ChangeKind, ChangeState
from circadia.sleeptime.operations.compress import SummaryDraft
from circadia.sleeptime.operations.consolidate import ConsolidationAnswer, NoteDraft
from circadia.sleeptime.operations.contradictions import ComparisonAnswer, Contradiction
from circadia.sleeptime.operations.reflect import ReflectionAnswer
from circadia.sleeptime.operations.rethink import BlockEdit, RethinkAnswer
from circadia.sleeptime.publish.claim_verifier import ClaimVerdict, ClaimVerdicts
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite
from circadia.testing import ManualClock
from circadia.testing.rule_based_model import PromptRow, parse_rows

T = TypeVar("T", bound=BaseModel)

FOLDER: Final = Path(__file__).with_name("weeks")
LANGUAGES: Final = ("en", "de")
MONDAY: Final = datetime(2026, 11, 16, tzinfo=UTC)
DAYS: Final = 7
NIGHT: Final = timedelta(hours=2)
"""After midnight, when the pass of a day runs."""
ASSISTANT: Final = "assistant"
HITS: Final = 10
CONTEXT_TOKENS: Final = 1_000
"""Of the part of a context that fits a question: the default."""
EMPTY: Final[Mapping[type[BaseModel], BaseModel]] = {
    ReflectionAnswer: ReflectionAnswer(beliefs=[]),
    SummaryDraft: SummaryDraft(text="", ids=[]),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """What somebody says, or a tool or document shows."""

    day: int
    at: str
    by: str
    text: str
    trust: str = "person"
    long: int = 0
    """Characters of talk before the text, in the same turn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """What is true of the week."""

    id: str
    said: str
    """What stands in the turn that says it."""
    text: str
    """The note."""
    line: str = ""
    """What a block should say of it; nothing if it belongs into no block."""
    names: Sequence[str] = ()
    """What the note calls by a name that another turn has said."""
    replaces: str = ""
    """The fact that it ends."""
    until: int = DAYS
    """The last day on which the line is true."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    ask: str
    holds: Sequence[str]
    """All of them answer it."""
    wrong: Sequence[str] = ()
    """A line with one of these, and with none of `holds`, answers it falsely."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Week:
    reply: str
    filler: Sequence[str]
    turn: Sequence[Turn]
    fact: Sequence[Fact]
    direct: Sequence[Question]
    indirect: Sequence[Question]

    def text_of(self, turn: Turn) -> str:
        """Return the whole text of a turn, of which what it says may be the end."""
        before, at = "", 0
        while len(before) < turn.long:
            before += self.filler[at % len(self.filler)] + (" " if (at + 1) % 4 else "\n\n")
            at += 1
        return before + turn.text

    def line_is_true(self, line: str, day: int) -> bool:
        """Return whether a line of a block is true at the end of a day: no fact has ended it, nor the calendar."""
        fact = next((each for each in self.fact if each.line and each.line in line), None)
        if fact is None or day > fact.until:
            return False
        ended = [each for each in self.fact if each.replaces == fact.id]
        return not any(self.day_of(each) <= day for each in ended)

    def day_of(self, fact: Fact) -> int:
        return next(turn.day for turn in self.turn if fact.said in turn.text)


def read_week(language: str) -> Week:
    data: dict[str, Any] = tomllib.loads((FOLDER / f"{language}.toml").read_text("utf-8"))
    return Week(
        reply=data["reply"], filler=data["filler"],
        turn=[Turn(**each) for each in data["turn"]], fact=[Fact(**each) for each in data["fact"]],
        direct=[Question(**each) for each in data["direct"]], indirect=[Question(**each) for each in data["indirect"]],
    )  # fmt: skip


class PerfectModel:
    """Answers each operation by what is true, of what its prompt shows and asks for."""

    name = "perfect"
    upstream = "scripted"

    def __init__(self, week: Week) -> None:
        self._week = week
        self._by_id = {fact.id: fact for fact in week.fact}
        self.wrote: set[str] = set()
        """Ids of the facts that it has written as notes."""

    async def ask(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> tuple[T, Usage]:
        builders = {
            ConsolidationAnswer: self._consolidate, ComparisonAnswer: self._compare, RethinkAnswer: self._rethink,
            ClaimVerdicts: self._judge,
        }  # fmt: skip
        builder = builders.get(output)
        answer = EMPTY[output] if builder is None else builder(prompt)
        tokens = len(answer.model_dump_json().encode()) // 4
        return cast("T", answer), Usage(input_tokens=prompt.bytes // 4, output_tokens=tokens)

    def price(self, used: Usage) -> int | None:
        return 0

    def worst_price(self, input_tokens: int, output_tokens: int) -> int | None:
        return 0

    def _fact_of_note(self, text: str) -> Fact | None:
        return next((fact for fact in self._week.fact if text.startswith(fact.text.rstrip("."))), None)

    def _saying(self, fact: Fact, rows: Sequence[PromptRow]) -> list[PromptRow]:
        """Return the rows that say a fact: its turn, if what says it is shown, or its note."""
        return [row for row in rows if (fact.said in row.text if row.speaker else self._fact_of_note(row.text) is fact)]

    def _consolidate(self, prompt: Prompt) -> ConsolidationAnswer:
        rows = parse_rows(prompt.data)
        needs_two = "two or more" in prompt.rules
        notes: list[NoteDraft] = []
        for fact in self._week.fact:
            now = [row for row in self._saying(fact, rows) if row.part == "Said now"]
            if not now or not all(name in prompt.data for name in fact.names) or self._has_note(fact, rows):
                continue
            ids = [row.key for row in now]
            named = [row for row in rows if any(name in row.text for name in fact.names)]
            old = self._saying(self._by_id[fact.replaces], rows) if fact.replaces else []
            ids += [row.key for row in (*named[:1], *old) if row.key not in ids]
            if needs_two and len(ids) < 2:
                at = rows.index(now[0])
                ids += [row.key for row in (*rows[at + 1 : at + 2], *rows[max(0, at - 1) : at]) if row.speaker][:1]
            self.wrote.add(fact.id)
            notes.append(
                NoteDraft(
                    text=fact.text, ids=ids, replaces=[row.key for row in old if not row.speaker],
                    ended=[row.key for row in old],
                )
            )  # fmt: skip
        return ConsolidationAnswer(notes=notes[:40])

    def _has_note(self, fact: Fact, rows: Sequence[PromptRow]) -> bool:
        return any(not row.speaker and self._fact_of_note(row.text) is fact for row in rows)

    def _compare(self, prompt: Prompt) -> ComparisonAnswer:
        notes = [row for row in parse_rows(prompt.data) if row.key.startswith("n")]
        by_fact = {fact.id: row for row in notes if (fact := self._fact_of_note(row.text))}
        return ComparisonAnswer(
            found=[
                Contradiction(
                    now=fact.text, before=self._by_id[fact.replaces].text, holds=[by_fact[fact.id].key],
                    ended=[by_fact[fact.replaces].key], verdict="replaced",
                )
                for fact in self._week.fact
                if fact.id in by_fact and fact.replaces in by_fact
            ][:12]
        )  # fmt: skip

    def _rethink(self, prompt: Prompt) -> RethinkAnswer:
        day = self._today(prompt)
        block, label = _read_block(prompt.data)
        lines = dict.fromkeys(block)
        edits: list[BlockEdit] = []
        for row in parse_rows(prompt.data):
            fact = None if row.speaker else self._fact_of_note(row.text)
            if fact is None:
                continue
            old = self._by_id[fact.replaces].line if fact.replaces else ""
            gone = day is not None and day > fact.until
            if gone and fact.line in lines:
                edits.append(BlockEdit(label=label, old_text=fact.line, new_text="", ids=[row.key]))
            elif old in lines and old:
                edits.append(BlockEdit(label=label, old_text=old, new_text=fact.line, ids=[row.key]))
                del lines[old]
                lines[fact.line] = None
            elif fact.line and fact.line not in lines and not gone and not self._is_ended(fact, prompt.data):
                edits.append(BlockEdit(label=label, new_text=fact.line, ids=[row.key]))
                lines[fact.line] = None
        return RethinkAnswer(edits=edits[:10], finished=len(edits) <= 10)

    def _is_ended(self, fact: Fact, data: str) -> bool:
        return any(each.replaces == fact.id and (each.text in data or each.line in data) for each in self._week.fact)

    def _today(self, prompt: Prompt) -> int | None:
        """Return the number of the day, if the prompt says which day it is."""
        shown = f"{prompt.rules}\n{prompt.data}"
        days = [day for day in range(DAYS + 2) if f"Today is {(MONDAY + timedelta(days=day - 1)).date()}" in shown]
        return days[0] if days else None

    def _judge(self, prompt: Prompt) -> ClaimVerdicts:
        rows = {row.key: row for row in parse_rows(prompt.data)}
        verdicts: list[ClaimVerdict] = []
        for line in prompt.data.split("\n"):
            key, _, rest = line.partition(" ")
            if not (key.startswith("c") and key[1:].isdecimal()):
                continue
            ids, _, text = rest[rest.find("[") + 1 :].partition("] ")
            cited = [rows[each] for each in ids.split() if each in rows]
            verdicts.append(ClaimVerdict(id=key, verdict="said" if self._is_said(text, cited) else "not_said"))
        return ClaimVerdicts(verdicts=verdicts)

    def _is_said(self, text: str, cited: Sequence[PromptRow]) -> bool:
        told = [fact for fact in self._week.fact if fact.text.rstrip(".") in text or (fact.line and fact.line in text)]
        return bool(told) and all(any(fact.said in row.text for row in cited) for fact in told)


def _read_block(data: str) -> tuple[Sequence[str], str]:
    """Return the lines of the first block that a prompt shows, and its label."""
    lines, label = list[str](), ""
    for line in data.split("\n"):
        if line.startswith("## "):
            if label:
                break
            if line.startswith("## Block "):
                label = line.removeprefix("## Block ").split(" (")[0].split(",")[0]
        elif label and line.startswith("| "):
            lines.append(line[2:])
    return lines, label


@dataclass(kw_only=True, slots=True)
class WeekResult:
    notes: int
    """True ones that there are to be written."""
    refused: Sequence[str] = ()
    """Facts of which a true note was refused, with the reason."""
    lost: Sequence[str] = ()
    """Facts that no note tells at the end, though one of them or of a later fact should."""
    foreign: int = 0
    """Notes that rest on tools or documents."""
    false_lines: dict[int, Sequence[str]] = field(default_factory=dict[int, Sequence[str]])
    """Lines of the block that are false at the end of each day."""
    lines: dict[int, int] = field(default_factory=dict[int, int])
    by_block: Sequence[str] = ()
    """Direct questions that the block does not answer."""
    by_context: Sequence[str] = ()
    """Indirect questions that the context does not answer."""
    by_search: Sequence[str] = ()
    """Indirect ones that the best hits of a search over what was said alone do not answer."""
    asked: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


async def live_week(folder: Path, language: str, *, passes: bool = True) -> WeekResult:
    """Live a week in a database of its own."""
    week, clock = read_week(language), ManualClock(MONDAY)
    store = await open_sqlite(folder / f"{language}{passes}.db")
    model = RecordingModel(PerfectModel(week), clock)
    try:
        async with open_pass_harness(store, LocalSignals(), model, clock=clock, embedder=BundledEmbedder()) as running:
            living = _Living(running, week, clock)
            return await living.live(model, passes=passes)
    finally:
        await store.close()


class _Living:
    def __init__(self, running: PassHarness, week: Week, clock: ManualClock) -> None:
        self._running = running
        self._week = week
        self._clock = clock
        self._ids = RandomIds(system_milliseconds)
        self._result = WeekResult(notes=len(week.fact))
        self._changes: list[Change] = []
        self._bank: Bank

    async def live(self, model: RecordingModel, *, passes: bool) -> WeekResult:
        events = EventLog(self._clock, LocalSignals())
        async with self._running.store.begin_write() as tx:
            self._bank = await BankService(self._clock, self._ids, events, {}).create(
                tx, NewBank(name="week"), by="benchmark"
            )
        for day in range(1, DAYS + 1):
            await self._say(day, events)
            self._advance_to(MONDAY + timedelta(days=day) + NIGHT)
            if passes:
                done = await self._running.run_pass(self._bank)
                async with self._running.store.begin_read() as tx:
                    self._changes += await tx.passes.find_changes(done.sleep_pass.id)
            await self._look(day)
        await self._ask()
        self._count_notes()
        result = self._result
        result.asked = len(model.asked)
        result.input_tokens = sum(used.input_tokens or 0 for used in model.used)
        result.output_tokens = sum(used.output_tokens or 0 for used in model.used)
        async with self._running.store.begin_read() as tx:
            notes = await tx.notes.find_all(self._bank.id)
        result.foreign = sum(note.trust in (Trust.TOOL, Trust.EXTERNAL) for note in notes)
        return result

    def _advance_to(self, time: datetime) -> None:
        self._clock.advance(max(0.0, (time - self._clock.now()).total_seconds()))

    async def _say(self, day: int, events: EventLog) -> None:
        episodes = EpisodeService(self._clock, self._ids, events)
        for turn in self._week.turn:
            if turn.day != day:
                continue
            hours, minutes = map(int, turn.at.split(":"))
            self._advance_to(MONDAY + timedelta(days=day - 1, hours=hours, minutes=minutes))
            talk = f"{turn.by}-{day}"
            said = NewEpisode(
                text=self._week.text_of(turn), speaker=turn.by, trust=Trust(turn.trust), conversation=talk
            )
            answer = NewEpisode(text=self._week.reply, speaker=ASSISTANT, trust=Trust.AGENT, conversation=talk)
            async with self._running.store.begin_write() as tx:
                await episodes.remember(tx, self._bank, said)
                if turn.trust == "person":
                    await episodes.remember(tx, self._bank, answer)

    async def _look(self, day: int) -> None:
        lines = (await self._block()).split("\n")
        lines = [line for line in lines if line.strip()]
        self._result.lines[day] = len(lines)
        self._result.false_lines[day] = [line for line in lines if not self._week.line_is_true(line, day)]

    async def _block(self) -> str:
        async with self._running.store.begin_read() as tx:
            return "\n".join(block.value for block in await tx.blocks.find_all(self._bank.id))

    async def _ask(self) -> None:
        block = await self._block()
        self._result.by_block = [each.ask for each in self._week.direct if not _answers(block.split("\n"), each)]
        by_context: list[str] = []
        by_search: list[str] = []
        memory = self._running.memory
        for each in self._week.indirect:
            question = await memory.retrieval.prepare_question(each.ask)
            async with self._running.store.begin_read() as tx:
                bank = await tx.banks.get(self._bank.id)
                assert bank is not None
                context = await memory.contexts.build(
                    tx, bank, question, stable_tokens=CONTEXT_TOKENS, fitting_tokens=CONTEXT_TOKENS
                )
                hits = await memory.retrieval.find(tx, bank, replace(question, limit=HITS))
            if not _answers(f"{context.stable}\n{context.fitting}".split("\n"), each):
                by_context.append(each.ask)
            if not _answers([str(getattr(hit.item, "text", "")) for hit in hits], each):
                by_search.append(each.ask)
        self._result.by_context, self._result.by_search = by_context, by_search

    def _count_notes(self) -> None:
        refused: list[str] = []
        kept: set[str] = set()
        for change in self._changes:
            text = str((change.after or {}).get("text", ""))
            fact = next((each for each in self._week.fact if text.startswith(each.text.rstrip("."))), None)
            if change.kind is not ChangeKind.ADD_NOTE or fact is None:
                continue
            if change.state is ChangeState.REFUSED:
                refused.append(f"{fact.id}: {change.why}")
            else:
                kept.add(fact.id)
        self._result.refused = refused
        self._result.lost = [fact.id for fact in self._week.fact if fact.id not in kept]


def _answers(lines: Sequence[str], question: Question) -> bool:
    text = "\n".join(lines)
    if not all(each in text for each in question.holds):
        return False
    return not any(
        any(wrong in line for wrong in question.wrong) and not any(each in line for each in question.holds)
        for line in lines
    )


async def run(folder: Path) -> Report:
    """Measure, in a folder of its own."""
    found = {(language, passes): await live_week(folder, language, passes=passes)
             for language in LANGUAGES for passes in (True, False)}  # fmt: skip
    return build_report(found)


def build_report(found: Mapping[tuple[str, bool], WeekResult]) -> Report:
    """Return the table of the weeks, with passes and without."""
    return Report(
        name="week",
        title="A week of two people and their coding assistant, with a model that is never wrong",
        columns=["what", *(f"{language}, {'passes' if passes else 'no pass'}" for language, passes in found)],
        rows=[list(row) for row in _rows(list(found.values()))],
        goals=[
            goal
            for (language, passes), each in found.items()
            if passes
            for goal in (
                Goal(what=f"{language}: true notes refused", limit=1, unit="notes", found=len(each.refused)),
                Goal(what=f"{language}: false lines on the last day", limit=0, unit="lines",
                     found=len(each.false_lines[DAYS])),
                Goal(what=f"{language}: direct questions that the block does not answer", limit=8, unit="of 30",
                     found=len(each.by_block)),
                Goal(what=f"{language}: indirect questions that the context does not answer", limit=1, unit="of 12",
                     found=len(each.by_context)),
            )
        ],
        notes=["The model is a script that knows the week: what is refused or false is the tier's own fault."],
        figures={f"{language}, {'passes' if passes else 'no pass'}": {
            "refused": [*each.refused], "lost": [*each.lost], "by_block": [*each.by_block],
            "by_context": [*each.by_context], "by_search": [*each.by_search],
            "false": {str(day): [*lines] for day, lines in each.false_lines.items()},
        } for (language, passes), each in found.items()},
    )  # fmt: skip


def _rows(found: Sequence[WeekResult]) -> Iterator[Sequence[str]]:
    yield ["true notes", *(str(each.notes) for each in found)]
    yield ["of them refused at least once", *(str(len({why.split(":")[0] for why in each.refused})) for each in found)]
    yield ["of them never published", *(str(len(each.lost)) for each in found)]
    yield ["notes that rest on tools or documents", *(str(each.foreign) for each in found)]
    for day in range(1, DAYS + 1):
        yield [f"day {day}: lines of the block, false ones",
               *(f"{each.lines[day]}, {len(each.false_lines[day])}" for each in found)]  # fmt: skip
    yield ["direct questions that the block answers", *(f"{30 - len(each.by_block)} of 30" for each in found)]
    yield ["indirect ones that the context answers", *(f"{12 - len(each.by_context)} of 12" for each in found)]
    yield [f"indirect ones that the {HITS} best hits answer", *(f"{12 - len(each.by_search)} of 12" for each in found)]
    yield ["questions to the model", *(str(each.asked) for each in found)]
    yield ["tokens in, out", *(f"{each.input_tokens}, {each.output_tokens}" for each in found)]
