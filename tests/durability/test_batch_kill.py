"""A server is killed while it submits a batch of questions: the provider gets the batch once (SLEEP-44)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from circadia.llm.providers import Api
from tests.fixtures.server_process import CircadiaProcess
from tests.interaction.test_batched_passes import MODELS
from tests.interaction.test_thinking_passes import TOLD, reply
from tests.llm.batch_provider import batch_provider

OFF = ("contradictions", "reflect", "compress", "rethink", "precompute")


def config(api: Api, url: str) -> dict[str, Any]:
    operations: dict[str, Any] = {"consolidate": {"batch": True}, **{name: {"enabled": False} for name in OFF}}
    tier = {"idle_seconds": 0, "verify": "off", "model": {"upstream": api, "name": MODELS[api]}}
    upstream = {"base_url": url, "api": api, "key_env": "PROVIDER_KEY"}
    return {"upstreams": {api: upstream}, "banks": {"ann": {}}, "sleeptime": {**tier, "operations": operations}}


@pytest.mark.spec("SLEEP-44")
@pytest.mark.parametrize(
    ("api", "place"),
    [pytest.param("openai", "upload", marks=pytest.mark.slow), ("openai", "create"), ("anthropic", "create")],
)
async def test_a_kill_while_a_batch_is_submitted_submits_it_once(tmp_path: Path, api: Api, place: str) -> None:
    async with (
        batch_provider(reply) as provider,
        CircadiaProcess(tmp_path, config(api, provider.url), env={"PROVIDER_KEY": "k"}) as server,
    ):
        provider.hang_at = place
        for text in TOLD:
            await server.call("POST", "/banks/ann/episodes", {"text": text, "speaker": "Ann"})
        async with asyncio.timeout(60):
            await provider.hanging.wait()
        await server.kill9()
        assert len(provider.batches) == (place == "create")
        provider.hang_at = ""
        await server.start()
        async with asyncio.timeout(60):
            while not (provider.lists and len(provider.batches) == 1):
                await asyncio.sleep(0.02)
            provider.end()
            while (run := (await server.call("GET", "/banks/ann/passes"))["passes"][0])["status"] != "succeeded":
                assert run["status"] in ("pending", "running"), run
                await server.call("POST", "/banks/ann/sleeptime/resume")  # it looks at the batch now
                await asyncio.sleep(0.1)
        assert (len(provider.batches), provider.asked_at_once) == (1, [])
        assert run["counts"]["add_note"] == 1
        assert run["spent"]["calls"] == 1
