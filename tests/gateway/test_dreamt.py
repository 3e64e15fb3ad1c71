"""An agent is told, once and in one line, what changed in its memory while nobody spoke with it."""

import asyncio
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from circadia.gateway.memory.notices import ChangeNotice
from circadia.records.sleep_pass import PassStatus, Trigger
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.triggers.pass_lifecycle import TOPIC
from circadia.stores.signals.base import Signals
from circadia.stores.sqlite import open_sqlite
from tests.gateway.bound_agent import CHAT, BoundAgentServer, bound, chat, fenced
from tests.gateway.readied import ASKED, OTHER, readied

pytestmark = pytest.mark.usefixtures("unhurried")

_CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
NEVER: dict[str, Any] = {"idle_seconds": 3600, "frequency_turns": 0, "importance": 0, "model": "none"}
LINE = "While nobody spoke with you, this memory was worked over: 1 note was added."
SAID = (
    "My flat in Porto is near the river.",
    "The landlord of the flat wants 900 euros a month.",
    "The river floods the cellar of the flat each winter.",
    "I keep my bicycle on the balcony of the flat.",
    "The landlord will repair the cellar in spring.",
    "My flat in Porto has a kitchen with a blue door.",
)


class SignalRecorder(ChangeNotice):
    """Shows by what passes tell of themselves."""

    signals: list[Signals]

    def __init__(self, given: Signals, tier: SleeptimeService) -> None:
        super().__init__(given, tier)
        self.signals.append(given)


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[Signals]:
    """Return a list that the servers of the test put their signals into."""
    monkeypatch.setattr(SignalRecorder, "signals", [], raising=False)
    monkeypatch.setattr("circadia.server.memory_wiring.ChangeNotice", SignalRecorder)
    return SignalRecorder.signals


async def worked_over(ann: BoundAgentServer, signals: Signals) -> None:
    """Let nobody speak until a pass has begun by itself; return once its end is known to the agent's gateway."""
    over: asyncio.Queue[Mapping[str, object]] = asyncio.Queue()
    deaf = signals.listen(TOPIC, lambda _, told: over.put_nowait(told) if told["ended"] else None)
    idle = {"policy": {"sleeptime": {"idle_seconds": 1}}}  # only now: none begins between two turns of a slow machine
    assert (await ann.at.rest("PATCH", "/banks/memory", idle))[0] == 200
    async with asyncio.timeout(60):
        told = await over.get()
    assert (told["status"], told["trigger"]) == (PassStatus.SUCCEEDED, Trigger.IDLE)
    deaf()


@pytest.mark.spec("SLEEP-62", "SLEEP-29")
@pytest.mark.parametrize("tell", [True, False])
async def test_the_next_call_says_what_changed_while_nobody_spoke_and_the_one_after_does_not(
    tmp_path: Path, tell: bool, signals: list[Signals]
) -> None:
    sections: dict[str, Any] = {"sleeptime": {**NEVER, "tell": tell}}
    async with bound(tmp_path, sections=sections) as ann:
        history: list[str] = []
        for text in SAID:
            history += [text, f"I see {len(history)}"]
            ann.at.upstream.next(text=history[-1])
            await ann.say(chat(*history[:-1]))
        await worked_over(ann, signals[0])
        await ann.say(chat("How is my flat?"))
        assert (LINE in ann.sent["messages"][-1]["content"]) is tell
        await ann.say(chat("And how is my bicycle?"))
        assert LINE not in ann.sent["messages"][-1]["content"]


