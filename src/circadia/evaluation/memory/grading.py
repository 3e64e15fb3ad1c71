"""Whether an answer is right: by rule where the key is a day, a number or a name, else by a judge."""

import re
from datetime import UTC, date, datetime
from typing import Final

from pydantic import BaseModel, Field

from circadia.evaluation.arms import load_rules
from circadia.evaluation.asker import Asker, EvaluationUsage
from circadia.evaluation.dataset import matches_key
from circadia.llm.chat_model import Prompt
from circadia.sleeptime.grounding.figures import find_calendar_dates
from circadia.sleeptime.proposals.prompts import add_fence

UNKNOWN: Final = "unknown"
"""What an answer says that knows nothing."""
NAME_WORDS: Final = 3
"""Words up to which a key without digits is taken for a name."""
GRADE_TOKENS: Final = 400
"""Limit of a verdict, including reasoning."""
_DAY_FORMS: Final = ("%Y-%m-%d", "%d %B %Y", "%d %B, %Y", "%B %d, %Y", "%B %d %Y")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2} [A-Z][a-z]+,? \d{4}|[A-Z][a-z]+ \d{1,2},? \d{4}")
_NUMBER: Final = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?!\w)")


class Verdict(BaseModel):
    """A judge's."""

    reasoning: str = Field(description="One short sentence.")
    right: bool = Field(description="Whether the answer is right.")


def grade_by_rule(answer: str, key: str) -> bool | None:
    """Return whether an answer is right; None where only a judge can tell."""
    if answer.strip(" .").casefold() in ("", UNKNOWN):
        return None
    if (day := _parse_day(key)) is not None:
        days = _find_days(answer)
        return None if not days else days == {day}
    if _NUMBER.fullmatch(key.strip(" .")):
        numbers = {found.replace(",", "") for found in _NUMBER.findall(answer)}
        wanted = key.strip(" .").replace(",", "")
        if not numbers or (wanted in numbers and len(numbers) > 1):
            return None
        return wanted in numbers
    words = key.split()
    if len(words) <= NAME_WORDS and not any(letter.isdigit() for letter in key) and matches_key(answer, key):
        return True
    return None


async def grade(judge: Asker, question: str, key: str, answer: str) -> tuple[bool, bool, EvaluationUsage]:
    """Return whether the answer is right, whether the judge said so, and the judge's usage. Raises UpstreamFailed."""
    by_rule = grade_by_rule(answer, key)
    if by_rule is not None:
        return by_rule, False, EvaluationUsage()
    data = f"## Question\n{question}\n\n## Key\n{key}\n\n## Answer\n{answer or UNKNOWN}"
    prompt = Prompt(rules=load_rules("memory_grade"), data=add_fence(data))
    verdict, spent = await judge.ask(prompt, Verdict, most_tokens=GRADE_TOKENS)
    return verdict is not None and verdict.right, True, spent


def _find_days(text: str) -> set[date]:
    days = {day for found in _DAY.findall(text) if (day := _parse_day(found)) is not None}
    for found in find_calendar_dates(text):
        days |= {date(year, month, day) for year, month, day in found.readings[:1] if day is not None}
    return days


def _parse_day(text: str) -> date | None:
    for form in _DAY_FORMS:
        try:
            return datetime.strptime(text.strip(" ."), form).replace(tzinfo=UTC).date()
        except ValueError:
            continue
    return None
