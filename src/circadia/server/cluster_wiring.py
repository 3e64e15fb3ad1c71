"""Opens the database and the signals, and joins the cluster of servers."""

import importlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from importlib.metadata import version
from pathlib import Path
from socket import gethostname
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from circadia.agents.change_follower import AgentChangeFollower
from circadia.agents.identity import Identity
from circadia.agents.presence import Presence
from circadia.agents.sleep_confirmation import SleepConfirmer
from circadia.clock import Clock
from circadia.errors import ConfigError, StartError, StorageUnavailable
from circadia.gateway.hold.places import HoldPlaces, LocalHoldPlaces, SharedHoldPlaces, file_limit, holds_within
from circadia.gateway.model_call.hold import Gate
from circadia.ids import IdSource, MemberId, hash_token
from circadia.jobs.loops import run_guarded
from circadia.records.member import Member, Role
from circadia.server.context import ServerContext, build_url, read_secret
from circadia.server.folder import DATABASE_FILE, lock_folder
from circadia.server.membership import Membership, build_token_check
from circadia.server.reload import ConfigReloader
from circadia.settings import Settings
from circadia.settings.root import fingerprint
from circadia.settings.section import require_redis_url
from circadia.settings.server import LimitsSettings, ServerSettings
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.stores.base import Store
from circadia.stores.redis_connection import require_redis_package
from circadia.stores.signals.local import LocalSignals
from circadia.stores.signals.redis import RedisCarrier
from circadia.stores.signals.remote import RemoteSignals
from circadia.stores.sql.driver_errors import DAMAGED, is_refusal
from circadia.stores.sql.revision import ConnectionFacts, SchemaRow, find_damage, sqlite_revision
from circadia.stores.sql.revisions import Revision, find_missing, newest_revision
from circadia.stores.sql_store import SqlStore
from circadia.stores.sqlite import open_sqlite
from circadia.wake.redis_bridge import RedisBridge
from circadia.wake.redis_inboxes import RedisDelivery
from circadia.wake.services import WakeServices
from circadia.wake.worker import WakeWorker

_logger = logging.getLogger(__name__)

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
    present = (await _read_schema(url)).revision
    if missing := find_missing(present):
        lack = f"the database has schema {present or 'none'}, and this version needs {missing[-1].number}"
    elif indexes := await load_postgres().list_index_changes(url):
        lack = f"the indexes {', '.join(indexes)} are not built yet"
    else:
        return
    raise StorageUnavailable(f"{lack}: waiting until `circadia migrate` has run")


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
        id=MemberId(ids.new("mem")), role=role, version=version("circadia"), schema=newest_revision(),
        host=gethostname(),
        address=build_url(address), token_check=build_token_check(map(hash_token, admin_tokens)),
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


def build_hold_places(context: ServerContext) -> HoldPlaces:
    limits, files = context.settings.limits, file_limit()
    if context.membership is None:
        return LocalHoldPlaces(limits, files)
    return SharedHoldPlaces(context.clock, context.store, context.membership.member_id, limits, files)


def build_presence(context: ServerContext) -> tuple[Presence, SleepConfirmer]:
    presence = Presence(context.store, context.signals, context.contact)
    gateway_id = None if context.role is Role.WORKER else context.member_id
    return presence, SleepConfirmer(context.clock, context.store, context.signals, presence, gateway_id)


class Cache(Protocol):
    """Knows something of the database, and can drop it."""

    def forget(self) -> None: ...


async def start_follower(
    context: ServerContext,
    identity: Identity,
    presence: Presence,
    caches: Iterable[Cache],
    forget_hooks: Callable[[], None],
) -> Sequence[AgentChangeFollower]:
    """Return the follower of other servers, started before the first call: it ignores what happened earlier."""
    if not context.contact.is_shared:
        return ()
    following = AgentChangeFollower(
        context.clock, context.store, identity, presence, context.due, context.contact,
        forgets=[cache.forget for cache in caches], forget_hooks=forget_hooks,
    )  # fmt: skip
    await following.sweep()
    return (following,)


