"""Coordination settings: how an agent may be woken, by the file or by PATCH; the later one wins per key (WAKE-16)."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import cast

from pydantic import ValidationError

from circadia.clock import Clock
from circadia.errors import InvalidRequest, NotFound
from circadia.records.agent import Agent
from circadia.records.coordination import (
    KEYS,
    Coordination,
    Setting,
    SettingSource,
    build_coordination,
    flatten_coordination,
)
from circadia.records.event import CoordinationUpdate, EventType
from circadia.records.schedule import check_blackouts, load_zone
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog
from circadia.suggestions import did_you_mean
from circadia.wake.pulse_service import PulseService
from circadia.wake.routines import RoutineService


class Coordinations:
    def __init__(
        self, clock: Clock, events: EventLog, routines: RoutineService, pulses: PulseService, launchers: Collection[str]
    ) -> None:
        self._clock = clock
        self._events = events
        self._routines = routines
        self._pulses = pulses
        self._launchers = frozenset(launchers)

    async def patch(self, tx: Tx, agent: Agent, changes: Mapping[str, object], *, by: str) -> Agent:
        """Set these keys, nested or by flat name. Raises InvalidRequest for an unknown key or a bad value."""
        flat = flatten_keys(changes)
        now = self._clock.now()
        settings = dict(agent.settings)
        for name, value in self._validate(agent, flat).items():
            old = agent.settings.get(name)
            settings[name] = Setting(
                value=value,
                source=SettingSource.PATCH,
                at=now,
                stated=old is not None and old.stated,
                file=None if old is None else old.file,
            )
        return await self._save(tx, agent, settings, by=by)

    async def reset(self, tx: Tx, agent: Agent, name: str, *, by: str) -> Agent:
        """Undo a patch of a key: the file's value or the default applies. Raises NotFound or InvalidRequest."""
        if name not in KEYS:
            raise NotFound(f"no coordination key {name!r}{did_you_mean(name, KEYS)}")
        old = agent.settings.get(name)
        if old is None or old.source is not SettingSource.PATCH:
            return agent
        settings = {key: setting for key, setting in agent.settings.items() if key != name}
        if old.stated:
            settings[name] = replace(old, value=old.file, source=SettingSource.FILE, at=self._clock.now())
        self.check({key: setting.value for key, setting in settings.items() if key in KEYS})
        return await self._save(tx, agent, settings, by=by)

    async def apply_file(self, tx: Tx, agent: Agent, stated: Mapping[str, object]) -> Agent:
        """Apply what changed in the file since it was read last; later patches stay."""
        now = self._clock.now()
        checked = self._validate(agent, flatten_keys(stated))
        settings = dict(agent.settings)
        for name in (agent.settings.keys() & set(KEYS)) - checked.keys():  # the file's routines are stored there too
            old = settings[name]
            if old.source is SettingSource.FILE:
                del settings[name]
            elif old.stated:
                settings[name] = replace(old, stated=False, file=None)
        for name, value in checked.items():
            old = agent.settings.get(name)
            if old is None or not old.stated or old.file != value:
                settings[name] = Setting(value=value, source=SettingSource.FILE, at=now, stated=True, file=value)
        return agent if settings == agent.settings else await self._save(tx, agent, settings, by="file")

    def check(self, stated: Mapping[str, object]) -> Coordination:
        """Return the resulting coordination. Raises InvalidRequest for an unknown key or a bad value."""
        flat = flatten_keys(stated)
        for name in flat:
            if name not in KEYS:
                raise InvalidRequest(f"no coordination key {name!r}{did_you_mean(name, KEYS)}")
        try:
            result = build_coordination(flat)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"] if not str(part).startswith("function-"))
            raise InvalidRequest(f"{where}: {first['msg']}; the value was {first['input']!r}") from error
        load_zone(result.zone)
        check_blackouts(result.blackouts)
        if result.launcher not in self._launchers:
            raise InvalidRequest(
                f"no launcher {result.launcher!r} in the configuration{did_you_mean(result.launcher, self._launchers)}"
            )
        return result

    def _validate(self, agent: Agent, flat: Mapping[str, object]) -> dict[str, object]:
        """Return these values ready for JSON, after checking them together with the agent's other settings."""
        others = {name: setting.value for name, setting in agent.settings.items() if name in KEYS}
        checked = flatten_coordination(self.check({**others, **flat}))
        return {name: checked[name] for name in flat}

    async def _save(self, tx: Tx, agent: Agent, settings: Mapping[str, Setting], *, by: str) -> Agent:
        coordination = build_coordination({name: setting.value for name, setting in settings.items()})
        changed = replace(agent, settings=settings, coordination=coordination)
        await tx.agents.save(changed)
        if coordination.launcher != agent.coordination.launcher:
            changed = await self._pulses.on_launcher_change(tx, changed, by=by)
        before, after = flatten_coordination(agent.coordination), flatten_coordination(coordination)
        changes = {name: after[name] for name in after if after[name] != before[name]}
        data = CoordinationUpdate(by=by, changed=changes)
        await self._events.record(tx, EventType.COORDINATION, data, session=agent.session, agent=agent.name)
        if coordination.zone != agent.coordination.zone:
            await self._routines.follow_zone(tx, changed, origin=agent.coordination.zone, by=by)
        if {"launcher", "heartbeat_minutes"} & changes.keys():
            await self._routines.ensure_heartbeat(tx, changed, by=by)
        for topic in ("agent", "coordination"):
            self._events.signal(tx, topic, agent.id)
        return changed


def flatten_keys(given: Mapping[str, object]) -> dict[str, object]:
    """Return the keys of nested groups as flat names. Raises InvalidRequest if a key has both forms."""
    flat: dict[str, object] = {}
    for name, value in given.items():
        named: dict[str, object] = {name: value}
        if isinstance(value, Mapping):
            named = {f"{name}.{inner}": deeper for inner, deeper in cast("Mapping[str, object]", value).items()}
        if twice := sorted(flat.keys() & named.keys()):
            raise InvalidRequest(f"{twice[0]!r} is given twice, nested and by its flat name; give it once")
        flat |= named
    return flat
