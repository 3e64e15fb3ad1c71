"""The week of the benchmark `week`, and the model that knows it and is never wrong."""

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel

from circadia.llm.chat_model import Prompt
from circadia.llm.usage import Usage
from circadia.sleeptime.operations.compress import SummaryDraft
from circadia.sleeptime.operations.consolidate import ConsolidationAnswer, NoteDraft
from circadia.sleeptime.operations.contradictions import ComparisonAnswer, Contradiction
from circadia.sleeptime.operations.reflect import ReflectionAnswer
from circadia.sleeptime.operations.rethink import BlockEdit, RethinkAnswer
from circadia.sleeptime.publish.claim_verifier import ClaimVerdict, ClaimVerdicts
from circadia.testing.rule_based_model import PromptRow, parse_rows

T = TypeVar("T", bound=BaseModel)

FOLDER: Final = Path(__file__).with_name("weeks")
MONDAY: Final = datetime(2026, 11, 16, tzinfo=UTC)
DAYS: Final = 7
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
    again: Sequence[str] = ()
    """The note and the line in other words, for when they are given back."""
    names: Sequence[str] = ()
    """What the note calls by a name that another turn has said."""
    replaces: str = ""
    """The fact that it ends."""
    alone: str = ""
    """The note if what it replaces is not shown."""
    until: int = DAYS
    """The last day on which the line is true."""

    @property
    def texts(self) -> Sequence[str]:
        return [self.text, *self.again[:1], *([self.alone] if self.alone else [])]

    @property
    def lines(self) -> Sequence[str]:
        return [self.line, *self.again[1:]] if self.line else ()


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
    as_said: str
    """What a text gets at its end when it is given back, if the week has no other words for it."""
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
        fact = next((each for each in self.fact if _line_of(each, [line])), None)
        if fact is None or day > fact.until:
            return False
        ended = [each for each in self.fact if each.replaces == fact.id]
        return not any(self.day_of(each) <= day for each in ended)

    def fact_of(self, note: str) -> Fact | None:
        """Return the fact that a note tells: the one of the longest text that it begins with."""
        found = [(len(mine), fact) for fact in self.fact for mine in fact.texts if note.startswith(mine.rstrip("."))]
        return max(found, key=lambda pair: pair[0])[1] if found else None

    def day_of(self, fact: Fact) -> int:
        return next(turn.day for turn in self.turn if fact.said in turn.text)


def read_week(language: str) -> Week:
    data: dict[str, Any] = tomllib.loads((FOLDER / f"{language}.toml").read_text("utf-8"))
    return Week(
        reply=data["reply"], as_said=data["as_said"], filler=data["filler"],
        turn=[Turn(**each) for each in data["turn"]], fact=[Fact(**each) for each in data["fact"]],
        direct=[Question(**each) for each in data["direct"]], indirect=[Question(**each) for each in data["indirect"]],
    )  # fmt: skip


