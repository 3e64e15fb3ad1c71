"""Builds the wake tier: the part of `wiring` that picks its classes.

The module of a launcher has the name of its kind. Those that need an HTTP library are loaded if there is one.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from circadia.agents.registry import AgentRegistry
from circadia.agents.sessions import SessionService
from circadia.agents.threads import ThreadService
from circadia.child_process import OsUser
from circadia.clock import Clock
from circadia.errors import ConfigError
from circadia.ids import IdSource, PulseId
from circadia.records.agent import Agent
from circadia.records.coordination import RESIDENT
from circadia.records.member import Role
from circadia.server.context import ServerContext
from circadia.settings import LauncherSettings, Settings
from circadia.settings.launchers import (
    CallableLauncherSettings,
    ContainerLauncherSettings,
    KubernetesLauncherSettings,
    ResidentLauncherSettings,
    SubprocessLauncherSettings,
    WebhookLauncherSettings,
)
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.locks import agent_key
from circadia.wake.admission.guardrails import FleetLimits
from circadia.wake.admission.requests import WakeRequests
from circadia.wake.coordination import Coordinations
from circadia.wake.hooks.deliveries import HookReceiver
from circadia.wake.hooks.service import HookService
from circadia.wake.inbox import Inbox
from circadia.wake.launchers.base import Launcher, PulseReports, named_environment, program_environment
from circadia.wake.launchers.callable import CallableLauncher, import_agent_function
from circadia.wake.launchers.subprocess import SubprocessLauncher
from circadia.wake.named_events import NamedEvents
from circadia.wake.own_routines import OwnRoutines
from circadia.wake.own_sleep import OwnSleep
from circadia.wake.pulse_attempts import WorkerContext
from circadia.wake.pulse_lifecycle import PulseLifecycle
from circadia.wake.pulse_service import PulseService
from circadia.wake.routines import RoutineService
from circadia.wake.services import WakeServices
from circadia.wake.sleep_changes import SleepChanges
from circadia.wake.sleep_control import SleepControl
from circadia.wake.wake_rows import WakeRows
from circadia.wake.worker import WakeWorker


def build_wake_services(
    settings: Settings, clock: Clock, ids: IdSource, events: EventLog, environment: Mapping[str, str] | None = None
) -> WakeServices:
    """Build the services; `environment` has the secrets of hooks."""
    rows = PulseLifecycle(clock, ids, events)
    wakes = WakeRows(clock, ids, events)
    sleep = SleepChanges(clock, events, rows, wakes)
    fleet = FleetLimits(
        max_concurrent_pulses=settings.fleet.max_concurrent_pulses, max_wakes_per_day=settings.fleet.max_wakes_per_day
    )
    resuming = [name for name, launcher in settings.launchers.items() if getattr(launcher, "resumes", False)]
    requests = WakeRequests(clock, wakes, rows, sleep, fleet, resuming)
    inbox = Inbox(clock, ids, events, requests, max_message_characters=settings.limits.max_message_characters)
    routines = RoutineService(clock, ids, events, requests, inbox)
    pulses = PulseService(clock, events, rows, sleep, inbox)
    control = SleepControl(sleep, requests)
    own_routines = OwnRoutines(clock, ids, events)
    named_events = NamedEvents(clock, ids, events, requests, inbox)
    hooks = HookService(clock, events, settings.hooks, environment or {})
    most = settings.limits.max_message_characters
    return WakeServices(
        sleep=sleep,
        control=control,
        requests=requests,
        inbox=inbox,
        named_events=named_events,
        rows=rows,
        pulses=pulses,
        routines=routines,
        own_routines=own_routines,
        own_sleep=OwnSleep(control, own_routines, named_events, wakes),
        coordinations=Coordinations(clock, events, routines, pulses, {RESIDENT, *settings.launchers}),
        reports=PulseReports(),
        hooks=hooks,
        hook_receiver=HookReceiver(clock, events, hooks, inbox, named_events, max_message_characters=most),
    )


def build_agent_services(
    settings: Settings, clock: Clock, ids: IdSource, events: EventLog, tier: WakeServices
) -> tuple[AgentRegistry, ThreadService, SessionService]:
    registry = AgentRegistry(clock, ids, events, settings.defaults.policy(), tier.pulses.on_agent_deleted)
    threads = ThreadService(
        clock,
        ids,
        events,
        tier.control,
        max_message_characters=settings.limits.max_message_characters,
        max_open_threads_per_agent=settings.limits.max_open_threads_per_agent,
    )
    return registry, threads, SessionService(clock, ids, events, registry, threads)


async def put_launched_to_sleep(store: Store, tier: WakeServices) -> None:
    """Put launched agents to sleep that are awake without a pulse: earlier versions left them so."""
    async with store.begin_read() as tx:
        awake = await tx.agents.find_awake_launched()
    for agent in awake:
        async with store.begin_write(agent_key(agent.id)) as tx:
            present = await tx.agents.get(agent.id)
            if present is not None and present.coordination.launcher != RESIDENT:
                await tier.pulses.put_launched_to_sleep(tx, present, actor="start of the server")


def build_wake_worker(basis: ServerContext, tier: WakeServices) -> WakeWorker:
    """Build the worker and its launchers: none at a gateway, which runs no pulse and needs no secret of theirs.

    Raises ConfigError if a function, variable or secret is missing.
    """
    settings, clock = basis.settings, basis.clock
    context = _LauncherContext(
        settings=settings, environment=basis.environment, data=basis.data, clock=clock, reports=tier.reports,
        address=basis.address,
    )  # fmt: skip
    launchers = {
        name: launcher
        for name, file_launcher in (settings.launchers.items() if basis.role is not Role.GATEWAY else ())
        if (launcher := _build_launcher(name, file_launcher, context)) is not None
    }
    worker_context = WorkerContext(
        store=basis.store, signals=basis.signals, wakes=tier, launchers=launchers,
        environment=_environment_builder(settings, basis.address),
    )  # fmt: skip
    return WakeWorker(
        clock,
        worker_context,
        owner=basis.ids.new("exe"),
        alone=settings.server.database_url is None,
        leads=basis.leads,
        due=basis.due,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _LauncherContext:
    settings: Settings
    environment: Mapping[str, str]
    data: Path
    clock: Clock
    reports: PulseReports
    address: tuple[str, int]


def _build_launcher(name: str, settings: LauncherSettings, context: _LauncherContext) -> Launcher | None:
    where = f"launchers.{name}"
    match settings:
        case ResidentLauncherSettings():
            return None
        case WebhookLauncherSettings():
            return _build_webhook(where, settings, context)
        case CallableLauncherSettings():
            return CallableLauncher(import_agent_function(settings.function), grace_seconds=settings.grace_seconds)
        case _:
            return _build_program(where, settings, context)


def _build_program(
    where: str,
    settings: SubprocessLauncherSettings | ContainerLauncherSettings | KubernetesLauncherSettings,
    context: _LauncherContext,
) -> Launcher:
    own = context.environment
    named = named_environment(where, own, settings.env, settings.env_from, context.settings.withheld_variables)
    secrets = [own[variable] for variable in settings.env_from]
    if isinstance(settings, ContainerLauncherSettings):
        return _load("container").ContainerLauncher(
            settings, environment=named, gateway=context.address, clock=context.clock, secrets=secrets
        )
    if isinstance(settings, KubernetesLauncherSettings):
        access = _load("kubernetes_api").find_cluster(
            where, own, api_url=settings.api_url, namespace=settings.namespace, token_file=settings.token_file,
            ca_file=settings.ca_file,
        )  # fmt: skip
        return _load("kubernetes").KubernetesLauncher(
            access, settings, environment=named, clock=context.clock, secrets=secrets
        )
    user = OsUser.resolve(f"{where}.user", settings.user) if settings.user else None
    return SubprocessLauncher(
        settings,
        command=user.command(settings.command) if user else settings.command,
        environment=program_environment({**own, "HOME": user.home} if user else own, named),
        prompts=context.data / "prompts",
        secrets=secrets,
    )


def _build_webhook(where: str, settings: WebhookLauncherSettings, context: _LauncherContext) -> Launcher:
    secret = context.environment.get(settings.secret_env)
    if not secret:
        raise ConfigError(f"{where}.secret_env: the environment has no {settings.secret_env!r}; set it")
    return _load("webhook").WebhookLauncher(settings, secret=secret, reports=context.reports, clock=context.clock)


def _load(module: str) -> Any:
    return importlib.import_module(f"circadia.wake.launchers.{module}")


def _environment_builder(
    settings: Settings, address: tuple[str, int]
) -> Callable[[Agent, str, PulseId], Mapping[str, str]]:
    host, port = address
    base = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    urls = {"CIRCADIA_URL": base, "CIRCADIA_MCP_URL": f"{base}/mcp"}
    keys: list[str] = ["CIRCADIA_TOKEN"]
    for api, prefix, suffix in (("openai", "OPENAI", "/v1"), ("anthropic", "ANTHROPIC", "")):
        first = next((name for name, upstream in settings.upstreams.items() if upstream.api == api), None)
        if first is not None:
            urls[f"{prefix}_BASE_URL"] = f"{base}/llm/{first}{suffix}"
            keys.append(f"{prefix}_API_KEY")

    def build_environment(agent: Agent, token: str, pulse_id: PulseId) -> Mapping[str, str]:
        own = {"CIRCADIA_AGENT": agent.reference, "CIRCADIA_PULSE_ID": pulse_id}
        return {**urls, **own, **dict.fromkeys(keys, token)}

    return build_environment
