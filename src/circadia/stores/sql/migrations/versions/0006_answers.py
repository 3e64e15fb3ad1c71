"""Ready answers, their frames and uses, and counts of them by day.

Revision 0006, after 0005.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    _answers()
    _answer_frames()
    _answer_uses()
    _answer_days()


def _answers() -> None:
    op.create_table(
        "answers",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("bank_id", sa.String, sa.ForeignKey("banks.id"), nullable=False),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("end_user", sa.String, nullable=False),
        sa.Column("frame", sa.String, nullable=False),
        sa.Column("phrasings", sa.JSON, nullable=False),
        sa.Column("confidence", sa.Double, nullable=False),
        sa.Column("conversation", sa.String),
        sa.Column("rests", sa.JSON, nullable=False),
        sa.Column("settled", sa.JSON),
        sa.Column("pass_id", sa.String),
        sa.Column("made_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("nanousd", sa.BigInteger),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("uses", sa.Integer, nullable=False),
        sa.Column("used_at", sa.BigInteger),
        sa.Column("touched_at", sa.BigInteger, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("dropped", sa.String, nullable=False),
        sa.Column("dropped_at", sa.BigInteger),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("reasoning", sa.Text, nullable=False),
    )
    op.create_index("answers_agent", "answers", ["bank_id", "agent_id", "dropped", "id"])
    op.create_index("answers_dropped", "answers", ["dropped_at"])
    op.create_index("answers_live", "answers", ["bank_id", "dropped", "id"])
    op.create_index("answers_revision", "answers", ["bank_id", "revision"])
    op.create_index("answers_touched", "answers", ["bank_id", "dropped", "touched_at", "id", "agent_id", "size"])


def _answer_frames() -> None:
    op.create_table(
        "answer_frames",
        sa.Column("bank_id", sa.String, sa.ForeignKey("banks.id"), primary_key=True),
        sa.Column("agent_id", sa.String, primary_key=True),
        sa.Column("end_user", sa.String, primary_key=True),
        sa.Column("frame", sa.String, primary_key=True),
        sa.Column("upstream", sa.String, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("dialect", sa.String, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("headers", sa.JSON, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("asked", sa.Integer, nullable=False),
    )
    op.create_index("answer_frames_at", "answer_frames", ["at"])
    op.create_index("answer_frames_bank", "answer_frames", ["bank_id", "at"])


def _answer_uses() -> None:
    op.create_table(
        "answer_uses",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("bank_id", sa.String, sa.ForeignKey("banks.id"), nullable=False),
        sa.Column("answer_id", sa.String, nullable=False),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("end_user", sa.String, nullable=False),
        sa.Column("frame", sa.String, nullable=False),
        sa.Column("question", sa.Text, nullable=False),
        sa.Column("phrasing", sa.Text, nullable=False),
        sa.Column("way", sa.String, nullable=False),
        sa.Column("served", sa.Boolean, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("judged", sa.Boolean, nullable=False),
        sa.Column("right", sa.Boolean),
        sa.Column("judged_at", sa.BigInteger),
    )
    op.create_index("answer_uses_agent", "answer_uses", ["bank_id", "agent_id", "judged", "id"])
    op.create_index("answer_uses_at", "answer_uses", ["at"])
    op.create_index("answer_uses_bank", "answer_uses", ["bank_id", "judged", "id"])


def _answer_days() -> None:
    op.create_table(
        "answer_days",
        sa.Column("bank_id", sa.String, sa.ForeignKey("banks.id"), primary_key=True),
        sa.Column("day", sa.Integer, primary_key=True),
        sa.Column("served", sa.BigInteger, nullable=False),
        sa.Column("hints", sa.BigInteger, nullable=False),
        sa.Column("misses", sa.BigInteger, nullable=False),
        sa.Column("made", sa.BigInteger, nullable=False),
        sa.Column("used", sa.BigInteger, nullable=False),
        sa.Column("wasted", sa.BigInteger, nullable=False),
        sa.Column("wasted_tokens", sa.BigInteger, nullable=False),
        sa.Column("right", sa.BigInteger, nullable=False),
        sa.Column("wrong", sa.BigInteger, nullable=False),
    )