class PerfectModel:
    """Answers each operation by what is true, of what its prompt shows and asks for.

    With `errors` that share of its verdicts is wrong, the same ones in each run with a seed.
    """

    name = "perfect"
    upstream = "scripted"
    thinking_tokens = 0

    def __init__(self, week: Week, errors: float = 0.0, seed: int = 0) -> None:
        self._week = week
        self._seed = seed
        self._errors = errors
        self._by_id = {fact.id: fact for fact in week.fact}

    async def ask(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> tuple[T, Usage]:
        builders: Mapping[type[BaseModel], Callable[[Prompt], BaseModel]] = {
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
        return self._week.fact_of(text)

    def _saying(self, fact: Fact, rows: Sequence[PromptRow]) -> list[PromptRow]:
        """Return the rows that say a fact: its turn, if what says it is shown, or its note."""
        return [row for row in rows if (fact.said in row.text if row.speaker else self._fact_of_note(row.text) is fact)]

    def _consolidate(self, prompt: Prompt) -> ConsolidationAnswer:
        rows = parse_rows(prompt.data)
        needs_two = "two or more" in prompt.rules
        refused = _section(prompt.data, "Refused")
        notes: list[NoteDraft] = []
        for fact in self._week.fact:
            now = [row for row in self._saying(fact, rows) if row.part == "Said now"]
            if not now or not all(name in prompt.data for name in fact.names) or self._has_note(fact, rows):
                continue
            shown = not fact.replaces or bool(self._saying(self._by_id[fact.replaces], rows))
            text = fact.text if shown or not fact.alone else fact.alone
            if refused:
                if text not in refused:
                    continue
                text = self._reword(text, fact.again[:1])
            ids = [row.key for row in now]
            old = self._saying(self._by_id[fact.replaces], rows) if fact.replaces else []
            ids += [row.key for row in old if row.key not in ids]
            if needs_two and len(ids) < 2:
                at = rows.index(now[0])
                ids += [row.key for row in (*rows[at + 1 : at + 2], *rows[max(0, at - 1) : at]) if row.speaker][:1]
            notes.append(
                NoteDraft(
                    text=text, ids=ids, replaces=[row.key for row in old if not row.speaker],
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
        refused = _section(prompt.data, "Refused")
        lines = dict.fromkeys(block)
        edits: list[BlockEdit] = []
        for fact in self._week.fact:
            if day is not None and day > fact.until and (line := _line_of(fact, lines)):
                edits.append(BlockEdit(label=label, old_text=line, new_text="", ids=[]))
                del lines[line]
        for row in parse_rows(prompt.data):
            fact = None if row.speaker else self._fact_of_note(row.text)
            if fact is None or (day is not None and day > fact.until) or self._is_ended(fact, prompt.data):
                continue
            new = fact.line
            if refused:
                if not new or new not in refused:
                    continue
                new = self._reword(new, fact.again[1:])
            old = _line_of(self._by_id[fact.replaces], lines) if fact.replaces else ""
            if old and old != new:
                edits.append(BlockEdit(label=label, old_text=old, new_text=new, ids=[row.key]))
                del lines[old]
            elif new and not _line_of(fact, lines):
                edits.append(BlockEdit(label=label, new_text=new, ids=[row.key]))
            lines[new] = None
        return RethinkAnswer(edits=edits[:10])

    def _reword(self, text: str, others: Sequence[str]) -> str:
        return others[0] if others else f"{text.rstrip('.')}, {self._week.as_said}."

    def _is_ended(self, fact: Fact, data: str) -> bool:
        """Return whether a shown note or line tells what replaces the fact."""
        later = [each for each in self._week.fact if each.replaces == fact.id]
        return any(text in data for each in later for text in (*each.texts, *each.lines))

    def _today(self, prompt: Prompt) -> int | None:
        """Return the number of the day, if the prompt says which day it is."""
        shown = f"{prompt.rules}\n{prompt.data}"
        days = [day for day in range(DAYS + 2) if f"Today is {(MONDAY + timedelta(days=day - 1)).date()}" in shown]
        return days[0] if days else None

    def _judge(self, prompt: Prompt) -> ClaimVerdicts:
        rows = {row.key: row for row in parse_rows(prompt.data)}
        day = self._today(prompt)
        verdicts: list[ClaimVerdict] = []
        for line in prompt.data.split("\n"):
            key, _, rest = line.partition(" ")
            if not (key.startswith("c") and key[1:].isdecimal()):
                continue
            ids, _, text = rest[rest.find("[") + 1 :].partition("] ")
            cited = [rows[each] for each in ids.split(" ends ")[0].split(" beside ")[0].split() if each in rows]
            said = self._is_gone(text, cited, day) if rest.startswith("(gone)") else self._is_said(text, cited)
            right = _draw(f"{self._seed} {day} {text}") >= self._errors
            verdicts.append(ClaimVerdict(id=key, verdict="said" if said == right else "not_said"))
        return ClaimVerdicts(verdicts=verdicts)

    def _is_said(self, text: str, cited: Sequence[PromptRow]) -> bool:
        told = [
            fact
            for fact in self._week.fact
            if any(mine.rstrip(".") in text for mine in fact.texts) or any(line in text for line in fact.lines)
        ]
        return bool(told) and all(any(fact.said in row.text for row in cited) for fact in told)

    def _is_gone(self, text: str, cited: Sequence[PromptRow], day: int | None) -> bool:
        fact = next((fact for fact in self._week.fact if _line_of(fact, [text])), None)
        if fact is None:
            return False
        later = [each.said for each in self._week.fact if each.replaces == fact.id]
        return (day is not None and day > fact.until) or any(said in row.text for said in later for row in cited)


def _line_of(fact: Fact, lines: Iterable[str]) -> str:
    """Return the line that tells a fact; empty if none does."""
    return next((line for line in lines if any(mine.rstrip(".") in line for mine in fact.lines)), "")


def _draw(text: str) -> float:
    """Return a number from 0 to 1 that a text always has."""
    return int.from_bytes(sha256(text.encode()).digest()[:4]) / (1 << 32)


def _section(data: str, name: str) -> str:
    """Return what a prompt has below a heading."""
    return data.partition(f"## {name}\n")[2].partition("\n## ")[0]


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
