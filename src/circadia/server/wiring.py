"""Builds the server: the only place that picks classes."""

import hashlib
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import aiohttp
from starlette.types import ASGIApp

from circadia.agents.directory import hold_agents
from circadia.agents.identity import AccessTokenService, FailedTokens, Identity
from circadia.agents.presence import Presence
from circadia.agents.registry import AgentRegistry, NewAgent
from circadia.agents.sessions import SessionService
from circadia.agents.sign_in import SignIn
from circadia.agents.waits import Waits
from circadia.answers.lookup import AnswerLookup
from circadia.api.app import ApiParts, create_api
from circadia.clock import Clock, SystemClock, system_milliseconds
from circadia.gateway.accounting.budget import CallBudgetGuard
from circadia.gateway.accounting.id_owners import IssuedId, Owners
from circadia.gateway.accounting.journal import LINES, Journal
from circadia.gateway.answers.answer_book import AnswerBook
from circadia.gateway.answers.drafting import GatewayAnswerDrafter
from circadia.gateway.answers.serving import AnswerResolver
from circadia.gateway.dialects.plain import Plain
from circadia.gateway.doors.mcp import OWN, McpDoor
from circadia.gateway.doors.model import ModelDoor
from circadia.gateway.hold.bodies import BodySpool
from circadia.gateway.hold.gate import Gate
from circadia.gateway.hold.in_flight import BodiesInFlight
from circadia.gateway.hold.keep_alive import Ticker
from circadia.gateway.hold.places import file_limit
from circadia.gateway.mcp.http import McpHttp, tell_when_written
from circadia.gateway.mcp.session_seal import Seal
from circadia.gateway.mcp.stdio import StdioServers
from circadia.gateway.memory.call_memory import ExchangeQueue
from circadia.gateway.memory.conversations import Turns
from circadia.gateway.proxy.answer_writer import AnswerWriter
from circadia.gateway.proxy.ledger import Ledger
from circadia.gateway.proxy.relay import Relay
from circadia.ids import AgentId, RandomIds, hash_token
from circadia.jobs.event_sequencer import EventSequencer
from circadia.jobs.loops import DueWatch
from circadia.llm.prices import listed_models
from circadia.mcp_server.app import McpParts, McpServer
from circadia.memory.services import MemoryServices
from circadia.records.member import Role
from circadia.records.principal import Principal
from circadia.records.session import DEFAULT_SESSION, Session
from circadia.server.answers_wiring import build_gateway_answers
from circadia.server.background import start_background
from circadia.server.basis import ServerBasis, read_secret
from circadia.server.cluster_wiring import (
    build_contact,
    build_drain,
    build_hold_places,
    build_presence,
    build_readiness,
    find_gateway_address,
    join_cluster,
    list_tasks,
    open_store,
    start_follower,
    warn_of_few_files,
)
from circadia.server.dashboard import DashboardDoor
from circadia.server.drain import Drain
from circadia.server.dream_folders import build_memory_folders
from circadia.server.dream_runner import DreamRunner
from circadia.server.front import ConnectionLimit, DoorRouter, HostGuard, refuse_calls
from circadia.server.gauges import register_gauges, register_sleep_gauges
from circadia.server.memory_wiring import apply_file_banks, build_gateway_memory, build_memory
from circadia.server.provider_wiring import open_providers
from circadia.server.redis_wiring import build_redis_bridge, open_signals
from circadia.server.sleeptime_wiring import (
    SleepModels,
    build_savings,
    build_sleep_models,
    build_sleep_worker,
    build_sleeptime,
)
from circadia.server.sweeps import Sweeps
from circadia.server.wake_wiring import (
    build_agent_services,
    build_wake_services,
    build_wake_worker,
    put_launched_to_sleep,
)
from circadia.settings import ConfigFile, Settings
from circadia.sleeptime.budget.savings import Savings
from circadia.sleeptime.engine.health import SleepHealth
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog
from circadia.stores.locks import START_KEY
from circadia.telemetry.metrics import Metrics
from circadia.telemetry.traces import Traces
from circadia.wake.alerts import AlertNotifier, AlertPoster
from circadia.wake.services import WakeServices

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    app: ASGIApp
    connection_limit: ConnectionLimit
    journal: Journal
    exchanges: ExchangeQueue
    answers: AnswerBook
    drain: Drain
    waiting: Callable[[], int]
    """Returns the number of callers that are held or get keep-alives."""


