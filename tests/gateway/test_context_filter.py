"""A call states by `x-circadia-where` which episodes may fit it."""

import json
from pathlib import Path

import pytest

from tests.gateway.bound_agent import bound, chat, fenced


@pytest.mark.spec("MEM-40")
async def test_only_episodes_that_meet_the_header_fit_a_call_and_it_stays_here(tmp_path: Path) -> None:
    async with bound(tmp_path, capture=False) as ann:
        await ann.make(block="Ann likes doors.")
        for text, tags in (
            ("The red door is 12.", ["red"]),
            ("The blue door is 34.", ["blue"]),
            ("The door creaks.", []),
        ):
            body = {"text": text, "speaker": "bea", "metadata": {"tags": tags}}
            assert (await ann.at.rest("POST", "/banks/memory/episodes", body))[0] == 201

        async def fits(where: str | None, turn: int) -> list[str]:
            headers = {"x-circadia-conversation": f"c{turn}", **({} if where is None else {"x-circadia-where": where})}
            await ann.say(chat("Which door?"), headers=headers)
            assert "Ann likes doors." in ann.sent["messages"][0]["content"]
            assert "x-circadia-where" not in ann.at.upstream.requests[-1].headers
            return [word for word in ("red", "blue", "creaks") if word in fenced(ann.sent)]

        assert await fits(None, 1) == ["red", "blue", "creaks"]
        assert await fits(json.dumps({"tags": "red"}), 2) == ["red"]
        assert await fits(json.dumps({"tags": {"not": "red"}}), 3) == ["blue", "creaks"]
        for turn, bad in enumerate(("tags=red", "{", '{"tags": {"near": 1}}'), 4):
            assert await fits(bad, turn) == []
