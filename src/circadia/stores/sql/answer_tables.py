"""The tables of ready answers for both dialects; see `schema.py` for the rest."""

from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, Column, Double, ForeignKey, Index, Integer, String, Table, Text, text

from circadia.stores.sql.schema import Instant, metadata, only


def _bank() -> Column[Any]:
    return Column("bank_id", String, ForeignKey("banks.id"), nullable=False)


def _scope(*, primary_key: bool = False) -> list[Column[Any]]:
    return [Column(name, String, primary_key=primary_key, nullable=False) for name in ("agent_id", "end_user", "frame")]


answers = Table(
    "answers",
    metadata,
    Column("id", String, primary_key=True),
    _bank(),
    *_scope(),
    Column("phrasings", JSON, nullable=False),
    Column("confidence", Double, nullable=False),
    Column("conversation", String),  # the only one that may use it; null for any
    Column("rests", JSON, nullable=False),
    Column(
        "read_upto", BigInteger, nullable=False, server_default=text("0")
    ),  # newest turn that a judge has read for it
    Column("pass_id", String),
    Column("made_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("nanousd", BigInteger),
    Column("seconds", Double, nullable=False),
    Column("uses", Integer, nullable=False),
    Column("used_at", Instant),
    Column("touched_at", Instant, nullable=False),  # last use, else creation
    Column("size", Integer, nullable=False),  # bytes of phrasings, text, reasoning and basis
    Column("revision", Integer, nullable=False),
    Column("dropped", String, nullable=False),
    Column("dropped_at", Instant),
    Column("text", Text, nullable=False),  # long columns come last, so that SQLite reads the others without them
    Column("reasoning", Text, nullable=False),
)
Index("answers_revision", answers.c.bank_id, answers.c.revision)
Index("answers_live", answers.c.bank_id, answers.c.dropped, answers.c.id)
Index("answers_agent", answers.c.bank_id, answers.c.agent_id, answers.c.dropped, answers.c.id)
Index(
    "answers_touched",  # covers the query for surplus answers
    *(answers.c[name] for name in ("bank_id", "dropped", "touched_at", "id", "agent_id", "size")),
)
Index("answers_dropped", answers.c.dropped_at)
Index("answers_expiring", answers.c.expires_at, **only("dropped = ''"))

answer_frames = Table(
    "answer_frames",
    metadata,
    Column("bank_id", String, ForeignKey("banks.id"), primary_key=True),
    *_scope(primary_key=True),
    Column("upstream", String, nullable=False),
    Column("target", Text, nullable=False),
    Column("dialect", String, nullable=False),
    Column("model", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("headers", JSON, nullable=False),
    Column("at", Instant, nullable=False),
    Column("asked", Integer, nullable=False),
    Column("why_not", Text, nullable=False, server_default=text("''")),
)
Index("answer_frames_bank", answer_frames.c.bank_id, answer_frames.c.at)
Index("answer_frames_at", answer_frames.c.at)

answer_uses = Table(
    "answer_uses",
    metadata,
    Column("id", String, primary_key=True),
    _bank(),
    Column("answer_id", String, nullable=False),  # a use may outlive its answer's row
    *_scope(),
    Column("question", Text, nullable=False),
    Column("phrasing", Text, nullable=False),
    Column("way", String, nullable=False),
    Column("served", Boolean, nullable=False),
    Column("at", Instant, nullable=False),
    Column("judged", Boolean, nullable=False),
    Column("right", Boolean),
    Column("judged_at", Instant),
)
Index("answer_uses_bank", answer_uses.c.bank_id, answer_uses.c.judged, answer_uses.c.id)
Index("answer_uses_agent", *(answer_uses.c[name] for name in ("bank_id", "agent_id", "judged", "id")))
Index("answer_uses_at", answer_uses.c.at)

answer_verdicts = Table(
    "answer_verdicts",
    metadata,
    Column("id", String, primary_key=True),
    _bank(),
    Column("answer_id", String, nullable=False),
    Column("same", Boolean, nullable=False),
    Column("at", Instant, nullable=False),
)
Index("answer_verdicts_answer", answer_verdicts.c.answer_id)
Index("answer_verdicts_at", answer_verdicts.c.at)
Index("answer_verdicts_bank", answer_verdicts.c.bank_id, answer_verdicts.c.at)

answer_days = Table(
    "answer_days",
    metadata,
    Column("bank_id", String, ForeignKey("banks.id"), primary_key=True),
    Column("day", Integer, primary_key=True),
    *(
        Column(name, BigInteger, nullable=False)
        for name in ("served", "hints", "misses", "made", "used", "wasted", "wasted_tokens", "right", "wrong")
    ),
)
Index("answer_days_day", answer_days.c.day)
