"""Opens the database, and joins the cluster of servers on it."""

import importlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, nullcontext
from functools import partial
from importlib.metadata import version
from pathlib import Path
from socket import gethostname
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from circadia.agents.change_follower import AgentChangeFollower
from circadia.agents.database_contact import DatabaseContact
from circadia.agents.identity import Identity
from circadia.agents.presence import Presence
from circadia.agents.sleep_confirmation import SleepConfirmer
from circadia.clock import Clock
from circadia.errors import ConfigError, StartError, StorageUnavailable
from circadia.gateway.accounting.write_behind import WriteBehindQueue
from circadia.gateway.hold.gate import Gate
from circadia.gateway.hold.places import HoldPlaces, LocalHoldPlaces, SharedHoldPlaces, file_limit, holds_within
from circadia.ids import IdSource, MemberId, hash_token
from circadia.jobs.event_sequencer import EventSequencer
from circadia.jobs.loops import run_guarded
from circadia.records.member import Member, Role
from circadia.server.basis import ServerBasis
from circadia.server.drain import Drain
from circadia.server.folder import DATABASE_FILE, lock_folder
from circadia.server.front import DoorRouter
from circadia.server.membership import Membership, build_token_check
from circadia.server.readiness import Readiness
from circadia.server.reload import ConfigReloader
from circadia.settings import Settings
from circadia.settings.root import fingerprint
from circadia.settings.server import LimitsSettings, ServerSettings
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.stores.base import Store
from circadia.stores.signals.remote import RemoteSignals
from circadia.stores.sql.connection_facts import ConnectionFacts
from circadia.stores.sql.database import SqlStore
from circadia.stores.sql.driver_errors import DAMAGED, is_refusal
from circadia.stores.sql.migrate import Revision, find_missing, list_revisions
from circadia.stores.sql.revision import SchemaRow, sqlite_revision
from circadia.stores.sqlite import open_sqlite
from circadia.stores.sqlite_damage import find_damage
from circadia.wake.worker import WakeWorker

_logger = logging.getLogger(__name__)

_NOTICE_SECONDS: Final = 3.0
"""Time for a balancer that checks each second to see that `/readyz` is red, before a stopping gateway refuses calls."""
DAMAGE_SECONDS: Final = 1.0
"""Longest check of the database at the start; the database itself finds what that misses."""


async def open_store(settings: Settings, data: Path, *, migrates: bool = True) -> tuple[Store, ConnectionFacts | None]:
    """Open the database, after its migration by this process or, unless it `migrates`, by another.

    Return the store, and on PostgreSQL what is known of the connection to it.

    Raises:
        StartError: the database cannot be opened, or signals cannot pass a pooler before it.
        StorageUnavailable: it does not answer, or has not been migrated yet.
    """
    server = settings.server
    if server.database_url is not None and not migrates:
        await _require_schema(server.database_url)
    store = await _connect(server, data)
    is_direct = server.direct_database_url is not None or settings.signals_by_redis
    if store.facts is not None and store.facts.is_pooled and not is_direct:
        await store.close()
        raise StartError(
            "server.database_url leads through a pooler, which does not pass signals on; set server.direct_database_url"
        )
    return store, store.facts


async def _connect(settings: ServerSettings, data: Path) -> SqlStore:
    if settings.database_url is None:
        opened = await open_sqlite(
            data / DATABASE_FILE, readers=settings.readers, operator_seconds=settings.operator_read_seconds
        )
        if damage := await find_damage(data / DATABASE_FILE, DAMAGE_SECONDS):
            opened.report_damage(StorageUnavailable(f"SQLite does not answer: {DAMAGED} ({damage})"))
        return opened
    store: SqlStore = await load_postgres().open_postgres(
        settings.database_url, readers=settings.readers, writers=settings.writers,
        operator_seconds=settings.operator_read_seconds,
    )  # fmt: skip
    return store


def load_postgres() -> Any:
    return importlib.import_module("circadia.server.postgres_wiring")


async def migrate_database(settings: ServerSettings, data: Path, *, dry_run: bool) -> Sequence[Revision]:
    """Migrate the database, unless it is a `dry_run`; return the revisions that it lacked.

    Raises:
        StartError: the database cannot be opened or must not be migrated now, or a server uses the SQLite folder.
    """
    with lock_folder(data) if settings.database_url is None else nullcontext():
        file = data / DATABASE_FILE
        try:
            if settings.database_url is not None:
                present = await _read_schema(settings.database_url)
            else:
                present = (await sqlite_revision(file))[1] if file.exists() else SchemaRow()
            if not dry_run:
                await (await _connect(settings, data)).close()
        except StorageUnavailable as error:
            raise StartError(error.message) from None
        return find_missing(present.revision)


async def _read_schema(url: str) -> SchemaRow:
    try:
        row: SchemaRow = (await load_postgres().postgres_revision(url))[1]
    except (StorageUnavailable, ValueError) as error:
        is_away = isinstance(error, StorageUnavailable) and not is_refusal(error)
        kind = StorageUnavailable if is_away else StartError
        raise kind(f"cannot open the PostgreSQL database: {error}") from None
    return row


