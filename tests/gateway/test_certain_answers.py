"""What is said at a gateway keeps its bank's ready answers from being served at once, until it is read (ANS-20)."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from circadia.testing.upstream import MockUpstream
from tests.gateway.bound_agent import chat, fenced, token_of
from tests.gateway.readied import ASKED, OTHER, SAID, ReadyAnswerServer, readied
from tests.interaction.live import KEY

pytestmark = [pytest.mark.spec("ANS-20"), pytest.mark.usefixtures("unhurried")]

MOVED = "We have moved to Lisbon."


async def test_after_a_turn_the_answer_is_a_hint_beside_that_turn_until_it_is_read(tmp_path: Path) -> None:
    async with readied(tmp_path) as ann:
        ann.judges = False
        await ann.put(await ann.frame(chat(OTHER)))
        assert (await ann.ask(chat(ASKED))).outcome == "hit"
        assert (await ann.ask(chat(ASKED))).outcome == "hit", "neither a served question nor its answer is a turn"
        ann.at.upstream.next(text="Congratulations on the move.")
        await ann.ask(chat(MOVED))
        assert (await ann.ask(chat(ASKED))).outcome == "hint"
        shown = fenced(ann.sent)
        assert SAID in shown
        assert "what was said later counts more" in shown
        assert shown.index(SAID) < shown.index("Congratulations on the move."), "the newest turn"
        assert shown.count("Congratulations on the move.") == 1
        ann.at.upstream.next(text="It is a long way. " * 200)
        await ann.ask(chat("How far is it?"))
        assert (await ann.ask(chat(ASKED))).outcome == "hint"
        behind = fenced(ann.sent).partition(SAID)[2].partition("[…]")[0]
        assert 300 < len(behind) < 500, "of a long turn the beginning"
        assert "It is a long way." in behind
        await ann.read()
        assert (await ann.ask(chat(ASKED))).outcome == "hit"


async def test_a_turn_counts_before_its_answer_has_come(tmp_path: Path) -> None:
    others = {"ben": {"bank": "memory"}}
    async with readied(tmp_path, others=others) as ann:
        ann.judges = False
        await ann.put(await ann.frame(chat(OTHER)))
        ann.at.upstream.gate.clear()
        sent = ann.sends
        waiting = asyncio.create_task(ann.ask(chat(MOVED), token=token_of("ben"), waits=False))
        async with asyncio.timeout(60):
            while ann.sends == sent:
                await asyncio.sleep(0.01)
        asked = asyncio.create_task(ann.ask(chat(ASKED), waits=False))
        async with asyncio.timeout(60):
            while ann.sends == sent + 1:
                await asyncio.sleep(0.01)
        ann.at.upstream.gate.set()
        assert (await asked).outcome == "hint"
        await waiting
        await ann.at.server.exchanges.flush()
        assert (await ann.ask(chat(ASKED))).outcome == "hint", "its row counts now"
        await ann.read()
        assert (await ann.ask(chat(ASKED))).outcome == "hit"


@pytest.mark.parametrize("ending", ["an error of the provider", "a caller who leaves"])
async def test_a_turn_that_came_to_nothing_is_no_turn(tmp_path: Path, ending: str) -> None:
    async with readied(tmp_path) as ann:
        ann.judges = False
        await ann.put(await ann.frame(chat(OTHER)))
        if ending == "an error of the provider":
            ann.at.upstream.next(status=400)
            assert (await ann.ask(chat(MOVED))).status == 400
        else:
            ann.at.upstream.gate.clear()
            sent = ann.sends
            gone = asyncio.create_task(ann.ask(chat(MOVED), waits=False))
            async with asyncio.timeout(60):
                while ann.sends == sent:
                    await asyncio.sleep(0.01)
            gone.cancel()
            async with asyncio.timeout(60):
                while not ann.at.upstream.cancelled:
                    await asyncio.sleep(0.01)
            ann.at.upstream.gate.set()
            await asyncio.gather(gone, return_exceptions=True)
        assert (await ann.ask(chat(ASKED))).outcome == "hit"


@pytest.mark.parametrize("right", [True, False])
async def test_a_server_has_new_turns_read_by_the_tiers_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, right: bool
) -> None:
    monkeypatch.setattr("circadia.sleeptime.engine.answer_reviewer.QUIET_SECONDS", 0.0)
    asked = list[str]()

    def model(request: dict[str, Any]) -> str:
        """Judge answers, where that is asked, and agree with all else."""
        if '"verdicts"' not in json.dumps(request.get("response_format", "")):
            return "I see."
        asked.append(json.dumps(request["messages"]))
        return json.dumps({"verdicts": [{"id": "a1", "right": right}]})

    sleeptime = {"when": "manual", "model": {"upstream": "openai", "name": "mind-1"}}
    async with MockUpstream(key=KEY, reply=model) as provider:
        async with readied(tmp_path, sections={"provider": provider, "sleeptime": sleeptime}) as ann:
            ann.judges = False
            await ann.put(await ann.frame(chat(OTHER)))
            await ann.ask(chat(MOVED))
            async with asyncio.timeout(60):
                while await tried(ann) == "hint":
                    await asyncio.sleep(0.01)
            assert await tried(ann) == ("hit" if right else "miss")
            (sleep,) = [each for each in await ann.at.usage("tier") if each["key"] == "sleep"]
    assert sleep["calls"] == len(asked) == 1
    assert all(text in asked[0] for text in (MOVED, ASKED, SAID))


async def tried(ann: ReadyAnswerServer) -> str:
    """Return what a question would get now; nothing is counted."""
    body = {"agent": "ann", "question": ASKED}
    status, told = await ann.at.rest("POST", "/banks/memory/answers/test", body)
    assert status == 200
    return told["outcome"]
