"""OpenClaw's sessions in its database: rows that the real program has written, read while a program has them open."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from circadia.memory.transfer.formats import detect_format, import_lines
from circadia.memory.transfer.import_format import ImportFormat
from circadia.memory.transfer.sessions import TranscriptSession, find_sessions, gather
from tests.sleeptime.markdown.transcript_files import write_openclaw_sessions

pytestmark = pytest.mark.spec("DREAM-30", "MEM-16")

NOW = datetime(2026, 12, 1, tzinfo=UTC)
WHEN = "2026-11-30T04:00:00Z"


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    """The folder of an agent, as it is in `~/.openclaw/agents`."""
    (tmp_path / "main" / "agent").mkdir(parents=True)
    return tmp_path / "main"


@pytest.fixture
def writer(agent: Path) -> Iterator[sqlite3.Connection]:
    """OpenClaw's own connection, which stays open, and has rows in the log beside the file."""
    with closing(sqlite3.connect(agent / "agent" / "openclaw-agent.sqlite", isolation_level=None)) as database:
        write_openclaw_sessions(database)
        yield database


def add(writer: sqlite3.Connection, session: str, *lines: Mapping[str, object], at: datetime = NOW) -> None:
    for seq, line in enumerate(lines, writer.execute("SELECT count(*) FROM transcript_events").fetchone()[0]):
        row = session, seq, json.dumps({"timestamp": WHEN, **line}), round(at.timestamp() * 1_000)
        writer.execute("INSERT INTO transcript_events (session_id, seq, event_json, created_at) VALUES (?,?,?,?)", row)


def said(entry: str, text: str, parent: str | None = None) -> dict[str, object]:
    return {"type": "message", "id": entry, "parentId": parent, "message": {"role": "user", "content": text}}


def texts(session: TranscriptSession, after_line: int = 0) -> list[str]:
    return [turn.text for turn in gather(session, after_line)]


def test_sessions_are_read_while_the_program_writes(agent: Path, writer: sqlite3.Connection) -> None:
    writer.execute("BEGIN IMMEDIATE")
    add(writer, "s1", said("later", "Not yet committed."))
    one, two = find_sessions(agent, {}, NOW)
    assert (one.id, one.person_turns, one.excluded, one.unknown_lines) == ("s1", 1, None, 0)
    assert texts(one) == ["Where is the database?", "done"]
    assert (two.id, two.broken_lines) == ("s2", 0)
    assert texts(two)[0].startswith("Heron's ports: service 0 is on port 6000, "), "OpenClaw has compressed it"
    assert two.root == "/home/ann/.openclaw/workspace"
    writer.execute("ROLLBACK")


def test_only_a_session_with_new_rows_is_read_again_and_waits_until_it_rests(
    agent: Path, writer: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, object] = {}
    find_sessions(agent, seen, NOW)
    before = dict(seen)
    add(writer, "s1", said("a", "Use port 5499."))
    excluded = {each.id: each.excluded for each in find_sessions(agent, seen, NOW + timedelta(minutes=9))}
    assert excluded == {"s1": "the session may still run", "s2": None}
    assert [key for key in seen if seen[key] != before[key]] == ["agent/openclaw-agent.sqlite#s1"]
    one = next(each for each in find_sessions(agent, seen, NOW + timedelta(minutes=11)) if each.id == "s1")
    assert texts(one, after_line=7) == ["Use port 5499."]


def test_what_a_person_has_rewound_is_no_evidence(agent: Path, writer: sqlite3.Connection) -> None:
    first = {"type": "session", "id": "s4", "cwd": "/home/ann"}
    copied = said("a", "Hello."), said("b", "Use port 7001.", "a"), said("c", "7001 it is.", "b")
    add(writer, "s3", *copied)
    add(writer, "s4", first, *copied, {"type": "leaf", "id": "l", "parentId": "c", "targetId": "a"})
    add(writer, "s4", said("d", "Use port 5499.", "a"))
    writer.execute(
        "INSERT INTO session_windows (session_id, session_key, previous_session_id, reason, created_at, updated_at) "
        "VALUES ('s4', 'agent:main:main', 's3', 'rewind', 0, 0)"
    )
    found = {each.id: each for each in find_sessions(agent, {}, NOW)}
    assert set(found) == {"s1", "s2", "s4"}, "s3 goes on as s4"
    assert (texts(found["s4"]), found["s4"].root) == (["Hello.", "Use port 5499."], "/home/ann")


def test_damaged_rows_are_counted_and_what_is_no_such_database_is_left_alone(
    agent: Path, writer: sqlite3.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    writer.execute("UPDATE transcript_events SET event_zstd = X'00' WHERE event_zstd IS NOT NULL")
    writer.execute("UPDATE transcript_events SET event_json = '{\"type\":' WHERE session_id = 's1' AND seq = 4")
    writer.execute(
        "INSERT INTO transcript_events (session_id, seq, event_json, created_at) VALUES ('s2', 9, '{}', 1 << 61)"
    )
    one, two = find_sessions(agent, {}, NOW)
    assert (one.broken_lines, texts(one)) == (1, ["done"])
    assert (two.broken_lines, texts(two)) == (1, ["done"])
    for name, data in {"text": b"no database", "empty": b"", "folder": None}.items():
        path = agent / name / "openclaw-agent.sqlite"
        path.parent.mkdir()
        path.mkdir() if data is None else path.write_bytes(data)
    assert len(find_sessions(agent, {}, NOW)) == 2
    assert "cannot be read as a database of OpenClaw" in caplog.text


def test_an_import_takes_all_sessions(agent: Path, writer: sqlite3.Connection) -> None:
    file = agent / "agent" / "openclaw-agent.sqlite"
    assert detect_format(file) is ImportFormat.OPENCLAW
    lines = import_lines(file, ImportFormat.OPENCLAW, "me", person="ann", tools=False, saw=lambda _: None)
    episodes = [orjson.loads(line) for line in lines][1:]
    assert [(each["speaker"], each["conversation"]) for each in episodes] == [
        ("ann", "s1"), ("assistant", "s1"), ("ann", "s2"), ("assistant", "s2"),
    ]  # fmt: skip
