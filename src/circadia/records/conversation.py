"""A conversation between an end user and an agent, as seen at the gateway."""

from datetime import datetime
from typing import Final

from circadia.ids import AgentId, ConversationId
from circadia.records.per_call import per_call

SEVERAL: Final = ""
"""End user of a conversation in which several were named; a call in it without a name belongs to nobody."""


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
    """Hash of the messages with the last answer, which the next request repeats; empty if it names the answer's id."""
    handle: str = ""
    """The provider's id of the last answer."""
    additions: str = ""
    """What the gateway added to its turns, as ids (`gateway/memory/additions.py`); empty if that is unknown."""
    at: datetime
    """Time of the last request."""

    @property
    def continues_by_handle(self) -> bool:
        """Whether its calls name the answer before them instead of repeating it."""
        return self.version > 1 and self.head in ("", self.handle)


def merge_end_users(before: str | None, now: str | None) -> str | None:
    """Return the end user after a call by `now`: the only one named, or SEVERAL."""
    return SEVERAL if before is not None and now is not None and before != now else before if now is None else now