async def _require_schema(url: str) -> None:
    """Raise StorageUnavailable until the database has a schema as new as this version's, with all its indexes."""
    lack = await _describe_lack(url)
    if lack is not None:
        raise StorageUnavailable(f"{lack}: waiting until `circadia migrate` has run")


async def _describe_lack(url: str) -> str | None:
    """Return what a migration has yet to do; none if that is nothing."""
    present = (await _read_schema(url)).revision
    missing = find_missing(present)
    if missing:
        return f"the database has schema {present or 'none'}, and this version needs {missing[-1].number}"
    indexes: Sequence[str] = await load_postgres().list_index_changes(url)
    return f"the indexes {', '.join(indexes)} are not built yet" if indexes else None


async def join_cluster(
    stack: AsyncExitStack,
    clock: Clock,
    ids: IdSource,
    store: Store,
    role: Role,
    admin_tokens: Iterable[str],
    address: tuple[str, int],
    settings: Settings,
    facts: ConnectionFacts | None,
) -> Membership:
    now = clock.now()
    is_direct = facts is None or not facts.is_pooled
    member = Member(
        id=MemberId(ids.new("mem")), role=role, version=version("circadia"), schema=list_revisions()[-1].number,
        host=gethostname(),
        address=_build_url(address), token_check=build_token_check(map(hash_token, admin_tokens)),
        config_check=fingerprint(settings), started_at=now, lease_until=now,
        connections=settings.server.connections if is_direct else 1,
    )  # fmt: skip
    membership = Membership(clock, store, member)
    await membership.join(None if facts is None else facts.most)
    stack.push_async_callback(run_guarded, "leaving the cluster", membership.leave)
    return membership


def warn_of_few_files(limits: LimitsSettings) -> None:
    files = file_limit()
    if holds_within(files) < limits.max_holds:
        _logger.warning(
            "at most %d calls are held, not limits.max_holds = %d: the limit of open files is %d",
            holds_within(files), limits.max_holds, files,
        )  # fmt: skip


def build_hold_places(basis: ServerBasis) -> HoldPlaces:
    limits, files = basis.settings.limits, file_limit()
    if basis.membership is None:
        return LocalHoldPlaces(limits, files)
    return SharedHoldPlaces(basis.clock, basis.store, basis.membership.member_id, limits, files)


def build_drain(
    basis: ServerBasis, front: DoorRouter, gate: Gate, worker: WakeWorker, dreamer: SleepWorker,
    queues: Sequence[WriteBehindQueue[Any]],
) -> Drain:  # fmt: skip
    has_balancer = basis.membership is not None and basis.role is not Role.WORKER
    return Drain(
        basis.clock, front, gate, worker, dreamer, queues, basis.membership,
        notice_seconds=_NOTICE_SECONDS if has_balancer else 0.0,
    )  # fmt: skip


def build_contact(clock: Clock, settings: Settings, *, is_shared: bool) -> DatabaseContact:
    return DatabaseContact(
        clock,
        is_shared=is_shared,
        grace_seconds=settings.server.auth_grace_seconds,
        carries_signals=not settings.signals_by_redis,
    )


def build_presence(basis: ServerBasis) -> tuple[Presence, SleepConfirmer]:
    presence = Presence(basis.store, basis.signals, basis.contact)
    gateway_id = None if basis.role is Role.WORKER else basis.member_id
    return presence, SleepConfirmer(basis.clock, basis.store, basis.signals, presence, gateway_id)


def build_readiness(basis: ServerBasis) -> Readiness:
    serves_without_database = basis.contact.is_shared and basis.role is not Role.WORKER
    return Readiness(basis.clock, basis.store.ping, basis.contact if serves_without_database else None)


class Cache(Protocol):
    """Knows something of the database, and can drop it."""

    def forget(self) -> None: ...


async def start_follower(
    basis: ServerBasis, identity: Identity, presence: Presence, caches: Iterable[Cache]
) -> Sequence[AgentChangeFollower]:
    """Return the follower of other servers, started before the first call: it ignores what happened earlier."""
    if not basis.contact.is_shared:
        return ()
    following = AgentChangeFollower(
        basis.clock, basis.store, identity, presence, basis.due, basis.contact,
        forgets=[cache.forget for cache in caches],
    )  # fmt: skip
    await following.sweep()
    return (following,)


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


async def _apply_agents(
    basis: ServerBasis, apply_agents: Callable[[Settings], Awaitable[None]], settings: Settings
) -> None:
    """Apply the agents of a changed file; all else takes effect after a restart."""
    await apply_agents(settings)
    if basis.membership is not None:
        running = basis.settings.model_copy(update={"agents": settings.agents})
        basis.membership.note_configuration(fingerprint(running))


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
    if isinstance(gate.places, SharedHoldPlaces):
        members.append(gate.places)
    if isinstance(basis.signals, RemoteSignals):
        members.append(basis.signals)
    if basis.config is not None:
        members.append(ConfigReloader(basis.clock, basis.config, partial(_apply_agents, basis, apply_agents)))
    tasks = [service.run() for service in (*services, *members) if service is not None]
    if basis.role is Role.GATEWAY:
        return [*tasks, dreamer.run_gateway()]
    return [*tasks, *(service.run() for service in (worker, dreamer, *workers))]
