"""Load long conversations with questions, in LoCoMo's format (https://github.com/snap-research/locomo)."""

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
    at: datetime
    session: str
    speaker: str
    text: str

    @property
    def indexed_text(self) -> str:
        """Return the searchable text, the same for all methods."""
        return searched_text(self.at, self.speaker, self.text)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceQuestion:
    question: str
    evidence: frozenset[int]
    """Places of turns."""
    answer: str = ""
    """Empty if the data has none."""
    kind: str = ""
    """Name of LoCoMo's category; empty if it has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LongConversation:
    turns: Sequence[DialogueTurn]
    asked: Sequence[EvidenceQuestion]
    name: str = ""


def load_conversations(path: Path) -> list[LongConversation]:
    """Load conversations. Raises NotFound: no such file. InvalidRequest: it is malformed, or has no evidence."""
    try:
        raw: object = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise NotFound(f"no file {str(path)!r}; name one in LoCoMo's format") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"{str(path)!r} cannot be read as JSON: {error}") from error
    rows = cast("list[Any]", raw if isinstance(raw, list) else [raw])
    conversations: list[LongConversation] = []
    for at, entry in enumerate(rows, 1):
        try:
            conversations.append(parse_conversation(entry, name=f"{at}"))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            problem = f"there is no {error}" if isinstance(error, KeyError) else str(error)
            raise InvalidRequest(f"{str(path)!r}, conversation {at}: not in LoCoMo's format: {problem}") from error
    if not any(entry.asked for entry in conversations):
        raise InvalidRequest(f"{str(path)!r} has no question whose evidence is among the turns")
    return conversations


def parse_conversation(raw: Mapping[str, Any], name: str = "") -> LongConversation:
    """Parse one conversation, without questions whose evidence is not among its turns.

    Raises KeyError, TypeError, ValueError, AttributeError: it is malformed.
    """
    turns, places = parse_turns(raw["conversation"])
    questions: list[EvidenceQuestion] = []
    for entry in raw["qa"]:
        named = [place for reference in entry.get("evidence") or () for place in _TURN.findall(str(reference))]
        evidence = frozenset(places[place] for place in named if place in places)
        if evidence:
            kind = KINDS.get(entry.get("category", 0), "")
            answer = str(entry.get("answer", ""))
            questions.append(EvidenceQuestion(question=entry["question"], evidence=evidence, answer=answer, kind=kind))
    return LongConversation(turns=turns, asked=questions, name=str(raw.get("sample_id", name)))


def parse_turns(conversation: Mapping[str, Any]) -> tuple[list[DialogueTurn], dict[str, int]]:
    """Return the turns of all sessions in order, and the place of each by its id. Raises as `parse_conversation`."""
    turns: list[DialogueTurn] = []
    places: dict[str, int] = {}
    for session in sorted(int(match[1]) for key in conversation if (match := _SESSION.fullmatch(key))):
        at = datetime.strptime(conversation[f"session_{session}_date_time"], _AT).replace(tzinfo=UTC)
        for turn in conversation[f"session_{session}"]:
            places[turn["dia_id"]] = len(turns)
            turns.append(DialogueTurn(at=at, session=str(session), speaker=turn["speaker"], text=turn["text"]))
    return turns, places
