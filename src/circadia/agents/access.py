"""Permissions: every rule on principals; entrances and services call it and add none.

An operator may do everything; a viewer sees everything by `GET` and changes nothing. An agent's token opens its own
state, its own threads and the list of agents in its session. `may_wake` and `may_sleep` let it reach other agents of
its session, `sessions` other sessions (GATE-07, GATE-32).
"""

from collections.abc import Collection

from circadia.errors import Forbidden
from circadia.records.agent import Agent
from circadia.records.principal import Principal
from circadia.records.session import Session


def is_allowed(names: Collection[str], *candidates: str) -> bool:
    """Return whether a permission list holds one of the names, or `*`."""
    return "*" in names or any(name in names for name in candidates)


def require_operator(principal: Principal) -> None:
    if not principal.is_operator:
        raise Forbidden(f"{principal.name!r} may not do this; use the operator's token")


def require_member(principal: Principal) -> None:
    """Raise Forbidden for the metrics token, which opens nothing else."""
    if principal.metrics_only:
        raise Forbidden("this token opens /metrics only; use the operator's or an agent's")


def require_may_act(principal: Principal) -> None:
    """Raise Forbidden for a viewer."""
    if principal.is_viewer:
        raise Forbidden(f"{principal.name!r} only looks; use an operator's token to change something")


def require_reach(principal: Principal, session: Session) -> None:
    """Raise Forbidden unless the principal is the operator, a member of the session, or granted it."""
    if principal.is_operator:
        return
    agent = principal.agent
    if agent is None or (agent.session_id != session.id and not is_allowed(agent.policy.sessions, session.name)):
        raise Forbidden(
            f"{principal.name!r} may not reach session {session.name!r}; the operator can grant it with "
            f"`sessions: [{session.name}]`"
        )


def require_sleep_control(principal: Principal, target: Agent, *, asleep: bool) -> None:
    """Raise Forbidden unless the principal may change the target's sleep state to `asleep`."""
    if principal.is_operator:
        return
    agent = principal.agent
    if agent is not None and agent.id == target.id:
        return
    key = "may_sleep" if asleep else "may_wake"
    names: Collection[str] = () if agent is None else getattr(agent.policy, key)
    same = agent is not None and agent.session_id == target.session_id
    reached = same or (agent is not None and is_allowed(agent.policy.sessions, target.session))
    candidates = (target.name, target.reference) if same else (f"{target.session}:{target.name}",)
    if not reached or not is_allowed(names, *candidates):
        raise Forbidden(
            f"{principal.name!r} may not set the sleep of {target.reference!r}; the operator can grant it with "
            f"`{key}: [{target.name}]`"
        )


def require_upstream(agent: Agent, upstream: str) -> None:
    if not is_allowed(agent.policy.upstreams, upstream):
        raise Forbidden(
            f"{agent.reference!r} may not use upstream {upstream!r}; the operator can grant it with `upstreams`"
        )


def require_mcp_server(agent: Agent, server: str) -> None:
    if not is_allowed(agent.policy.mcp_servers, server):
        raise Forbidden(
            f"{agent.reference!r} may not use MCP server {server!r}; the operator can grant it with `mcp_servers`"
        )
