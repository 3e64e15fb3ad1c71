"""A receiver of webhooks on loopback, and a launcher that posts to it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from circadia.client.webhooks import WebhookReceiver
from circadia.clock import Clock, SystemClock
from circadia.errors import Unauthenticated
from circadia.ids import PulseId
from circadia.settings.launchers import WebhookLauncherSettings
from circadia.wake.launchers.base import Launch, Launcher, LaunchResult, PulseReports
from circadia.wake.launchers.webhook import WebhookLauncher
from tests.wake.launchers.benches import WAIT_SECONDS, AgentInput, TaskBench

SECRET = "whsec_" + "c2VjcmV0IG9mIHRoZSB0ZXN0cywgbm90aGluZyBlbHNl"
LOOPBACK = ("127.0.0.0/8",)


@dataclass
class WebhookBench:
    """A receiver that runs `tasks` and answers when they have ended, or with 202 at once and reports later."""

    longest_prompt = None
    calls_back: bool
    url: str = ""
    tasks: TaskBench = field(default_factory=TaskBench)
    reports: PulseReports = field(default_factory=PulseReports)
    running: dict[tuple[PulseId, int], asyncio.Task[web.Response]] = field(
        default_factory=dict[tuple[PulseId, int], asyncio.Task[web.Response]]
    )
    answers: list[web.Response] = field(default_factory=list[web.Response])
    """What is answered first, instead of running anything."""
    heard: list[tuple[Mapping[str, str], bytes]] = field(default_factory=list[tuple[Mapping[str, str], bytes]])
    """Each request as it came."""
    receiver: WebhookReceiver = field(default_factory=lambda: WebhookReceiver(SECRET))

    @property
    def tells_start(self) -> bool:
        return self.calls_back

    def launcher(self, behaviour: str) -> Launcher:
        self.tasks.behaviour = behaviour
        return self.posting_to(self.url)

    def posting_to(self, url: str, *, clock: Clock | None = None, **more: Any) -> WebhookLauncher:
        given: dict[str, Any] = {"allowed_networks": LOOPBACK, "grace_seconds": WAIT_SECONDS, "retries": 0, **more}
        quiet_seconds = given.pop("quiet_seconds", WAIT_SECONDS)
        settings = WebhookLauncherSettings(kind="webhook", url=url, secret_env="UNUSED", **given)
        return WebhookLauncher(
            settings, secret=SECRET, reports=self.reports, clock=clock or SystemClock(), quiet_seconds=quiet_seconds
        )

    def missing(self) -> Launcher:
        return self.posting_to("http://nobody.invalid/pulses")

    def received(self) -> list[AgentInput]:
        return [AgentInput(prompt=each.prompt, environment=each.environment) for each in self.tasks.launches]

    def waiting(self) -> int:
        return self.tasks.waiting()

    def alive(self, pulse_id: PulseId) -> int:
        return self.tasks.alive(pulse_id)

    def basis(self) -> Mapping[str, str]:
        return {}

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.heard.append((request.headers, body))
        if self.answers:
            return self.answers.pop(0)
        try:
            content = self.receiver.verify(request.headers, body)
        except Unauthenticated as error:
            return web.Response(status=401, text=error.message)
        if content["type"] == "pulse.stop":
            for (pulse, epoch), task in self.running.items():
                if pulse == content["pulse"] and epoch < content["below_epoch"]:
                    task.cancel()
            return web.Response(status=204)
        if not self.receiver.take(request.headers):
            return web.Response(status=409, text="seen before")
        return await self._start(_launch_in(content))

    async def _start(self, launch: Launch) -> web.Response:
        task = asyncio.create_task(self._act(launch))
        self.running[launch.pulse_id, launch.epoch] = task
        if self.calls_back:
            return web.Response(status=202)
        return await asyncio.shield(task)

    async def _act(self, launch: Launch) -> web.Response:
        launcher = self.tasks.launcher(self.tasks.behaviour)
        try:
            ended = await launcher.run(launch, _nothing)
        except asyncio.CancelledError:
            ended = LaunchResult(succeeded=False, detail="stopped")
        if self.calls_back:
            self.reports.deliver_report(launch.pulse_id, launch.epoch, ended)
        status = "succeeded" if ended.succeeded else "failed"
        return web.json_response({"status": status, "detail": ended.detail})


async def _nothing() -> None:
    """Take note of nothing."""


def _launch_in(content: Mapping[str, Any]) -> Launch:
    names = ("attempt", "epoch", "agent", "prompt", "token", "environment", "timeout_seconds")
    return Launch(pulse_id=PulseId(content["pulse"]), **{name: content[name] for name in names})


@asynccontextmanager
async def webhook_bench(*, calls_back: bool) -> AsyncGenerator[WebhookBench]:
    """Open a receiver on a free port of loopback."""
    bench = WebhookBench(calls_back=calls_back)
    async with serving(bench.handle) as url:
        bench.url = url
        try:
            yield bench
        finally:
            for task in bench.running.values():
                task.cancel()
            await asyncio.gather(*bench.running.values(), return_exceptions=True)


@asynccontextmanager
async def serving(handle: Callable[[web.Request], Any]) -> AsyncGenerator[str]:
    """Serve POST /pulses on a free port of loopback and yield its address."""
    app = web.Application(client_max_size=8 * 2**20)
    app.router.add_post("/pulses", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/pulses"
    finally:
        await runner.cleanup()
