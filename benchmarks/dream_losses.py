"""What is lost by consolidating: questions that memory answers after 1, 10 and 50 passes over the same history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel

from benchmarks.report import Goal, Report, number
from benchmarks.talks import KINDS, Question, Talk, talk
from circadia.clock import SystemClock, system_milliseconds
from circadia.evaluation.pass_harness import PassHarness, RecordingModel, open_pass_harness
from circadia.ids import RandomIds
from circadia.llm.chat_model import ChatModel, Prompt
from circadia.llm.usage import Usage
from circadia.memory.banks import BankService, NewBank
from circadia.memory.episodes import EpisodeService, NewEpisode
from circadia.memory.relative_dates import episode_text_with_dates
from circadia.records.bank import Bank, BankPolicy, Trust
from circadia.records.episode import Episode
from circadia.sleeptime.operations.consolidate import ConsolidationAnswer
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite
from circadia.testing.rule_based_model import RuleBasedModel

T = TypeVar("T", bound=BaseModel)

HITS: Final = 3
"""Of a search, that may hold the answer."""
CARELESS: Final = "a model that drops the end of each note"
MINDS: Final = ("a scripted model", CARELESS, "no model")


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    turns: int = 400
    """Of the talk."""
    of_each: int = 20
    """Questions of each kind."""
    passes: Sequence[int] = (1, 10, 50)
    """After how many passes is asked."""
    seed: int = 71


QUICK: Final = Size(turns=60, of_each=4, passes=(1, 3))


class LossyModel:
    """A model that keeps the first half of what a note should say, and lets it take the place of what was shown."""

    def __init__(self) -> None:
        self._mind: ChatModel = RuleBasedModel(name="careless")
        self.name = self._mind.name
        self.upstream = self._mind.upstream
        self.thinking_tokens = self._mind.thinking_tokens

    async def ask(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> tuple[T, Usage]:
        """Return its answer. Raises Unusable."""
        answer, used = await self._mind.ask(prompt, output, most_tokens=most_tokens)
        if isinstance(answer, ConsolidationAnswer):
            for note in answer.notes:
                words = note.text.split()
                note.text = " ".join(words[: max(4, len(words) // 2)])
        return answer, used

    def price(self, used: Usage) -> int | None:
        """Return what it costs."""
        return self._mind.price(used)

    def worst_price(self, input_tokens: int, output_tokens: int) -> int | None:
        """Return what it may cost."""
        return self._mind.worst_price(input_tokens, output_tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecallSample:
    """What was answered at one moment."""

    mind: str
    passes: int
    """How many there were before; 0 is the bare history."""
    answered: Mapping[str, float]
    """By kind, in percent."""
    notes: int
    """That stand."""

    @property
    def all(self) -> float:
        """Return the mean of the kinds."""
        return sum(self.answered.values()) / len(self.answered)


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    history = talk(size.seed, turns=size.turns, of_each=size.of_each)
    found: list[RecallSample] = []
    for at, mind in enumerate(MINDS):
        store = await open_sqlite(folder / f"{at}.db")
        try:
            found += await _nights(store, mind, history, size)
        finally:
            await store.close()
    return _report(size, history, found)


async def _nights(store: Store, mind: str, history: Talk, size: Size) -> list[RecallSample]:
    """Tell a bank the history, let passes work through it, and ask."""
    minds = {CARELESS: RecordingModel(LossyModel()), MINDS[0]: RecordingModel()}
    async with open_pass_harness(store, LocalSignals(), minds.get(mind)) as running:
        bank = await remembered(store, history)
        found = [await _asked(running, mind, bank, 0, history.questions)]
        for at in range(1, max(size.passes) + 1):
            await _anew(store, bank)
            await running.run_pass(bank)
            if at in size.passes:
                found.append(await _asked(running, mind, bank, at, history.questions))
    return found


async def remembered(store: Store, history: Talk, *, name: str = "talk") -> Bank:
    """Return a new bank that was told all of it, as its doors would."""
    clock, ids = SystemClock(), RandomIds(system_milliseconds)
    episodes = EpisodeService(clock, ids, EventLog(clock, LocalSignals()))
    async with store.begin_write() as tx:
        bank = await BankService(clock, ids, EventLog(clock, LocalSignals()), {}).create(
            tx, NewBank(name=name, policy=BankPolicy(duplicate_seconds=0)), by="benchmark"
        )
        for turn in history.turns:
            new = NewEpisode(
                text=turn.text or "…", speaker=turn.speaker, trust=Trust.PERSON, at=turn.at, conversation=turn.session
            )
            await episodes.remember(tx, bank, new)
    return bank


async def _anew(store: Store, bank: Bank) -> None:
    """Let the next pass read all of the history again."""
    async with store.begin_write() as tx:
        state = await tx.sleep_states.get(bank.id)
        await tx.sleep_states.put(replace(state, cursor=0, leftovers=(), failures=0, not_before=None))


async def _asked(
    running: PassHarness, mind: str, bank: Bank, passes: int, questions: Sequence[Question]
) -> RecallSample:
    answered: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    retrieval = running.memory.retrieval
    for each in questions:
        question = replace(await retrieval.prepare_question(each.text), limit=HITS)
        async with running.store.begin_read() as tx:
            present = await tx.banks.get(bank.id)
            assert present is not None
            hits = await retrieval.find(tx, present, question)
        answered[each.kind].append(any(_holds(_shown(hit.item), each) for hit in hits))
    async with running.store.begin_read() as tx:
        notes = await tx.notes.count(bank.id)
    shares = {kind: 100 * sum(right) / len(right) for kind, right in answered.items()}
    return RecallSample(mind=mind, passes=passes, answered=shares, notes=notes)


def _shown(item: object) -> str:
    """Return the text of a hit; of an episode with the dates that it tells, as the tier resolves them."""
    return episode_text_with_dates(item) if isinstance(item, Episode) else str(getattr(item, "text", ""))


def _holds(text: str, question: Question) -> bool:
    return all(each.casefold() in text.casefold() for each in question.holds)


def _report(size: Size, history: Talk, found: Sequence[RecallSample]) -> Report:
    first, last = min(size.passes), max(size.passes)
    by_key = {(each.mind, each.passes): each for each in found}
    return Report(
        name="dream_losses",
        title=f"Questions that the {HITS} best hits answer, in percent: {len(history.questions)} about a history of "
        f"{len(history.turns)} turns, after so many passes over all of it",
        columns=["model, passes", *KINDS, "all", "notes"],
        rows=[
            [
                f"{each.mind}, {each.passes}", *(number(each.answered[kind]) for kind in KINDS), number(each.all),
                f"{each.notes}",
            ]
            for each in found
        ],
        goals=[
            Goal(
                what=f"{mind}: lost from {first} pass to {last}",
                limit=0,
                unit="points",
                found=max(0.0, by_key[mind, first].all - by_key[mind, last].all),
            )
            for mind in MINDS
        ],
        notes=[
            "Something is told once among much else: when it was, who said it, how many there are, what is excepted. "
            "A question counts as answered if one hit holds the whole answer. Passes 0 is the history alone.",
            "Before each pass the cursor is set back, so that it reads all of the history again, with the notes that "
            "there are by then: a real one reads each turn once.",
            "The careless model writes the first half of each note and lets it replace the notes before it; what "
            "keeps the answers is that episodes stay, and that a note may not be replaced by one that says less.",
        ],
        figures={f"{each.mind}, {each.passes}": {**each.answered, "notes": each.notes} for each in found},
    )  # fmt: skip
