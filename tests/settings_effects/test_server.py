"""Where a server listens, and how long it takes to stop."""

import asyncio
import os
import signal
from pathlib import Path

import aiohttp
import pytest
import yaml

from circadia.clock import SystemClock
from circadia.testing.upstream import MockUpstream
from tests.fixtures.database_file import put_database
from tests.fixtures.ports import reserved_port
from tests.fixtures.program import Program
from tests.fixtures.server_process import CircadiaProcess


@pytest.mark.setting("server.host", "server.port")
async def test_a_server_listens_where_the_file_says(tmp_path: Path) -> None:
    with reserved_port() as port:
        file = tmp_path / "circadia.yaml"
        file.write_text(yaml.safe_dump({"server": {"host": "127.0.0.2", "port": port}}), "utf-8")
        (tmp_path / "data").mkdir(mode=0o700)
        put_database(tmp_path / "data")
        words = ("serve", "--config", str(file), "--data", str(tmp_path / "data"))
        server = await Program.start(("circadia",), *words, env={**os.environ, "NO_COLOR": "1"})
        try:
            async with asyncio.timeout(60):
                while b"listens on" not in (line := await server.stdout.readline()):
                    assert line, "the server ended"
            async with aiohttp.ClientSession() as http:
                async with http.get(f"http://127.0.0.2:{port}/healthz") as answer:
                    assert answer.status == 200
                with pytest.raises(aiohttp.ClientConnectorError):
                    await http.get(f"http://127.0.0.1:{port}/healthz")
        finally:
            server.send_signal(signal.SIGTERM)
            await server.wait()


@pytest.mark.setting("server.drain_seconds")
async def test_a_call_that_goes_on_keeps_a_server_from_stopping_for_as_long_as_the_file_says(tmp_path: Path) -> None:
    clock = SystemClock()
    async with MockUpstream() as provider:
        settings = {"upstreams": {"openai": {"base_url": provider.base_url}}, "server": {"drain_seconds": 1}}
        async with CircadiaProcess(tmp_path, settings) as server, aiohttp.ClientSession() as http:
            token = (await server.create_session("team", [{"name": "ann"}]))["ann"]
            provider.gate.clear()
            body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
            headers = {"authorization": f"Bearer {token}"}
            url = f"{server.url}/llm/openai/v1/chat/completions"
            calling = asyncio.create_task(http.post(url, json=body, headers=headers))
            await provider.wait_for_requests(1)
            began = clock.monotonic()
            await server.terminate()
            assert 0.9 <= clock.monotonic() - began < 8, "30 by default"
            provider.gate.set()
            await asyncio.gather(calling, return_exceptions=True)
