"""Calls that a program makes for itself beside a person's, recognised by form (GATE-97)."""

from collections import deque
from typing import Final

from circadia.caches import BoundedDict
from circadia.clock import Clock
from circadia.gateway.dialects.base import ModelRequest
from circadia.ids import AgentId

WITHIN_SECONDS: Final = 60.0
"""How long a user turn is recognised in a call beside its own."""
MOST_FIELDS: Final = 2
"""Fields of the answer that such a call asks for: a title, or a title and a branch."""
SHORTEST: Final = 10
"""Fewest characters of a recognised turn; a shorter one is part of many texts."""
_LONGEST: Final = 20_000
"""Characters of the longest turn that is kept."""
_TURNS: Final = 8
"""Turns kept for an agent, the newest."""
_AGENTS: Final = 1_000


class SideCalls:
    """Remembers what people asked agents in the last minute, in calls that offer tools."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turns: BoundedDict[AgentId, deque[tuple[float, str]]] = BoundedDict(_AGENTS)

    def note(self, agent_id: AgentId, request: ModelRequest, question: str) -> None:
        """Remember the last user turn of a call, if the call offers tools."""
        text = question.strip()
        if not (request.offers_tools and SHORTEST <= len(text) <= _LONGEST):
            return
        turns = self._turns.get(agent_id)
        if turns is None:
            turns = self._turns[agent_id] = deque(maxlen=_TURNS)
        if not turns or turns[-1][1] != text:
            turns.append((self._clock.monotonic(), text))

    def is_beside(self, agent_id: AgentId, request: ModelRequest, question: str) -> bool:
        """Return whether a call offers no tools, wants few fields, and its user turn wraps one of another call."""
        fields = request.schema_fields
        if request.offers_tools or fields is None or fields > MOST_FIELDS:
            return False
        since = self._clock.monotonic() - WITHIN_SECONDS
        return any(at >= since and _wraps(question, text) for at, text in self._turns.get(agent_id, ()))


def _wraps(outer: str, inner: str) -> bool:
    """Return whether a text contains another as a whole, not inside a word, and is more than it."""
    at = outer.find(inner)
    end = at + len(inner)
    if at < 0 or len(outer.strip()) == len(inner):
        return False
    return not (outer[max(at - 1, 0) : at].isalnum() or outer[end : end + 1].isalnum())
