"""Agents: create, change, disable and delete them, and issue their tokens."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from circadia.agents.directory import lock_open_session
from circadia.clock import Clock
from circadia.errors import InvalidRequest
from circadia.ids import AgentId, IdSource, hash_token, new_token
from circadia.records.agent import RESERVED, Agent, AgentPolicy, Cause, SleepEvent, WakeEvent
from circadia.records.bank import explain_invalid_bank_name
from circadia.records.event import AgentCreation, AgentDeletion, AgentUpdate, EventData, EventType, TokenRotation
from circadia.records.session import Session
from circadia.records.span import end_state
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def require_name(name: str, what: str) -> str:
    """Return the name of a session or agent if it is valid, or raise InvalidRequest."""
    if not NAME.fullmatch(name):
        raise InvalidRequest(f"{what} name {name!r} must match [a-z0-9][a-z0-9_-]{{0,62}}")
    return name


@dataclass(frozen=True, kw_only=True, slots=True)
class NewAgent:
    name: str
    description: str = ""
    sleep_events: frozenset[SleepEvent] = frozenset()
    """Events that put it to sleep; with `agent_started` it starts asleep."""
    wake_events: frozenset[WakeEvent] = frozenset()
    policy: Mapping[str, object] = field(default_factory=dict[str, object])
    """Policy keys that differ from the server's defaults."""


