"""Opens the database, and joins the cluster of servers on it."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from importlib.metadata import version
from pathlib import Path
from socket import gethostname
from typing import Any, Protocol
from urllib.parse import urlsplit

from circadia.clock import Clock
from circadia.errors import ConfigError, StartError
from circadia.gateway.hold.gate import Gate
from circadia.ids import IdSource, MemberId
from circadia.jobs.event_sequencer import EventSequencer
from circadia.jobs.guarded_step import run_guarded
from circadia.records.member import Member, Role
from circadia.server.basis import ServerBasis
from circadia.server.membership import Membership, build_token_check
from circadia.server.reload import ConfigReloader
from circadia.settings import Settings
from circadia.settings.server import ServerSettings
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.stores.base import Store
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.remote import RemoteSignals
from circadia.stores.sql.connection_facts import ConnectionFacts
from circadia.stores.sqlite import open_sqlite
from circadia.wake.worker import WakeWorker


async def open_store(settings: Settings, data: Path) -> tuple[Store, ConnectionFacts | None]:
    """Return the store, and on PostgreSQL what is to be known of the way there. Raises StartError."""
    server = settings.server
    if server.database_url is None:
        return await open_sqlite(data / "circadia.db", readers=server.readers), None
    store = await open_postgres(server.database_url, readers=server.readers, writers=server.writers)
    by_redis = settings.signals is not None or settings.signals_env is not None
    if store.facts is not None and store.facts.is_pooled and server.direct_database_url is None and not by_redis:
        await store.close()
        raise StartError(
            "server.database_url leads through a pooler, which does not pass signals on; set server.direct_database_url"
        )
    return store, store.facts


async def join_cluster(
    stack: AsyncExitStack,
    clock: Clock,
    ids: IdSource,
    store: Store,
    role: Role,
    admin_token_hash: str,
    address: tuple[str, int],
    settings: ServerSettings,
    facts: ConnectionFacts | None,
) -> Membership:
    now = clock.now()
    is_direct = facts is None or not facts.is_pooled
    member = Member(
        id=MemberId(ids.new("mem")), role=role, version=version("circadia"), host=gethostname(),
        address=_build_url(address), token_check=build_token_check(admin_token_hash), started_at=now, lease_until=now,
        connections=settings.readers + settings.writers + 1 if is_direct else 1,
    )  # fmt: skip
    membership = Membership(clock, store, member)
    await membership.join(None if facts is None else facts.most)
    stack.push_async_callback(run_guarded, "leaving the cluster", membership.leave)
    return membership


def find_gateway_address(settings: ServerSettings, own: tuple[str, int]) -> tuple[str, int]:
    """Return where launched agents reach a gateway. Raises ConfigError for a URL without a host."""
    if settings.gateway_url is None:
        return own
    parts = urlsplit(settings.gateway_url)
    if parts.scheme != "http" or parts.hostname is None:
        raise ConfigError(f"server.gateway_url: {settings.gateway_url!r} is no URL like http://gateway:4114")
    return parts.hostname, parts.port or 80


def _build_url(address: tuple[str, int]) -> str:
    host, port = address
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class Service(Protocol):
    """Something that works in the background."""

    def run(self) -> Coroutine[Any, Any, None]: ...


def list_tasks(
    basis: ServerBasis,
    gate: Gate,
    worker: WakeWorker,
    dreamer: SleepWorker,
    sequencer: EventSequencer | None,
    services: Iterable[Service],
    workers: Iterable[Service],
    apply_agents: Callable[[Settings], Awaitable[None]],
) -> Sequence[Coroutine[Any, Any, None]]:
    """Return what runs in the background of this role: `services` in all, `workers` beside those that run jobs."""
    members: list[Service | None] = [basis.membership, sequencer]
    if basis.membership is not None:
        basis.membership.count_load = lambda: (gate.total_held, worker.running_count + dreamer.running_count)
    if isinstance(basis.signals, RemoteSignals):
        members.append(basis.signals)
    if basis.config is not None:
        members.append(ConfigReloader(basis.clock, basis.config, apply_agents))
    tasks = [service.run() for service in (*services, *members) if service is not None]
    if basis.role is Role.GATEWAY:
        return [*tasks, dreamer.run_gateway()]
    return [*tasks, *(service.run() for service in (worker, dreamer, *workers))]