@pytest.mark.spec("SLEEP-62", "ANS-03")
async def test_what_changed_is_told_by_the_first_call_that_its_model_gets(
    tmp_path: Path, signals: list[Signals]
) -> None:
    async with readied(tmp_path) as ann:
        await ann.put(await ann.frame(chat(OTHER)))
        bank = await ann.held()

        def ended(**counts: int) -> None:
            signals[0].publish(TOPIC, bank.id, {"ended": True, "counts": counts})

        ended(add_note=1)
        assert (await ann.ask(chat(ASKED))).outcome == "hit"
        ann.at.upstream.next(text='{"same": [1]}')
        checked = await ann.ask(chat("What does Ann like drinking in the morning?"))
        assert (checked.outcome, len(await ann.uses())) == ("hit", 2)
        await ann.ask(chat("Who painted the shed?"))
        assert LINE in fenced(ann.sent)
        await ann.ask(chat("Who painted the boat?"))
        assert "worked over" not in fenced(ann.sent)
        ended(add_note=1)
        ended(add_note=1, flag=1)
        await ann.ask(chat("Who painted the house?"))
        assert "2 notes were added, 1 contradiction was found." in fenced(ann.sent)


REFUSED = {"error": {"message": "too many tokens", "type": "invalid_request_error", "code": "context_length_exceeded"}}
LONG = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "length"}],
    "usage": {"prompt_tokens": 7000, "completion_tokens": 5, "total_tokens": 7005},
}  # fmt: skip


@pytest.mark.spec("SLEEP-02")
@pytest.mark.parametrize(("status", "body"), [(400, REFUSED), (200, LONG)])
async def test_a_call_that_overflows_its_context_begins_a_pass_at_once(
    tmp_path: Path, status: int, body: dict[str, Any]
) -> None:
    async with bound(tmp_path, sections={"sleeptime": NEVER}) as ann:
        await ann.say(chat(SAID[0]))
        ann.at.upstream.next(status=status, body=body)
        async with ann.at.call(ann.token, CHAT, chat(SAID[0], "I see", SAID[1])) as response:
            assert response.status == status
            await response.read()
        bank = await ann.bank()
        assert bank is not None
        async with asyncio.timeout(60):
            while True:
                async with ann.store.begin_read() as tx:
                    found = await tx.passes.find_all(bank_id=bank.id)
                if found:
                    break
                await asyncio.sleep(0.05)  # it begins in the server, which tells nobody here
        assert [run.trigger for run in found] == [Trigger.OVERFLOW]


@pytest.mark.spec("SLEEP-42")
async def test_what_passes_made_is_credited_once_for_each_call_that_was_answered_with_it(
    tmp_path: Path, signals: list[Signals]
) -> None:
    async with bound(tmp_path, sections={"sleeptime": NEVER}) as ann:
        history: list[str] = []
        for text in SAID:
            history += [text, f"I see {len(history)}"]
            ann.at.upstream.next(text=history[-1])
            await ann.say(chat(*history[:-1]))
        await worked_over(ann, signals[0])
        asked = chat("How is my flat?")
        await ann.say(asked)
        assert "consolidation (person)" in fenced(ann.sent)
        tool = {"role": "assistant", "content": None, "tool_calls": [_CALL]}
        result = {"role": "tool", "tool_call_id": "call_1", "content": "dry"}
        await ann.say({**asked, "messages": [*asked["messages"], tool, result]})  # still carries it
        ann.at.upstream.next(status=400, body={"error": {"message": "no"}})
        async with ann.at.call(ann.token, CHAT, chat("Is my flat dry?")) as response:
            assert response.status == 400
        await ann.at.rest("GET", "/banks/memory/search?q=flat&layer=notes", token=ann.token)
        await ann.at.rest("GET", "/banks/memory/search?q=flat&layer=notes")  # a person looks: no call is spared
        bank = await ann.bank()
        assert bank is not None
    store = await open_sqlite(tmp_path / "circadia.db")  # what waited was counted when the server stopped
    async with store.begin_read() as tx:
        (found,) = await tx.benefits.find_all(bank.id, since=date(2026, 1, 1))
    await store.close()
    assert (found.operation, found.uses) == ("extract", 3)
    assert found.saved_tokens > 0, "a search that hands out the note alone stands for all that it rests on"
