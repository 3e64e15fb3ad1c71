"""Agent rows, with what will wake each agent next."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import orjson
from sqlalchemy import (
    JSON,
    BigInteger,
    Connection,
    Select,
    String,
    Text,
    bindparam,
    cast,
    func,
    literal,
    or_,
    select,
    text,
    union_all,
    update,
)

from circadia.errors import Conflict
from circadia.ids import AgentId, SessionId
from circadia.records.agent import Agent, AgentPolicy, NextWake, OwnWake, OwnWakes, SleepEvent, WakeEvent
from circadia.records.coordination import RESIDENT, Coordination, Setting, SettingSource, build_coordination
from circadia.stores.locks import agent_key, session_key
from circadia.stores.sql.due_checks import queue_check_of_agents
from circadia.stores.sql.link import Runner
from circadia.stores.sql.name_list import is_among
from circadia.stores.sql.noun import NamesNear, Noun
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import agents, routines, sessions, wakes
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_SLEEP_EVENTS: Final = {event.value: event for event in SleepEvent}
_WAKE_EVENTS: Final = {event.value: event for event in WakeEvent}
_CACHED_TEXTS: Final = 4096
"""Number of cached policies and settings: parsing one costs more than reading the row."""


class _Settings(Mapping[str, Setting]):
    """Stored settings, parsed on first use: few readers of an agent need them."""

    __slots__ = ("_stored",)

    def __init__(self, stored: str) -> None:
        self._stored = stored

    def __getitem__(self, name: str) -> Setting:
        return _settings_of(self._stored)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_settings_of(self._stored))

    def __len__(self) -> int:
        return len(_settings_of(self._stored))


@lru_cache(maxsize=_CACHED_TEXTS)
def _settings_of(stored: str) -> Mapping[str, Setting]:
    return {name: _setting(setting) for name, setting in orjson.loads(stored).items()}


@lru_cache(maxsize=_CACHED_TEXTS)
def _sleep_events(stored: str) -> frozenset[SleepEvent]:
    """Return the events known to this version; a newer one may have stored more."""
    return frozenset([_SLEEP_EVENTS[value] for value in orjson.loads(stored) if value in _SLEEP_EVENTS])


@lru_cache(maxsize=_CACHED_TEXTS)
def _wake_events(stored: str) -> frozenset[WakeEvent]:
    """Return the events known to this version; a newer one may have stored more."""
    return frozenset([_WAKE_EVENTS[value] for value in orjson.loads(stored) if value in _WAKE_EVENTS])


def _coordination(stored: str) -> Coordination:
    """Return the coordination of these settings; agents with equal settings share it, whatever the setting times."""
    return _load_coordination(orjson.dumps({name: setting["value"] for name, setting in orjson.loads(stored).items()}))


@lru_cache(maxsize=_CACHED_TEXTS)
def _load_coordination(values: bytes) -> Coordination:
    return build_coordination(orjson.loads(values))


@lru_cache(maxsize=_CACHED_TEXTS)
def _policy(stored: str) -> AgentPolicy:
    """Return the policy without keys that only a newer version knows."""
    return AgentPolicy.model_validate_json(stored)


def _setting(stored: Mapping[str, Any]) -> Setting:
    source = SettingSource(stored["source"])
    return Setting(
        value=stored["value"],
        source=source,
        at=datetime.fromisoformat(stored["at"]),
        # For a patched setting, older rows do not show whether the file has null or no value.
        stated=stored.get("stated", source is SettingSource.FILE or stored["file"] is not None),
        file=stored["file"],
    )


def _dump_setting(setting: Setting) -> dict[str, object]:
    return {
        "value": setting.value, "source": setting.source.value, "at": setting.at.isoformat(),
        "stated": setting.stated, "file": setting.file,
    }  # fmt: skip


def _read_own_wakes(stored: str) -> OwnWakes:
    generation, *by = stored.split()
    known = {wake.value: wake for wake in OwnWake}
    return OwnWakes(generation=int(generation), by=frozenset(known[value] for value in by if value in known))


_read_agent = build_reader(
    Agent,
    of_row={
        "settings": lambda row: _Settings(row.coordination),
        "next": lambda row: None if row.next_at is None else NextWake(at=row.next_at, by=row.next_by),
        "wake_on": lambda row: None if row.wake_on is None else _read_own_wakes(row.wake_on),
    },
    sleep_events=_sleep_events,
    wake_events=_wake_events,
    policy=_policy,
    coordination=_coordination,
)
_STATE: Final = ("asleep", "generation", "since", "cause", "actor")
_SETTINGS: Final = (
    "name", "token_hash", "enabled", "sleep_events", "wake_events", "policy", "coordination", "description",
    "deleted_at",
)  # fmt: skip
_FIELDS: Final = ("id", "session_id", "created_at", *_SETTINGS, *_STATE)
_CONVERSIONS: Final[Mapping[str, Callable[[Agent], object]]] = {
    "sleep_events": lambda agent: sorted(agent.sleep_events),
    "wake_events": lambda agent: sorted(agent.wake_events),
    "policy": lambda agent: agent.policy.model_dump(mode="json"),
    "coordination": lambda agent: {name: _dump_setting(setting) for name, setting in agent.settings.items()},
}
_write_agent = build_writer(_FIELDS, **_CONVERSIONS)
_write_settings = build_writer((*_SETTINGS, "id"), **_CONVERSIONS)
_write_state = build_writer((*_STATE, "id"))
_ADD = Statement(Upsert(agents), _FIELDS)
_TEXTS: Final = ("sleep_events", "wake_events", "policy", "coordination")
"""Read as text, not as JSON, so that the result for an equal text can be reused."""
_ROWS = select(
    *(cast(column, Text).label(column.name) if column.name in _TEXTS else column for column in agents.c),
    sessions.c.name.label("session"),
).join(sessions)
_SELECT = Statement(_ROWS.where(agents.c.id == bindparam("key")), read=_read_agent)
_ALIVE = _ROWS.where(agents.c.deleted_at.is_(None))
_SELECT_BY_NAME = Statement(
    _ALIVE.where(agents.c.session_id == bindparam("session_id"), agents.c.name == bindparam("name")), read=_read_agent
)


def _build_moved(connection: Connection) -> Select[Any]:
    """Build the query of agents that differ from `known`, a JSON object of generations by id."""
    text = bindparam("known", type_=String)
    is_postgres = connection.dialect.name == "postgresql"
    pairs = func.json_each_text(cast(text, JSON)) if is_postgres else func.json_each(text)
    known = pairs.table_valued("key", "value", name="known")
    return _ROWS.join(known, agents.c.id == known.c.key).where(
        or_(
            agents.c.generation != cast(known.c.value, BigInteger),
            agents.c.deleted_at.is_not(None),
            agents.c.enabled.is_(False),
        )
    )


_SELECT_MOVED = Statement(_build_moved, read=_read_agent)
_SELECT_IDS = Statement(
    lambda connection: select(agents.c.id).where(
        agents.c.session_id == bindparam("session_id"),
        is_among(connection, agents.c.name, "names"),
        agents.c.deleted_at.is_(None),
    )
)
_SELECT_ID = Statement(
    select(agents.c.id).where(
        agents.c.session_id == bindparam("session_id"),
        agents.c.name == bindparam("name"),
        agents.c.deleted_at.is_(None),
    )
)
_BY_PAST_NAME = (
    _ROWS.where(agents.c.name == bindparam("name")).order_by(agents.c.created_at.desc()).limit(bindparam("most"))
)
_SELECT_BY_PAST_NAME = Statement(_BY_PAST_NAME, read=_read_agent)
_SELECT_BY_PAST_NAME_IN = Statement(_BY_PAST_NAME.where(sessions.c.name == bindparam("session")), read=_read_agent)
_SELECT_BY_TOKEN = Statement(_ALIVE.where(agents.c.token_hash == bindparam("token_hash")), read=_read_agent)
_IN_OPEN_SESSIONS = _ALIVE.where(text("sessions.status = 'open'")).limit(bindparam("most"))  # as their index says
_SELECT_OPEN_SESSION = Statement(
    select(sessions.c.id).where(text("sessions.status = 'open'"), sessions.c.name == bindparam("session"))
)
_SELECT_OF_LATER_SESSIONS = Statement(
    _IN_OPEN_SESSIONS.where(sessions.c.name > bindparam("session")).order_by(sessions.c.name, agents.c.name),
    read=_read_agent,
)
_SELECT_AWAKE_LAUNCHED = Statement(
    _ROWS.where(
        text("agents.deleted_at IS NULL AND NOT agents.asleep"),  # as the index says
        cast(agents.c.coordination, Text).like('%"launcher"%'),
    ),
    read=_read_agent,
)
_SELECT_OF_SESSION = Statement(_ALIVE.where(agents.c.session_id == bindparam("session_id")), read=_read_agent)
_SELECT_PAGE = Statement(
    _ALIVE.where(agents.c.session_id == bindparam("session_id"), agents.c.name > bindparam("name"))
    .order_by(agents.c.name)
    .limit(bindparam("most")),
    read=_read_agent,
)
_SAVE = Statement(
    update(agents)
    .where(agents.c.id == bindparam("key"))
    .values({name: bindparam(f"new_{name}") for name in _SETTINGS}),
    [*(f"new_{name}" for name in _SETTINGS), "key"],
)
_SAVE_STATE = Statement(
    update(agents)
    .where(agents.c.id == bindparam("key"), agents.c.generation == bindparam("from_generation"))
    .values({name: bindparam(f"new_{name}") for name in _STATE}),
    [*(f"new_{name}" for name in _STATE), "key", "from_generation"],
    is_checked=True,
)

_SAVE_OWN_WAKES = Statement(
    update(agents).where(agents.c.id == bindparam("key")).values(wake_on=bindparam("new_wake_on")),
    ["new_wake_on", "key"],
)
_NAMES = NamesNear(
    select(agents).where(agents.c.session_id == bindparam("session_id"), agents.c.deleted_at.is_(None)), agents.c.name
)


class Agents(Noun):
    """Agents; deleted ones are found by id and past name only. In a write block `get…` holds the agent."""

    async def add(self, agent: Agent) -> None:
        """Store a new agent. Raises Conflict if the session has one of this name."""
        await self._hold(session_key(agent.session_id))
        if not await self._write(_ADD, _write_agent(agent)):
            raise Conflict(
                f"session {agent.session!r} has an agent named {agent.name!r} already; "
                f"for a new token of it: circadia agents token {agent.reference}"
            )
        self._queue_check(agent)

    async def get(self, agent_id: AgentId) -> Agent | None:
        await self._hold(agent_key(agent_id))
        return await self._first(_SELECT, {"key": agent_id}, of=(agents, sessions))

    async def get_by_name(self, session_id: SessionId, name: str) -> Agent | None:
        values = {"session_id": session_id, "name": name}
        return await self._fetch_held(
            lambda connection: _SELECT_BY_NAME.first(connection, values), lambda agent: agent_key(agent.id)
        )

    async def find_ids(self, session_id: SessionId, names: Collection[str]) -> Sequence[AgentId]:
        """Return the ids of agents with these names, without holding them."""

        def work(connection: Connection) -> Sequence[str]:
            values = {"session_id": session_id}
            if len(names) > 1:
                return [row.id for row in _SELECT_IDS.all(connection, {**values, "names": names})]
            return [row.id for name in names for row in _SELECT_ID.all(connection, {**values, "name": name})]

        return [AgentId(agent_id) for agent_id in await self._run(work)]

    async def find_moved(self, known: Mapping[AgentId, int]) -> Sequence[Agent]:
        """Return those that have another sleep generation than the given one, or are disabled or deleted."""
        return await self._all(_SELECT_MOVED, {"known": orjson.dumps(known).decode()})

    async def find_by_past_name(self, session: str | None, name: str, *, limit: int = 3) -> Sequence[Agent]:
        """Return the newest few agents, deleted ones too, with this present or past name in a session of that name."""
        statement = _SELECT_BY_PAST_NAME if session is None else _SELECT_BY_PAST_NAME_IN
        values: dict[str, object] = {"name": name, "most": limit}
        return await self._all(statement, values if session is None else {**values, "session": session})

    async def get_by_token(self, token_hash: str) -> Agent | None:
        """Return the agent of this token, even if disabled."""
        return await self._first(_SELECT_BY_TOKEN, {"token_hash": token_hash})

    async def find_by_session(self, session_id: SessionId) -> Sequence[Agent]:
        of_session = await self._all(_SELECT_OF_SESSION, {"session_id": session_id}, short=False)
        return sorted(of_session, key=lambda agent: agent.name)

    async def find_page(self, session_id: SessionId, *, after: str | None = None, limit: int) -> Sequence[Agent]:
        """Return agents of the session after this name, in the database's order of names."""
        return await self._all(_SELECT_PAGE, {"session_id": session_id, "name": after or "", "most": limit})

    async def find_awake_launched(self) -> Sequence[Agent]:
        launched = await self._all(_SELECT_AWAKE_LAUNCHED, short=False)
        return [agent for agent in launched if agent.coordination.launcher != RESIDENT]

    async def find_in_open_sessions(self, *, after: tuple[str, str] | None = None, limit: int) -> Sequence[Agent]:
        """Return agents of all open sessions after this session and name, in the database's order of names."""
        session, name = after or ("", "")

        def work(connection: Connection) -> Sequence[Agent]:  # thousands are built where they are read: off the loop
            page: list[Agent] = []
            session_id = _SELECT_OPEN_SESSION.scalar(connection, {"session": session})
            if session_id is not None:  # by its id: a page by its name would sort all of its agents
                page += _SELECT_PAGE.all(connection, {"session_id": session_id, "name": name, "most": limit})
            page += _SELECT_OF_LATER_SESSIONS.all(connection, {"session": session, "most": limit - len(page)})
            return page

        return await self._run(work)

    async def names_near(self, session_id: SessionId, name: str) -> Sequence[str]:
        """Return a few names that are alphabetically near this one."""
        return await self._run(lambda connection: _NAMES.find(connection, name, {"session_id": session_id}))

    async def save(self, agent: Agent) -> None:
        """Write all fields except the sleep state (asleep, generation, since, cause, actor).

        Raises Conflict, which fails the block, if the name is taken.
        """
        await self._hold(agent_key(agent.id))
        await self._write(_SAVE, _write_settings(agent))
        self._queue_check(agent)

    async def save_sleep_state(self, agent: Agent, *, from_generation: int) -> None:
        """Write the sleep state by the end of the block.

        The block fails with Conflict if the stored generation is not `from_generation`.
        """
        await self._hold(agent_key(agent.id))
        changed_meanwhile = Conflict(f"the sleep of {agent.reference!r} changed at the same moment; try again")
        self._queue_write(
            _SAVE_STATE, (*_write_state(agent), from_generation), key=agent.id, or_raise=changed_meanwhile
        )
        if agent.asleep and agent.policy.bank is not None:
            queue_check_of_agents(self._runner, agent.policy.bank, if_asleep=True)

    async def save_own_wakes(self, agent_id: AgentId, wakes: OwnWakes) -> None:
        """Write what the agent asked to be woken by."""
        await self._hold(agent_key(agent_id))
        await self._write(_SAVE_OWN_WAKES, (" ".join([str(wakes.generation), *sorted(wakes.by)]), agent_id))

    def _queue_check(self, agent: Agent) -> None:
        """Ask for a check of the bank that the agent is bound to; its zone changes the hours of that bank."""
        if agent.policy.bank is not None:
            queue_check_of_agents(self._runner, agent.policy.bank, if_asleep="zone" not in agent.settings)


def _build_soonest(column: str) -> Select[tuple[object]]:
    """Build the query for a column of the soonest of the agent's routines and deferred wakes."""
    known = union_all(
        select(routines.c.next_at.label("at"), (literal("routine ") + routines.c.name).label("by")).where(
            routines.c.agent_id == bindparam("agent"), text("routines.enabled"), routines.c.next_at.is_not(None)
        ),
        select(wakes.c.not_before, literal("deferred wake by ") + wakes.c.sender).where(
            wakes.c.agent_id == bindparam("agent"),
            text("wakes.decision = 'deferred'"),  # as the index says
            wakes.c.not_before.is_not(None),
        ),
    ).subquery("soonest")
    return select(known.c[column]).order_by(known.c.at, known.c.by).limit(1)


_SET_NEXT: Final = Statement(
    update(agents)
    .where(agents.c.id == bindparam("agent"))
    .values(next_at=_build_soonest("at").scalar_subquery(), next_by=_build_soonest("by").scalar_subquery())
)


async def save_next_wake(runner: Runner, agent_id: AgentId) -> None:
    """Write what wakes the agent next, after a change of its routines or deferred wakes. The block holds the agent."""
    await runner.run(lambda connection: _SET_NEXT.execute(connection, {"agent": agent_id}))
