"""The agents of the configuration file: applied at the start, and again when the file changes (WAKE-16)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from circadia.agents.directory import hold_agents
from circadia.agents.registry import AgentRegistry, NewAgent
from circadia.clock import Clock
from circadia.errors import CircadiaError, StorageUnavailable
from circadia.ids import AgentId, hash_token
from circadia.records.principal import Principal
from circadia.records.session import DEFAULT_SESSION, Session
from circadia.server.context import ServerContext, read_secret
from circadia.settings import ConfigFile, Settings, load_settings
from circadia.settings.root import fingerprint
from circadia.stores.base import Tx
from circadia.stores.locks import START_KEY
from circadia.wake.services import WakeServices

_logger = logging.getLogger(__name__)

EVERY_SECONDS: Final = 1.0
_AT_START: Final = Settings.model_fields.keys() - {"agents"}


class ConfigReloader:
    """Watches the configuration file; a file that is unreadable or wrong changes nothing and is logged."""

    def __init__(self, clock: Clock, file: ConfigFile, apply: Callable[[Settings], Awaitable[None]]) -> None:
        self._clock = clock
        self._path = file.path
        self._settings = file.startup_settings
        self._apply = apply
        self._seen = self._file_stamp()

    async def run(self) -> None:
        while True:
            await self._clock.sleep(EVERY_SECONDS)
            stamp = self._file_stamp()
            if stamp is not None and stamp != self._seen and await self._reload_file():
                self._seen = stamp

    def _file_stamp(self) -> tuple[int, int, int] | None:
        """Return a value that changes with the file, or None while there is none, as when an editor replaces it."""
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    async def _reload_file(self) -> bool:
        """Apply the file; return False if that must be tried again."""
        try:
            settings = await asyncio.to_thread(load_settings, self._path)
            await self._apply(settings)
        except StorageUnavailable as error:
            _logger.warning("%s has changed and will be applied once the database answers: %s", self._path, error)
            return False
        except CircadiaError as error:
            _logger.warning("%s has changed but was not applied: %s", self._path, error)
            return True
        except Exception:  # the next change may pass, and nobody else does this work
            _logger.exception("%s has changed but was not applied", self._path)
            return True
        restart_sections = [
            name for name in sorted(_AT_START) if getattr(settings, name) != getattr(self._settings, name)
        ]
        self._settings = settings
        _logger.info("%s was read again; its agents are up to date", self._path)
        if restart_sections:
            _logger.warning("%s: a change of %s takes effect after a restart", self._path, ", ".join(restart_sections))
        return True


async def reload_file_agents(
    context: ServerContext, registry: AgentRegistry, wakes: WakeServices, settings: Settings
) -> None:
    """Apply the agents of a changed file; all else takes effect after a restart."""
    await apply_file_agents(context, registry, wakes, settings)
    if context.membership is not None:
        running = context.settings.model_copy(update={"agents": settings.agents})
        context.membership.note_configuration(fingerprint(running))


async def apply_file_agents(
    context: ServerContext, registry: AgentRegistry, wakes: WakeServices, settings: Settings
) -> None:
    """Create the agents of the file, or update the existing ones to match it."""
    named: set[AgentId] = set()
    async with context.store.begin_write(START_KEY) as tx:
        default = await tx.sessions.get_by_name(DEFAULT_SESSION)
        assert default is not None
        added = await _add_file_agents(tx, context, registry, default, settings)
        await hold_agents(tx, Principal(), default, settings.agents)
        await registry.bind_banks(tx, list(settings.agents.values()))
        for name, file_agent in settings.agents.items():
            agent = await tx.agents.get_by_name(default.id, name)
            assert agent is not None
            if name not in added:
                token = read_secret(context.environment, f"agents.{name}", file_agent.token_env)
                if token is not None and hash_token(token) != agent.token_hash:
                    agent = await registry.set_token(tx, agent, token, by="file")
                agent = await registry.change(
                    tx, agent, by="file", description=file_agent.description, sleep_events=file_agent.sleep_events,
                    wake_events=file_agent.wake_events, policy=file_agent.list_policy(),
                )  # fmt: skip
            agent = await wakes.coordinations.apply_file(tx, agent, file_agent.stated_coordination())
            await wakes.routines.apply_file(tx, agent, file_agent.routine_specs())
            named.add(agent.id)
    registry.in_file = frozenset(named)


async def _add_file_agents(
    tx: Tx, context: ServerContext, registry: AgentRegistry, default: Session, settings: Settings
) -> Collection[str]:
    """Create the agents of the file that are missing, before any agent is held; return their names."""
    await tx.sessions.lock(default.id)
    missing = [name for name in settings.agents if not await tx.agents.find_ids(default.id, [name])]
    for name in missing:
        file_agent = settings.agents[name]
        new = NewAgent(
            name=name, description=file_agent.description, sleep_events=file_agent.sleep_events,
            wake_events=file_agent.wake_events, policy=file_agent.list_policy(),
        )  # fmt: skip
        token = read_secret(context.environment, f"agents.{name}", file_agent.token_env)
        await registry.add_unbound(tx, default, new, by="file", token=token)
    return missing
