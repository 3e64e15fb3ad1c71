"""What all parts of a server are built on."""

import importlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from circadia.agents.database_contact import DatabaseContact
from circadia.clock import Clock
from circadia.errors import ConfigError
from circadia.gateway.accounting.write_behind import BacklogSpool
from circadia.ids import IdSource, MemberId
from circadia.jobs.event_sequencer import EventSequencer
from circadia.jobs.loops import DueWatch
from circadia.records.member import Role
from circadia.server.membership import Membership
from circadia.settings import ConfigFile, McpServerSettings, Settings
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.stores.signals.remote import RemoteSignals
from circadia.telemetry.traces import Traces

if TYPE_CHECKING:
    import aiohttp

Secret = Callable[[str, str | None], str | None]
"""Returns the value of the variable that a setting names, or None; raises ConfigError if it is not set."""


class HttpSession:
    """The session for MCP servers, alerts and embedders. Its library takes 8 MB: it is loaded if there is one."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> "aiohttp.ClientSession":
        """Return the session, which closes with this object."""
        if self._session is None:
            http: Any = importlib.import_module("circadia.gateway.mcp.http")
            self._session = http.open_session()
        assert self._session is not None
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerContext:
    settings: Settings
    environment: Mapping[str, str]
    data: Path
    clock: Clock
    ids: IdSource
    store: Store
    events: EventLog
    sequencer: EventSequencer | None
    """Numbers events; None if the database does so in the order of its commits."""
    admin_tokens: tuple[str, ...]
    """Accepted tokens of the operator; keys for new seals are derived from the first."""
    signals: LocalSignals | RemoteSignals
    session: HttpSession
    address: tuple[str, int]
    """Host and port at which launched agents reach a gateway."""
    contact: DatabaseContact
    due: DueWatch
    """Finds due work for all sweeps."""
    role: Role
    membership: Membership | None
    """None on SQLite, where this process is alone."""
    config: ConfigFile | None
    traces: Traces

    @property
    def member_id(self) -> MemberId | None:
        return None if self.membership is None else self.membership.member_id

    def build_spool(self, queue: str, kinds: Collection[type[Any]]) -> BacklogSpool[Any]:
        """Return where a queue of such entries keeps what it cannot write before its process ends."""
        return BacklogSpool(self.data / "spool", self.ids, queue, kinds)

    @property
    def mcp_servers(self) -> Mapping[str, McpServerSettings]:
        """The MCP servers that this process calls: none at a worker, which needs no secret of theirs."""
        return {} if self.role is Role.WORKER else self.settings.mcp_servers

    def leads(self) -> bool:
        """Return whether this process does what one at a time does."""
        return self.membership is None or self.membership.leads

    def read_secret(self, where: str, variable: str | None) -> str | None:
        """Return the value of the variable that a setting names. Raises ConfigError if it is not set."""
        return read_secret(self.environment, where, variable)


def read_secret(environment: Mapping[str, str], where: str, variable: str | None) -> str | None:
    """Return the value of the variable that a setting names. Raises ConfigError if it is not set."""
    if variable is None:
        return None
    value = environment.get(variable)
    if not value:
        raise ConfigError(f"{where}: the environment has no {variable!r}; set it, or remove the key from the file")
    return value


def build_url(address: tuple[str, int]) -> str:
    host, port = address
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
