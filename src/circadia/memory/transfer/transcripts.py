"""Turns of agents' transcripts, whichever program wrote them, and values of any type in other systems' formats."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, cast

import orjson

from circadia.errors import InvalidRequest
from circadia.memory.capture.harness import PROMPTS, find_turn_mark, own_words, strip_harness_text
from circadia.memory.context import strip_fences
from circadia.memory.episodes import MAX_CHARACTERS, MAX_NAME, NewEpisode
from circadia.memory.redaction import redact
from circadia.memory.transfer.import_format import ImportFormat
from circadia.records.bank import Trust
from circadia.records.episode import EpisodeKind

NAMED: Final = 10
"""Lines that cannot be read whose numbers are kept."""
_CUT_NEAR: Final = 2_000
"""Characters before the limit in which a line end is looked for."""


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return a JSON object, or an empty one for any other value."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> Sequence[object]:
    """Return a list, or an empty one for any other value."""
    return cast("Sequence[object]", value) if isinstance(value, list) else ()


def as_name(value: object) -> str | None:
    """Return a text as a speaker's or conversation's name, cut to the allowed length; None for any other value."""
    return value[:MAX_NAME] if isinstance(value, str) and value else None


def as_text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def parse_time(value: object, number: int) -> datetime | None:
    """Parse an ISO 8601 time, in UTC without a zone. Raises InvalidRequest, with the number of the line or entry."""
    if value is None:
        return None
    try:
        time = datetime.fromisoformat(cast("str", value))
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"{number}: {value!r:.80} is not a time in ISO 8601") from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def split_text(text: str) -> Iterator[str]:
    """Yield a text in parts that fit an episode, without characters that databases cannot store; nothing if empty."""
    rest = text.replace("\0", "")
    while rest.strip():
        part = rest[:MAX_CHARACTERS]
        if len(rest) > MAX_CHARACTERS:
            end = part.rfind("\n", MAX_CHARACTERS - _CUT_NEAR)
            part = part[: end + 1] if end > 0 else part
        if part.strip():
            yield part.strip()
        rest = rest[len(part) :]


class Speaker(StrEnum):
    PERSON = "person"
    ASSISTANT = "assistant"
    PROGRAM = "program"
    """A script, schedule or other agent that prompted the assistant in a person's place."""
    TOOL = "tool"


TRUST: Final = {
    Speaker.PERSON: Trust.PERSON,
    Speaker.ASSISTANT: Trust.AGENT,
    Speaker.PROGRAM: Trust.AGENT,
    Speaker.TOOL: Trust.TOOL,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class TranscriptTurn:
    line: int
    speaker: Speaker
    text: str
    """Without what programs added; not redacted."""
    at: datetime | None
    conversation: str | None
    key: str
    """Of the line, the same at each reading."""
    kind: EpisodeKind = EpisodeKind.TURN
    name: str | None = None
    """The speaker's name, if the transcript has it."""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def trust(self) -> Trust:
        return TRUST[self.speaker]


@dataclass(kw_only=True, slots=True)
class TranscriptFacts:
    """What a transcript shows besides its turns; a reader fills it in while it reads."""

    session: str
    """The file's name without its suffix, until a line names the session."""
    root: str | None = None
    """The folder in which the agent started."""
    started_by: str | None = None
    """What started the session, if not a person."""
    unknown_lines: int = 0
    """Lines of kinds that the reader does not know."""
    broken_lines: int = 0
    """Lines, or conversations of an export, that cannot be read."""
    first_broken: list[int | str] = field(default_factory=list[int | str])
    """The numbers or names of the first of them."""
    is_chore: bool = False
    """Whether a program asks for itself in the last user turn, so that the answer does not count either."""
    unfinished: bool = False
    """Whether the last line is incomplete: the session still runs."""

    @classmethod
    def from_name(cls, file: Path) -> "TranscriptFacts":
        return cls(session=os.fsencode(file.stem).decode("utf-8", "backslashreplace")[:MAX_NAME])

    @property
    def broken_places(self) -> str:
        """The numbers or names of the first lines that cannot be read."""
        return ", ".join(map(str, self.first_broken)) + (", …" if self.broken_lines > len(self.first_broken) else "")

    def count_broken(self, number: int | str) -> None:
        self.broken_lines += 1
        if len(self.first_broken) < NAMED:
            self.first_broken.append(number)


LineReader = Callable[[Mapping[str, Any], int, TranscriptFacts], Iterable[TranscriptTurn]]


def read_transcript(
    lines: Iterable[tuple[int, bytes]], read_line: LineReader, facts: TranscriptFacts
) -> Iterator[TranscriptTurn]:
    """Yield the turns in numbered lines of JSON up to an incomplete last line; malformed lines are counted."""
    for number, raw in lines:
        if not raw.strip():
            continue
        try:
            line = as_mapping(orjson.loads(raw))
        except ValueError:
            if raw.startswith(b"{") and not raw.endswith(b"\n"):
                facts.unfinished = True
                return
            facts.count_broken(number)
            continue
        try:
            yield from read_line(line, number, facts)
        except InvalidRequest:
            facts.count_broken(number)


def read_episodes(
    turns: Iterable[TranscriptTurn], source: ImportFormat, *, person: str, tools: bool
) -> Iterator[NewEpisode]:
    """Yield the turns as redacted episodes, a long text as several; `person` is the name of a person without one."""
    last, place = (0, ""), 0
    for turn in turns:
        if turn.kind is EpisodeKind.TOOL and not tools:
            continue
        if (turn.line, turn.key) != last:
            last, place = (turn.line, turn.key), 0
        for text in split_text(redact(turn.text)):
            place += 1
            yield build_episode(turn, source, text, person=person, key=turn.key + (f":{place}" if place > 1 else ""))


def build_episode(
    turn: TranscriptTurn, source: ImportFormat, text: str, *, person: str, key: str, trust: Trust | None = None
) -> NewEpisode:
    return NewEpisode(
        text=text,
        speaker=turn.name or (person if turn.speaker is Speaker.PERSON else turn.speaker.value),
        trust=trust or turn.trust,
        at=turn.at,
        kind=turn.kind,
        conversation=turn.conversation,
        metadata={"source": source.value, "session": turn.conversation, "line": turn.line, **turn.metadata},
        key=key,
    )


def user_text(text: str) -> str:
    """Return what was said in a user turn; empty if a program wrote all of it or asks for itself."""
    said = strip_program_text(text)
    return said if find_turn_mark(said) in ("", *PROMPTS) else ""


def strip_program_text(text: str) -> str:
    """Return a user turn without what programs added; empty if a program wrote all of it in a person's place."""
    return own_words(strip_harness_text(strip_fences(text))).strip()


def join_texts(parts: Iterable[object], clean: Callable[[str], str] = str) -> str:
    """Return the texts among the parts of a message, each as `clean` returns it."""
    texts = (as_mapping(part).get("text") for part in parts)
    return "\n\n".join(filter(None, (clean(text) for text in texts if isinstance(text, str))))


def text_metadata(**values: object) -> dict[str, str]:
    """Return the values that are texts, cut to the length of names."""
    return {key: value[:MAX_NAME] for key, value in values.items() if isinstance(value, str) and value}
