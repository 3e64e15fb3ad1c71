"""Other memories are measured beside ours where they can be installed, and left out with a line where not."""

import json
import sys
from pathlib import Path

import pytest
from openai import AsyncOpenAI

from benchmarks import remember_peers, search_peers
from benchmarks.peer_driver import CHROMA_DATABASE, LANGMEM_MEMORY, MEM0_MEMORY, TOKENS
from benchmarks.peer_model import model

DIMENSIONS = 256


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments that are complete but lack the packages."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for memory in (MEM0_MEMORY, LANGMEM_MEMORY, CHROMA_DATABASE, TOKENS):
        home = tmp_path / "cache" / "circadia-benchmarks" / memory.name.replace(" ", "-").lower()
        (home / "bin").mkdir(parents=True)
        python = home / "bin" / "python"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
        python.chmod(0o755)
        (home / "complete").touch()


@pytest.mark.usefixtures("nothing_installed")
async def test_a_memory_that_does_not_run_here_is_left_out_with_a_line_that_says_so(tmp_path: Path) -> None:
    remembered = await remember_peers.run(tmp_path, remember_peers.Size(turns=3))
    ((name, calls, tokens, *_, kept),) = remembered.rows
    assert (name, calls, tokens, kept) == ("Circadia, REST", "0.00", "0.00", "3"), "it asks no model"
    searched = await search_peers.run(tmp_path, search_peers.Size(episodes=(200,), searches=3))
    assert [row[0] for row in searched.rows] == ["200, Circadia"]
    for memory, report in (
        (MEM0_MEMORY, remembered), (LANGMEM_MEMORY, remembered), (TOKENS, remembered),
        (MEM0_MEMORY, searched), (CHROMA_DATABASE, searched),
    ):  # fmt: skip
        (line,) = [note for note in report.notes if f"{memory.name} is left out" in note]
        assert "No module named" in line


async def test_the_stand_in_answers_a_client_of_openai_with_the_newest_turn_and_keeps_the_prompt() -> None:
    turns = ["Ann: the boat is blue", "Bob: the boat is red now"]
    async with model(turns) as running, AsyncOpenAI(base_url=running.base_url, api_key="sk-test") as client:
        said = await client.chat.completions.create(
            model="gpt-4o-mini",
            messages=[{"role": "system", "content": "Facts."}, {"role": "user", "content": turns[0]}],
        )
        assert json.loads(said.choices[0].message.content or "")["memory"][0]["text"] == turns[0]
        assert running.prompts == [f"Facts.\n{turns[0]}"]
        called = await client.chat.completions.create(
            model="gpt-4o-mini",
            messages=[{"role": "user", "content": "\n".join(turns)}],
            tools=[{"type": "function", "function": {"name": "Memory", "parameters": {"type": "object"}}}],
        )
        (call,) = called.choices[0].message.tool_calls or []
        assert call.type == "function"
        assert json.loads(call.function.arguments) == {"content": turns[1]}
        assert '"name": "Memory"' in running.prompts[1]
        packed = await client.embeddings.create(model="text-embedding-3-small", input=turns)
        plain = await client.embeddings.create(model="text-embedding-3-small", input=turns, encoding_format="float")
        for vectors in (packed, plain):
            assert [len(each.embedding) for each in vectors.data] == [DIMENSIONS, DIMENSIONS]
        assert running.embedded == 4
