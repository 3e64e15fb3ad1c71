"""A server whose vectors come from an endpoint, by REST and real HTTP."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from circadia.errors import ConfigError
from circadia.testing.upstream import MockUpstream
from tests.interaction.live import live
from tests.memory.embedding.stand import embedded_by

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
                question = f"{datetime.now(UTC):%-d %B %Y} Ann: I take the night train."  # as it is embedded
                while not any("meaning" in each["parts"] for each in await _hits(server, question)):
                    await asyncio.sleep(0.01)
            told = (await server.rest("GET", f"/banks/ann/episodes/{kept['id']}"))[1]
            assert told["embedded_by"].startswith("endpoint:m/")
    assert KEY not in caplog.text


@pytest.mark.setting(
    "memory.embedder.endpoint.model", "memory.embedder.endpoint.key_env", "memory.embedder.endpoint.batch",
    "memory.embedder.endpoint.max_characters", "memory.embedder.endpoint.question_prefix",
)  # fmt: skip
async def test_an_endpoint_is_asked_as_the_file_says(tmp_path: Path) -> None:
    more = {"batch": 2, "max_characters": 10, "question_prefix": "query: "}
    async with MockUpstream(key=KEY) as up:
        chosen = {**memory(up), "embedder": {**memory(up)["embedder"], **more}}
        async with live(tmp_path, environment={"EMBEDDER_KEY": KEY}, memory=chosen, banks={"ann": {}}) as server:
            up.gate.clear()
            for number in range(5):
                assert (await server.rest("POST", "/banks/ann/episodes", {"text": f"Text {number} is long."}))[0] == 201
            await up.wait_for_requests(1)
            up.gate.set()
            sent: list[dict[str, Any]] = []
            async with asyncio.timeout(60):
                while sum(len(each["input"]) for each in sent) < 5:
                    await asyncio.sleep(0.02)
                    sent = [each.json() for each in up.requests]
            await _hits(server, "what?")
            questions = [text for each in up.requests for text in each.json()["input"] if text.startswith("query: ")]
    assert {each["model"] for each in sent} == {"m"}
    assert max(len(each["input"]) for each in sent) == 2
    assert max(len(text) for each in sent for text in each["input"]) == 10
    assert questions == ["query: what?"]


@pytest.mark.setting("memory.embedder.endpoint.timeout_seconds")
async def test_an_endpoint_that_does_not_answer_in_its_time_is_asked_again(tmp_path: Path) -> None:
    async with MockUpstream(key=KEY) as up:
        chosen = {**memory(up), "embedder": {**memory(up)["embedder"], "timeout_seconds": 0.2}}
        up.next(path="/embeddings", hang=True)
        async with live(tmp_path, environment={"EMBEDDER_KEY": KEY}, memory=chosen, banks={"ann": {}}) as server:
            async with asyncio.timeout(20):
                assert (await embedded_by(server, "I take the night train.")).startswith("endpoint:m/")


@pytest.mark.setting("memory.previous_embedder")
@pytest.mark.parametrize("previous", [True, False])
async def test_vectors_of_before_are_read_until_each_text_has_a_new_one(tmp_path: Path, previous: bool) -> None:
    banks: dict[str, Any] = {"ann": {}}
    async with live(tmp_path, banks=banks) as server:
        await embedded_by(server, "I take the night train.")
    async with MockUpstream(key=KEY) as up:
        up.gate.clear()
        chosen = memory(up) if previous else {"embedder": memory(up)["embedder"]}
        async with live(tmp_path, environment={"EMBEDDER_KEY": KEY}, memory=chosen, banks=banks) as server:
            found = await _hits(server, "railway")
            assert any("meaning" in each["parts"] for each in found) is previous
            up.gate.set()


@pytest.mark.spec("WAKE-52")
async def test_no_agent_gets_the_key_of_the_embedder(tmp_path: Path) -> None:
    async with MockUpstream() as up:
        launchers = {"local": {"kind": "subprocess", "command": ["true"], "env_from": ["EMBEDDER_KEY"]}}
        with pytest.raises(ConfigError, match="EMBEDDER_KEY"):
            async with live(tmp_path, environment={"EMBEDDER_KEY": KEY}, memory=memory(up), launchers=launchers):
                pass


async def _hits(server: Any, question: str) -> list[dict[str, Any]]:
    return (await server.rest("GET", f"/banks/ann/search?q={question.replace(' ', '+')}"))[1]["hits"]
