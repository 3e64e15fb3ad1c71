"""In which frames questions are asked ahead, and what is said where they are not (ANS-21)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from circadia.stores.base import RecentScope
from tests.gateway.bound_agent import CHAT, asking, chat
from tests.gateway.readied import ASKED, OTHER, ReadyAnswerServer, readied
from tests.gateway.test_side_calls import TOOL, USER_TEXT, side

pytestmark = [pytest.mark.spec("ANS-21"), pytest.mark.usefixtures("unhurried")]

WRAPPED = f"Name this session:\n<session>{USER_TEXT}</session>"


async def frames(ann: ReadyAnswerServer) -> list[RecentScope]:
    """Return the bank's frames, all written."""
    await ann.at.server.answers.flush()
    bank = await ann.held()
    async with ann.store.begin_read() as tx:
        return list(await tx.answer_frames.find_recent_scopes(bank.id))


async def reason(ann: ReadyAnswerServer) -> str:
    """Return why nothing is asked ahead, as a person is told it; empty if something is."""
    await ann.at.server.answers.flush()
    status, told = await ann.at.rest("POST", "/banks/memory/answers/test", {"agent": "ann", "question": ASKED})
    assert (status, told["outcome"]) == (200, "miss")
    first: str = told["steps"][0]
    return first if first.startswith("frame: ") else ""


async def test_questions_are_asked_ahead_in_a_frame_once_a_second_different_one_has_come(tmp_path: Path) -> None:
    async with readied(tmp_path) as ann:
        assert "no call of this agent" in await reason(ann)
        for text in (OTHER, f"{OTHER} ", OTHER):
            assert (await ann.ask(chat(text))).outcome in ("miss", None)
        (only,) = await frames(ann)
        assert (only.is_open, "only one question" in await reason(ann)) == (False, True)
        assert (await ann.ask(chat("And which in the barn?"))).outcome == "miss"
        (only,) = await frames(ann)
        assert (only.is_open, await reason(ann)) == (True, "")


async def test_where_nothing_that_is_said_may_be_kept_two_questions_count_and_neither_is_written(
    tmp_path: Path,
) -> None:
    async with readied(tmp_path, capture=False) as ann:
        for text in (OTHER, "Where does the boat of Nora lie?"):
            assert (await ann.ask(chat(text))).outcome == "miss"
        (only,) = await frames(ann)
        assert only.is_open
    assert not any(b"boat of Nora" in path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


@pytest.mark.parametrize(
    ("capture", "added"),
    [
        (True, "<bash-stdout>OPENAI_API_KEY=sk-proj-NorasOwn0123456789abcdef</bash-stdout>"),
        (False, "<bash-input>grep NorasOwn boats.txt</bash-input>"),
        (False, "<command-name>/ask</command-name><command-args>about NorasOwn</command-args>"),
    ],
)
async def test_nothing_is_written_of_a_secret_in_what_a_program_adds_nor_of_what_may_not_be_kept(
    tmp_path: Path, capture: bool, added: str
) -> None:
    async with readied(tmp_path, capture=capture) as ann:
        for text in (OTHER, "And which in the barn?"):
            assert (await ann.ask(chat(f"{added}\n{text}"))).outcome == "miss"
        (only,) = await frames(ann)
        assert (only.is_open, "what a program adds" in await reason(ann)) == (False, True)
        for text in (OTHER, "And which in the barn?"):
            await ann.ask(chat(f"<environment_context>in /work</environment_context>\n{text}"))
        assert await reason(ann) == "", "other calls have a frame of their own"
    assert not any(b"NorasOwn" in path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


async def test_a_header_that_nobody_knows_is_named_and_its_value_is_not_kept(tmp_path: Path) -> None:
    async with readied(tmp_path) as ann:
        for number, text in enumerate((OTHER, "And which in the barn?")):
            await ann.ask(chat(text), headers={"x-shop": f"secret-of-{number}"})
        (only,) = await frames(ann)
        assert not only.is_open
        assert "header 'x-shop' is not known" in await reason(ann)
        assert "secret-of" not in only.scope.frame
        await ann.ask(chat(OTHER))
        await ann.ask(chat("And which in the barn?"))
        assert await reason(ann) == "", "calls without it have a frame of their own"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"tools": [TOOL], "tool_choice": "required"}, "forces the call of a tool"),
        ({"messages": [{"role": "system", "content": "x" * 300_000}, *chat(OTHER)["messages"]]}, "more than 262,144"),
    ],
)
async def test_what_else_keeps_questions_from_being_asked_ahead_is_said(
    tmp_path: Path, more: dict[str, Any], told: str
) -> None:
    async with readied(tmp_path) as ann:
        await ann.ask({**chat(OTHER), **more})
        assert told in await reason(ann)


async def test_a_prompt_that_changes_with_each_call_is_said_to_do_so(tmp_path: Path) -> None:
    async with readied(tmp_path) as ann:
        for number in range(3):
            system = {"role": "system", "content": f"Ticket {number} of this shop."}
            await ann.ask({**chat(OTHER), "messages": [system, *chat(f"{OTHER} {number}")["messages"]]})
        assert len(await frames(ann)) == 3
        told = await reason(ann)
        assert ("no two different questions" in told, "answers.volatile" in told) == (True, True)


async def test_a_chore_of_a_program_makes_no_frame_although_its_other_call_came_later(tmp_path: Path) -> None:
    async with readied(tmp_path) as ann:
        ann.at.upstream.gate.clear()
        title = asyncio.create_task(ann.ask(side(CHAT, WRAPPED)))
        async with asyncio.timeout(60):
            while not ann.at.upstream.requests:
                await asyncio.sleep(0.01)
        person = asyncio.create_task(ann.ask({**asking(CHAT, USER_TEXT, stream=False), "tools": [TOOL]}))
        async with asyncio.timeout(60):
            while len(ann.at.upstream.requests) < 2:
                await asyncio.sleep(0.01)
        ann.at.upstream.gate.set()
        await asyncio.gather(title, person)
        assert len(await frames(ann)) == 1, "that of the person's call"
        assert (await ann.counts())[2] == 1
