"""Rows of years, written in bulk: of each table some for each day."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, Protocol

from sqlalchemy import JSON, Column, Connection, Table

from circadia.stores.sql.schema import Instant
from circadia.stores.sql.tx import ALL_TABLES

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
TABLES: Final[Mapping[str, Table]] = {table.name: table for table in ALL_TABLES}
_FIRST_DAY: Final = (START - datetime(1970, 1, 1, tzinfo=UTC)).days
_LISTS: Final = frozenset(
    {"mentions", "messages", "operations", "phrasings", "headers", "spans", "reviews", "stale", "trace"}
)

Row = dict[str, Any]
Maker = Callable[[int], Row]


class Writer(Protocol):
    def __call__(self, table: str, *makers: Maker, of: range = ...) -> None:
        """Write the rows that each maker returns for these days, by default for all."""
        ...


def at(day: int) -> datetime:
    return START + timedelta(days=day, hours=12)


def write_years(connection: Connection, days: int) -> None:
    """Write what a fleet leaves behind in so many days, and a few rows that live."""

    def write(table: str, *makers: Maker, of: range = range(days)) -> None:
        for maker in makers:
            connection.execute(TABLES[table].insert(), [build_row(TABLES[table], maker(day)) for day in of])

    _write_sessions(write)
    _write_log(write)
    _write_memory(write, days)
    _write_sleep(write)


def build_row(table: Table, values: Row) -> Row:
    """Return a row with these values and an empty one in each other column that needs one."""
    needed = (column for column in table.columns if not column.nullable and column.identity is None)
    return {column.name: _empty(column) for column in needed if column.name not in values} | values


def _empty(column: Column[Any]) -> object:
    if isinstance(column.type, JSON):
        return [] if column.name in _LISTS else {}
    return START if isinstance(column.type, Instant) else column.type.python_type()


def _write_sessions(write: Writer) -> None:
    """Write a session for each day, closed, with an agent, its threads, and messages that it read or did not read.

    Beside them lives an agent that has not read half of its messages, in a thread that is open.
    """
    one = range(1)
    write("sessions", lambda _: {"id": "live", "name": "live", "status": "open"}, of=one)
    write("agents", lambda _: {"id": "ann", "session_id": "live", "name": "ann", "token_hash": "ann"}, of=one)
    write("threads", lambda _: {"id": "live", "session_id": "live", "name": "talk", "status": "open"}, of=one)
    write("sessions", lambda day: {"id": f"s{day}", "name": f"s{day}", "status": "closed", "closed_at": at(day)})
    write(
        "agents", lambda day: {"id": f"a{day}", "session_id": f"s{day}", "token_hash": f"a{day}", "deleted_at": at(day)}
    )
    write(
        "threads",
        lambda day: {"id": f"closed{day}", "session_id": f"s{day}", "status": "closed", "closed_at": at(day)},
        lambda day: {"id": f"direct{day}", "session_id": f"s{day}", "status": "direct"},
    )
    write("participants", lambda _: {"agent_id": "ann", "thread_id": "live"}, of=one)
    write("participants", lambda day: {"agent_id": f"a{day}", "thread_id": f"closed{day}"})
    write("routines", lambda day: {"id": f"r{day}", "agent_id": f"a{day}"})
    write("event_waits", lambda day: {"id": f"e{day}", "agent_id": f"a{day}", "until": at(day)})
    write("named_events", lambda day: {"id": f"n{day}", "name": "built", "at": at(day)})
    write(
        "messages",
        lambda day: {"id": f"old{day}", "thread_id": f"closed{day}", "session_id": f"s{day}", "sender_id": f"a{day}",
                     "at": at(day)},
        lambda day: {"id": f"direct{day}", "thread_id": f"direct{day}", "session_id": f"s{day}", "at": at(day)},
        lambda day: {"id": f"unread{day}", "thread_id": "live", "session_id": "live", "at": at(day)},
        lambda day: {"id": f"read{day}", "thread_id": "live", "session_id": "live", "at": at(day)},
    )  # fmt: skip
    write(
        "deliveries",
        lambda day: {"agent_id": f"a{day}", "message_id": f"direct{day}", "state": "unread"},
        lambda day: {"agent_id": "ann", "message_id": f"unread{day}", "state": "unread"},
        lambda day: {"agent_id": "ann", "message_id": f"read{day}", "state": "handled", "ended_at": at(day)},
    )


def _write_log(write: Writer) -> None:
    write("events", lambda day: {"number": day + 1, "type": "message", "at": at(day)})
    write("calls", lambda day: {"id": f"c{day}", "at": at(day), "agent": f"a{day}", "status": "done"})
    write("call_texts", lambda day: {"id": f"c{day}", "at": at(day)})
    write(
        "usage_days",
        lambda day: {"scope": "fleet", "day": _FIRST_DAY + day},
        lambda day: {"scope": "end_user", "end_user": "mia", "day": _FIRST_DAY + day},
        lambda day: {"scope": "session", "session": "live", "day": _FIRST_DAY + day - 3_650},
    )
    write("provider_ids", lambda day: {"upstream": "u", "provider_id": f"p{day}", "at": at(day)})
    write("conversations", lambda day: {"agent_id": "ann", "id": f"v{day}", "at": at(day)})
    write("wakes", lambda day: {"id": f"w{day}", "decided_at": at(day), "decision": "admitted"})
    write("wakes", lambda day: {"id": "deferred", "decided_at": at(day), "decision": "deferred"}, of=range(1))
    write("pulses", lambda day: {"id": f"p{day}", "ended_at": at(day), "status": "succeeded"})
    write("pulses", lambda _: {"id": "running", "status": "running"}, of=range(1))
    write("spans", lambda day: {"agent_id": f"a{day}", "started_at": at(day), "ended_at": at(day), "summed": True})
    write("span_sums", lambda day: {"session": "default", "at": at(day)})
    write("alerts", lambda day: {"cause": "c", "subject": f"s{day}", "told_at": at(day)})
    write("hook_deliveries", lambda day: {"hook": "h", "delivery_id": f"d{day}", "at": at(day)})
    write("alert_history", lambda day: {"id": f"al{day}", "cause": "c", "at": at(day)})
    write("provenances", lambda day: {"expires_at": at(day)})


def _write_memory(write: Writer, days: int) -> None:
    """Write a bank that keeps all, and one that keeps its episodes for 30 days."""

    def episode(bank: str, day: int) -> Row:
        texts = {"trust": "person", "kind": "turn", "digest": f"{day}"}
        return {"id": f"{bank}{day}", "bank_id": bank, "at": at(day), **texts}

    write("banks", lambda _: {"id": "all", "name": "all", "policy": {"keep_days": None}}, of=range(1))
    write("banks", lambda _: {"id": "short", "name": "short", "policy": {"keep_days": 30.0}}, of=range(1))
    write("episodes", lambda day: episode("all", day), lambda day: episode("short", day))
    write("forgotten_episodes", lambda day: {"id": f"gone{day}", "bank_id": "all", "forgotten_at": at(day)})
    write(
        "notes",
        lambda day: {"id": f"live{day}", "bank_id": "all", "kind": "belief", "trust": "person"},
        lambda day: {"id": f"old{day}", "bank_id": "all", "kind": "belief", "trust": "person", "retired_at": at(day)},
    )
    write(
        "evidence",
        lambda day: {"note_id": f"live{day}", "episode_id": f"all{day}"},
        lambda day: {"note_id": f"old{day}", "episode_id": f"all{day}"},
    )

    def version(label: str, number: int, day: int, *, deleted: bool = False) -> Row:
        return {"bank_id": "all", "label": label, "version": number + 1, "at": at(day), "deleted": deleted}

    write("blocks", lambda day: version("busy", day, day))
    write("blocks", lambda number: version("seldom", number, number), of=range(50))
    write("blocks", lambda number: version("gone", number, number, deleted=number == 9), of=range(10))
    write("blocks", lambda number: version("just gone", number, 0), of=range(9))
    write("blocks", lambda _: version("just gone", 9, days - 1, deleted=True), of=range(1))


def _write_sleep(write: Writer) -> None:
    def change(number: int, day: int) -> Row:
        return {"pass_id": f"p{day}", "number": number}

    write("passes", lambda day: {"id": f"p{day}", "bank_id": "all", "ended_at": at(day), "status": "succeeded"})
    write("passes", lambda _: {"id": "open", "bank_id": "all", "status": "pending"}, of=range(1))
    write("pass_changes", *(partial(change, n) for n in range(3)))
    write("sleep_calls", lambda day: {"id": f"c{day}", "bank_id": "all", "answer": "{}", "at": at(day)})
    write("approvals", lambda day: {"id": f"a{day}", "expires_at": at(day), "closed_at": at(day)})
    write("dream_jobs", lambda day: {"id": f"d{day}", "name": f"n{day}", "ended_at": at(day)})
    write("benefits", lambda day: {"bank_id": "all", "day": _FIRST_DAY + day})
    write("answer_days", lambda day: {"bank_id": "all", "day": _FIRST_DAY + day})
    write(
        "answers",
        lambda day: {
            "id": f"dropped{day}",
            "bank_id": "all",
            "dropped": "void",
            "dropped_at": at(day),
            "revision": day,
        },
    )
    write("answers", lambda day: {"id": f"live{day}", "bank_id": "all", "expires_at": at(9999)}, of=range(10))
    write("answer_uses", lambda day: {"id": f"u{day}", "bank_id": "all", "at": at(day)})
    write("answer_frames", lambda day: {"bank_id": "all", "frame": f"{day}", "at": at(day)})
    write("answer_verdicts", lambda day: {"id": f"v{day}", "bank_id": "all", "at": at(day)})
