"""A server whose vectors come from an endpoint, by REST and real HTTP."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from circadia.errors import ConfigError
from circadia.testing.upstream import MockUpstream
from tests.interaction.live import live

KEY = "sk-key-of-the-embedder"


def memory(upstream: MockUpstream) -> dict[str, Any]:
    chosen = {"kind": "endpoint", "base_url": f"{upstream.base_url}/v1", "model": "m", "key_env": "EMBEDDER_KEY"}
    return {"embedder": chosen, "previous_embedder": {"kind": "bundled"}}


@pytest.mark.spec("MEM-02", "MEM-08")
async def test_what_is_remembered_is_found_at_once_and_by_meaning_when_the_endpoint_has_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with MockUpstream(key=KEY) as up:
        environment, banks = {"EMBEDDER_KEY": KEY}, {"ann": {"description": "Ann's"}}
        async with live(tmp_path, environment=environment, memory=memory(up), banks=banks) as server:
            said = {"text": "I take the night train.", "speaker": "Ann"}
            status, kept = await server.rest("POST", "/banks/ann/episodes", said)
            assert status == 201
            found = await _hits(server, "night train")
            assert [each["id"] for each in found] == [kept["id"]]
            async with asyncio.timeout(60):
                while not any("meaning" in each["parts"] for each in await _hits(server, "another question")):
                    await asyncio.sleep(0.01)
            told = (await server.rest("GET", f"/banks/ann/episodes/{kept['id']}"))[1]
            assert told["embedded_by"].startswith("endpoint:m/")
    assert KEY not in caplog.text


@pytest.mark.spec("WAKE-52")
async def test_no_agent_gets_the_key_of_the_embedder(tmp_path: Path) -> None:
    async with MockUpstream() as up:
        launchers = {"local": {"kind": "subprocess", "command": ["true"], "env_from": ["EMBEDDER_KEY"]}}
        with pytest.raises(ConfigError, match="EMBEDDER_KEY"):
            async with live(tmp_path, environment={"EMBEDDER_KEY": KEY}, memory=memory(up), launchers=launchers):
                pass


async def _hits(server: Any, question: str) -> list[dict[str, Any]]:
    return (await server.rest("GET", f"/banks/ann/search?q={question.replace(' ', '+')}"))[1]["hits"]
