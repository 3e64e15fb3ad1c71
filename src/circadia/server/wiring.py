"""Joins everything: the only place that picks classes."""

import asyncio
import hashlib
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
from starlette.types import ASGIApp

from circadia.agents.failed_tokens import FailedTokens
from circadia.agents.following import Following
from circadia.agents.identity import Identity
from circadia.agents.presence import Presence
from circadia.agents.registry import NewAgent, Registry
from circadia.agents.sessions import Sessions
from circadia.agents.waits import Waits
from circadia.answers.lookup import AnswerLookup
from circadia.api.app import ApiParts, create_api
from circadia.clock import Clock, SystemClock, system_milliseconds
from circadia.errors import ConfigError
from circadia.gateway.ahead import AheadOfCalls
from circadia.gateway.answer_book import AnswerBook
from circadia.gateway.backlog import Backlog
from circadia.gateway.bodies import Parking
from circadia.gateway.budget import Budget
from circadia.gateway.dialects.plain import Plain
from circadia.gateway.gate import Gate
from circadia.gateway.journal import Journal
from circadia.gateway.mcp_door import OWN, McpDoor
from circadia.gateway.mcp_http import McpHttp
from circadia.gateway.mcp_stdio import StdioServers
from circadia.gateway.model_door import ModelDoor
from circadia.gateway.owners import Owners
from circadia.gateway.ready import Answering
from circadia.gateway.relay import Relay
from circadia.gateway.remember import Exchanges
from circadia.gateway.seal import Seal
from circadia.gateway.ticker import Ticker
from circadia.gateway.turns import Turns
from circadia.ids import AgentId, IdSource, RandomIds, hash_token
from circadia.mcp_server.app import McpParts, McpServer
from circadia.memory.tier import Memory
from circadia.records.session import DEFAULT_SESSION
from circadia.server.answering import answers_at_gateway
from circadia.server.dreaming import Minds, sleep_minds, sleep_savings, sleep_tier, sleep_worker
from circadia.server.front import Front, Hosts
from circadia.server.gauges import gauges, memory_gauges, sleep_gauges
from circadia.server.providers import opened_providers
from circadia.server.reload import Reload
from circadia.server.remembering import at_gateway, file_banks, memory_parts
from circadia.server.sweeps import Sweeps
from circadia.server.waking import agent_services, wake_tier, wake_worker
from circadia.settings import ConfigFile, PolicySettings, Settings
from circadia.sleeptime.health import SleepHealth
from circadia.sleeptime.savings import Savings
from circadia.sleeptime.tier import Sleeptime
from circadia.sleeptime.worker import SleepWorker
from circadia.stores.base import Store
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite
from circadia.telemetry.metrics import Metrics
from circadia.telemetry.traces import Traces
from circadia.wake.alerts import Alerts, Post
from circadia.wake.tier import WakeTier
from circadia.wake.worker import Worker

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """What is served, and what ends the waiting when it stops."""

    app: ASGIApp
    """The ASGI application."""
    journal: Journal
    """What is still to be written."""
    exchanges: Exchanges
    """What is still to be remembered."""
    answers: AnswerBook
    """What is still to be written of ready answers."""
    stop: Callable[[str], None]
    """Ends all that waits, with a reason: held calls, and streams of events."""
    drain: Callable[[], Coroutine[Any, Any, None]]
    """Takes up no more pulses, and lets those that run end within their time."""
    waiting: Callable[[], int]
    """Returns how many callers are held or get signs of life: 0 when nobody is there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Basis:
    """What nearly every part is built on."""

    settings: Settings
    """All settings."""
    environment: Mapping[str, str]
    """The environment, read once."""
    data: Path
    """The data folder."""
    clock: Clock
    """Time."""
    ids: IdSource
    """Ids."""
    store: Store
    """The database."""
    signals: LocalSignals
    """Hints."""
    session: aiohttp.ClientSession
    """Connections to MCP servers."""
    address: tuple[str, int]
    """Host and port at which this server can be reached from this machine."""
    config: ConfigFile | None = None
    """The file that the settings came from."""
    traces: Traces
    """Makes spans."""


@asynccontextmanager
async def wired(
    settings: Settings,
    data: Path,
    environment: Mapping[str, str],
    admin_token: str,
    *,
    address: tuple[str, int] | None = None,
    config: ConfigFile | None = None,
    traces: Traces | None = None,
    clock: Clock | None = None,
) -> AsyncGenerator[Server]:
    """Build a server; on exit end its tasks, write what is left, and close the database.

    Raises:
        ConfigError: a variable that the settings name is not set. StartError: the database cannot be opened.
    """
    clock = clock or SystemClock()
    url = settings.server.database_url
    store = await (open_postgres(url) if url else open_sqlite(data / "circadia.db"))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        session = await stack.enter_async_context(_session())
        basis = Basis(
            settings=settings, environment=environment, data=data, clock=clock,
            ids=RandomIds(system_milliseconds), store=store, signals=LocalSignals(), session=session,
            address=address or (settings.server.host, settings.server.port), config=config, traces=traces or Traces(),
        )  # fmt: skip
        yield await _built(basis, admin_token, stack)


def _session() -> aiohttp.ClientSession:
    """Return connections that change nothing on the way, without a limit to their number."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60, keepalive_timeout=30),
        auto_decompress=False,
        skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=2**18,
    )


