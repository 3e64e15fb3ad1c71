"""Long conversations with questions, in the format of LoCoMo (https://github.com/snap-research/locomo)."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from circadia.errors import InvalidRequest, NotFound
from circadia.memory.episodes import searched_text

KINDS: Final[Mapping[int, str]] = {
    1: "several turns", 2: "time", 3: "world knowledge", 4: "one turn", 5: "adversarial",
}  # fmt: skip
"""LoCoMo's categories of questions."""
_SESSION: Final = re.compile(r"session_(\d+)")
_TURN: Final = re.compile(r"D\d+:\d+")
_AT: Final = "%I:%M %p on %d %B, %Y"


@dataclass(frozen=True, kw_only=True, slots=True)
class DialogueTurn:
    """What somebody said."""

    at: datetime
    session: str
    speaker: str
    text: str

    @property
    def indexed_text(self) -> str:
        """Return what it is found by: the same for all ways."""
        return searched_text(self.at, self.speaker, self.text)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceQuestion:
    """A question with its evidence."""

    question: str
    evidence: frozenset[int]
    """Places of turns."""
    answer: str = ""
    """What is true; empty if it is not said."""
    kind: str = ""
    """What is asked for, by LoCoMo's category; empty if it has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LongConversation:
    """A long one."""

    turns: Sequence[DialogueTurn]
    asked: Sequence[EvidenceQuestion]
    name: str = ""


def load_conversations(path: Path) -> list[LongConversation]:
    """Read conversations.

    Raises:
        NotFound: there is no such file. InvalidRequest: it is not of the format, or has no question with evidence.
    """
    try:
        raw: object = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {str(path)!r}; name one in LoCoMo's format") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"{str(path)!r} cannot be read as JSON: {error}") from error
    rows = cast("list[Any]", raw if isinstance(raw, list) else [raw])
    found: list[LongConversation] = []
    for at, each in enumerate(rows, 1):
        try:
            found.append(parse_conversation(each, name=f"{at}"))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            told = f"there is no {error}" if isinstance(error, KeyError) else str(error)
            raise InvalidRequest(f"{str(path)!r}, conversation {at}: not in LoCoMo's format: {told}") from error
    if not any(each.asked for each in found):
        raise InvalidRequest(f"{str(path)!r} has no question whose evidence is among the turns")
    return found


def parse_conversation(raw: Mapping[str, Any], name: str = "") -> LongConversation:
    """Return one of LoCoMo's; questions whose evidence is not among the turns are left out.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it is not of the format.
    """
    said: Mapping[str, Any] = raw["conversation"]
    turns: list[DialogueTurn] = []
    places: dict[str, int] = {}
    for session in sorted(int(found[1]) for key in said if (found := _SESSION.fullmatch(key))):
        at = datetime.strptime(said[f"session_{session}_date_time"], _AT).replace(tzinfo=UTC)
        for turn in said[f"session_{session}"]:
            places[turn["dia_id"]] = len(turns)
            turns.append(DialogueTurn(at=at, session=str(session), speaker=turn["speaker"], text=turn["text"]))
    asked: list[EvidenceQuestion] = []
    for each in raw["qa"]:
        named = [place for told in each.get("evidence") or () for place in _TURN.findall(str(told))]
        evidence = frozenset(places[place] for place in named if place in places)
        if evidence:
            kind = KINDS.get(each.get("category", 0), "")
            answer = str(each.get("answer", ""))
            asked.append(EvidenceQuestion(question=each["question"], evidence=evidence, answer=answer, kind=kind))
    return LongConversation(turns=turns, asked=asked, name=str(raw.get("sample_id", name)))
