"""Coding agents that people run, set up as the documentation says, are held for longer than they wait by themselves."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from circadia.cli.agents.programs import Program
from circadia.testing.upstream import MockUpstream
from tests.clients.coding_agents import print_settings, start_program
from tests.interaction.live import FAST, KEY, Live, live

SOME_SECONDS = 10.0
LONG_SECONDS = 35 * 60.0
COMMANDS = {
    Program.CODEX: "codex exec --skip-git-repo-check 'Say hello.'",
    Program.CLAUDE_CODE: "claude -p 'Say hello.'",
    Program.GEMINI: "gemini --skip-trust -p 'Say hello.'",
    Program.OPENCODE: "opencode run -m openai/gpt-4o-mini 'Say hello.'",
    Program.QWEN_CODE: "qwen -p 'Say hello.'",
    Program.AIDER: "aider --no-check-update --no-git --message 'Say hello.'",
}
IMPATIENT = {
    Program.CODEX: (
        'wire_api = "responses"\n',
        'wire_api = "responses"\nstream_idle_timeout_ms = 3000\nstream_max_retries = 0\nrequest_max_retries = 0\n',
    ),
    Program.OPENCODE: ('"options": {', '"options": { "chunkTimeout": 3000, "headerTimeout": 3000,'),
    Program.AIDER: ("timeout: 86400", "timeout: 3"),
}
"""What shortens a program's own time-outs of minutes: a part of its settings, and what replaces it."""


@asynccontextmanager
async def server(folder: Path, timings: dict[str, float]) -> AsyncGenerator[Live]:
    """Run a server with a provider for each API."""
    async with MockUpstream(key=KEY) as provider:
        rating = json.dumps({"complexity_reasoning": "short", "complexity_score": 1})  # it first asks for a model
        content = {"role": "model", "parts": [{"text": rating}]}
        answer = json.dumps({"candidates": [{"content": content, "finishReason": "STOP"}], "modelVersion": "gemini"})
        provider.next(times=9, path=":generateContent", status=200, body=answer)
        events = {"content-type": "text/event-stream"}
        provider.next(times=9, path=":streamGenerateContent", status=200, body=f"data: {answer}\n\n", headers=events)
        base = {"base_url": provider.base_url, "key_env": "KEY"}
        upstreams = {api: {**base, "api": api} for api in ("openai", "anthropic", "gemini")}
        async with live(folder, timings=timings, provider=provider, upstreams=upstreams) as at:
            yield at


async def start(program: Program, at: Live, home: Path, *, impatient: bool) -> asyncio.subprocess.Process:
    """Start a program, set up as `circadia agents add --for` says, whose agent sleeps; return once it is held."""
    token = await at.agent(program)
    await at.sleeping(True, program)
    settings = await print_settings(program, at, token)
    if impatient:
        settings = settings.replace(*IMPATIENT.get(program, ("", "")))
    running = await start_program(program, settings, home, COMMANDS[program])
    async with asyncio.timeout(180):
        while not (await at.rest("GET", f"/sessions/default/agents/{program}/sleeping"))[1]["held"]:
            assert running.returncode is None, (await running.communicate())[0].decode()
            await asyncio.sleep(0.1)
    return running


@pytest.mark.slow
@pytest.mark.spec("GATE-93")
@pytest.mark.timeout(LONG_SECONDS + 600)
@pytest.mark.parametrize(("seconds", "timings"), [(SOME_SECONDS, FAST), (LONG_SECONDS, {})], ids=["impatient", "long"])
async def test_coding_agents_are_held_side_by_side_for_longer_than_they_wait_by_themselves(
    tmp_path: Path, seconds: float, timings: dict[str, float]
) -> None:
    async with server(tmp_path / "server", timings) as at:
        programs = [
            await start(program, at, tmp_path / program, impatient=seconds == SOME_SECONDS) for program in Program
        ]
        outputs = [asyncio.create_task(program.communicate()) for program in programs]
        done, _ = await asyncio.wait(outputs, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        assert not done, [output.result()[0].decode() for output in done]
        for program in Program:
            await at.sleeping(False, program)
        for program, running, output in zip(Program, programs, outputs, strict=True):
            said, _ = await output
            assert running.returncode == 0, (program, said.decode())
        bodies = [request.body for request in at.upstream.requests]
        assert len(set(bodies)) == len(bodies), "each call goes out once"
        offering = {each.header("user-agent") for each in at.upstream.requests if b"list_agents" in each.body}
        names = {str(name).split("/")[0] for name in offering}
        assert len(names) == len(set(Program) - {Program.AIDER}), "each that has MCP offers Circadia's tools"
        kinds = Counter(event["type"] for event in await at.events("held", "admitted", "dropped"))
        assert kinds == {"held": kinds["admitted"], "admitted": kinds["held"]}, "no call was given up"
