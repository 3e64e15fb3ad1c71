"""What was agreed in a conversation is no part of a ready answer, so that none is served after it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from circadia.ids import AgentId
from circadia.records.bank import CaptureMode
from tests.gateway.bound_agent import CHAT, MESSAGES, RESPONSES, chat
from tests.gateway.readied import ASKED, OTHER, SAID, question, readied

pytestmark = pytest.mark.usefixtures("unhurried")

AGREED = (
    "Please answer only in French.",
    "I'm asking about the Berlin shop.",
    "Write all amounts in pounds, please.",
    "Pretend to be a pirate.",
    "Say three words at most.",
    "From now on answer only in French.",
    "Never say more than three words.",
)
OLD = "How old is the lighthouse?"


def talk(path: str, *said: str) -> dict[str, Any]:
    """Return a conversation in the path's API: the user's words and the model's in turn."""
    roles = ("user", "assistant")
    items = [{"role": roles[at % 2], "content": text} for at, text in enumerate(said)]
    key = "input" if path == RESPONSES else "messages"
    return {**question(path=path), key: items}


@pytest.mark.spec("ANS-03")
@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_after_anything_but_served_answers_an_answer_is_a_hint(tmp_path: Path, path: str) -> None:
    async with readied(tmp_path) as ann:
        made = await ann.put(await ann.frame(question(OTHER, path=path), path=path))
        for said in AGREED:
            ann.at.upstream.next(text="Very well.")
            assert (await ann.ask(talk(path, said), path=path)).outcome == "miss", said
            got = await ann.ask(talk(path, said, "Very well.", ASKED), path=path)
            assert (got.outcome, got.answer_id) == ("hint", made.id), said
        assert (await ann.ask(talk(path, ASKED), path=path)).outcome == "hit"
        ann.at.upstream.next(text="Very well.")
        assert (await ann.ask(talk(path, ASKED, SAID, AGREED[0]), path=path)).outcome == "miss"
        got = await ann.ask(talk(path, ASKED, SAID, AGREED[0], "Very well.", ASKED), path=path)
        assert got.outcome == "hint"


@pytest.mark.spec("ANS-03")
@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_a_conversation_of_served_answers_goes_on_as_long_as_it_is_sent_as_it_was(
    tmp_path: Path, path: str
) -> None:
    async with readied(tmp_path) as ann:
        frame = await ann.frame(question(OTHER, path=path), path=path)
        await ann.put(frame)
        await ann.put(frame, OLD, "Ninety years.")

        async def outcomes(*history: str) -> Sequence[str | None]:
            asked = [talk(path, *history[: at + 1]) for at in range(0, len(history), 2)]
            return [(await ann.ask(body, path=path)).outcome for body in asked]

        assert await outcomes(ASKED, SAID, OLD, "Ninety years.", ASKED) == ["hit"] * 3
        assert await outcomes(ASKED, "Coffee, black.", OLD) == ["hit", "hint"], "that was not the answer"
        assert await outcomes(OLD, "Ninety years.", ASKED) == ["hit", "hit"]
        invented = talk(path, "Is it late?", "It is.", ASKED)
        assert (await ann.ask(invented, path=path)).outcome == "hint", "it did not pass here"
        other = {"x-circadia-user": "eve"}
        assert (await ann.ask(talk(path, ASKED, SAID, OLD), path=path, headers=other)).outcome == "miss"


@pytest.mark.spec("ANS-03")
async def test_what_a_bank_does_not_keep_is_no_matter_to_a_conversation_of_served_answers(tmp_path: Path) -> None:
    async with readied(tmp_path) as ann:
        await ann.put(await ann.frame(chat(OTHER)))
        status, _ = await ann.at.rest("PATCH", "/banks/memory", {"policy": {"capture_mode": CaptureMode.EXPLICIT}})
        assert status == 200
        assert (await ann.ask(chat(ASKED))).outcome == "hit"
        assert (await ann.ask(chat(ASKED, SAID, ASKED))).outcome == "hit"
        ann.at.upstream.next(text="Bien.")
        assert (await ann.ask(chat(AGREED[0]))).outcome == "miss"
        assert (await ann.ask(chat(AGREED[0], "Bien.", ASKED))).outcome == "hint"


@pytest.mark.spec("ANS-04")
async def test_what_somebody_without_a_name_said_just_now_is_waited_for_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("circadia.gateway.memory.call_memory.SETTLE_SECONDS", 0.0)
    async with readied(tmp_path) as ann:
        eve = {"x-circadia-user": "eve"}
        await ann.put(await ann.frame(chat(OTHER), headers=eve))
        assert (await ann.ask(chat(ASKED), headers=eve)).outcome == "hit"
        async with ann.store.begin_write() as tx:  # nobody else writes meanwhile
            await tx.agents.get(AgentId("nobody"))
            for said, headers, expected in (("I quit tea", {}, "miss"), (ASKED, eve, "hint")):
                async with ann.at.call(ann.token, body=chat(said), headers=headers) as response:
                    assert response.headers["x-circadia-answer"] == expected
                    await response.read()


ABOUT_ONE = {
    "When does Ann go to the dentist?": "Ann goes to the dentist on Friday at nine.",
    "Which dentist does Ann go to?": "Ann goes to Dr. Okafor in Leeds.",
    "How much does Tom owe the garage?": "Tom owes the garage 240 pounds for the brakes.",
    "When must Tom pay the garage?": "Tom must pay the garage by 3 May.",
    "Where does Priya keep the spare keys?": "Priya keeps the spare keys in the blue tin by the door.",
    "What is the code of Priya's door?": "The code of Priya's door is 4417.",
}


@pytest.mark.spec("ANS-04")
@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_a_served_answer_leaves_the_others_about_the_same_person(tmp_path: Path, path: str) -> None:
    async with readied(tmp_path) as ann:
        frame = await ann.frame(question(OTHER, path=path), path=path)
        for asked, said in ABOUT_ONE.items():
            await ann.put(frame, asked, said)
        for stream in (False, True):
            for asked in ABOUT_ONE:
                got = await ann.ask(question(asked, path=path, stream=stream), path=path)
                assert got.outcome == "hit", asked
        ann.judges = False
        await ann.ask(talk(path, "Priya has another code for the door, 5520."), path=path)
        assert (await ann.ask(question("What is the code of Priya's door?", path=path), path=path)).outcome == "hint"


@pytest.mark.spec("ANS-04")
async def test_a_question_that_gets_a_hint_leaves_the_others(tmp_path: Path) -> None:
    async with readied(tmp_path, answer_mode="hint") as ann:
        frame = await ann.frame(chat(OTHER))
        for asked, said in ABOUT_ONE.items():
            await ann.put(frame, asked, said)
        for asked in ABOUT_ONE:
            ann.at.upstream.next(text="OK.")  # which is not kept
            assert (await ann.ask(chat(asked))).outcome == "hint", asked


@pytest.mark.spec("ANS-04")
async def test_nobody_can_say_that_what_he_remembers_is_no_news(tmp_path: Path) -> None:
    async with readied(tmp_path) as ann:
        told = {"text": "Tom must pay in June.", "kind": "ready"}
        status, said = await ann.at.rest("POST", "/banks/memory/episodes", told)
        assert (status, "served" in str(said)) == (422, True), said
