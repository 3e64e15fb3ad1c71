"""The connection to PostgreSQL is cut between a COMMIT and its answer: a repeat with its key finds what is there."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.quick_agent import LAUNCHERS
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.postgres_proxy import postgres_proxy
from tests.fixtures.server_process import CircadiaProcess
from tests.interaction.test_cluster import launched_bob

WAKE: Final = {"to": "bob", "reason": "blocker", "message": "Please look.", "key": "key-of-the-wake"}
EPISODE: Final = {"text": "I have moved to Porto.", "speaker": "ann", "key": "key-of-the-episode"}
MESSAGE: Final = {"to": "bob", "content": "for later", "key": "key-of-the-message"}


@pytest.mark.spec("CLU-20")
async def test_a_cut_between_commit_and_answer_leaves_one_row_one_pulse_and_one_signal(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    """What waits for the signal of the lost answer hears of the wake all the same, and once."""
    config: dict[str, Any] = {"launchers": LAUNCHERS, "agents": launched_bob("quick")}
    async with postgres_proxy(postgres_server) as proxy:
        config["server"] = {"database_url": proxy.url(postgres_url)}
        async with CircadiaProcess(tmp_path, config) as server:
            await server.call("POST", "/banks", {"name": "notes"})
            for path, body in (("/wakes", WAKE), ("/messages", MESSAGE), ("/banks/notes/episodes", EPISODE)):
                proxy.arm(str(body["key"]))
                with pytest.raises(AssertionError, match=r"503 .*the commit may not be on disk"):
                    await server.call("POST", path, body)
                first, second = [await server.call("POST", path, body) for _ in range(2)]
                for name in ("id", "message", "wake", "pulse"):
                    assert first.get(name) == second.get(name)
            assert proxy.cuts == 3
            async with asyncio.timeout(30):
                while not (pulses := (await server.call("GET", "/agents/bob/pulses"))["pulses"])[0]["ended_at"]:
                    await asyncio.sleep(0.05)
            wakes = (await server.call("GET", "/wakes"))["wakes"]
            assert [(wake["decision"], wake["pulse"]) for wake in wakes] == [("admitted", pulses[0]["id"])]
            assert [pulse["status"] for pulse in pulses] == ["succeeded"]
            events = (await server.call("GET", "/events?type=wake&type=pulse&type=direct_message"))["events"]
            assert Counter((event["type"], event["data"].get("status")) for event in events) == {
                ("direct_message", None): 2, ("wake", None): 1, ("pulse", "pending"): 1, ("pulse", "starting"): 1,
                ("pulse", "running"): 1, ("pulse", "succeeded"): 1,
            }  # fmt: skip
            assert len((await server.call("GET", "/banks/notes/episodes"))["episodes"]) == 1