async def _built(basis: Basis, admin_token: str, stack: AsyncExitStack) -> Server:
    settings, clock, store, signals = basis.settings, basis.clock, basis.store, basis.signals
    presence, tier = Presence(store, signals), wake_tier(settings, clock, basis.ids, signals)
    registry, threads, sessions = agent_services(settings, clock, basis.ids, signals, tier)
    waits = Waits(clock, store, signals, presence)
    metrics_token = _hashed(basis, settings.server.metrics_token_env)
    failed = FailedTokens(clock, settings.limits.max_failed_tokens_per_minute)
    identity = Identity(store, signals, admin_token_hash=hash_token(admin_token), metrics_token_hash=metrics_token,
                        failed=failed)  # fmt: skip
    metrics, ticker = Metrics(), Ticker(clock)
    metrics.gauge("circadia_failed_tokens", "Tokens that opened nothing.", lambda: failed.total)
    journal, parking = Journal(clock, store, signals, metrics.saw), Parking(basis.data / "held", settings.limits)
    parking.clear()
    gate = Gate(clock, basis.ids, presence, journal, ticker, parking, settings.limits)
    memory, embedding = memory_parts(settings, partial(_secret, basis), basis.session, clock, basis.ids, store, signals)
    registry.bind, tier.sleep.shut = partial(memory.banks.bound, user=None, make=True), gate.shut
    dreams = sleep_tier(settings, clock, basis.ids, signals, memory)
    await _prepare(basis, sessions, registry, waits, tier, memory)
    own = McpServer(McpParts(
        store=store, clock=clock, signals=signals, threads=threads, sleep=tier.sleep, waits=waits,
        presence=presence, settings=settings, wake=tier, memory=memory, sleeptime=dreams,
    ))  # fmt: skip
    stdio = StdioServers(settings.mcp_servers, basis.environment, clock)
    minds = sleep_minds(settings, partial(_secret, basis), clock, stack)
    answers = answers_at_gateway(settings, clock, basis.ids, store, memory, journal, metrics, minds[0])
    door, exchanges, ahead = await _model_door(stack, basis, identity, gate, presence, journal, memory, dreams, answers)
    dreams.behind = [each.flush for each in (exchanges, answers[1])]
    tools = _mcp_door(basis, identity, gate, ticker, admin_token, own, stdio)
    parts = ApiParts(
        store=store, clock=clock, signals=signals, identity=identity, registry=registry, sessions=sessions,
        threads=threads, sleep=tier.sleep, presence=presence, settings=settings, holds=gate, wake=tier,
        memory=memory, sleeptime=dreams, lookup=answers[0].lookup, judge=answers[0].judge,
    )  # fmt: skip
    front = Front(_hosts(settings), {"llm": door, "mcp": tools}, create_api(parts), identity, metrics, store.ping)
    worker = wake_worker(
        tier, settings, basis.environment, basis.data, clock, basis.ids, store, signals, basis.address
    )  # fmt: skip
    dreamer, counting = _dreamer(minds, basis, dreams, metrics, memory, tier, ahead, answers[0].lookup)
    gauges(metrics, gate, parking, journal, exchanges, worker, signals)
    memory_gauges(metrics, memory.retrieval)
    sweeps = Sweeps(clock, store, waits, sessions, settings, await _following(basis, identity, presence))
    beside = (sweeps, _alerts(basis), *embedding)
    works = [each.run() for each in (ticker, worker, dreamer, waits, *counting, *beside)]
    if basis.config is not None:
        works.append(Reload(clock, basis.config, partial(_file_agents, basis, registry, tier)).run())
    await _started(stack, own, stdio, (journal, exchanges, answers[1]), works)
    return Server(
        app=front, journal=journal, exchanges=exchanges, answers=answers[1], stop=presence.stop,
        waiting=lambda: gate.held_in_all + ticker.waiting, drain=lambda: _drained(worker, dreamer, settings),
    )  # fmt: skip


