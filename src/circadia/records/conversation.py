"""A conversation: one exchange between an end user and an agent, as seen at the gateway."""

from datetime import datetime

from circadia.ids import AgentId, ConversationId
from circadia.records.per_call import per_call


@per_call
class Conversation:
    """What the gateway knows of one exchange (GATE-67)."""

    id: ConversationId
    """Key within the agent: what the client named, or a made one."""
    agent_id: AgentId
    """The agent that talks."""
    end_user: str | None = None
    """The person it talks with."""
    turns: int = 0
    """Completed turns."""
    version: int = 0
    """Counts every change: turns, and requests that carry tool results."""
    head: str = ""
    """Hash of the chain of messages of its last request; finds the conversation of the next one."""
    at: datetime
    """When it was last seen."""