@asynccontextmanager
async def build_server(
    settings: Settings,
    data: Path,
    environment: Mapping[str, str],
    admin_tokens: tuple[str, ...],
    *,
    address: tuple[str, int] | None = None,
    config: ConfigFile | None = None,
    traces: Traces | None = None,
    clock: Clock | None = None,
    role: Role = Role.ALL,
    migrates: bool = True,
) -> AsyncGenerator[Server]:
    """Build a server; on exit end its tasks, flush what is queued, and close the database.

    Raises:
        ConfigError: a variable that the settings name is not set. StartError: the database cannot be opened, or the
            servers on it have another operator's token.
    """
    clock, ids = clock or SystemClock(), RandomIds(system_milliseconds)
    address = address or (settings.server.host, settings.server.port)
    store, facts = await open_store(settings, data, migrates=migrates)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        session = await stack.enter_async_context(_open_http_session())
        membership = None
        if settings.server.database_url is not None:
            membership = await join_cluster(stack, clock, ids, store, role, admin_tokens, address, settings, facts)
        basis = ServerBasis(
            settings=settings, environment=environment, data=data, clock=clock,
            ids=ids, store=store, role=role, membership=membership, admin_tokens=admin_tokens,
            due=DueWatch(clock, store, launchers=settings.launchers, shared=True),
            signals=open_signals(settings, environment, clock, membership and membership.member_id), session=session,
            contact=build_contact(clock, settings, is_shared=membership is not None),
            address=find_gateway_address(settings.server, address), config=config, traces=traces or Traces(),
        )  # fmt: skip
        server = await _assemble_server(basis, stack)
        warn_of_few_files(settings.limits)
        yield server


