"""However many large bodies come at once, the memory of the server is bounded, and it gives it back."""

import asyncio
import io
import json
import re
from pathlib import Path

import aiohttp
import pytest

from tests.fixtures.server_process import CircadiaProcess
from tests.gateway.wire.peer import Caller, answering, peer
from tests.interaction.live import live
from tests.interaction.test_large_bodies import ANSWER, chat

pytestmark = pytest.mark.spec("LARGE-07")
CALLS = 60
TURN = {"role": "user", "content": "what did they say " * 110}
ANSWERED = [TURN, {"role": "assistant", "content": "they said so " * 150}]


def memory(server: CircadiaProcess) -> int:
    """Return the resident memory in MiB."""
    status = Path(f"/proc/{server.pid}/status").read_text("ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024


@pytest.mark.timeout(300)  # 450 MB through a busy machine
async def test_a_minute_after_a_burst_of_large_bodies_the_memory_is_as_before(tmp_path: Path) -> None:
    data = json.dumps(chat([*ANSWERED * 1_890, TURN])).encode()
    assert len(data) >= 7_500_000
    async with peer(answering(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(ANSWER), ANSWER)) as upstream:
        config = {
            "upstreams": {"openai": {"base_url": f"http://127.0.0.1:{upstream.port}", "key_env": "KEY"}},
            "memory": {"embedder": {"kind": "none"}},
        }
        async with (
            CircadiaProcess(tmp_path, config, env={"KEY": "sk-of-the-provider-0123456789"}) as server,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http,
        ):
            tokens = await server.create_session("s", [{"name": "ann", "policy": {"bank": "team"}}])
            headers = {"authorization": f"Bearer {tokens['ann']}", "content-type": "application/json"}

            async def call(body: bytes) -> int:
                async with http.post(
                    f"{server.url}/llm/openai/v1/chat/completions", data=io.BytesIO(body), headers=headers
                ) as got:
                    await got.read()
                    return got.status

            async def in_flight() -> float:
                async with http.get(f"{server.url}/metrics", headers=server.admin) as got:
                    found = re.search(r"^circadia_body_bytes_in_flight (\S+)$", await got.text(), re.MULTILINE)
                assert found is not None
                return float(found[1])

            assert await call(json.dumps(chat([TURN])).encode()) == 200
            before = memory(server)
            calls = [asyncio.create_task(call(data)) for _ in range(CALLS)]
            most = 0.0
            while not all(each.done() for each in calls):
                most = max(most, await in_flight())
                await asyncio.sleep(0.25)
            statuses = [await each for each in calls]
            assert statuses.count(200) >= 256 * 2**20 // len(data)
            assert set(statuses) <= {200, 429}, "a busy machine lets the last ones wait for 30 s"
            assert len(data) <= most <= 256 * 2**20
            assert await in_flight() == 0
            async with asyncio.timeout(60):
                while memory(server) > 1.2 * before:
                    await asyncio.sleep(0.1)


async def test_woken_callers_who_hang_up_at_the_same_time_leave_nothing_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def read_forever(caller: Caller) -> None:
        await caller.request()
        await caller.gone()

    async with (
        peer(read_forever) as far,
        live(
            tmp_path,
            upstream={"base_url": f"http://127.0.0.1:{far.port}"},
            limits={"max_body_bytes_in_flight": 300_000},
        ) as at,
    ):
        token = await at.agent()
        await at.sleeping(True)
        writers: list[asyncio.StreamWriter] = []
        for number in range(3):
            body = json.dumps(chat([{"role": "user", "content": f"{number}" * 200_000}])).encode()
            _, writer = await asyncio.open_connection("127.0.0.1", int(at.url.rpartition(":")[2]))
            lines = (
                "POST /llm/openai/v1/chat/completions HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}",
                f"Content-Length: {len(body)}", "", "",
            )  # fmt: skip
            writer.write("\r\n".join(lines).encode() + body)
            writers.append(writer)
            await at.held(number + 1)
        await at.sleeping(False)
        await far.until(lambda: len(far.heads) == 1)  # there is room for one; the others wait for its end
        for writer in writers:
            writer.transport.abort()
        await far.emptied()
        await at.held(0)
        async with asyncio.timeout(60):
            while at.server.waiting():
                await asyncio.sleep(0.01)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
