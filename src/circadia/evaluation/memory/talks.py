"""Long talks with questions, in LoCoMo's format (REALTALK has the same) or LongMemEval's."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from circadia.errors import InvalidRequest, NotFound
from circadia.evaluation.locomo import KINDS, DialogueTurn, parse_turns
from circadia.records.bank import Trust

NOT_TOLD: Final = "The talk does not tell it."
"""The key of a question that the talk cannot answer."""
_ADVERSARIAL: Final = 5
"""LoCoMo's category of questions that sound as if the talk told of them."""
_AT: Final = "%Y/%m/%d (%a) %H:%M"
"""LongMemEval's times."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedQuestion:
    id: str
    """Unique within the file."""
    text: str
    key: str
    kind: str
    at: datetime
    """When it is asked: after all that was said, unless the data states it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedTalk:
    name: str
    turns: Sequence[DialogueTurn]
    """In order of time."""
    questions: Sequence[AskedQuestion]


def trust_of(turn: DialogueTurn) -> Trust:
    """Return what a server would store the turn with."""
    return Trust.AGENT if turn.speaker == "assistant" else Trust.PERSON


def load_talks(path: Path) -> list[AskedTalk]:
    """Load a file. Raises NotFound: there is none. InvalidRequest: it is in neither format, or asks nothing."""
    try:
        raw: object = json.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError as error:
        raise NotFound(f"no file {str(path)!r}; name one in LoCoMo's or LongMemEval's format") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"{str(path)!r} cannot be read as JSON: {error}") from error
    talks: list[AskedTalk] = []
    for number, entry in enumerate(cast("list[Any]", raw if isinstance(raw, list) else [raw]), 1):
        try:
            talks.append(_parse_haystack(entry) if "haystack_sessions" in entry else _parse_talk(entry, f"{number}"))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            problem = f"there is no {error}" if isinstance(error, KeyError) else str(error)
            raise InvalidRequest(
                f"{str(path)!r}, entry {number}: in neither LoCoMo's nor LongMemEval's format: {problem}"
            ) from error
    if not any(talk.questions for talk in talks):
        raise InvalidRequest(f"{str(path)!r} has no question with an answer")
    return [talk for talk in talks if talk.questions]


def _parse_talk(raw: Mapping[str, Any], number: str) -> AskedTalk:
    turns, _ = parse_turns(raw["conversation"])
    name = str(raw.get("sample_id", number))
    questions: list[AskedQuestion] = []
    for place, entry in enumerate(raw["qa"], 1):
        category = entry.get("category", 0)
        key = NOT_TOLD if category == _ADVERSARIAL else str(entry.get("answer") or "").strip()
        if key and turns:
            questions.append(
                AskedQuestion(
                    id=f"{name}/{place}", text=entry["question"], key=key, kind=KINDS.get(category, "other"),
                    at=turns[-1].at,
                )
            )  # fmt: skip
    return AskedTalk(name=name, turns=turns, questions=questions)


def _parse_haystack(raw: Mapping[str, Any]) -> AskedTalk:
    dates, sessions = raw["haystack_dates"], raw["haystack_sessions"]
    names = raw.get("haystack_session_ids") or [str(place) for place in range(len(sessions))]
    parts = sorted(
        ((_parse_time(at), str(name), session) for at, name, session in zip(dates, names, sessions, strict=True)),
        key=lambda part: part[0],
    )
    turns = [
        DialogueTurn(at=at, session=name, speaker=turn["role"], text=turn["content"])
        for at, name, session in parts
        for turn in session
    ]
    name, key = str(raw["question_id"]), str(raw["answer"]).strip()
    asked = AskedQuestion(
        id=name, text=raw["question"], key=key, kind=str(raw["question_type"]), at=_parse_time(raw["question_date"])
    )
    return AskedTalk(name=name, turns=turns, questions=[asked] if key else [])


def _parse_time(text: str) -> datetime:
    return datetime.strptime(text, _AT).replace(tzinfo=UTC)
