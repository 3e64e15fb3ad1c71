"""A fact at the end of a long text comes to whoever asks for it: by search, in a prompt, and by the tool `recall`."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.interaction.live import live

FILLER = "The committee met again and talked about the budget for the coming year. " * 270
FACT = "Marta's locker code is kept in the blue teapot."
TEXT = f"{FILLER[:19_900]}\n\n{FACT}"
QUESTION = "Where is Marta's locker code?"


def chat(text: str) -> dict[str, object]:
    return {"model": "gpt-5", "messages": [{"role": "user", "content": text}]}


@pytest.mark.spec("MEM-30")
async def test_what_is_said_at_the_end_of_a_long_turn_is_found_and_put_into_a_later_prompt(tmp_path: Path) -> None:
    async with live(tmp_path, banks={"team": {}}) as at:
        token = await at.agent(bank="team")
        await at.called(token, chat(TEXT))
        hits: list[dict[str, Any]] = []
        async with asyncio.timeout(60):
            while not hits:
                search = "/banks/team/search?q=Marta's+locker+code&limit=1"
                hits = (await at.rest("GET", search))[1]["hits"]
        assert hits[0]["text"].endswith(FACT)
        assert len(hits[0]["text"]) <= 600
        assert hits[0]["passage"] == hits[0]["passages"] > 30
        assert hits[0]["start"] == TEXT.index(hits[0]["text"])
        assert (await at.rest("GET", f"/banks/team/episodes/{hits[0]['id']}"))[1]["text"] == TEXT
        await at.called(token, chat(QUESTION))
        sent = at.upstream.requests[-1].body.decode()
        assert "blue teapot" in sent
        assert TEXT[:100] not in sent


@pytest.mark.spec("MEM-30", "MEM-37")
async def test_a_passage_stays_behind_its_turn_and_another_one_comes_with_a_later_turn(tmp_path: Path) -> None:
    async with live(tmp_path, banks={"team": {}}) as at:
        token = await at.agent(bank="team")
        stored = await at.rest("POST", "/banks/team/episodes", {"text": f"Otto's bicycle is green.\n\n{TEXT}"})
        assert stored[0] == 201
        turns = [{"role": "user", "content": QUESTION}]
        bodies: list[str] = []
        for more in (
            [],
            [{"role": "assistant", "content": "In the teapot."}, {"role": "user", "content": "Otto's bicycle?"}],
        ):
            turns += more
            await at.called(token, {"model": "gpt-5", "messages": turns})
            bodies.append(json.dumps(json.loads(at.upstream.requests[-1].body)["messages"], ensure_ascii=False))
        assert "blue teapot" in bodies[0]
        assert "green" not in bodies[0]
        assert bodies[1].startswith(bodies[0].removesuffix("]")), "what was sent stays"
        assert bodies[1].count("blue teapot") == 1
        assert "Otto's bicycle is green." in bodies[1]
