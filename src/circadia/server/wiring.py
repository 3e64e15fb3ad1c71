"""Builds the server: the only place that picks classes."""

import asyncio
import hashlib
import importlib
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.types import ASGIApp

from circadia.agents.approvals import ApprovalService
from circadia.agents.database_contact import DatabaseContact
from circadia.agents.identity import AccessTokenService, FailedTokens, Identity
from circadia.agents.presence import Presence
from circadia.agents.registry import AgentRegistry
from circadia.agents.sessions import SessionService
from circadia.agents.sign_in import SignIn
from circadia.agents.waits import Waits
from circadia.answers.lookup import AnswerLookup
from circadia.answers.question_drafts import AnswerServices
from circadia.api.hook_door import HookDoor
from circadia.api.services import ApiContext
from circadia.clock import Clock, SystemClock, system_milliseconds
from circadia.gateway.accounting.budget import CallBudgetGuard
from circadia.gateway.accounting.call_texts import CallTextQueue
from circadia.gateway.accounting.id_owners import IssuedId, Owners
from circadia.gateway.accounting.journal import LINES, Journal
from circadia.gateway.answers.answer_book import AnswerBook
from circadia.gateway.answers.drafting import GatewayAnswerDrafter
from circadia.gateway.answers.serving import AnswerResolver
from circadia.gateway.hold.approvals import ApprovalDesk
from circadia.gateway.hold.bodies import BodiesInFlight, BodySpool
from circadia.gateway.hold.places import file_limit
from circadia.gateway.hold.reply import Ticker
from circadia.gateway.mcp.door import OWN, McpDoor, Seal
from circadia.gateway.memory.call_memory import ExchangeQueue
from circadia.gateway.memory.conversations import Turns
from circadia.gateway.model_call.answer import AnswerWriter
from circadia.gateway.model_call.door import ModelDoor
from circadia.gateway.model_call.hold import Gate
from circadia.gateway.model_call.prepare import Preparation
from circadia.gateway.model_call.record import Ledger
from circadia.gateway.model_call.resume import ResumableAnswers
from circadia.ids import RandomIds, hash_token
from circadia.jobs.event_sequencer import EventSequencer
from circadia.jobs.loops import DueWatch
from circadia.llm.prices import PriceList, listed_models
from circadia.mcp_server.caller import McpContext
from circadia.memory.services import MemoryServices
from circadia.records.agent import Agent
from circadia.records.call import CallText
from circadia.records.event import AnswerResume, EventType
from circadia.records.member import Role
from circadia.server.cluster_wiring import (
    build_hold_places,
    build_presence,
    build_redis_bridge,
    find_gateway_address,
    join_cluster,
    list_tasks,
    open_signals,
    open_store,
    start_follower,
    warn_of_few_files,
)
from circadia.server.context import HttpSession, ServerContext
from circadia.server.dashboard import DashboardDoor
from circadia.server.dream_runner import DreamRunner
from circadia.server.dream_wiring import build_memory_folders
from circadia.server.front import ConnectionLimit, DoorRouter, HostGuard, Readiness, refuse_calls
from circadia.server.gateway_wiring import build_gateway_answers, open_providers
from circadia.server.gauges import register_gauges, register_sleep_gauges
from circadia.server.late_app import LateApp
from circadia.server.lifecycle import Drain, start_background
from circadia.server.memory_wiring import apply_file_banks, build_gateway_memory, build_memory
from circadia.server.reload import apply_file_agents, reload_file_agents
from circadia.server.sleeptime_wiring import SleepModels, build_sleep_models, build_sleep_parts, build_sleeptime
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
from circadia.stores.event_log import EventLog
from circadia.stores.locks import START_KEY
from circadia.telemetry.metrics import Metrics
from circadia.telemetry.traces import Traces
from circadia.wake.alerts import AlertNotifier
from circadia.wake.hooks.service import HOOK_TOPIC
from circadia.wake.services import WakeServices
from circadia.wake.webhook_signatures import sign, signing_key

if TYPE_CHECKING:
    from circadia.gateway.mcp.stdio import StdioServers

_logger = logging.getLogger(__name__)

