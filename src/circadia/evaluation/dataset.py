"""Read and write data sets: contexts with questions, in JSON Lines.

The format is the paper's (Lin et al. 2025, "Sleep-time Compute: Beyond Inference Scaling at Test-time",
https://github.com/letta-ai/sleep-time-compute): a line has a context, a question and an answer. Lines with the same
context form one case, as in its Multi-Query GSM-Symbolic.
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
"""Prefixes of the keys `context` and `question`."""
MARK: Final = "####"
"""Separates the answer from its reasoning in GSM-Symbolic."""
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyedQuestion:
    text: str
    key: str
    likely: float | None = None
    """Probability of the question given the context: exact from the generator, or as in the data."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    name: str
    context: str
    questions: Sequence[KeyedQuestion]


def load_cases(path: Path) -> list[Case]:
    """Read cases from a file. Raises NotFound: it does not exist. InvalidRequest: it is empty or malformed."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError as error:
        raise NotFound(f"no file {str(path)!r}; name a JSON Lines file with --data") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{str(path)!r} cannot be read as UTF-8 text: {error}") from error
    questions_by_context: dict[str, list[KeyedQuestion]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                context, questions = _parse_line(line)
            except ValueError as error:
                raise InvalidRequest(f"{str(path)!r}, line {number}: {error}") from error
            questions_by_context.setdefault(context, []).extend(questions)
    if not questions_by_context:
        raise InvalidRequest(f"{str(path)!r} is empty: it needs one JSON object a line, with context, question, answer")
    return [
        Case(name=f"context {at}", context=context, questions=questions)
        for at, (context, questions) in enumerate(questions_by_context.items(), 1)
    ]


def dump_cases(cases: Sequence[Case]) -> str:
    """Return the cases in the paper's format, with each question's predictability."""
    lines = [
        json.dumps(
            {
                "stateful_gsm_symbolic_context": case.context,
                "stateful_gsm_symbolic_question": question.text,
                "answer": f"{MARK} {question.key}",
                "predictability": question.likely,
            },
            ensure_ascii=False,
        )
        for case in cases
        for question in case.questions
    ]
    return "\n".join(lines) + "\n"


def estimate_predictability(question: KeyedQuestion, context: str) -> float:
    """Return the question's probability; if unknown, the share of its content words in the context."""
    if question.likely is not None:
        return question.likely
    content = set(words(question.text)) - STOP_WORDS
    return len(content.intersection(words(context))) / len(content) if content else 0.0


def _parse_line(line: str) -> tuple[str, list[KeyedQuestion]]:
    """Return the context and questions of a line. Raises ValueError: it is malformed."""
    try:
        raw: object = json.loads(line)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error
    if not isinstance(raw, dict):
        raise ValueError(f"a JSON object is expected, not {type(raw).__name__}")
    row = cast("dict[str, Any]", raw)
    prefix = next((prefix for prefix in PREFIXES if f"{prefix}context" in row), None)
    if prefix is None:
        context, question = _split_problem(_require_text(row, "question"))
        return context, [_parse_question(question, row)]
    context = _require_text(row, f"{prefix}context")
    if "questions" in row:
        return context, list(_parse_questions(row))
    return context, [_parse_question(_require_text(row, f"{prefix}question"), row)]


def _parse_questions(row: Mapping[str, Any]) -> Iterator[KeyedQuestion]:
    """Yield the questions of a list: objects, or texts with a separate list of answers."""
    questions, answers = row["questions"], row.get("answers")
    if not isinstance(questions, list) or not questions:
        raise ValueError("'questions' must be a list that is not empty")
    several = cast("list[Any]", questions)
    if isinstance(answers, list) and len(cast("list[Any]", answers)) != len(several):
        raise ValueError(f"there are {len(several)} questions and {len(cast('list[Any]', answers))} answers")
    for at, entry in enumerate(several):
        if isinstance(entry, dict):
            one = cast("dict[str, Any]", entry)
            yield _parse_question(_require_text(one, "question"), one)
        elif isinstance(entry, str) and isinstance(answers, list):
            yield _parse_question(entry, {"answer": cast("list[Any]", answers)[at]})
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
    """Split a problem as the paper does: the last sentence is the question, the rest is the context."""
    parts = _SENTENCE.split(text)
    if len(parts) < 2:
        raise ValueError("'context' is missing, and 'question' is one sentence without a context")
    return " ".join(parts[:-1]), parts[-1]


MAX_EXTRA_WORDS: Final = 12
"""Words around a key that is not a number; more would be a list to choose from."""
_NUMBER: Final = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_TIME: Final = re.compile(r"\b(\d{1,2}):(\d\d)\b")
_WORD: Final = re.compile(r"[^\W_]+")


def matches_key(answer: str, key: str) -> bool:
    """Compare the last number or time in the answer with the key, or look for the key's words among few others."""
    if _TIME.fullmatch(key.strip()):
        return _last_time(answer) == _last_time(key)
    key_number = _last_number(key) if re.fullmatch(r"[\s$€£]*-?\d[\d,]*(?:\.\d+)?[\s%]*\.?", key) else None
    if key_number is not None:
        return _last_number(answer) == key_number
    answered, wanted_words = _WORD.findall(answer.casefold()), _WORD.findall(key.casefold())
    if not wanted_words:
        return answer.strip() == key.strip()
    within = any(answered[at : at + len(wanted_words)] == wanted_words for at in range(len(answered)))
    return within and len(answered) - len(wanted_words) <= MAX_EXTRA_WORDS


def _last_number(text: str) -> float | None:
    matches = _NUMBER.findall(text)
    return float(matches[-1].replace(",", "")) if matches else None


def _last_time(text: str) -> tuple[int, int] | None:
    matches = _TIME.findall(text)
    return (int(matches[-1][0]), int(matches[-1][1])) if matches else None
