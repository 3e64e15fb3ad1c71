"""Ready answers, the scopes that they may be found in, their uses, and counts of them by day.

Revision 0012, after 0011.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_COUNTS = ("served", "hints", "misses", "made", "used", "wasted", "wasted_tokens", "right", "wrong")


def upgrade() -> None:
    """Add the counts of banks and the tables."""
    op.add_column("banks", sa.Column("answers", sa.Integer(), nullable=False, server_default=sa.text("0")))
    op.add_column("banks", sa.Column("answers_purged", sa.Integer(), nullable=False, server_default=sa.text("0")))
    _answers()
    _frames()
    _uses()
    op.create_table(
        "answer_days",
        sa.Column("bank_id", sa.String(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _COUNTS),
        sa.ForeignKeyConstraint(["bank_id"], ["banks.id"]),
        sa.PrimaryKeyConstraint("bank_id", "day"),
    )


def _answers() -> None:
    op.create_table(
        "answers",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("bank_id", sa.String(), nullable=False),
        *_scope(),
        sa.Column("phrasings", sa.JSON(), nullable=False),
        sa.Column("confidence", sa.Double, nullable=False),
        sa.Column("rests", sa.JSON(), nullable=False),
        sa.Column("pass_id", sa.String(), nullable=True),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("nanousd", sa.BigInteger(), nullable=True),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("uses", sa.Integer(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.Column("touched_at", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("dropped", sa.String(), nullable=False),
        sa.Column("dropped_at", sa.BigInteger(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("reasoning", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["bank_id"], ["banks.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("answers_revision", "answers", ["bank_id", "revision"])
    op.create_index("answers_live", "answers", ["bank_id", "dropped", "id"])
    op.create_index("answers_agent", "answers", ["bank_id", "agent_id", "dropped", "id"])
    op.create_index("answers_touched", "answers", ["bank_id", "dropped", "touched_at", "id", "agent_id", "size"])
    op.create_index("answers_dropped", "answers", ["dropped_at"])


def _frames() -> None:
    op.create_table(
        "answer_frames",
        sa.Column("bank_id", sa.String(), nullable=False),
        *_scope(),
        sa.Column("upstream", sa.String(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("dialect", sa.String(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("headers", sa.JSON(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("asked", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["bank_id"], ["banks.id"]),
        sa.PrimaryKeyConstraint("bank_id", "agent_id", "end_user", "frame"),
    )
    op.create_index("answer_frames_bank", "answer_frames", ["bank_id", "at"])
    op.create_index("answer_frames_at", "answer_frames", ["at"])


def _uses() -> None:
    op.create_table(
        "answer_uses",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("bank_id", sa.String(), nullable=False),
        sa.Column("answer_id", sa.String(), nullable=False),
        *_scope(),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("phrasing", sa.Text(), nullable=False),
        sa.Column("way", sa.String(), nullable=False),
        sa.Column("served", sa.Boolean(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("judged", sa.Boolean(), nullable=False),
        sa.Column("right", sa.Boolean(), nullable=True),
        sa.Column("judged_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["bank_id"], ["banks.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("answer_uses_bank", "answer_uses", ["bank_id", "judged", "id"])
    op.create_index("answer_uses_agent", "answer_uses", ["bank_id", "agent_id", "judged", "id"])
    op.create_index("answer_uses_at", "answer_uses", ["at"])


def _scope() -> tuple[sa.Column[str], ...]:
    return tuple(sa.Column(name, sa.String(), nullable=False) for name in ("agent_id", "end_user", "frame"))
