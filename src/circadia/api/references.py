"""Agent references in paths and bodies of the wake tier, and instants in queries."""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator

from circadia.agents.directory import find_agent_by_reference, find_own_session
from circadia.errors import Conflict, Forbidden
from circadia.records.agent import Agent
from circadia.records.principal import Principal
from circadia.stores.base import Tx


async def named_agent(tx: Tx, principal: Principal, reference: str) -> Agent:
    """Return the agent with the reference `name` (in the caller's session) or `session:name`.

    Raises:
        NotFound: there is none; the message suggests names. Forbidden: its session is not granted.
    """
    return await find_agent_by_reference(tx, principal, await find_own_session(tx, principal), reference)


async def own_agent(tx: Tx, principal: Principal, reference: str) -> Agent:
    """Return the agent if the caller is the operator or the agent itself.

    Raises:
        NotFound: there is none. Forbidden: the caller is another agent.
    """
    agent = await named_agent(tx, principal, reference)
    require_own(principal, agent)
    return agent


def require_own(principal: Principal, agent: Agent) -> None:
    """Raise Forbidden unless the caller is the operator or the agent itself."""
    if not principal.is_operator and (principal.agent is None or principal.agent.id != agent.id):
        raise Forbidden(
            f"{principal.name!r} may not look into the affairs of {agent.reference!r}; use its own token, or the "
            "operator's"
        )


def require_enabled(agent: Agent) -> None:
    """Raise Conflict if the agent is disabled."""
    if not agent.enabled:
        raise Conflict(f"{agent.reference!r} is disabled; the operator can enable it")


def _instant(given: Any) -> Any:
    """Parse a date or a time; without a time zone it is UTC."""
    if not isinstance(given, str):
        return given
    try:
        instant = datetime.fromisoformat(given.strip().replace(" ", "+"))  # a bare + in a query is a space
        aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
        return aware.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError("write a date or a time as in 2026-01-31 or 2026-01-31T12:00:00Z") from error


Instant = Annotated[datetime | None, BeforeValidator(_instant)]
