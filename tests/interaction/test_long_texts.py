"""A fact at the end of a long text comes to whoever asks for it: by search, in a prompt, and by the tool `recall`."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.interaction.live import live

FILLER = "".join(f"The committee met again and talked about item {number} of the budget. " for number in range(300))
FACT = "Marta's locker code is kept in the blue teapot."
TEXT = f"{FILLER[:19_900]}\n\n{FACT}"
QUESTION = "Where is Marta's locker code?"


def chat(text: str) -> dict[str, Any]:
    return {"model": "gpt-5", "messages": [{"role": "user", "content": text}]}


@pytest.mark.spec("MEM-30")
async def test_what_is_said_at_the_end_of_a_long_turn_is_found_and_put_into_a_later_prompt(tmp_path: Path) -> None:
    async with live(tmp_path, banks={"team": {}}) as at:
        token = await at.agent(bank="team", fitting_tokens=400)
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
        token = await at.agent(bank="team", fitting_tokens=180)  # room for one passage
        stored = await at.rest("POST", "/banks/team/episodes", {"text": f"Otto's bicycle is green.\n\n{TEXT}"})
        assert stored[0] == 201
        assert (await at.rest("GET", "/banks/team/search?q=bicycle"))[0] == 200  # loads the embedder, however long
        first = json.loads(await at.called(token, chat(QUESTION)))["choices"][0]["message"]
        said = [*chat(QUESTION)["messages"], first, {"role": "user", "content": "What colour is Otto's bicycle?"}]
        await at.called(token, {"model": "gpt-5", "messages": said})
        bodies = [json.dumps(json.loads(request.body)["messages"]) for request in at.upstream.requests[-2:]]
        assert "blue teapot" in bodies[0]
        assert "green" not in bodies[0]
        assert bodies[1].startswith(bodies[0].removesuffix("]")), "what was sent stays"
        assert "blue teapot" not in bodies[1].rpartition("Otto's bicycle?")[2], "it is there already"
        assert "Otto's bicycle is green." in bodies[1]
