"""Read OpenClaw's transcripts, and its daily notes, `memory/YYYY-MM-DD*.md`.

Since 2026.8 the transcripts are rows of `agents/<agent>/agent/openclaw-agent.sqlite`; before, they were lines of
`agents/<agent>/sessions/*.jsonl`. A row holds what was a line. The database is read while OpenClaw has it open.

Transcripts contribute what the user and the assistant said, without what OpenClaw adds to a user turn: the sender,
the time, quoted messages and its own memory, and without its heartbeats, boot checks and memory flushes with their
answers. In daily notes, which the agent writes, each paragraph and list item is a fact.
"""

import hashlib
import os
import re
import sqlite3
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import orjson
from markdown_it import MarkdownIt

from circadia.errors import InvalidRequest
from circadia.memory.capture.harness import PROMPTS, SENT_AT, SILENCE, find_turn_mark
from circadia.memory.transfer.transcripts import (
    Speaker,
    TranscriptFacts,
    TranscriptTurn,
    as_list,
    as_mapping,
    as_name,
    as_text,
    join_texts,
    parse_time,
    strip_program_text,
    text_metadata,
)
from circadia.records.episode import EpisodeKind

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

DATABASE: Final = "openclaw-agent.sqlite"
_LONGEST_EVENT: Final = 4 * 2**20
"""Bytes of a row's event that OpenClaw allows itself; larger ones are none of its own."""
_SESSIONS: Final = """
SELECT session_id, count(*), max(0, min(max(created_at), 4102444800000)) FROM transcript_events
WHERE session_id NOT IN (
  SELECT previous_session_id FROM session_windows
  WHERE reason IN ('rewind', 'switch') AND previous_session_id IS NOT NULL
) GROUP BY session_id
"""
"""No time is beyond the year 2100, whatever is written."""
_OTHER_KINDS: Final = (
    "branch_summary", "compaction", "custom", "custom_message", "label", "leaf", "model_change", "session_info",
    "thinking_level_change",
)  # fmt: skip
_CONTEXT: Final = re.compile(
    r"\n{0,9}[^\n]{1,100}(?:\(untrusted[^()\n]{0,40}\):|\u27e6openclaw:ctx\u27e7)[ \t]*\n```json\n"
    r".*?^```[ \t]*(?:\n|\Z)",
    re.M | re.S,
)
"""A block that OpenClaw puts before an inbound message: the sender, the conversation, replies and forwards."""
_LABELS: Final = re.compile(r"^\[message_id: [^\]\n]{1,200}\]\s*$|^Context:\n(?=<active_memory_plugin>)", re.M)
_FROM_AGENT: Final = "[Inter-session message]"
"""First words of a user turn that another agent sends."""
_EVENT: Final = "System: ["
"""First words of a user turn with what happened in OpenClaw."""
DAY: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(?:\D.*)?")
"""Name of a daily note, without its suffix."""
_MARKDOWN: Final = MarkdownIt("commonmark")


def read_openclaw_line(line: Mapping[str, Any], number: int, facts: TranscriptFacts) -> Iterator[TranscriptTurn]:
    """Yield the turns of a transcript's line. Raises InvalidRequest: it has no `id`, or its time cannot be read."""
    kind = line.get("type")
    if kind == "session":
        facts.session = as_name(line.get("id")) or facts.session
        facts.root = as_text(line.get("cwd"))
        return
    if kind != "message":
        facts.unknown_lines += kind not in _OTHER_KINDS
        return
    message = as_mapping(line.get("message"))
    entry = line.get("id")
    if not isinstance(entry, str) or not 0 < len(entry) <= 100:
        raise InvalidRequest(f"line {number}: a message without `id` is not from OpenClaw")
    at = _parse_either_time(line.get("timestamp"), message.get("timestamp"), number)
    for speaker, text, turn_kind in _texts(message, facts):
        if text:
            yield TranscriptTurn(
                line=number,
                speaker=speaker,
                text=text,
                at=at,
                conversation=facts.session,
                key=f"openclaw:{facts.session[:100]}:{entry}",
                kind=turn_kind,
                metadata=text_metadata(cwd=facts.root),
            )


def list_database_sessions(file: Path) -> Sequence[tuple[str, int, int]]:
    """Return each session in the database, its number of lines, and the time of the last one in milliseconds.

    After a person has rewound a session it goes on under another id, with a copy of its lines; it is that one alone.

    Raises InvalidRequest: it is no such database, or cannot be read.
    """
    with _open_database(file) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'transcript_events'").fetchone():
            return []  # of a version that keeps sessions in files
        return database.execute(_SESSIONS).fetchall()


def read_database_lines(file: Path, session: str) -> Iterator[tuple[int, bytes]]:
    """Yield the numbered lines of a session in the database. Raises InvalidRequest, as `list_database_sessions`."""
    with _open_database(file) as database:
        database.row_factory, database.text_factory = sqlite3.Row, bytes
        for row in database.execute("SELECT * FROM transcript_events WHERE session_id = ? ORDER BY seq", (session,)):
            line = row["event_json"]
            yield row["seq"] + 1, (_unpack(row["event_zstd"]) if line is None else line) + b"\n"  # zstd since 2026.9


