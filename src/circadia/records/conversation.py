"""A conversation between an end user and an agent, as seen at the gateway."""

from datetime import datetime

from circadia.ids import AgentId, ConversationId
from circadia.records.per_call import per_call


@per_call
class Conversation:
    """The gateway's record of a conversation (GATE-67)."""

    id: ConversationId
    """Unique within the agent: the client's own id, or a generated one."""
    agent_id: AgentId
    end_user: str | None = None
    turns: int = 0
    """Number of completed turns."""
    version: int = 0
    """Number of changes: turns, and requests that carry tool results."""
    head: str = ""
    """Hash of the message chain of its last request, which identifies the conversation of the next one."""
    at: datetime
    """Time of the last request."""