def _alerts(basis: Basis) -> Alerts:
    wakes = basis.settings.fleet.max_wakes_per_day
    return Alerts(basis.clock, basis.ids, basis.store, _poster(basis), fleet_wakes_per_day=wakes)


def _dreamer(
    minds: Minds,
    basis: Basis,
    tier: Sleeptime,
    metrics: Metrics,
    memory: Memory,
    wake: WakeTier,
    ahead: AheadOfCalls,
    lookup: AnswerLookup,
) -> tuple[SleepWorker, Sequence[SleepHealth | Savings]]:
    clock, ids, store, signals = basis.clock, basis.ids, basis.store, basis.signals
    worker = sleep_worker(
        tier, basis.settings, minds, clock, ids, store, signals, memory, wake.requests, basis.traces, ahead,
        lookup,
    )  # fmt: skip
    health = SleepHealth(clock, store, tier)
    sleep_gauges(metrics, worker, health, signals)
    return worker, (health, sleep_savings(basis.settings, clock, store, memory))


async def _following(basis: Basis, identity: Identity, presence: Presence) -> Following | None:
    """Return what follows other servers, begun before any call comes: of what it did not see it takes over nothing."""
    if not basis.settings.server.database_url:
        return None
    following = Following(basis.store, identity, presence, basis.signals)
    await following.sweep()
    return following


async def _drained(worker: Worker, dreamer: SleepWorker, settings: Settings) -> None:
    await asyncio.gather(worker.drain(settings.fleet.drain_seconds), dreamer.drain())


def _poster(basis: Basis) -> Post | None:
    """Return what posts alerts to the fleet's webhook, if there is one."""
    url = basis.settings.fleet.alert_webhook_url
    if url is None:
        return None

    async def post(alert: Mapping[str, object]) -> None:
        limit = aiohttp.ClientTimeout(total=10)
        async with basis.session.post(url, json=alert, timeout=limit, allow_redirects=False) as answer:
            answer.raise_for_status()

    return post


def _hosts(settings: Settings) -> Hosts:
    return Hosts((*settings.server.allowed_hosts, settings.server.host), settings.server.allowed_origins)


async def _model_door(
    stack: AsyncExitStack, basis: Basis, identity: Identity, gate: Gate, presence: Presence, journal: Journal,
    memory: Memory, dreams: Sleeptime, answers: tuple[Answering, AnswerBook],
) -> tuple[ModelDoor, Exchanges, AheadOfCalls]:  # fmt: skip
    clock, store, settings = basis.clock, basis.store, basis.settings
    providers = await opened_providers(settings, partial(_secret, basis), clock, stack)
    owners = Owners(clock, store)
    budget = Budget(clock, store)
    turns = Turns(clock, basis.ids, store, journal)
    await turns.load()
    exchanges, remembering = at_gateway(clock, store, basis.signals, memory, dreams, *answers)
    relay = Relay(clock, basis.ids, store, presence, journal, owners, budget, turns, remembering, basis.traces)
    door = ModelDoor(
        clock, identity, gate, providers, owners, budget, relay, settings.defaults, settings.limits, Plain()
    )  # fmt: skip
    return door, exchanges, AheadOfCalls(clock, store, memory, answers[0].lookup, providers)