def find_gateway_address(settings: ServerSettings, own: tuple[str, int]) -> tuple[str, int]:
    """Return where launched agents reach a gateway."""
    if settings.gateway_url is None:
        return own
    parts = urlsplit(settings.gateway_url)
    return parts.hostname or own[0], parts.port or 80


class Service(Protocol):
    """Something that works in the background."""

    def run(self) -> Coroutine[Any, Any, None]: ...


def list_tasks(
    context: ServerContext,
    gate: Gate,
    worker: WakeWorker,
    sleep_worker: SleepWorker,
    services: Iterable[Service],
    workers: Iterable[Service],
    apply_agents: Callable[[Settings], Awaitable[None]],
) -> Sequence[Coroutine[Any, Any, None]]:
    """Return what runs in the background of this role: `services` in all, `workers` beside those that run jobs."""
    members: list[Service | None] = [context.membership, context.sequencer]
    if context.membership is not None:
        context.membership.count_load = lambda: (gate.total_held, worker.running_count + sleep_worker.running_count)
    if isinstance(gate.places, SharedHoldPlaces):
        members.append(gate.places)
    if isinstance(context.signals, RemoteSignals):
        members.append(context.signals)
    if context.config is not None:
        members.append(ConfigReloader(context.clock, context.config, apply_agents))
    tasks = [service.run() for service in (*services, *members) if service is not None]
    if context.role is Role.GATEWAY:
        return [*tasks, sleep_worker.run_gateway()]
    return [*tasks, *(service.run() for service in (worker, sleep_worker, *workers))]


def open_signals(
    settings: Settings, environment: Mapping[str, str], clock: Clock, member_id: MemberId | None
) -> LocalSignals | RemoteSignals:
    """Return signals within this process, or over what joins the servers. Raises ConfigError."""
    if settings.server.database_url is None or member_id is None:
        return LocalSignals()
    url = resolve_signals_url(settings, environment)
    if url is None:
        url = settings.server.direct_database_url or settings.server.database_url
        return RemoteSignals(clock, load_postgres().NotifyCarrier(url, member_id))
    return RemoteSignals(clock, RedisCarrier(url, member_id))


def build_redis_bridge(context: ServerContext, wakes: WakeServices) -> Sequence[RedisBridge]:
    """Return the bridge if the settings name a Redis. Raises ConfigError."""
    bridge, url = context.settings.redis_bridge, resolve_bridge_url(context.settings, context.environment)
    if url is None:
        return ()
    delivery = RedisDelivery(context.store, wakes.inbox, wakes.requests, bridge.session)
    return [RedisBridge(context.clock, context.store, context.signals, delivery, bridge, url, leads=context.leads)]


def resolve_signals_url(settings: Settings, environment: Mapping[str, str]) -> str | None:
    """Return the URL of the Redis that carries signals, if the settings name one. Raises ConfigError."""
    return _resolve_url("signals_env", settings.signals, settings.signals_env, environment)


def resolve_bridge_url(settings: Settings, environment: Mapping[str, str]) -> str | None:
    """Return the URL of the bridge's Redis, if the settings name one. Raises ConfigError."""
    return _resolve_url("redis_bridge.url_env", settings.redis_bridge.url, settings.redis_bridge.url_env, environment)


def _resolve_url(where: str, url: str | None, variable: str | None, environment: Mapping[str, str]) -> str | None:
    """Return the URL of the file or of the variable, and check that it can be used. Raises ConfigError."""
    if variable is not None:
        url = read_secret(environment, where, variable) or ""
        try:
            require_redis_url(url)
        except ValueError as error:
            raise ConfigError(f"{where}: {error}") from None
    if url is not None:
        require_redis_package()
    return url
