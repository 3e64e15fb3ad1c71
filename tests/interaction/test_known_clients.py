"""What the gateway does for programs that it knows by their headers."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from circadia.testing.clock import ManualClock
from tests.interaction.live import live


@pytest.mark.spec("GATE-50", "GATE-93")
@pytest.mark.parametrize(
    ("originator", "sign"),
    [
        ("codex_cli_rs", b'event: keepalive\ndata: {"type":"keepalive","sequence_number":0}\n\n'),
        ("opencode", b": keep-alive\n\n"),
        (None, b": keep-alive\n\n"),
    ],
)
async def test_codex_which_counts_events_gets_events_while_it_is_held_and_nobody_else_does(
    tmp_path: Path, originator: str | None, sign: bytes
) -> None:
    async with live(tmp_path) as at:
        token = await at.agent(on_wake="forward")
        await at.sleeping(True)
        body = {"model": "gpt-4o-mini", "input": "hello", "stream": True}
        headers = {} if originator is None else {"originator": originator}
        async with at.call(token, "/v1/responses", body, headers=headers) as response:
            assert [await response.content.readuntil(b"\n\n") for _ in range(2)] == [sign] * 2
            await at.sleeping(False)
            rest = await response.read()
        assert b"response.created" in rest
        assert b"response.completed" in rest


@pytest.mark.spec("GATE-51", "GATE-93")
@pytest.mark.parametrize("woken", [False, True], ids=["asleep", "woken"])
@pytest.mark.parametrize(
    ("program", "seconds"),
    [("GeminiCLI-tui/0.61.0/gemini-3.1-pro-preview (linux; x64; terminal)", 30), ("curl/8", 120)],
)
async def test_gemini_cli_which_waits_60_seconds_for_the_headers_of_an_answer_gets_them_before(
    tmp_path: Path, program: str, seconds: float, woken: bool
) -> None:
    clock = ManualClock()
    async with live(tmp_path, upstream={"api": "gemini"}, clock=clock, timings={}) as at:
        token = await at.agent()
        await at.sleeping(True)
        body = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
        path = "/v1beta/models/gemini-3.5-flash-lite:generateContent"
        at.upstream.next(status=200, body={}, delay=asyncio.Event())

        async def call() -> aiohttp.ClientResponse:
            return await at.call(token, path, body, headers={"user-agent": program})

        calling = asyncio.create_task(call())
        await at.held(1)
        if woken:
            await at.sleeping(False)
            await at.upstream.wait_for_requests(1)
        clock.advance(seconds - 0.5)
        for _ in range(3):
            await at.rest("GET", "/holds")
        assert not calling.done()
        clock.advance(0.6)
        async with asyncio.timeout(60), await calling as response:
            assert (response.status, await response.content.readexactly(1)) == (200, b" ")