ALERT_SECONDS: Final = 10.0
"""Longest post of an alert."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    app: ASGIApp
    connection_limit: ConnectionLimit
    journal: Journal
    exchanges: ExchangeQueue
    answers: AnswerBook
    texts: CallTextQueue
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
        session = HttpSession()
        stack.push_async_callback(session.close)
        membership = None
        if settings.server.database_url is not None:
            membership = await join_cluster(stack, clock, ids, store, role, admin_tokens, address, settings, facts)
        member_id = None if membership is None else membership.member_id
        signals = open_signals(settings, environment, clock, member_id)
        due = DueWatch(clock, store, launchers=settings.launchers, shared=True)
        sequencer = None if store.commits_in_order else EventSequencer(clock, store, signals, due)
        context = ServerContext(
            settings=settings, environment=environment, data=data, clock=clock, ids=ids, store=store, due=due,
            events=EventLog(clock, signals, sequencer and sequencer.announce), sequencer=sequencer, signals=signals,
            role=role, membership=membership, admin_tokens=admin_tokens, session=session,
            contact=DatabaseContact(
                clock, is_shared=membership is not None, grace_seconds=settings.server.auth_grace_seconds,
                carries_signals=not settings.signals_by_redis,
            ),
            address=find_gateway_address(settings.server, address), config=config, traces=traces or Traces(),
        )  # fmt: skip
        server = await _assemble_server(context, stack)
        warn_of_few_files(settings.limits)
        yield server


def _build_gate(context: ServerContext, presence: Presence, journal: Journal, ticker: Ticker) -> Gate:
    spool = BodySpool(context.data / "held", context.settings.limits)
    spool.clear()
    approvals = ApprovalService(context.clock, context.ids, context.events)
    desk = ApprovalDesk(context.clock, context.store, approvals, context.signals)
    return Gate(context.clock, context.ids, presence, journal, ticker, spool, build_hold_places(context), desk)


async def _assemble_server(context: ServerContext, stack: AsyncExitStack) -> Server:
    settings, clock, ids, store, signals = context.settings, context.clock, context.ids, context.store, context.signals
    events, sequencer = context.events, context.sequencer
    (presence, confirmer), wakes = build_presence(context), _build_wakes(context)
    registry, threads, sessions = build_agent_services(settings, clock, ids, events, wakes)
    waits, metrics, ticker = Waits(clock, store, signals, presence), Metrics(listed_models), Ticker(clock)
    identity, failed = _build_identity(context)
    journal = Journal(clock, store, context.build_spool("journal", LINES), events, metrics.count_line)
    gate, (memory, embedding) = _build_gate(context, presence, journal, ticker), build_memory(context)
    registry.bind, wakes.sleep.close_gate = memory.banks.make_bound_banks, gate.close_for
    models = build_sleep_models(settings, context.environment, clock, stack)
    sleeptime, folders = build_sleeptime(settings, clock, ids, memory, models[0]), build_memory_folders(context, models)
    await _prepare(context, sessions, registry, waits, wakes, memory)
    own = LateApp("circadia.mcp_server.app", "load_server", McpContext(
        store=store, clock=clock, threads=threads, waits=waits, confirmer=confirmer,
        settings=settings, wake=wakes, memory=memory, sleeptime=sleeptime, folders=folders,
    ))  # fmt: skip
    stdio, bodies = _build_stdio_servers(context), BodiesInFlight(settings.limits)
    (resolver, answers), lookup = build_gateway_answers(context, memory, journal, metrics, models[0])
    door, exchanges, texts, drafter = await _model_door(
        stack, context, identity, gate, bodies, journal, memory, sleeptime, resolver, answers
    )
    doors = {"llm": door, "mcp": _mcp_door(context, identity, gate, bodies, own, stdio)}
    services = ApiContext(
        store=store, clock=clock, signals=signals, identity=identity, registry=registry, sessions=sessions,
        sign_in=SignIn(clock, store, identity, context.admin_tokens), threads=threads, sequencer=sequencer,
        approvals=gate.approvals.service, resumable=door.answers, tokens=AccessTokenService(clock, events),
        presence=presence, settings=settings, holds=gate, confirmer=confirmer, waits=waits, wake=wakes, memory=memory,
        sleeptime=sleeptime, folders=folders, lookup=lookup, judge=resolver.judge, member_id=context.member_id,
    )  # fmt: skip
    api = LateApp("circadia.api.app", "load_api", services)
    front, worker = _build_front(context, doors, services, api, metrics), build_wake_worker(context, wakes)
    sleep_worker, health = _build_sleep_worker(context, metrics, sleeptime, memory, models, wakes, drafter, lookup)
    register_gauges(metrics, gate, bodies, journal, exchanges, worker, signals, failed, memory, door.answers)
    caches = memory, lookup, answers, exchanges, wakes.inbox, wakes.hooks, sleeptime.notebook
    following = await start_follower(context, identity, presence, caches, wakes.hooks.forget)
    sweeps = Sweeps(clock, store, events, waits, sessions, gate.approvals.service, settings, context.leads, context.due)
    tasks = list_tasks(
        context, gate, worker, sleep_worker, (ticker, waits, sweeps, gate.approvals, *following),
        (health, _build_savings(context, memory), embedding, _build_alerts(context),
         *build_redis_bridge(context, wakes), DreamRunner(context, folders, memory, sleeptime)),
        partial(reload_file_agents, context, registry, wakes),
    )  # fmt: skip
    queues = journal, door.owners, exchanges, answers, texts
    await start_background(stack, (own, api, stdio), queues, tasks, front.deaths.append)
    return Server(
        app=front, connection_limit=front.limit, journal=journal, exchanges=exchanges, answers=answers,
        texts=texts, waiting=lambda: gate.total_held + ticker.waiting,
        drain=Drain(context, front, gate, worker, sleep_worker, queues),
    )  # fmt: skip


def _build_wakes(context: ServerContext) -> WakeServices:
    return build_wake_services(context.settings, context.clock, context.ids, context.events, context.environment)


def _build_hook_door(context: ServerContext, wakes: WakeServices, metrics: Metrics) -> HookDoor:
    """Raises ConfigError: a secret of a hook of the file is not set; a worker has no doors and needs none."""
    if context.role is not Role.WORKER:
        wakes.hooks.require_secrets()
    count = metrics.add_counter("circadia_hook_deliveries", "Requests to hooks by hook and outcome.", "hook", "outcome")
    context.signals.listen(HOOK_TOPIC, lambda _, __: wakes.hooks.forget())
    return HookDoor(
        context.store, wakes.hooks, wakes.hook_receiver, count,
        max_body_bytes=context.settings.limits.max_hook_body_bytes,
    )  # fmt: skip


def _build_identity(context: ServerContext) -> tuple[Identity, FailedTokens]:
    failed = FailedTokens(context.clock, context.settings.limits.max_failed_tokens_per_minute)
    metrics_token = context.read_secret("server.metrics_token_env", context.settings.server.metrics_token_env)
    identity = Identity(
        context.store, context.signals, admin_token_hashes=[hash_token(token) for token in context.admin_tokens],
        metrics_token_hash=None if metrics_token is None else hash_token(metrics_token), failed=failed,
        contact=context.contact,
    )  # fmt: skip
    return identity, failed


def _build_front(
    context: ServerContext, doors: Mapping[str, ASGIApp], services: ApiContext, api: ASGIApp, metrics: Metrics
) -> DoorRouter:
    settings, is_worker = context.settings, context.role is Role.WORKER
    hooks = _build_hook_door(context, services.wake, metrics)
    served = {**doors, "hooks": hooks, "ui": DashboardDoor(services.sign_in)}
    doors = dict.fromkeys(served, refuse_calls) if is_worker else served
    serves_without_database = context.contact.is_shared and not is_worker
    return DoorRouter(
        HostGuard((*settings.server.allowed_hosts, settings.server.host), settings.server.allowed_origins),
        ConnectionLimit(file_limit(), settings.limits.max_holds),
        doors,
        refuse_calls if is_worker else api,
        services.identity,
        metrics,
        Readiness(context.clock, context.store.ping, context.contact if serves_without_database else None),
    )


def _build_sleep_worker(
    context: ServerContext, metrics: Metrics, sleeptime: SleeptimeService, memory: MemoryServices,
    models: SleepModels, wakes: WakeServices, drafter: GatewayAnswerDrafter, lookup: AnswerLookup,
) -> tuple[SleepWorker, SleepHealth]:  # fmt: skip
    settings, clock, ids = context.settings, context.clock, context.ids
    parts = replace(
        build_sleep_parts(settings, ids, context.store, context.signals, sleeptime, memory, models),
        wakes=wakes.requests, traces=context.traces,
        answer_services=AnswerServices(
            drafter=drafter, validator=lookup, settings=settings.answers, clock=clock, ids=ids
        ),
    )  # fmt: skip
    worker = SleepWorker(
        clock, parts, owner=ids.new("exe"), alone=context.membership is None, leads=context.leads, due=context.due
    )
    health = SleepHealth(clock, context.store, sleeptime)
    register_sleep_gauges(metrics, worker, health, context.signals)
    return worker, health


def _build_savings(context: ServerContext, memory: MemoryServices) -> Savings:
    upstreams = context.settings.upstreams.items()
    lists = {name: PriceList(base_url=upstream.base_url, api=upstream.api) for name, upstream in upstreams}
    return Savings(context.clock, context.store, memory.uses, lists)


def _build_alerts(context: ServerContext) -> AlertNotifier:
    """Raises ConfigError: the secret that signs alerts is not set, or is none."""
    fleet = context.settings.fleet
    url = fleet.alert_webhook_url
    secret = context.read_secret("fleet.alert_webhook_secret_env", fleet.alert_webhook_secret_env)
    key = None if secret is None else signing_key(secret)
    session = None if url is None else context.session.open()

    async def post(alert: Mapping[str, object]) -> None:
        assert url is not None
        assert session is not None
        body = orjson.dumps(alert)
        headers = {"content-type": "application/json"}
        if key is not None:
            headers |= sign(key, str(alert["id"]), int(context.clock.now().timestamp()), body)
        async with (
            asyncio.timeout(ALERT_SECONDS),
            session.post(url, data=body, headers=headers, allow_redirects=False) as answer,
        ):
            answer.raise_for_status()

    return AlertNotifier(
        context.clock, context.ids, context.store, context.events, None if url is None else post,
        fleet_wakes_per_day=fleet.max_wakes_per_day, due=context.due,
    )  # fmt: skip


async def _model_door(
    stack: AsyncExitStack, context: ServerContext, identity: Identity, gate: Gate, bodies: BodiesInFlight,
    journal: Journal, memory: MemoryServices, sleeptime: SleeptimeService, resolver: AnswerResolver,
    answers: AnswerBook,
) -> tuple[ModelDoor, ExchangeQueue, CallTextQueue, GatewayAnswerDrafter]:  # fmt: skip
    clock, store, settings = context.clock, context.store, context.settings
    providers = await open_providers(context, stack)
    owners = Owners(clock, store, context.build_spool("owners", [IssuedId]))
    budget = CallBudgetGuard(clock, store, memory.events)
    turns = Turns(clock, context.ids, store, journal, context.signals, context.contact)
    exchanges, remembering = build_gateway_memory(context, memory, sleeptime, resolver, answers)
    sleeptime.behind = [exchanges.flush, answers.flush]
    texts = CallTextQueue(clock, store, context.build_spool("call_texts", [CallText]), settings.calls)
    ledger = Ledger(clock, context.ids, journal, budget, turns, remembering, context.traces, texts)
    preparation = Preparation(clock, store, identity, turns, remembering, ledger)
    writer = AnswerWriter(gate.presence, owners)

    def record_resumption(agent: Agent, data: AnswerResume) -> None:
        journal.event(EventType.RESUMED, data, session=agent.session, agent=agent.name)

    answers_kept = ResumableAnswers(
        clock, context.ids, gate.ticker, settings.limits.max_resume_bytes, record_resumption
    )
    gate.presence.add_stop_listener(answers_kept.stop)
    door = ModelDoor(
        clock, identity, gate, bodies, providers, owners, budget, preparation, writer, ledger, answers_kept,
        settings.defaults, settings.limits,
    )  # fmt: skip
    return door, exchanges, texts, GatewayAnswerDrafter(clock, store, memory, resolver.finder, providers)


def _build_stdio_servers(context: ServerContext) -> "StdioServers | None":
    """Return the configured stdio servers. The MCP SDK takes 25 MB: it is loaded if there is one, or with `/mcp`."""
    if all(entry.url for entry in context.mcp_servers.values()):
        return None
    stdio: Any = importlib.import_module("circadia.gateway.mcp.stdio")
    servers: StdioServers = stdio.StdioServers(context.mcp_servers, context.environment, context.clock)
    return servers


def _mcp_door(
    context: ServerContext, identity: Identity, gate: Gate, bodies: BodiesInFlight, own: ASGIApp,
    stdio: "StdioServers | None",
) -> McpDoor:  # fmt: skip
    configured = context.mcp_servers
    over_http: dict[str, ASGIApp] = {}
    for name, entry in configured.items():
        if entry.url:
            http: Any = importlib.import_module("circadia.gateway.mcp.http")
            over_http[name] = http.McpHttp(name, entry, context.environment, context.session.open())
    children: dict[str, ASGIApp] = {} if stdio is None else dict(stdio.servers)
    seal = Seal(
        [hashlib.sha256(b"circadia mcp sessions\n" + token.encode()).digest() for token in context.admin_tokens]
    )
    return McpDoor(
        context.clock, identity, gate, bodies, context.signals, seal, {OWN: own, **over_http, **children},
        frozenset(over_http), context.settings.defaults, context.settings.limits,
    )  # fmt: skip


async def _prepare(
    context: ServerContext,
    sessions: SessionService,
    registry: AgentRegistry,
    waits: Waits,
    wakes: WakeServices,
    memory: MemoryServices,
) -> None:
    """Create the banks and agents of the file and the session `default`; free the leases of a dead process."""
    await apply_file_banks(context.settings, context.store, memory)
    async with context.store.begin_write(START_KEY) as tx:
        await sessions.ensure_default(tx)
    await apply_file_agents(context, registry, wakes, context.settings)
    await put_launched_to_sleep(context.store, wakes)
    if not context.settings.server.database_url:  # else another server may be delivering what is leased
        await waits.release_all()