def _open_http_session() -> aiohttp.ClientSession:
    """Return a session that forwards bytes unchanged, without a connection limit."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60, keepalive_timeout=30),
        auto_decompress=False,
        skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=2**18,
        trace_configs=[tell_when_written()],
    )


def _build_gate(basis: ServerBasis, presence: Presence, journal: Journal, ticker: Ticker) -> Gate:
    spool = BodySpool(basis.data / "held", basis.settings.limits)
    spool.clear()
    return Gate(basis.clock, basis.ids, presence, journal, ticker, spool, build_hold_places(basis))


async def _assemble_server(basis: ServerBasis, stack: AsyncExitStack) -> Server:
    settings, clock, ids, store, signals = basis.settings, basis.clock, basis.ids, basis.store, basis.signals
    sequencer = None if store.commits_in_order else EventSequencer(clock, store, signals, basis.due)
    events, secret = EventLog(clock, signals, sequencer and sequencer.announce), partial(read_secret, basis.environment)
    (presence, confirmer), tier = build_presence(basis), build_wake_services(settings, clock, ids, events)
    registry, threads, sessions = build_agent_services(settings, clock, ids, events, tier)
    waits, metrics, ticker = Waits(clock, store, signals, presence), Metrics(listed_models()), Ticker(clock)
    identity, failed = _build_identity(basis)
    journal = Journal(clock, store, basis.build_spool("journal", LINES), events, metrics.count_line)
    gate = _build_gate(basis, presence, journal, ticker)
    memory, embedding = build_memory(settings, secret, basis.session, clock, ids, store, signals, events)
    registry.bind, tier.sleep.close_gate = memory.banks.make_bound_banks, gate.shut
    models = build_sleep_models(settings, secret, clock, stack, basis.environment)
    dreams, folders = build_sleeptime(settings, clock, ids, memory), build_memory_folders(basis, events, models)
    await _prepare(basis, sessions, registry, waits, tier, memory)
    own = McpServer(McpParts(
        store=store, clock=clock, signals=signals, threads=threads, waits=waits, confirmer=confirmer,
        presence=presence, settings=settings, wake=tier, memory=memory, sleeptime=dreams, folders=folders,
    ))  # fmt: skip
    stdio, bodies = StdioServers(basis.mcp_servers, basis.environment, clock), BodiesInFlight(settings.limits)
    answers, lookup = build_gateway_answers(basis, memory, journal, metrics, models[0])
    door, exchanges, ahead = await _model_door(stack, basis, identity, gate, bodies, journal, memory, dreams, answers)
    doors = {"llm": door, "mcp": _mcp_door(basis, identity, gate, bodies, ticker, own, stdio)}
    parts = ApiParts(
        store=store, clock=clock, signals=signals, identity=identity, registry=registry, sessions=sessions,
        sign_in=SignIn(clock, store, identity, basis.admin_tokens), threads=threads, sequencer=sequencer,
        tokens=AccessTokenService(clock, events), presence=presence, settings=settings, holds=gate,
        confirmer=confirmer, wake=tier, memory=memory, sleeptime=dreams, folders=folders, lookup=lookup,
        judge=answers[0].judge, member_id=basis.member_id,
    )  # fmt: skip
    front, worker = _build_front(basis, doors, parts, identity, metrics), build_wake_worker(basis, tier)
    dreamer, counting = _build_dreamer(models, basis, dreams, metrics, memory, tier, ahead, lookup)
    register_gauges(metrics, gate, bodies, gate.parking, journal, exchanges, worker, signals, failed, memory.retrieval)
    caches = memory, lookup, answers[1], exchanges, tier.inbox, dreams.notebook
    following = await start_follower(basis, identity, presence, caches)
    sweeps = Sweeps(clock, store, events, waits, sessions, settings, basis.leads, basis.due)
    tasks = list_tasks(
        basis, gate, worker, dreamer, sequencer, (ticker, waits, sweeps, *following),
        (*counting, *embedding, _build_alerts(basis), *build_redis_bridge(basis, tier),
         DreamRunner(basis, folders, memory, dreams)),
        partial(_apply_file_agents, basis, registry, tier),
    )  # fmt: skip
    queues = journal, door.owners, exchanges, answers[1]
    await start_background(stack, own, stdio, queues, tasks, front.deaths.append)
    return Server(
        app=front, connection_limit=front.limit, journal=journal, exchanges=exchanges, answers=answers[1],
        waiting=lambda: gate.total_held + ticker.waiting,
        drain=build_drain(basis, front, gate, worker, dreamer, queues),
    )  # fmt: skip


def _build_identity(basis: ServerBasis) -> tuple[Identity, FailedTokens]:
    failed = FailedTokens(basis.clock, basis.settings.limits.max_failed_tokens_per_minute)
    reader = _hash_secret(basis, basis.settings.server.metrics_token_env)
    identity = Identity(
        basis.store, basis.signals, admin_token_hashes=[hash_token(token) for token in basis.admin_tokens],
        metrics_token_hash=reader, failed=failed, contact=basis.contact,
    )  # fmt: skip
    return identity, failed


def _build_front(
    basis: ServerBasis, doors: Mapping[str, ASGIApp], parts: ApiParts, identity: Identity, metrics: Metrics
) -> DoorRouter:
    is_worker = basis.role is Role.WORKER
    doors = dict.fromkeys((*doors, "ui"), refuse_calls) if is_worker else {**doors, "ui": DashboardDoor(parts.sign_in)}
    api = refuse_calls if is_worker else create_api(parts)
    limit = ConnectionLimit(file_limit(), basis.settings.limits.max_holds)
    return DoorRouter(_build_host_guard(basis.settings), limit, doors, api, identity, metrics, build_readiness(basis))


def _build_alerts(basis: ServerBasis) -> AlertNotifier:
    wakes = basis.settings.fleet.max_wakes_per_day
    return AlertNotifier(
        basis.clock, basis.ids, basis.store, _alert_poster(basis), fleet_wakes_per_day=wakes, due=basis.due
    )


def _build_dreamer(
    minds: SleepModels,
    basis: ServerBasis,
    tier: SleeptimeService,
    metrics: Metrics,
    memory: MemoryServices,
    wake: WakeServices,
    ahead: GatewayAnswerDrafter,
    lookup: AnswerLookup,
) -> tuple[SleepWorker, Sequence[SleepHealth | Savings]]:
    clock, ids, store, signals = basis.clock, basis.ids, basis.store, basis.signals
    worker = build_sleep_worker(
        tier, basis.settings, minds, clock, ids, store, signals, memory, wake.requests, basis.traces, ahead,
        lookup, basis.leads, basis.due,
    )  # fmt: skip
    health = SleepHealth(clock, store, tier)
    register_sleep_gauges(metrics, worker, health, signals)
    return worker, (health, build_savings(basis.settings, clock, store, memory))


def _alert_poster(basis: ServerBasis) -> AlertPoster | None:
    url = basis.settings.fleet.alert_webhook_url
    if url is None:
        return None

    async def post(alert: Mapping[str, object]) -> None:
        limit = aiohttp.ClientTimeout(total=10)
        async with basis.session.post(url, json=alert, timeout=limit, allow_redirects=False) as answer:
            answer.raise_for_status()

    return post


def _build_host_guard(settings: Settings) -> HostGuard:
    return HostGuard((*settings.server.allowed_hosts, settings.server.host), settings.server.allowed_origins)


async def _model_door(
    stack: AsyncExitStack, basis: ServerBasis, identity: Identity, gate: Gate, bodies: BodiesInFlight,
    journal: Journal, memory: MemoryServices, dreams: SleeptimeService, answers: tuple[AnswerResolver, AnswerBook],
) -> tuple[ModelDoor, ExchangeQueue, GatewayAnswerDrafter]:  # fmt: skip
    clock, store, settings = basis.clock, basis.store, basis.settings
    secret = partial(read_secret, basis.environment)
    providers = await open_providers(settings, secret, basis.environment, clock, stack, role=basis.role)
    owners = Owners(clock, store, basis.build_spool("owners", [IssuedId]))
    budget = CallBudgetGuard(clock, store, memory.events)
    turns = Turns(clock, basis.ids, store, journal, basis.signals, basis.contact)
    exchanges, remembering = build_gateway_memory(basis, memory, dreams, *answers)
    dreams.behind = [writer.flush for writer in (exchanges, answers[1])]
    ledger = Ledger(clock, basis.ids, journal, budget, turns, remembering, basis.traces)
    relay = Relay(
        clock, store, identity, gate, turns, remembering, ledger, AnswerWriter(gate.presence, owners),
        settings.defaults.silent_seconds,
    )  # fmt: skip
    door = ModelDoor(
        clock, identity, gate, bodies, providers, owners, budget, relay, settings.defaults, settings.limits, Plain()
    )  # fmt: skip
    return door, exchanges, GatewayAnswerDrafter(clock, store, memory, answers[0].finder, providers)


def _mcp_door(
    basis: ServerBasis, identity: Identity, gate: Gate, bodies: BodiesInFlight, ticker: Ticker, own: ASGIApp,
    stdio: StdioServers,
) -> McpDoor:  # fmt: skip
    configured = basis.mcp_servers
    over_http: dict[str, ASGIApp] = {
        name: McpHttp(name, entry, basis.environment, basis.session) for name, entry in configured.items() if entry.url
    }
    children: dict[str, ASGIApp] = {name: stdio.server(name) for name, entry in configured.items() if not entry.url}
    seal = Seal([hashlib.sha256(b"circadia mcp sessions\n" + token.encode()).digest() for token in basis.admin_tokens])
    return McpDoor(
        basis.clock, identity, gate, bodies, basis.signals, ticker, seal, {OWN: own, **over_http, **children},
        frozenset(over_http), basis.settings.defaults, basis.settings.limits,
    )  # fmt: skip


async def _prepare(
    basis: ServerBasis,
    sessions: SessionService,
    registry: AgentRegistry,
    waits: Waits,
    tier: WakeServices,
    memory: MemoryServices,
) -> None:
    """Create the banks and agents of the file and the session `default`; free the leases of a dead process."""
    await apply_file_banks(basis.settings, basis.store, memory)
    async with basis.store.begin_write(START_KEY) as tx:
        await sessions.ensure_default(tx)
    await _apply_file_agents(basis, registry, tier, basis.settings)
    await put_launched_to_sleep(basis.store, tier)
    if not basis.settings.server.database_url:  # else another server may be delivering what is leased
        await waits.release_all()


async def _apply_file_agents(
    basis: ServerBasis, registry: AgentRegistry, tier: WakeServices, settings: Settings
) -> None:
    """Create the agents of the file, or update the existing ones to match it."""
    named: set[AgentId] = set()
    async with basis.store.begin_write(START_KEY) as tx:
        default = await tx.sessions.get_by_name(DEFAULT_SESSION)
        assert default is not None
        added = await _add_file_agents(tx, basis, registry, default, settings)
        await hold_agents(tx, Principal(), default, settings.agents)
        await registry.bind_banks(tx, list(settings.agents.values()))
        for name, file_agent in settings.agents.items():
            agent = await tx.agents.get_by_name(default.id, name)
            assert agent is not None
            if name not in added:
                token = read_secret(basis.environment, f"agents.{name}", file_agent.token_env)
                if token is not None and hash_token(token) != agent.token_hash:
                    agent = await registry.set_token(tx, agent, token, by="file")
                agent = await registry.change(
                    tx, agent, by="file", description=file_agent.description, sleep_events=file_agent.sleep_events,
                    wake_events=file_agent.wake_events, policy=file_agent.list_policy(),
                )  # fmt: skip
            agent = await tier.coordinations.apply_file(tx, agent, file_agent.stated_coordination())
            await tier.routines.apply_file(tx, agent, file_agent.routine_specs())
            named.add(agent.id)
    registry.in_file = frozenset(named)


async def _add_file_agents(
    tx: Tx, basis: ServerBasis, registry: AgentRegistry, default: Session, settings: Settings
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
        token = read_secret(basis.environment, f"agents.{name}", file_agent.token_env)
        await registry.add_unbound(tx, default, new, by="file", token=token)
    return missing


def _hash_secret(basis: ServerBasis, variable: str | None) -> str | None:
    token = read_secret(basis.environment, "server.metrics_token_env", variable)
    return None if token is None else hash_token(token)