def _mcp_door(
    basis: Basis, identity: Identity, gate: Gate, ticker: Ticker, admin_token: str, own: ASGIApp, stdio: StdioServers
) -> McpDoor:
    configured = basis.settings.mcp_servers
    over_http: dict[str, ASGIApp] = {
        name: McpHttp(name, each, basis.environment, basis.session) for name, each in configured.items() if each.url
    }
    children: dict[str, ASGIApp] = {name: stdio.server(name) for name, each in configured.items() if not each.url}
    seal = Seal(hashlib.sha256(b"circadia mcp sessions\n" + admin_token.encode()).digest())
    return McpDoor(
        basis.clock, identity, gate, ticker, seal, {OWN: own, **over_http, **children}, frozenset(over_http),
        basis.settings.defaults, basis.settings.limits,
    )  # fmt: skip


async def _prepare(
    basis: Basis, sessions: Sessions, registry: Registry, waits: Waits, tier: WakeTier, memory: Memory
) -> None:
    """Make what the file names: banks, the session `default`, its agents; free what a dead process had leased."""
    await file_banks(basis.settings, basis.store, memory)
    async with basis.store.write() as tx:
        await sessions.ensure_default(tx)
    await _file_agents(basis, registry, tier, basis.settings)
    if not basis.settings.server.database_url:  # else another server may be handing out what is leased
        await waits.end_all()


async def _file_agents(basis: Basis, registry: Registry, tier: WakeTier, settings: Settings) -> None:
    """Make the agents that the file names, and set those that are there to what it says."""
    named: set[AgentId] = set()
    async with basis.store.write() as tx:
        default = await tx.sessions.by_name(DEFAULT_SESSION)
        assert default is not None
        for name, each in settings.agents.items():
            token = _secret(basis, f"agents.{name}", each.token_env)
            found = await tx.agents.by_name(default.id, name)
            policy = {key: getattr(each, key) for key in PolicySettings.model_fields}
            if found is None:
                new = NewAgent(
                    name=name, description=each.description, sleep_events=each.sleep_events,
                    wake_events=each.wake_events, policy=policy,
                )  # fmt: skip
                found, _ = await registry.add(tx, default, new, token=token)
            else:
                if token is not None and hash_token(token) != found.token_hash:
                    found = await registry.retoken(tx, found, token)
                found = await registry.change(
                    tx, found, description=each.description, sleep_events=each.sleep_events,
                    wake_events=each.wake_events, policy=policy,
                )  # fmt: skip
            found = await tier.coordinations.read_file(tx, found, each.stated_coordination())
            await tier.routines.read_file(tx, found, each.routine_specs())
            named.add(found.id)
    registry.in_file = frozenset(named)


def _secret(basis: Basis, where: str, variable: str | None) -> str | None:
    if variable is None:
        return None
    value = basis.environment.get(variable)
    if not value:
        raise ConfigError(f"{where}: the environment has no {variable!r}; set it, or take the key out of the file")
    return value


def _hashed(basis: Basis, variable: str | None) -> str | None:
    token = _secret(basis, "server.metrics_token_env", variable)
    return None if token is None else hash_token(token)


async def _written(backlog: Backlog[Any], writing: asyncio.Task[None]) -> None:
    """Write what is left."""
    backlog.stop()
    await asyncio.gather(writing, return_exceptions=True)
    await backlog.last_flush()


async def _started(
    stack: AsyncExitStack, own: McpServer, stdio: StdioServers, backlogs: Sequence[Backlog[Any]],
    works: Sequence[Coroutine[Any, Any, None]],
) -> None:  # fmt: skip
    """Start what runs beside the requests, to be ended in the opposite order."""
    for backlog in backlogs:
        stack.push_async_callback(_written, backlog, asyncio.create_task(backlog.run()))
    await stack.enter_async_context(own.run())
    await stack.enter_async_context(stdio.run())
    for work in works:
        task = asyncio.create_task(work)
        task.add_done_callback(_told_if_failed)
        stack.push_async_callback(_ended, task)


def _told_if_failed(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _logger.critical("a background task has ended; restart the server", exc_info=error)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
