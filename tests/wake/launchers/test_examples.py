"""The programs under `examples/` run as they stand, started by the launcher that they are written for."""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from circadia.clock import SystemClock
from circadia.settings.launchers import SubprocessLauncherSettings, WebhookLauncherSettings
from circadia.testing.upstream import MockUpstream
from circadia.wake.launchers.base import PulseReports
from circadia.wake.launchers.subprocess import SubprocessLauncher
from circadia.wake.launchers.webhook import WebhookLauncher
from tests.fixtures.ports import reserved_port
from tests.wake.launchers.benches import PATH, TOKEN, WAIT_SECONDS, a_launch, until
from tests.wake.launchers.webhook_bench import LOOPBACK, SECRET

pytestmark = pytest.mark.spec("WAKE-51")

ROOT = Path(__file__).parents[3]


async def nothing() -> None:
    """Take note of nothing."""


def gateway(upstream: MockUpstream) -> Mapping[str, str]:
    return {"OPENAI_BASE_URL": f"{upstream.base_url}/v1", "OPENAI_API_KEY": TOKEN}


def launcher_of(program: str, folder: Path) -> SubprocessLauncher:
    command = (sys.executable, str(ROOT / "examples" / program))
    settings = SubprocessLauncherSettings.model_validate({
        "kind": "subprocess", "command": command, "cwd": str(folder), "grace_seconds": 1.0,
    })  # fmt: skip
    environment = {"PATH": PATH, "HOME": str(folder), "LANG": "C.UTF-8"}
    return SubprocessLauncher(settings, command=command, environment=environment, prompts=folder / "prompts")


@pytest.mark.parametrize("program", ["subprocess/openai_loop.py", "subprocess/pydantic_ai_agent.py"])
async def test_an_example_program_does_its_pulse(program: str, tmp_path: Path) -> None:
    async with MockUpstream(key=TOKEN, reply="The disk was full. DONE") as upstream:
        launch = a_launch(prompt="Why did the build stop?", environment=gateway(upstream))
        ended = await launcher_of(program, tmp_path).run(launch, nothing)
    assert ended.succeeded, ended.detail
    assert "The disk was full. DONE" in ended.detail
    assert b"Why did the build stop?" in upstream.requests[0].body


@pytest.mark.parametrize("program", ["subprocess/openai_loop.py", "subprocess/pydantic_ai_agent.py"])
async def test_an_example_program_whose_token_is_dead_fails_its_pulse(program: str, tmp_path: Path) -> None:
    async with MockUpstream(key="another-key-than-the-token") as upstream:
        ended = await launcher_of(program, tmp_path).run(a_launch(environment=gateway(upstream)), nothing)
    assert not ended.succeeded
    assert TOKEN not in ended.detail


@asynccontextmanager
async def the_receiver() -> AsyncGenerator[WebhookLauncher]:
    with reserved_port() as port:
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, str(ROOT / "examples/webhook/receiver.py"), str(port)),
            env={"PATH": PATH, "WEBHOOK_SECRET": SECRET},
        )

        def listens() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        try:
            await until(listens)
            url = f"http://127.0.0.1:{port}/pulses"
            settings = WebhookLauncherSettings.model_validate({
                "kind": "webhook", "url": url, "secret_env": "UNUSED", "allowed_networks": LOOPBACK,
            })  # fmt: skip
            yield WebhookLauncher(settings, secret=SECRET, reports=PulseReports(), clock=SystemClock())
        finally:
            program.send_signal(signal.SIGTERM)
            await asyncio.wait_for(program.wait(), WAIT_SECONDS)


async def test_the_example_receiver_runs_a_pulse_and_answers_with_its_end() -> None:
    async with MockUpstream(key=TOKEN) as upstream, the_receiver() as launcher:
        ended = await launcher.run(a_launch(prompt="Say good morning.", environment=gateway(upstream)), nothing)
    assert ended.succeeded, ended.detail
    assert ended.detail == "Say good morning."


async def test_the_example_receiver_stops_a_pulse_that_is_cancelled() -> None:
    async with MockUpstream(key=TOKEN) as upstream, the_receiver() as launcher:
        upstream.gate.clear()
        run = asyncio.create_task(launcher.run(a_launch(environment=gateway(upstream)), nothing))
        await upstream.wait_for_requests(1)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        await until(lambda: len(upstream.cancelled) == 1)
        upstream.gate.set()
