"""Where a server listens, and how long it takes to stop."""

import asyncio
import json
import os
import signal
from datetime import datetime
from pathlib import Path
from typing import Any

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


@pytest.mark.setting("server.log_format", "server.log_level")
@pytest.mark.spec("SHIP-13", "SLEEP-88")
async def test_the_log_is_json_from_the_level_on_that_the_file_states(tmp_path: Path) -> None:
    program = {"kind": "subprocess", "command": ["true"]}
    settings: dict[str, Any] = {
        "server": {"log_format": "json"}, "launchers": {"loop": program}, "banks": {"team": {}},
        "sleeptime": {"when": "manual", "model": "none"},
    }  # fmt: skip
    async with CircadiaProcess(tmp_path, settings) as server, aiohttp.ClientSession(headers=server.admin) as http:
        episode = {"text": "Ann lives in Porto.", "speaker": "Ann"}
        assert (await http.post(f"{server.url}/api/v1/banks/team/episodes", json=episode)).status == 201
        assert (await http.post(f"{server.url}/api/v1/banks/team/passes", json={"wait_seconds": 60})).status == 202
        await server.terminate()
        lines = [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]
        assert {"info", "warning"} <= {each["level"] for each in lines}
        assert all(datetime.fromisoformat(each["time"]).tzinfo and each["logger"] for each in lines)
        (done,) = [each for each in lines if "pass" in each]
        assert done["message"].startswith(f"pass {done['pass']} over bank 'team' (hand): no_change")
        assert (done["bank"], done["trigger"], done["status"], done["usd"]) == ("team", "hand", "no_change", 0)
        assert {"changes", "refused", "calls", "tokens", "detail"} < done.keys()
        server.config["server"] = {"log_format": "json", "log_level": "warning"}
        before = len(server.log)
        await server.start()
        await server.terminate()
        again = [json.loads(line) for line in server.log[before:].splitlines() if line.startswith("{")]
        assert {each["level"] for each in again} == {"warning"}


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
