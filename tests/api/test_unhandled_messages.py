"""Messages that need a person, over all agents: the list, and a dead letter that is requeued."""

from collections.abc import Sequence
from typing import Any

import pytest

from circadia.ids import AgentId, MessageId
from tests.api.service import Service


async def send(service: Service, to: str, content: str, **more: str) -> str:
    return (await service.ok("POST", "/messages", {"to": to, "content": content, **more}))["message"]


async def kill(service: Service, agent: str, *messages: str) -> None:
    """Set messages aside, as the last interruption of a pulse does."""
    row = await service.ok("GET", f"/sessions/default/agents/{agent}")
    async with service.parts.store.begin_write() as tx:
        await tx.deliveries.mark_dead(AgentId(row["id"]), [MessageId(name) for name in messages], service.clock.now())


async def listed(service: Service, query: str = "") -> tuple[Sequence[tuple[str, str]], str | None]:
    page = await service.ok("GET", f"/messages{query}")
    return [(row["to"], row["content"]) for row in page["messages"]], page["before"]


@pytest.mark.spec("WAKE-30")
async def test_dead_letters_of_all_agents_are_listed_newest_first_page_by_page(service: Service) -> None:
    for name in ("ann", "bob"):
        await service.agent(name)
    letters = [await send(service, name, f"letter {number}") for number in range(3) for name in ("ann", "bob")]
    assert await listed(service) == ([], None)
    await kill(service, "ann", letters[0], letters[4])
    await kill(service, "bob", letters[3])
    dead = [("ann", "letter 2"), ("bob", "letter 1"), ("ann", "letter 0")]
    assert await listed(service) == (dead, None)
    assert await listed(service, "?limit=2") == (dead[:2], letters[3])
    assert await listed(service, f"?limit=2&before={letters[3]}") == (dead[2:], None)
    await service.ok("POST", f"/agents/ann/inbox/{letters[2]}/snooze", {"seconds": 60})
    await service.ok("POST", f"/agents/bob/inbox/{letters[1]}/ack")
    assert await listed(service, "?state=unread") == ([("bob", "letter 2")], None)
    assert await listed(service, "?state=unread&state=leased") == ([("bob", "letter 2"), ("ann", "letter 1")], None)
    assert (await service.call("GET", "/messages?state=handled")).code == "invalid_request"
    assert (await service.call("GET", "/messages?before=nothing")).code == "invalid_request"


@pytest.mark.spec("WAKE-23", "WAKE-30")
async def test_a_requeued_dead_letter_is_unread_again_and_a_repeat_does_nothing(service: Service) -> None:
    await service.agent("ann")
    letter = await send(service, "ann", "calm")
    assert (await service.ok("POST", f"/messages/{letter}/requeue"))["requeued"] == [], "it is unread"
    await kill(service, "ann", letter)
    person = await service.ok("POST", "/tokens", {"name": "pat", "role": "operator"})
    result = await service.ok("POST", f"/messages/{letter}/requeue", token=person["token"])
    assert result == {"message": letter, "requeued": ["ann"], "wakes": []}
    assert await listed(service) == ([], None)
    (row,) = (await service.ok("GET", "/messages?state=unread"))["messages"]
    assert (row["id"], row["to"], row["ended_at"]) == (letter, "ann", None)
    again = await service.ok("POST", f"/messages/{letter}/requeue")
    assert again == {"message": letter, "requeued": [], "wakes": []}
    (event,) = [each for each in await service.events("delivery") if each["data"]["state"] == "requeued"]
    assert (event["agent"], event["data"]["messages"], event["data"]["by"]) == ("ann", [letter], "operator/pat")


@pytest.mark.spec("WAKE-06", "WAKE-30")
async def test_a_requeued_message_of_high_priority_asks_for_a_wake_unless_its_reader_has_that_off(
    service: Service,
) -> None:
    for name in ("ann", "bob"):
        await service.agent(name, sleep_events=["agent_started"])
    body = {"wake_guardrails.cooldown_seconds": 0, "wake_on_high_priority": False}
    await service.ok("PATCH", "/agents/bob/coordination", body)
    letters = {name: await send(service, name, "red", priority="high") for name in ("ann", "bob")}
    for name, letter in letters.items():
        await service.ok("PUT", f"/sessions/default/agents/{name}/sleeping", {"sleeping": True})
        await kill(service, name, letter)
    service.clock.advance(3600)
    (wake,) = (await service.ok("POST", f"/messages/{letters['ann']}/requeue"))["wakes"]
    asked = await service.ok("GET", f"/wakes/{wake}")
    assert (asked["decision"], asked["reason"], asked["from"]) == ("admitted", "high message", "operator")
    assert not await service.asleep("ann")
    assert (await service.ok("POST", f"/messages/{letters['ann']}/requeue"))["wakes"] == [], "a repeat wakes nobody"
    assert (await service.ok("POST", f"/messages/{letters['bob']}/requeue"))["wakes"] == []
    assert await service.asleep("bob")


@pytest.mark.spec("WAKE-30")
async def test_a_dead_letter_that_needs_no_new_attempt_is_handled_by_a_person(service: Service) -> None:
    await service.agent("ann")
    letter = await send(service, "ann", "old news")
    await kill(service, "ann", letter)
    done = await service.ok("POST", f"/agents/ann/inbox/{letter}/ack")
    assert done == {"message": letter, "state": "handled", "changed": True}
    assert (await service.events("delivery"))[-1]["data"]["by"] == "operator"
    assert (await service.ok("GET", "/messages"))["messages"] == []
    assert (await service.ok("GET", "/overview"))["problems"] == []
    assert (await service.call("POST", f"/messages/{letter}/requeue")).code == "conflict"


@pytest.mark.spec("WAKE-30")
async def test_dead_letters_of_a_deleted_agent_ask_nobody_for_anything(service: Service) -> None:
    await service.agent("ann")
    await kill(service, "ann", await send(service, "ann", "calm"))
    await service.ok("DELETE", "/sessions/default/agents/ann")
    assert (await service.ok("GET", "/messages"))["messages"] == []
    overview = await service.ok("GET", "/overview")
    assert (overview["dead_letters"], overview["problems"]) == (0, [])


@pytest.mark.spec("WAKE-30")
@pytest.mark.parametrize("end", ["handled", "leased", "gone", "unknown"])
async def test_what_is_no_dead_letter_is_not_requeued(service: Service, end: str) -> None:
    await service.agent("ann")
    letter = await send(service, "ann", "calm")
    if end == "handled":
        await service.ok("POST", f"/agents/ann/inbox/{letter}/ack")
    elif end == "leased":
        await service.ok("POST", f"/agents/ann/inbox/{letter}/snooze", {"seconds": 60})
    elif end == "gone":
        await kill(service, "ann", letter)
        await service.ok("DELETE", "/sessions/default/agents/ann")
    answer: Any = await service.call("POST", f"/messages/{'nothing' if end == 'unknown' else letter}/requeue")
    assert (answer.status, answer.code) == ((404, "not_found") if end == "unknown" else (409, "conflict"))
