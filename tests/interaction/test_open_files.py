"""A server under a small limit of open files goes on accepting, and sends what it holds."""

import asyncio
import json
import resource
from collections import Counter
from pathlib import Path

import aiohttp
import pytest

from tests.fixtures.server_process import CircadiaProcess
from tests.gateway.wire.peer import answering, peer
from tests.interaction.live import CHAT
from tests.interaction.test_large_bodies import ANSWER

pytestmark = pytest.mark.spec("LARGE-07")
FILES = 256
CALLERS = 400
PROGRAM = f"""
import resource, runpy

resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))
runpy.run_module("circadia", run_name="__main__")
"""


async def test_400_callers_under_256_open_files_are_held_or_refused_and_the_held_ones_are_sent(tmp_path: Path) -> None:
    async with peer(answering(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(ANSWER), ANSWER)) as upstream:
        config = {
            "upstreams": {"openai": {"base_url": f"http://127.0.0.1:{upstream.port}", "key_env": "KEY"}},
            "memory": {"embedder": {"kind": "none"}},
        }
        program = tmp_path / "few_files.py"
        program.write_text(PROGRAM, "utf-8")
        env = {"KEY": "sk-of-the-provider-0123456789"}
        async with (
            CircadiaProcess(tmp_path, config, env=env, program=(str(program),)) as server,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http,
        ):
            assert resource.prlimit(server.pid, resource.RLIMIT_NOFILE) == (FILES, FILES)
            assert server.log.count("at most 96 calls are held") == 1
            token = (await server.create_session("s", [{"name": "ann"}]))["ann"]
            await server.put_sleeping("s", "ann", True)
            headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}

            async def call() -> tuple[int, str | None]:
                url = f"{server.url}/llm/openai/v1/chat/completions"
                async with http.post(url, data=json.dumps(CHAT), headers=headers) as answer:
                    await answer.read()
                    return answer.status, answer.headers.get("retry-after")

            async def probe(path: str) -> int:
                async with http.get(server.url + path) as answer:
                    return answer.status

            calls = [asyncio.create_task(call()) for _ in range(CALLERS)]
            held = 0
            async with asyncio.timeout(60):
                while sum(each.done() for each in calls) + held < CALLERS:
                    assert await probe("/healthz") == 200
                    held = len(await server.holds())
            assert 48 <= held <= 96, "connections that are about to be refused may take the place of some"
            assert [await probe(path) for path in ("/healthz", "/readyz")] == [200, 200]
            await server.put_sleeping("s", "ann", False)
            answers = [await each for each in calls]
            assert Counter(status for status, _ in answers) == {200: held, 429: CALLERS - held}
            assert all(retry_after for status, retry_after in answers if status == 429)
            assert (await call())[0] == 200
