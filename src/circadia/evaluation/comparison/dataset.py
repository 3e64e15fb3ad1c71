"""Contexts with questions: what is measured on, and how such data are read from JSON Lines and written.

The format is that of the paper (Lin et al. 2025, "Sleep-time Compute: Beyond Inference Scaling at Test-time",
https://github.com/letta-ai/sleep-time-compute): a line has a context, a question and an answer. Lines with the same
context are one context with several questions, as in its Multi-Query GSM-Symbolic.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from circadia.errors import InvalidRequest, NotFound
from circadia.memory.search.terms import STOP_WORDS, words

PREFIXES: Final = ("stateful_gsm_symbolic_", "stateful_aime_", "")
"""Of the keys `context` and `question`."""
MARK: Final = "####"
"""Stands before the answer in GSM-Symbolic, after its reasoning."""
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyedQuestion:
    """A question with its key."""

    text: str
    key: str
    """The right answer."""
    likely: float | None = None
    """How likely it is, 0 to 1, given the context: exact from the generator, or as the data tell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A context with its questions."""

    name: str
    context: str
    questions: Sequence[KeyedQuestion]


def load_cases(path: Path) -> list[Case]:
    """Read cases.

    Raises:
        NotFound: there is no such file. InvalidRequest: a line is not of the format, or there is none.
    """
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {str(path)!r}; name one in JSON Lines with --data") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{str(path)!r} cannot be read as UTF-8 text: {error}") from error
    found: dict[str, list[KeyedQuestion]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                context, asked = _parse_line(line)
            except ValueError as error:
                raise InvalidRequest(f"{str(path)!r}, line {number}: {error}") from error
            found.setdefault(context, []).extend(asked)
    if not found:
        raise InvalidRequest(f"{str(path)!r} is empty: it needs one JSON object a line, with context, question, answer")
    return [
        Case(name=f"context {at}", context=context, questions=questions)
        for at, (context, questions) in enumerate(found.items(), 1)
    ]


def dump_cases(cases: Sequence[Case]) -> str:
    """Return the cases in the paper's format, with the predictability of each question."""
    lines = [
        json.dumps(
            {
                "stateful_gsm_symbolic_context": case.context,
                "stateful_gsm_symbolic_question": asked.text,
                "answer": f"{MARK} {asked.key}",
                "predictability": asked.likely,
            },
            ensure_ascii=False,
        )
        for case in cases
        for asked in case.questions
    ]
    return "\n".join(lines) + "\n"


def estimate_predictability(asked: KeyedQuestion, context: str) -> float:
    """Return how likely the question is, as told; else the share of its telling words that the context has too."""
    if asked.likely is not None:
        return asked.likely
    telling = set(words(asked.text)) - STOP_WORDS
    return len(telling.intersection(words(context))) / len(telling) if telling else 0.0


def _parse_line(line: str) -> tuple[str, list[KeyedQuestion]]:
    """Return the context of a line and its questions. Raises ValueError: it is not of the format."""
    try:
        raw: object = json.loads(line)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error
    if not isinstance(raw, dict):
        raise ValueError(f"a JSON object is expected, not {type(raw).__name__}")
    row = cast("dict[str, Any]", raw)
    prefix = next((each for each in PREFIXES if f"{each}context" in row), None)
    if prefix is None:
        context, question = _split_problem(_require_text(row, "question"))
        return context, [_parse_question(question, row)]
    context = _require_text(row, f"{prefix}context")
    if "questions" in row:
        return context, list(_parse_questions(row))
    return context, [_parse_question(_require_text(row, f"{prefix}question"), row)]


def _parse_questions(row: Mapping[str, Any]) -> Iterator[KeyedQuestion]:
    """Return the questions of a line that has a list: of objects, or of texts beside a list of answers."""
    questions, answers = row["questions"], row.get("answers")
    if not isinstance(questions, list) or not questions:
        raise ValueError("'questions' must be a list that is not empty")
    several = cast("list[Any]", questions)
    if isinstance(answers, list) and len(cast("list[Any]", answers)) != len(several):
        raise ValueError(f"there are {len(several)} questions and {len(cast('list[Any]', answers))} answers")
    for at, each in enumerate(several):
        if isinstance(each, dict):
            one = cast("dict[str, Any]", each)
            yield _parse_question(_require_text(one, "question"), one)
        elif isinstance(each, str) and isinstance(answers, list):
            yield _parse_question(each, {"answer": cast("list[Any]", answers)[at]})
        else:
            raise ValueError(f"question {at + 1} must be an object with 'question' and 'answer', or 'answers' a list")


def _parse_question(question: str, row: Mapping[str, Any]) -> KeyedQuestion:
    answer = row.get("answer")
    if isinstance(answer, bool) or not isinstance(answer, str | int | float):
        raise ValueError("'answer' must be a text or a number")
    key = str(answer).rpartition(MARK)[2].strip()
    if not key or not question.strip():
        raise ValueError("the question or the answer is empty")
    likely = row.get("predictability")
    if likely is not None and (isinstance(likely, bool) or not isinstance(likely, int | float) or not 0 <= likely <= 1):
        raise ValueError(f"'predictability' must be a number from 0 to 1, not {likely!r}")
    return KeyedQuestion(text=question.strip(), key=key, likely=likely)


def _require_text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{key!r} must be a text that is not empty")
    return value.strip()


def _split_problem(text: str) -> tuple[str, str]:
    """Return a whole problem as the paper divides it: the last sentence asks, what stands before it is the context."""
    parts = _SENTENCE.split(text)
    if len(parts) < 2:
        raise ValueError("there is no 'context', and 'question' is one sentence, so it has none in it")
    return " ".join(parts[:-1]), parts[-1]
