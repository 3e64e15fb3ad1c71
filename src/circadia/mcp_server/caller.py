"""The caller of a tool or resource, the services for it, and the deliveries that its answer carries."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from circadia.agents.directory import find_own_session
from circadia.agents.sleep_confirmation import SleepConfirmer
from circadia.agents.threads import ThreadService
from circadia.agents.waits import Waits
from circadia.clock import Clock
from circadia.errors import Forbidden
from circadia.ids import AgentId, MessageId
from circadia.memory.services import MemoryServices
from circadia.records.agent import Agent
from circadia.records.principal import Principal
from circadia.records.session import DEFAULT_SESSION, Session
from circadia.settings import Settings
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.markdown.dream_status import MemoryFolders
from circadia.stores.base import Store, Tx
from circadia.wake.services import WakeServices

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext


@dataclass(frozen=True, kw_only=True, slots=True)
class McpContext:
    store: Store
    clock: Clock
    threads: ThreadService
    confirmer: SleepConfirmer
    waits: Waits
    settings: Settings
    wake: WakeServices
    memory: MemoryServices
    sleeptime: SleeptimeService
    folders: MemoryFolders


class Handover:
    """The leased deliveries of a request, from the tool that takes them to the end of the answer."""

    def __init__(self, waits: Waits) -> None:
        self._waits = waits
        self._given: list[tuple[AgentId, Sequence[MessageId]]] = []
        self._over = False
        self._late: set[asyncio.Task[None]] = set()

    def give(self, agent_id: AgentId, messages: Sequence[MessageId]) -> None:
        """Take over leased deliveries, or release them if the request has already ended.

        It does not wait: the tool may be under cancellation, which would interrupt a wait.
        """
        if not messages:
            return
        if self._over:
            self.free(agent_id, messages)
        else:
            self._given.append((agent_id, messages))

    def free(self, agent_id: AgentId, messages: Sequence[MessageId]) -> None:
        """Make deliveries unread again, in the background."""
        task = asyncio.create_task(self._waits.release(agent_id, messages))
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def settle(self, sent: bool) -> None:
        """Confirm or release the deliveries; called once, after the answer is sent or the caller is gone."""
        self._over = True
        deliveries, self._given = self._given, []
        for agent_id, messages in deliveries:
            if sent:
                await self._waits.confirm(agent_id, messages)
            else:
                await self._waits.release(agent_id, messages)


PRINCIPAL = "circadia.principal"
"""Key of the ASGI scope: the authenticated caller."""
SENT = "circadia.sent"
"""Key of the ASGI scope: callbacks that learn whether the answer was sent."""
HANDOVER = "circadia.handover"
"""Key of the ASGI scope: the request's `Handover`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """The principal of a request, and the services for its tool."""

    context: McpContext
    principal: Principal
    handover: Handover
    """Takes the deliveries that the answer carries."""

    @property
    def agent(self) -> Agent:
        """Return the calling agent.

        Raises:
            Forbidden: the caller is the operator.
        """
        if self.principal.agent is None:
            raise Forbidden("this tool acts for an agent; connect with an agent's token, not the operator's")
        return self.principal.agent

    async def find_session(self, tx: Tx) -> Session:
        """Return the caller's session; `default` for the operator. Raises TargetGone: it is closed."""
        return await find_own_session(tx, self.principal)


def caller_of(request: "ServerRequestContext[Any, Any]", context: McpContext) -> Caller:
    """Return the sender of the request, from the ASGI scope."""
    assert request.request is not None
    scope = request.request.scope
    return Caller(context=context, principal=scope[PRINCIPAL], handover=scope[HANDOVER])


def name_from(session: Session, reference: str) -> str:
    """Return an agent's reference from the point of view of `session`, whose agents have bare names."""
    prefix, colon, name = reference.rpartition(":")
    if (prefix if colon else DEFAULT_SESSION) == session.name:
        return name
    return reference if colon else f"{DEFAULT_SESSION}:{reference}"
