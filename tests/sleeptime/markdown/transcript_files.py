"""Transcripts as Claude Code, Codex and OpenClaw write them; what is said in them is made up."""

import os
import sqlite3
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

HOUR = timedelta(hours=1)
NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
"""When the tests look; files that they write are an hour old then."""
_OPENCLAW_SESSIONS = Path(__file__).with_name("openclaw-agent.sql")


def stamp(minute: int = 0) -> str:
    return (datetime(2026, 11, 20, 9, tzinfo=UTC) + timedelta(minutes=minute)).isoformat().replace("+00:00", "Z")


def claude_line(kind: str, content: object, number: int, **more: object) -> dict[str, Any]:
    """Return a line of a transcript, as Claude Code 2.1 writes it."""
    return {
        "parentUuid": None, "isSidechain": False, "userType": "external", "entrypoint": "cli", "cwd": "/home/ann/app",
        "sessionId": "s-1", "version": "2.1.12", "gitBranch": "main", "type": kind,
        "message": {"role": kind, "content": content}, "uuid": f"u-{number}", "timestamp": stamp(number), **more,
    }  # fmt: skip


def codex_meta(**more: object) -> dict[str, Any]:
    payload = {
        "id": "t-1", "timestamp": stamp(), "cwd": "/home/ann/app", "originator": "codex-tui", "cli_version": "0.160.0",
        "source": "cli", "thread_source": "user", **more,
    }  # fmt: skip
    return {"timestamp": stamp(), "type": "session_meta", "payload": payload}


def codex_message(role: str, *texts: str, minute: int = 0) -> dict[str, Any]:
    part = "output_text" if role == "assistant" else "input_text"
    payload = {"type": "message", "role": role, "content": [{"type": part, "text": text} for text in texts]}
    return {"timestamp": stamp(minute), "type": "response_item", "payload": payload}


def openclaw_message(role: str, text: str, number: int, **more: object) -> dict[str, Any]:
    return {
        "type": "message", "id": f"m{number}", "parentId": None, "timestamp": stamp(number),
        "message": {"role": role, "content": [{"type": "text", "text": text}], **more},
    }  # fmt: skip


def write_lines(file: Path, lines: Iterable[object], *, end: bytes = b"\n", age: timedelta = HOUR) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"\n".join(map(orjson.dumps, lines)) + end)
    make_old(file, age)
    return file


def make_old(file: Path, age: timedelta = HOUR) -> None:
    changed = (NOW - age).timestamp()
    os.utime(file, (changed, changed))


def long_session(number: int) -> list[Mapping[str, Any]]:
    """Return the lines of a session of 100 kB, most of it tools, as in sessions of coding agents."""
    lines: list[Mapping[str, Any]] = []

    def add(kind: str, content: object) -> None:
        key = number * 1000 + len(lines)
        lines.append({**claude_line(kind, content, len(lines)), "uuid": f"u-{key}", "sessionId": f"s-{number}"})

    for turn in range(8):
        add("user", f"Please look at module {number * turn} again. I prefer small functions there, and no new setting.")
        for call in range(4):
            key = f"{number}-{turn}-{call}"
            spoken = f"I will read file {key} first, and then change the reader of {turn}. " * 3
            use = {"type": "tool_use", "id": key, "name": "Read", "input": {"file_path": f"/home/ann/app/{key}.py"}}
            add("assistant", [{"type": "text", "text": spoken}, use])
            source = "".join(f"    value_{number}_{row} = load(row={row * turn}, call={call})\n" for row in range(55))
            add("user", [{"type": "tool_result", "tool_use_id": key, "content": source}])
    return lines


def write_openclaw_sessions(database: sqlite3.Connection) -> None:
    """Fill a database as OpenClaw does, with its sessions `s1` and `s2`."""
    database.execute("PRAGMA journal_mode=WAL")
    database.create_function("octet_length", 1, _count_bytes)  # SQLite has it since 3.43
    database.executescript(_OPENCLAW_SESSIONS.read_text("utf-8"))


def _count_bytes(text: str) -> int:
    return len(text.encode())
