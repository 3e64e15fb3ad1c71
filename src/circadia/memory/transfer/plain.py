"""Read the plain format: JSON Lines of `{"at": …, "speaker": …, "text": …, "session": …}`.

The speakers `assistant`, `tool` and `program` have the trust of an agent or a tool; each other speaker is a person.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from circadia.errors import InvalidRequest
from circadia.memory.transfer.transcripts import Speaker, TranscriptFacts, TranscriptTurn, user_text
from circadia.memory.transfer.values import as_name, parse_time
from circadia.records.episode import EpisodeKind

_SPEAKERS: Final[Mapping[str, Speaker]] = {speaker.value: speaker for speaker in Speaker}


def read_plain_line(line: Mapping[str, Any], number: int, facts: TranscriptFacts) -> Iterator[TranscriptTurn]:
    """Yield the turn of a line. Raises InvalidRequest: its text is not text, or its time cannot be read."""
    if "text" not in line or "speaker" not in line:
        facts.unknown_lines += 1
        return
    name, text = as_name(line["speaker"]), line["text"]
    if name is None or not isinstance(text, str):
        raise InvalidRequest(f"line {number}: `speaker` and `text` must be texts, and `speaker` not empty")
    speaker = _SPEAKERS.get(name, Speaker.PERSON)
    session = as_name(line.get("session")) or facts.session
    parts = (session, name, str(line.get("at")), text)
    if spoken := user_text(text):
        yield TranscriptTurn(
            line=number,
            speaker=speaker,
            text=spoken,
            at=parse_time(line.get("at"), number),
            conversation=session,
            key="plain:" + hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:40],
            kind=EpisodeKind.TOOL if speaker is Speaker.TOOL else EpisodeKind.TURN,
            name=name,
        )