@contextmanager
def _open_database(file: Path) -> Generator[sqlite3.Connection]:
    try:
        with closing(sqlite3.connect(f"file:{quote(os.fsencode(file))}?mode=ro", uri=True)) as database:
            yield database
    except sqlite3.Error as error:
        raise InvalidRequest(f"{str(file)!r} cannot be read as a database of OpenClaw: {error}") from error


def _unpack(data: bytes) -> bytes:
    """Return an event; it is no JSON if it is damaged or too large."""
    try:
        return zstd.ZstdDecompressor().decompress(data, _LONGEST_EVENT)
    except zstd.ZstdError:
        return data


def find_abandoned_lines(lines: Iterable[tuple[int, bytes]]) -> frozenset[int]:
    """Return the numbers of the lines that a person has taken back: those that do not lead to where a session stands.

    A line `leaf` says that the session goes on from its `targetId`; without one, no line is taken back.
    """
    parents: dict[int, tuple[int, int]] = {}
    tip, was_rewound = 0, False
    for number, raw in lines:
        try:
            line = as_mapping(orjson.loads(raw))
        except ValueError:
            continue
        if line.get("type") == "leaf":
            tip, was_rewound = hash(as_text(line.get("targetId"))), True
        elif line.get("type") != "session" and isinstance(entry := line.get("id"), str):
            tip = hash(entry)
            parents[tip] = number, hash(as_text(line.get("parentId")))
    while was_rewound and tip in parents:
        _, tip = parents.pop(tip)
    return frozenset(number for number, _ in parents.values()) if was_rewound else frozenset()


def read_openclaw_notes(lines: Iterable[tuple[int, bytes]], facts: TranscriptFacts) -> Iterator[TranscriptTurn]:
    """Yield the paragraphs and list items of a daily note, at the noon (UTC) of the day that its name begins with.

    Raises InvalidRequest: its name has no day, or it is not UTF-8.
    """
    named_day = DAY.fullmatch(facts.session)
    try:
        day = date.fromisoformat(named_day[1] if named_day else facts.session)
        text = b"".join(line for _, line in lines).decode()
    except ValueError as error:
        raise InvalidRequest(
            f"a daily note is Markdown in UTF-8 named by its day, such as 2026-11-27.md: {error}"
        ) from error
    at = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    rows = text.splitlines()
    for token in _MARKDOWN.parse(text):
        spoken = (token.type, token.level) in (("paragraph_open", 0), ("list_item_open", 1))
        if spoken and token.map is not None:
            start, end = token.map
            entry = "\n".join(rows[start:end]).strip()
            digest = hashlib.sha256(entry.encode()).hexdigest()
            yield TranscriptTurn(
                line=start + 1,
                speaker=Speaker.ASSISTANT,
                text=entry,
                at=at,
                conversation=facts.session,
                key=f"openclaw:{facts.session[:100]}:{digest[:40]}",
                kind=EpisodeKind.FACT,
            )


def _texts(message: Mapping[str, Any], facts: TranscriptFacts) -> Iterator[tuple[Speaker, str, EpisodeKind]]:
    content: object = message.get("content")
    parts = [as_mapping(part) for part in as_list(content)]
    text = content if isinstance(content, str) else join_texts(part for part in parts if part.get("type") == "text")
    match message.get("role"):
        case "user":
            text = _strip_context(text)
            mark = find_turn_mark(text)
            facts.is_chore = mark != "" and mark not in PROMPTS
            origin = as_mapping(message.get("provenance")).get("kind")
            if facts.is_chore:
                return
            if origin in (None, "external_user") and not mark and not text.startswith(_FROM_AGENT):
                yield Speaker.PERSON, text, EpisodeKind.TURN
            else:
                facts.started_by = facts.started_by or "a schedule or another agent"
                yield Speaker.PROGRAM, text, EpisodeKind.TURN
        case "assistant" | "toolResult" if facts.is_chore:
            return
        case "assistant":
            if message.get("model") != "delivery-mirror" and text.strip() not in SILENCE:
                yield Speaker.ASSISTANT, text, EpisodeKind.TURN
            for part in parts:
                if part.get("type") == "toolCall":
                    called = orjson.dumps(part.get("arguments"), default=str).decode()
                    yield Speaker.ASSISTANT, f"{part.get('name')}({called})", EpisodeKind.TOOL
        case "toolResult":
            yield Speaker.TOOL, text, EpisodeKind.TOOL
        case _:
            facts.unknown_lines += 1


def _strip_context(text: str) -> str:
    text = _strip_time(text)
    begin = 0
    while block := _CONTEXT.match(text, begin):
        begin = block.end()
    text = strip_program_text(_strip_time(_LABELS.sub("", text[begin:])))
    return "" if text.startswith(_EVENT) else text


def _strip_time(text: str) -> str:
    sent_at = SENT_AT.match(text)
    return text if sent_at is None else text[sent_at.end() :]


def _parse_either_time(iso: object, milliseconds: object, number: int) -> datetime | None:
    if iso is None and isinstance(milliseconds, int):
        try:
            return datetime.fromtimestamp(milliseconds / 1000, UTC)
        except (ValueError, OverflowError, OSError) as error:
            raise InvalidRequest(f"line {number}: {milliseconds} is not a time in milliseconds") from error
    return parse_time(iso, number)
