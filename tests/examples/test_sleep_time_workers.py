"""Sleep-time workers as people write them by hand, and the lines of configuration that replace them."""

import asyncio
import contextlib
import json
import os
import shutil
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import openai
import pytest
import yaml

from circadia.cli.demo import dream_model
from circadia.clock import SystemClock
from circadia.testing.upstream import MockUpstream
from tests.clients.node_program import FOLDER as NODE
from tests.clients.node_program import node
from tests.fixtures.server_process import CircadiaProcess
from tests.house.tree import ROOT

pytestmark = pytest.mark.spec("SHIP-08")

EXAMPLES = ROOT / "examples" / "sleeptime"
WAIT_SECONDS = 60.0
TURNS = (
    "I live in Porto.",
    "The release is on Friday.",
    "I prefer short answers.",
    "The deadline is 3 May.",
    "I have a cat.",
)


@contextlib.asynccontextmanager
async def worker(words: Sequence[str], upstream: MockUpstream) -> AsyncGenerator[asyncio.StreamReader]:
    """Run a worker that looks often; yield what it prints."""
    process = await asyncio.create_subprocess_exec(
        *words,
        env={
            "PATH": os.environ["PATH"],
            "OPENAI_BASE_URL": f"{upstream.base_url}/v1",
            "OPENAI_API_KEY": "any",
            "PAUSE_SECONDS": "0.05",
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize("program", ["worker.py", "worker.ts"])
async def test_a_hand_written_worker_merges_new_turns_into_the_memory(program: str, tmp_path: Path) -> None:
    conversation, memory = tmp_path / "conversation.jsonl", tmp_path / "memory.md"
    copy = NODE / f".example-{program}"  # beside node_modules, where imports are looked up; ignored by git
    shutil.copy(EXAMPLES / program, copy)
    runner = sys.executable if program.endswith(".py") else node()
    try:
        async with (
            MockUpstream() as upstream,
            worker([runner, str(copy), str(conversation), str(memory)], upstream) as printed,
            asyncio.timeout(WAIT_SECONDS),
        ):
            upstream.next(text="Ann lives in Porto.")
            upstream.next(text="Ann lives in Rome.")
            say(conversation, TURNS)
            assert await printed.readline() == b"5 turns\n"
            assert memory.read_text("utf-8") == "Ann lives in Porto."
            say(conversation, ["I have moved to Rome.", *TURNS[1:]])
            assert await printed.readline() == b"5 turns\n"
            assert memory.read_text("utf-8") == "Ann lives in Rome."
    finally:
        copy.unlink()
    first, second = (request.json()["messages"][-1]["content"] for request in upstream.requests)
    assert "ann: I live in Porto." in first
    assert second.startswith("Memory:\nAnn lives in Porto.\n\nNew turns:\nann: I have moved to Rome.\n")


def say(conversation: Path, texts: Sequence[str]) -> None:
    with conversation.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps({"speaker": "ann", "text": text}) + "\n" for text in texts)


async def test_the_configuration_beside_the_workers_does_their_work(tmp_path: Path) -> None:
    config = yaml.safe_load((EXAMPLES / "circadia.yaml").read_text("utf-8"))
    async with MockUpstream(reply=dream_model.reply) as upstream:
        config["upstreams"]["openai"]["base_url"] = f"{upstream.base_url}/v1"
        async with CircadiaProcess(tmp_path, config, env={"OPENAI_API_KEY": "any"}) as server:
            token = (await server.call("POST", "/sessions/default/agents/helper/token"))["token"]
            async with openai.AsyncOpenAI(base_url=f"{server.url}/llm/openai/v1", api_key=token) as client:
                for text in TURNS:
                    await ask(client, text)
                ended = await wait_for_pass(server)
                assert ended["status"] == "succeeded", ended
                notes = (await server.call("GET", "/banks/helper/notes"))["notes"]
                assert any("Porto" in note["text"] for note in notes), notes
                await ask(client, "Where do I live?")
    assert "Porto" in str(upstream.requests[-1].json()["messages"]), "the memory is in a new conversation's prompt"


async def ask(client: openai.AsyncOpenAI, text: str) -> None:
    await client.chat.completions.create(model="gpt-5-mini", messages=[{"role": "user", "content": text}])


async def wait_for_pass(server: CircadiaProcess) -> dict[str, Any]:
    """Wait until a pass over the bank has ended, and return it."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            for each in (await server.call("GET", "/banks/helper/passes"))["passes"]:
                if each["status"] not in {"pending", "running"}:
                    return each
            await SystemClock().sleep(0.05)