class AgentRegistry:
    """The only writer of agents, except for their sleep state."""

    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        events: EventLog,
        defaults: AgentPolicy,
        deletion_listener: Callable[[Tx, Agent], Awaitable[None]],
    ) -> None:
        """`deletion_listener` is called for each deleted agent, in the transaction of the deletion."""
        self._clock = clock
        self._ids = ids
        self._events = events
        self._defaults = defaults
        self._deletion_listener = deletion_listener
        self.bind: Callable[[Tx, Sequence[AgentPolicy]], Awaitable[object]] | None = None
        """Creates the banks that policies bind, if they are missing."""
        self.in_file: frozenset[AgentId] = frozenset()
        """Agents whose description, events and policy the configuration file sets whenever it is read."""

    async def add(
        self, tx: Tx, session: Session, new: NewAgent, *, by: str, token: str | None = None
    ) -> tuple[Agent, str]:
        """Create an agent and the bank of its policy; return it with its token, which is stored only as a hash.

        Raises:
            InvalidRequest: a bad name. Conflict: the session has an agent of this name.
        """
        created = await self.add_unbound(tx, session, new, by=by, token=token)
        await self.bind_banks(tx, [created[0].policy])
        return created

    async def add_unbound(
        self, tx: Tx, session: Session, new: NewAgent, *, by: str, token: str | None = None
    ) -> tuple[Agent, str]:
        """Create an agent as `add` does, but leave its bank to `bind_banks`: banks come after agents."""
        name = require_name(new.name, "agent")
        if name in RESERVED:
            raise InvalidRequest(
                f"agent name {name!r} is reserved: messages and events call people `operator` or `user`, and the "
                "server `circadia`; take another one"
            )
        token = token or new_token("agent")
        now = self._clock.now()
        agent = Agent(
            id=AgentId(self._ids.new("agt")),
            session_id=session.id,
            session=session.name,
            name=name,
            token_hash=hash_token(token),
            asleep=SleepEvent.AGENT_STARTED in new.sleep_events,
            since=now,
            cause=Cause.EVENT if SleepEvent.AGENT_STARTED in new.sleep_events else Cause.OPERATOR,
            actor="agent_started" if SleepEvent.AGENT_STARTED in new.sleep_events else "operator",
            sleep_events=new.sleep_events,
            wake_events=new.wake_events,
            policy=self.changed_policy(self._defaults, new.policy),
            description=new.description,
            created_at=now,
        )
        await lock_open_session(tx, session)
        await tx.agents.add(agent)
        await tx.sessions.touch(session.id, now)
        await self._record(tx, EventType.AGENT_CREATED, agent, AgentCreation(asleep=agent.asleep, by=by))
        return agent, token

    async def change(
        self,
        tx: Tx,
        agent: Agent,
        *,
        by: str,
        enabled: bool | None = None,
        description: str | None = None,
        sleep_events: frozenset[SleepEvent] | None = None,
        wake_events: frozenset[WakeEvent] | None = None,
        policy: Mapping[str, object] | None = None,
    ) -> Agent:
        """Change the given fields and return the new row; disabling an agent ends its held calls.

        Values that it has already are no change, and no event.
        """
        changed = replace(
            agent,
            enabled=agent.enabled if enabled is None else enabled,
            description=agent.description if description is None else description,
            sleep_events=agent.sleep_events if sleep_events is None else sleep_events,
            wake_events=agent.wake_events if wake_events is None else wake_events,
            policy=agent.policy if policy is None else self.changed_policy(agent.policy, policy),
        )
        if changed == agent:
            return agent
        await tx.agents.save(changed)
        is_rebound = changed.policy.bank != agent.policy.bank
        if is_rebound or changed.policy.banks != agent.policy.banks:
            await self.bind_banks(tx, [changed.policy])
            if is_rebound and agent.policy.bank is not None:  # the agents that stay may all sleep
                await tx.due_checks.add_of_agents(agent.policy.bank, if_asleep="zone" not in agent.settings)
        await self._record(tx, EventType.AGENT_CHANGED, changed, AgentUpdate(enabled=changed.enabled, by=by))
        if agent.enabled and not changed.enabled:
            self._signal_end(tx, agent, "disabled")
        else:
            self._events.signal(tx, "agent", agent.id)
        return changed

    async def rotate(self, tx: Tx, agent: Agent, *, by: str) -> str:
        """Replace the agent's token at once and return the new one."""
        token = new_token("agent")
        await self.set_token(tx, agent, token, by=by)
        return token

    async def set_token(self, tx: Tx, agent: Agent, token: str, *, by: str) -> Agent:
        changed = replace(agent, token_hash=hash_token(token))
        await tx.agents.save(changed)
        await self._record(tx, EventType.TOKEN_ROTATED, agent, TokenRotation(by=by))
        self._events.signal(tx, "agent", agent.id)
        return changed

    async def delete(self, tx: Tx, agent: Agent, *, by: str, reason: str = "deleted") -> None:
        """Delete the agent: end its held calls (GATE-49) and pulses, and keep its rows for the record."""
        now = self._clock.now()
        await tx.agents.save(replace(agent, enabled=False, deleted_at=now))
        await tx.spans.add(end_state(agent, now))
        await self._deletion_listener(tx, agent)
        await self._record(tx, EventType.AGENT_DELETED, agent, AgentDeletion(reason=reason, by=by))
        self._signal_end(tx, agent, reason)

    def changed_policy(self, policy: AgentPolicy, changes: Mapping[str, object]) -> AgentPolicy:
        """Return the policy with these validated keys changed. Raises InvalidRequest for a bad bank."""
        merged = {**dict(policy), **changes}
        if "banks" in changes and "bank" not in changes:
            merged["bank"] = next(iter(cast("Sequence[str]", changes["banks"])), policy.bank)
        elif "bank" in changes and "banks" not in changes:  # it means one bank
            merged["banks"] = ()
        changed = AgentPolicy.model_validate(merged)
        named = {
            "bank": (changed.bank,), "banks": changed.banks, "write_banks": changed.write_banks,
            "read_banks": changed.read_banks,
        }  # fmt: skip
        for key in named.keys() & changes.keys():
            for wrong in filter(None, (explain_invalid_bank_name(bank) for bank in named[key] if bank is not None)):
                raise InvalidRequest(f"policy {key!r}: {wrong}")
        return changed

    async def bind_banks(self, tx: Tx, policies: Sequence[AgentPolicy]) -> None:
        """Create the banks that these policies bind, if they are missing."""
        if self.bind is not None:
            await self.bind(tx, policies)

    def _signal_end(self, tx: Tx, agent: Agent, reason: str) -> None:
        payload = {"reason": f"agent {agent.reference!r} was {reason}"}
        self._events.signal(tx, "agent_ended", agent.id, payload)

    async def _record(self, tx: Tx, kind: EventType, agent: Agent, data: EventData) -> None:
        await self._events.record(tx, kind, data, session=agent.session, agent=agent.name)
