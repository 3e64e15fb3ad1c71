"""A made-up week of two people and their coding assistant, with a model that is never wrong: what memory keeps of it.

Each night a pass runs over the day, as the server runs it. The model knows the week: it writes each note that the lines
in its prompt say, in the words of the suite, and judges a text true if the lines that it cites say it. So each true
note that is refused, each line of a block that is false by then, and each question that is not answered is the tier's
own fault.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from benchmarks.report import Goal, Report
from benchmarks.week_model import DAYS, MONDAY, PerfectModel, Question, Week, read_week
from circadia.clock import system_milliseconds
from circadia.evaluation.pass_harness import PassHarness, RecordingModel, open_pass_harness
from circadia.ids import RandomIds
from circadia.llm.prices import PriceList
from circadia.llm.providers import PROVIDERS
from circadia.llm.usage import Usage
from circadia.memory.banks import BankService, NewBank
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.episodes import EpisodeService, NewEpisode
from circadia.records.bank import Bank, Trust
from circadia.records.change import Change, ChangeKind, ChangeState
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite
from circadia.testing.clock import ManualClock

LANGUAGES: Final = ("en", "de")
ERRORS: Final = 0.1
"""Share of the claims about which the worse judge is wrong."""
NIGHT: Final = timedelta(hours=2)
"""After midnight, when the pass of a day runs."""
ASSISTANT: Final = "assistant"
PEOPLE: Final = 2
HITS: Final = 10
HOW: Final[Mapping[str, Mapping[str, Any]]] = {
    "": {}, f", the judge errs {ERRORS:.0%}": {"errors": ERRORS}, ", no pass": {"passes": False},
}  # fmt: skip
CONTEXT_TOKENS: Final = 1_000
"""Of the part of a context that fits a question: the default."""


@dataclass(kw_only=True, slots=True)
class Day:
    """What a day was, for a reader."""

    said: list[tuple[str, str, str]]
    """Speaker, trust, and text without the talk before it."""
    kept: list[str] = field(default_factory=list[str])
    """Notes."""
    refused: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Texts with the reason."""
    over: list[str] = field(default_factory=list[str])
    """Notes that ended."""
    block: list[str] = field(default_factory=list[str])


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
    days: list[Day] = field(default_factory=list[Day])
    seen: list[tuple[str, Sequence[str]]] = field(default_factory=list[tuple[str, Sequence[str]]])
    """Each indirect question, with the lines of the block and the context that answer it, the best first."""
    asked: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


async def live_week(
    folder: Path, language: str, *, passes: bool = True, errors: float = 0.0, seed: int = 0
) -> WeekResult:
    """Live a week in a database of its own; `errors` is the share of the claims about which the judge is wrong."""
    week, clock = read_week(language), ManualClock(MONDAY)
    store = await open_sqlite(folder / f"{language}{passes}{errors}{seed}.db")
    model = RecordingModel(PerfectModel(week, errors, seed), clock)
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
        self._notes: dict[str, str] = {}
        """Texts by id."""
        self._bank: Bank

    async def live(self, model: RecordingModel, *, passes: bool) -> WeekResult:
        events = EventLog(self._clock, LocalSignals())
        async with self._running.store.begin_write() as tx:
            self._bank = await BankService(self._clock, self._ids, events, {}).create(
                tx, NewBank(name="week"), by="benchmark"
            )
        for day in range(1, DAYS + 1):
            self._result.days.append(
                Day(said=[(turn.by, turn.trust, turn.text) for turn in self._week.turn if turn.day == day])
            )
            await self._say(day, events)
            self._advance_to(MONDAY + timedelta(days=day) + NIGHT)
            if passes:
                done = await self._running.run_pass(self._bank)
                async with self._running.store.begin_read() as tx:
                    changes = await tx.passes.find_changes(done.sleep_pass.id)
                self._changes += changes
                _tell_changes(self._result.days[-1], changes, self._notes)
            await self._look(day)
        await self._ask()
        self._count_notes()
        result = self._result
        result.asked = len(model.prompts)
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
        self._result.days[-1].block = lines
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
            lines = f"{context.stable}\n{context.fitting}".split("\n")
            holding = {line: sum(held in line for held in each.holds) for line in lines}
            telling = sorted((line for line in holding if holding[line]), key=lambda line: -holding[line])
            self._result.seen.append((each.ask, telling))
            if not _answers(lines, each):
                by_context.append(each.ask)
            if not _answers([str(getattr(hit.item, "text", "")) for hit in hits], each):
                by_search.append(each.ask)
        self._result.by_context, self._result.by_search = by_context, by_search

    def _count_notes(self) -> None:
        refused: list[str] = []
        kept: set[str] = set()
        for change in self._changes:
            text = str((change.after or {}).get("text", ""))
            fact = self._week.fact_of(text)
            if change.kind is not ChangeKind.ADD_NOTE or fact is None:
                continue
            if change.state is ChangeState.REFUSED:
                refused.append(f"{fact.id}: {change.why}")
            else:
                kept.add(fact.id)
        self._result.refused = refused
        self._result.lost = [fact.id for fact in self._week.fact if fact.id not in kept]


def _tell_changes(day: Day, changes: Sequence[Change], notes: dict[str, str]) -> None:
    for change in changes:
        text = str((change.after or {}).get("text", ""))
        if change.state is ChangeState.REFUSED:
            day.refused += [(text, change.why)] if text else []
        elif change.kind is ChangeKind.ADD_NOTE:
            notes[change.target] = text
            day.kept.append(text)
        elif change.kind is ChangeKind.RETIRE_NOTE:
            day.over.append(notes[change.target])


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
    return build_report(
        {
            f"{language}{how}": await live_week(folder, language, **given)
            for language in LANGUAGES
            for how, given in HOW.items()
        }
    )


def build_report(found: Mapping[str, WeekResult]) -> Report:
    """Return the table of the weeks, by what each is called."""
    return Report(
        name="week",
        title="A week of two people and their coding assistant, with a model that is never wrong",
        columns=["what", *found],
        rows=[list(row) for row in _rows(list(found.values()))],
        goals=[
            goal
            for language, each in found.items()
            if language in LANGUAGES
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
        figures={name: {
            "refused": [*each.refused], "lost": [*each.lost], "by_block": [*each.by_block],
            "by_context": [*each.by_context], "by_search": [*each.by_search],
            "false": {str(day): [*lines] for day, lines in each.false_lines.items()},
            "days": [asdict(day) for day in each.days], "seen": [*each.seen],
        } for name, each in found.items()},
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
    model = PROVIDERS["openai"].cheap
    yield [f"a person's day in US dollars, at the price of {model}", *(f"{_price(each, model):.6f}" for each in found)]


def _price(week: WeekResult, model: str) -> float:
    """Return what a day of one of the two people costs, in US dollars."""
    prices = PriceList(base_url="https://api.openai.com/v1", api="openai")
    used = Usage(input_tokens=week.input_tokens, output_tokens=week.output_tokens)
    return (prices.price(model, used, MONDAY) or 0) / 1e9 / DAYS / PEOPLE
