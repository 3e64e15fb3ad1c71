"""A conversation is kept out of memory by a header: nothing of it is stored, and context comes only if it says so."""

import json
from pathlib import Path

import pytest

from tests.gateway.bound_agent import CHAT, MESSAGES, RESPONSES, asking, bound, chat
from tests.gateway.readied import ASKED, OTHER, readied
from tests.gateway.test_memory_other_calls import begun, fetch

KEPT_OUT, READ = {"x-circadia-memory": "off"}, {"x-circadia-memory": "read"}

pytestmark = pytest.mark.spec("MEM-39")


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_conversation_with_the_header_is_not_stored_and_goes_up_as_it_is(
    tmp_path: Path, path: str, stream: bool
) -> None:
    async with bound(tmp_path, include_usage=False) as ann:
        await ann.make(block="Ann likes tea.")
        await ann.say(asking(path, "My boat is called Nora", stream=stream), path=path)
        before = await ann.texts()
        assert before[0] == ("user", "My boat is called Nora")
        raw = json.dumps(asking(path, "My boat is sold; I have had enough", stream=stream)).encode()
        await ann.say(raw, path=path, headers=KEPT_OUT)
        request = ann.at.upstream.requests[-1]
        assert request.body == raw
        assert request.header("x-circadia-memory") is None
        await ann.say(asking(path, "What is my boat called?", stream=stream), path=path, headers=READ)
        sent = json.dumps(ann.sent)
        assert "Ann likes tea." in sent
        assert "My boat is called Nora" in sent
        assert await ann.texts() == before


@pytest.mark.parametrize(("word", "stores"), [("on", True), ("no", False), ("OFF", False), ("", False)])
async def test_a_misspelt_word_keeps_the_conversation_out(tmp_path: Path, word: str, stores: bool) -> None:
    async with bound(tmp_path) as ann:
        await ann.make(block="Ann likes tea.")
        await ann.say(chat("My boat is called Nora"), headers={"x-circadia-memory": word})
        assert bool(await ann.texts()) is stores
        assert ("tea" in json.dumps(ann.sent)) is stores


async def test_only_calls_with_the_header_are_kept_out_and_what_came_before_stays(tmp_path: Path) -> None:
    async with bound(tmp_path, inject=False) as ann:
        ann.at.upstream.next(text="Noted: Nora.")
        await ann.say(chat("My boat is called Nora"))
        ann.at.upstream.next(text="What a pity.")
        talk = ["My boat is called Nora", "Noted: Nora.", "I am ill, tell nobody"]
        await ann.say(chat(*talk), headers=KEPT_OUT)
        ann.at.upstream.next(text="Have a good rest.")
        await ann.say(chat(*talk, "What a pity.", "I will see a doctor on Monday"))
        assert [text for _, text in await ann.texts()] == [
            "My boat is called Nora", "Noted: Nora.", "I will see a doctor on Monday", "Have a good rest.",
        ]  # fmt: skip


async def test_a_held_call_is_kept_out_after_the_wake(tmp_path: Path) -> None:
    async with bound(tmp_path) as ann:
        await ann.make(block="Ann likes tea.")
        await ann.at.sleeping(True)
        async with ann.at.call(ann.token, body=chat("My boat is called Nora"), headers=KEPT_OUT) as response:
            await ann.at.sleeping(False)
            assert response.status == 200
            await response.read()
        assert await ann.texts() == []
        assert "tea" not in json.dumps(ann.sent)


async def test_an_answer_in_the_background_is_kept_out_whoever_fetches_it(tmp_path: Path) -> None:
    async with bound(tmp_path, inject=False) as ann:
        answer = await begun(ann, "I am ill, tell nobody", headers=KEPT_OUT)
        await fetch(ann, answer)
        assert await ann.texts() == []


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("headers", [KEPT_OUT, READ])
async def test_no_ready_answer_is_looked_up_and_nothing_of_the_call_is_on_the_disk(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    async with readied(tmp_path, answer_mode="serve") as ann:
        frame = await ann.frame(chat(OTHER))
        await ann.put(frame)
        assert (await ann.ask(chat(ASKED))).outcome == "hit"
        assert (await ann.ask(chat(ASKED), headers=headers)).outcome is None
        for text in ("I am ill, tell nobody of Zanzibar", "Shall I see a doctor in Zanzibar?"):
            system = {"role": "system", "content": "You know the secrets of Zanzibar."}
            body = {**chat(text), "messages": [system, *chat(text)["messages"]]}
            assert (await ann.ask(body, headers=headers)).outcome is None
        await ann.at.server.answers.flush()
        await ann.at.server.journal.flush()
    assert not any(b"Zanzibar" in path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
