"""The caller of a tool or resource, and agent names from its point of view."""

from dataclasses import dataclass
from typing import Any

from mcp.server.context import ServerRequestContext

from circadia.errors import Forbidden, TargetGone
from circadia.mcp_server.handover import Handover
from circadia.mcp_server.parts import McpParts
from circadia.records.agent import Agent
from circadia.records.principal import Principal
from circadia.records.session import DEFAULT_SESSION, Session, SessionStatus
from circadia.stores.base import Tx

PRINCIPAL = "circadia.principal"
"""Key of the ASGI scope: the authenticated caller."""
SENT = "circadia.sent"
"""Key of the ASGI scope: callbacks that learn whether the answer was sent."""
HANDOVER = "circadia.handover"
"""Key of the ASGI scope: the request's `Handover`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """The principal of a request, and the services for its tool."""

    parts: McpParts
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

    async def home(self, tx: Tx) -> Session:
        """Return the caller's session; `default` for the operator.

        Raises:
            TargetGone: the session is closed.
        """
        own = self.principal.agent
        session = await (tx.sessions.get_by_name(DEFAULT_SESSION) if own is None else tx.sessions.get(own.session_id))
        if session is None or session.status is SessionStatus.CLOSED:
            raise TargetGone(f"session {own.session if own else DEFAULT_SESSION!r} is closed")
        return session


def caller_of(context: ServerRequestContext[Any, Any], parts: McpParts) -> Caller:
    """Return the sender of the request, from the ASGI scope."""
    assert context.request is not None
    scope = context.request.scope
    return Caller(parts=parts, principal=scope[PRINCIPAL], handover=scope[HANDOVER])


def name_from(home: Session, reference: str) -> str:
    """Return an agent's reference from the point of view of `home`, whose agents have bare names."""
    session, colon, name = reference.rpartition(":")
    if (session if colon else DEFAULT_SESSION) == home.name:
        return name
    return reference if colon else f"{DEFAULT_SESSION}:{reference}"
