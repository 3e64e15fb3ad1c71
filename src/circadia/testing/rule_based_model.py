"""A stand-in for the sleep-time model: it answers the operations' questions by deterministic rules.

It serves the demo without a key, benchmarks of a pass's cost, and tests. It understands plain statements such as
`I live in Porto` or `the deadline is 3 May`, groups the rest by rare words, and is wrong about everything else.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar, cast

from pydantic import BaseModel

from circadia.gateway.answers.judging import SameQuestions
from circadia.llm.chat_model import ModelAnswerError, Prompt
from circadia.llm.usage import Usage
from circadia.memory.search.terms import STOP_WORDS, question_terms
from circadia.sleeptime.answers.prediction import PredictedQuestion, Predictions, QuestionVerdict, QuestionVerdicts
from circadia.sleeptime.answers.still_right import AnswerVerdict, AnswerVerdicts
from circadia.sleeptime.operations.compress import SummaryDraft
from circadia.sleeptime.operations.consolidate import ConsolidationAnswer, NoteDraft
from circadia.sleeptime.operations.contradictions import ComparisonAnswer, Contradiction
from circadia.sleeptime.operations.reflect import Belief, BeliefCheck, ReflectionAnswer
from circadia.sleeptime.operations.rethink import BlockEdit, RethinkAnswer
from circadia.sleeptime.publish.claim_verifier import ClaimVerdict, ClaimVerdicts
from circadia.testing.stated_facts import NO_OWNER, Fact, capitalize, find_facts

T = TypeVar("T", bound=BaseModel)

BYTES_A_TOKEN: Final = 4
"""About as tokenizers count English."""
NANOUSD_IN: Final = 50
"""Price of an input token, as for a small model."""
NANOUSD_OUT: Final = 400
QUOTATION_CHARACTERS: Final = 160
NOTE_CHARACTERS: Final = 800
_ROW: Final = re.compile(r"([enb]\d+)(?: \((?:tool|external)\))?(?: \[([^\]]*)\])? (.*)")
_SAID: Final = re.compile(r"([^:]*?)(?: \((?:tool|external)\))?: (.*)")
_DAY: Final = re.compile(r"\[(\d{4}-\d\d-\d\d)\]")
_PAIR: Final = re.compile(r"(n\d+) with (n\d+)")
_MONTH: Final = re.compile(
    r"\b\d{1,2} (?:January|February|March|April|May|June|July|August|September|October|November|December)"
)
_WORD: Final = re.compile(r"[A-Za-z][a-z]{4,}")


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptRow:
    key: str
    part: str
    """The heading above it."""
    day: str
    speaker: str
    """Empty for a note."""
    text: str
    evidence_keys: Sequence[str]
    """For a note, the keys of its evidence."""

    @property
    def facts(self) -> Sequence[Fact]:
        return list(find_facts(self.speaker, self.text))

    @property
    def quotation(self) -> str:
        if not self.speaker:
            return self.text
        short = (
            self.text
            if len(self.text) <= QUOTATION_CHARACTERS
            else f"{self.text[:QUOTATION_CHARACTERS].rsplit(' ', 1)[0]} …"
        )
        return f'{capitalize(self.speaker)} said on {self.day}: "{short}"'


class RuleBasedModel:
    def __init__(self, *, name: str = "dreamer") -> None:
        self.name = name
        self.upstream = "scripted"
        self.thinking_tokens = 0
        self.asked: list[tuple[str, Usage]] = []
        """The name of each answer's schema, with its usage."""

    async def ask(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> tuple[T, Usage]:
        """Return the answer. Raises ModelAnswerError: there is no rule for this schema."""
        answering = ANSWER_BUILDERS.get(output)
        if answering is None:
            raise ModelAnswerError(f"there is no rule for {output.__name__}")
        answer = answering(prompt.data)
        used = Usage(
            input_tokens=prompt.bytes // BYTES_A_TOKEN,
            output_tokens=len(answer.model_dump_json().encode()) // BYTES_A_TOKEN,
        )
        self.asked.append((output.__name__, used))
        return cast("T", answer), used

    def price(self, used: Usage) -> int | None:
        """Return the price in billionths of a US dollar."""
        return (used.input_tokens or 0) * NANOUSD_IN + (used.output_tokens or 0) * NANOUSD_OUT

    def worst_price(self, input_tokens: int, output_tokens: int) -> int | None:
        return input_tokens * NANOUSD_IN + output_tokens * NANOUSD_OUT


def parse_rows(data: str) -> list[PromptRow]:
    rows: list[PromptRow] = []
    part = day = ""
    for line in data.split("\n"):
        if line.startswith("## "):
            part, day = line[3:], ""
        elif dated := _DAY.fullmatch(line):
            day = dated[1]
        elif row := _ROW.fullmatch(line):
            speech = _SAID.fullmatch(row[3]) if row[1][0] == "e" else None
            speaker, text = (speech[1], speech[2]) if speech else ("", row[3])
            keys = (row[2] or "").split()
            rows.append(PromptRow(key=row[1], part=part, day=day, speaker=speaker, text=text, evidence_keys=keys))
    return rows


def build_consolidation(data: str) -> ConsolidationAnswer:
    """Build a note for each subject with facts, and for each rare word that several lines share."""
    every = parse_rows(data)
    new = {row.key for row in every if row.part == "Said now"}
    by_subject: dict[str, list[tuple[Fact, PromptRow]]] = {}
    for row in sorted(every, key=lambda row: (row.key in new, row.day)):
        for fact in row.facts:
            by_subject.setdefault(fact.about if fact.subject == NO_OWNER else fact.subject, []).append((fact, row))
    candidates = [_build_subject_note(group, new) for group in by_subject.values()]
    notes = [note for note in candidates if note is not None]
    used = {key for note in notes for key in note.ids}
    return ConsolidationAnswer(notes=[*notes, *_build_word_notes([row for row in every if row.key in new - used])][:40])


def _build_subject_note(stated: Sequence[tuple[Fact, PromptRow]], new: set[str]) -> NoteDraft | None:
    """Build a note of the current facts, with their past values; None if nothing is new, or one line has it all."""
    by_about: dict[str, list[tuple[Fact, PromptRow]]] = {}
    for fact, row in stated:
        by_about.setdefault(fact.about, []).append((fact, row))
    sentences: list[str] = []
    ended: list[str] = []
    for group in by_about.values():
        fact, row = group[-1]
        before = [(old, its) for old, its in group if old.value != fact.value]
        history = next((old.history for old, _ in reversed(group) if old.history), "")
        over = f" (… – {row.day}: {before[-1][0].past_sentence})" if before and row.key in new else ""
        sentences.append(f"{fact.present_sentence}{over}{history}")
        ended += [its.key for _, its in before if row.key in new]
    ids = list(dict.fromkeys(row.key for _, row in stated))
    if len(ids) < 2 or new.isdisjoint(ids):
        return None
    notes = [key for key in ids if key[0] == "n"]
    text = f"{'. '.join(sentences)}."
    if len(text) > NOTE_CHARACTERS:  # keep the existing note, and begin another
        fresh = [(fact, row) for fact, row in stated if row.key not in notes]
        return (
            _build_subject_note(fresh, new)
            if notes
            else NoteDraft(text=f"{text[:NOTE_CHARACTERS]} …", ids=ids[:40], ended=ended[:20])
        )
    return NoteDraft(text=text, ids=ids[:40], replaces=notes[:6], ended=ended[:20])


def _build_word_notes(said: Sequence[PromptRow]) -> Iterator[NoteDraft]:
    having: dict[str, list[PromptRow]] = {}
    for row in said:
        for word in sorted({token.casefold() for token in _WORD.findall(row.text)} - STOP_WORDS):
            having.setdefault(word, []).append(row)
    taken_keys: set[str] = set()
    for word, group in sorted(having.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        left = [row for row in group if row.key not in taken_keys]
        if 2 <= len(left) <= 4 and len(group) <= 6 and word:
            taken_keys.update(row.key for row in left)
            yield NoteDraft(text=" ".join(row.quotation for row in left), ids=[row.key for row in left])


def build_comparison(data: str) -> ComparisonAnswer:
    """Find the facts for which two notes state different values."""
    by_key = {row.key: row for row in parse_rows(data)}
    contradictions: list[Contradiction] = []
    for one, other in _PAIR.findall(data):
        first, second = sorted((by_key[one], by_key[other]), key=lambda row: (row.day, row.key))
        values = {(fact.subject, fact.about): fact for fact in first.facts}
        for fact in second.facts:
            old = values.get((fact.subject, fact.about))
            if old is None or old.value == fact.value:
                continue
            evidence = [by_key[key] for key in first.evidence_keys if key in by_key]
            stale = [row.key for row in evidence if any(fact.value == old.value for fact in row.facts)]
            contradictions.append(
                Contradiction(
                    now=fact.present_sentence, before=old.past_sentence, holds=[second.key], ended=[first.key, *stale],
                    verdict="replaced" if first.day < second.day else "unclear",
                )
            )  # fmt: skip
    return ComparisonAnswer(found=contradictions[:12])


def build_reflection(data: str) -> ReflectionAnswer:
    """Return the words that somebody used on several days, and the beliefs with outdated evidence."""
    every = parse_rows(data)
    over = set(re.findall(r"^(e\d+): ", data, re.M))
    spoken_rows = [row for row in every if row.speaker and row.key not in over]
    words: dict[tuple[str, str], dict[str, PromptRow]] = {}
    for row in spoken_rows:
        for word in {token.casefold() for token in _WORD.findall(row.text)} - STOP_WORDS:
            words.setdefault((row.speaker, word), {}).setdefault(row.day, row)
    often = sorted(words.items(), key=lambda entry: (-len(entry[1]), entry[0]))[:3]
    known_beliefs = " ".join(row.text for row in every if row.key[0] == "b")
    beliefs = [
        Belief(
            text=f"{capitalize(who)} often speaks of {word}.", ids=[row.key for row in days.values()][:10]
        )
        for (who, word), days in often
        if len(days) > 1 and f" {word}." not in known_beliefs
    ]  # fmt: skip
    checked = [BeliefCheck(id=row.key, holds=over.isdisjoint(row.evidence_keys)) for row in every if row.key[0] == "b"]
    return ReflectionAnswer(beliefs=beliefs, checked=checked[:6])


def build_compression(data: str) -> SummaryDraft:
    every = parse_rows(data)
    firsts = [re.split(r"(?<=[.!?\"]) ", row.text, maxsplit=1)[0][:QUOTATION_CHARACTERS] for row in every]
    text = " ".join(dict.fromkeys(firsts))[:1_200]
    return SummaryDraft(text=text, ids=[row.key for row in every][:40])


def build_rethink(data: str) -> RethinkAnswer:
    """Write a line for each fact of the new notes, in place of the line on the same subject or at the end."""
    blocks: dict[str, list[str]] = {}
    for line in data.split("\n"):
        if head := re.match(r"## Block (.*?)(?: \(.*\))?, room for ", line):
            blocks[head[1]] = []
        elif line.startswith("| ") and blocks:
            blocks[next(reversed(blocks))].append(line[2:])
    edits: list[BlockEdit] = []
    done: Counter[tuple[str, str]] = Counter()
    for row in sorted(parse_rows(data), key=lambda row: row.day, reverse=True):
        for fact in row.facts:
            about = (fact.subject, fact.about)
            done[about] += 1
            if done[about] == 1 and (edit := _build_edit(blocks, fact, row)) is not None:
                edits.append(edit)
    return RethinkAnswer(edits=edits[:10])


def _build_edit(blocks: Mapping[str, Sequence[str]], fact: Fact, row: PromptRow) -> BlockEdit | None:
    for label, lines in blocks.items():
        for line in lines:
            for stated in find_facts("", line):
                if (stated.subject, stated.about) == (fact.subject, fact.about):
                    same = stated.value == fact.value
                    return None if same else BlockEdit(
                        label=label, old_text=line, new_text=f"{fact.present_sentence}.", ids=[row.key]
                    )  # fmt: skip
    return BlockEdit(label=next(iter(blocks)), new_text=f"{fact.present_sentence}.", ids=[row.key]) if blocks else None


def build_predictions(data: str) -> Predictions:
    """Ask for each fact that a block states, in the words of its person."""
    lines = [line[2:] for line in data.split("\n") if line.startswith("| ")]
    questions = {
        (fact.subject == NO_OWNER, fact.about): _phrase_questions(fact)
        for line in lines
        for fact in find_facts("", line)
    }
    return Predictions(
        questions=[PredictedQuestion(phrasings=list(phrasings), confidence=0.6) for phrasings in questions.values()][
            :10
        ]
    )


def _phrase_questions(fact: Fact) -> Sequence[str]:
    if fact.about == "home":
        return "Where do I live?", "In which city do I live?"
    asks = "When" if _MONTH.search(fact.value) else "What"
    of = "the" if fact.subject == NO_OWNER else "my"
    return f"{asks} is {of} {fact.about}?", f"Tell me {asks.lower()} {of} {fact.about} is"


def build_question_verdicts(data: str) -> QuestionVerdicts:
    """Accept each question as answered and self-contained, with all its phrasings."""
    verdicts: list[QuestionVerdict] = []
    for line in data.split("\n"):
        if question := re.match(r"question (\d+): ", line):
            verdicts.append(QuestionVerdict(number=int(question[1]), answered=True, stands_alone=True, same=[]))
        elif (phrasing := re.match(r"  phrasing (\d+): ", line)) and verdicts:
            verdicts[-1].same.append(int(phrasing[1]))
    return QuestionVerdicts(questions=verdicts)


def find_same_questions(data: str) -> SameQuestions:
    """Return the questions that have the same words, in any order."""
    question_line = re.search(r"^question: (.*)$", data, re.M)
    words = Counter(re.findall(r"\w+", question_line[1].casefold())) if question_line else Counter[str]()
    listed = re.findall(r"^(\d+)\. (.*)$", data, re.M)
    return SameQuestions(
        same=[int(number) for number, text in listed if Counter(re.findall(r"\w+", text.casefold())) == words]
    )


def build_answer_verdicts(data: str) -> AnswerVerdicts:
    """Accept each answer unless a new line shares a word with it, and states none of its facts."""
    said = [row for row in parse_rows(data) if row.part == "Said since"]
    answers = re.findall(r"(?m)^## Answer (a\d+)\n((?:\| .*\n?)*)", data)
    return AnswerVerdicts(
        verdicts=[AnswerVerdict(id=key, right=_is_still_right(lines, said)) for key, lines in answers]
    )


def _is_still_right(lines: str, said: Sequence[PromptRow]) -> bool:
    terms = set(question_terms(lines))
    near = [row for row in said if terms.intersection(question_terms(row.text))]
    return all(row.facts and all(fact.value in lines for fact in row.facts) for row in near)


_OWN: Final = frozenset(question_terms(
    "allergic before belief follow is lives often prefers said speaks until was works one several together week"
))  # fmt: skip
"""Words that the rules here put into notes."""


def build_claim_verdicts(data: str) -> ClaimVerdicts:
    """Accept a claim if the lines that it cites contain all of its content words and numbers.

    It ends what shares a word with it and states something else, and loses the facts of what it replaces that it does
    not state.
    """
    rows = {row.key: row for row in parse_rows(data)}
    terms = {key: {*question_terms(f"{row.day} {row.speaker} {row.text}")} for key, row in rows.items()}
    replaced = {
        key: " ".join(line[2:] for line in lines.splitlines())
        for keys, lines in re.findall(r"(?m)^## Replaced by (.*)\n((?:\| .*\n?)*)", data)
        for key in keys.split()
    }
    verdicts: list[ClaimVerdict] = []
    for key, mark, named, text in re.findall(r"(?m)^(c\d+)(?: \((belief|open|gone)\))? \[([^\]]*)\] (.*)$", data):
        cited, _, ends = named.partition(" ends ")
        words = {*question_terms(text)}
        known_terms = _OWN.union(
            question_terms(replaced.get(key, "")), *(terms[each] for each in cited.replace(" beside ", " ").split())
        )
        sentences = re.findall(r"[^.;]+[.;]", replaced.get(key, ""))
        stated = {(fact.subject, fact.about, fact.value) for fact in find_facts("", text)}
        lost = [each.strip() for each in sentences if not words & (set(question_terms(each)) - _OWN)]
        verdicts.append(
            ClaimVerdict(
                id=key, verdict="said" if mark == "gone" or known_terms.issuperset(words) else "not_said",
                lost=" ".join(lost),
                not_over=[each for each in ends.split() if not words & (set(question_terms(rows[each].text)) - _OWN)
                    or _is_stated(rows[each], stated)],
            )
        )  # fmt: skip
    return ClaimVerdicts(verdicts=verdicts)


def _is_stated(row: PromptRow, stated: Collection[tuple[str, str, str]]) -> bool:
    """Return whether a row has facts, and all of them are stated."""
    return bool(row.facts) and all((fact.subject, fact.about, fact.value) in stated for fact in row.facts)


ANSWER_BUILDERS: Final[Mapping[type[BaseModel], Callable[[str], BaseModel]]] = {
    ConsolidationAnswer: build_consolidation,
    ComparisonAnswer: build_comparison,
    ReflectionAnswer: build_reflection,
    SummaryDraft: build_compression,
    RethinkAnswer: build_rethink,
    Predictions: build_predictions,
    QuestionVerdicts: build_question_verdicts,
    SameQuestions: find_same_questions,
    AnswerVerdicts: build_answer_verdicts,
    ClaimVerdicts: build_claim_verdicts,
}
