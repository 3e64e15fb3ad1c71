"""Why an agent sleeps or is awake, why a message woke it or did not, and who wakes whom in a circle (UI-18)."""

from typing import Any

import pytest

from circadia.wake.explanations import find_groups
from tests.api.service import Service

pytestmark = pytest.mark.spec("UI-18")


async def sleep(service: Service, *names: str) -> None:
    for name in names:
        await service.ok("PUT", f"/sessions/default/agents/{name}/sleeping", {"sleeping": True})


async def say(service: Service, thread: str, mentions: list[str], sender: str = "user") -> str:
    body = {"from": sender, "content": "please look", "mentions": mentions}
    return (await service.ok("POST", f"/sessions/default/threads/{thread}/messages", body))["id"]


async def recipients(service: Service, message: str) -> dict[str, Any]:
    answer = await service.ok("GET", f"/messages/{message}/wakes")
    return {each["agent"]: each for each in answer["recipients"]}


async def test_an_agent_says_since_when_why_and_what_wakes_it_next(service: Service) -> None:
    await service.agent("writer")
    await service.agent("lead")
    await service.ok("POST", "/sessions/default/threads", {"name": "notes", "participants": ["writer", "lead"]})
    await sleep(service, "writer")
    asleep = await service.ok("GET", "/agents/writer/why")
    assert (asleep["sleeping"], asleep["because"], asleep["wake"]) == (True, "by operator", None)
    assert asleep["since"] == service.clock.now().isoformat().replace("+00:00", "Z")
    assert asleep["next"] is None
    assert "mentioned" in asleep["wakers"]
    routine = {"name": "nightly", "cron": "0 3 * * *", "instructions": "tidy up"}
    await service.ok("PUT", "/agents/writer/schedule", {"routines": [routine]})
    assert (await service.ok("GET", "/agents/writer/why"))["next"]["by"] == "routine nightly"
    message = await say(service, "notes", ["writer"], "lead")
    awake = await service.ok("GET", "/agents/writer/why")
    assert (awake["sleeping"], awake["because"], awake["message"]) == (False, "mentioned by lead", message)
    assert (await service.ok("GET", f"/wakes/{awake['wake']}"))["reason"] == "mentioned"


async def test_a_mention_says_of_each_recipient_why_it_woke_or_did_not(service: Service) -> None:
    await service.agent("sleeper")
    await service.agent("awake")
    await service.agent("deaf", wake_events=[])
    await service.agent("other")
    await service.agent("guarded")
    everyone = ["sleeper", "awake", "deaf", "other", "guarded"]
    await service.ok("POST", "/sessions/default/threads", {"name": "notes", "participants": everyone})
    settings = {"guard_thread_events": True, "wakes_enabled": False}
    await service.ok("PATCH", "/agents/guarded/coordination", settings)
    await sleep(service, "sleeper", "deaf", "other", "guarded")
    message = await say(service, "notes", ["sleeper", "awake", "deaf", "guarded"])
    found = await recipients(service, message)
    assert (found["sleeper"]["decision"], found["sleeper"]["mentioned"]) == ("admitted", True)
    assert (found["awake"]["wake"], found["awake"]["why"]) == (
        None,
        "it was awake then, and reads the message by itself",
    )
    assert found["deaf"]["why"] == "its wake events lack `mentioned`"
    assert (found["guarded"]["decision"], found["guarded"]["rule"]) == ("refused", "enabled")
    assert "wakes_enabled is false" in found["guarded"]["why"]
    assert (found["other"]["mentioned"], found["other"]["why"].split(",")[0]) == (False, "not mentioned")
    letter = (await service.ok("POST", "/messages", {"to": "other", "content": "later", "priority": "low"}))["message"]
    assert "priority low asked for no wake" in (await recipients(service, letter))["other"]["why"]
    missing = await service.call("GET", "/messages/msg_none/wakes")
    assert (missing.status, missing.code) == (404, "not_found")


async def test_agents_that_wake_each_other_are_flagged_with_their_count_and_limit(service: Service) -> None:
    for name in ("ping", "pong", "lone"):
        await service.agent(name)
    limits = {"wake_guardrails": {"max_wakes_per_pair_per_day": 4}}
    await service.ok("PATCH", "/agents/pong/coordination", limits)
    await service.ok("POST", "/sessions/default/threads", {"name": "game", "participants": ["ping", "pong", "lone"]})
    for _ in range(3):
        for sender, target in (("ping", "pong"), ("pong", "ping")):
            await sleep(service, target)
            await say(service, "game", [target], sender)
    await sleep(service, "lone")
    await say(service, "game", ["lone"], "ping")
    (circle,) = (await service.ok("GET", "/wake-circles"))["circles"]
    assert (circle["agents"], circle["wakes"]) == (["ping", "pong"], 6)
    assert (circle["to"], circle["used"], circle["limit"]) == ("pong", 3, 4)
    assert len((await service.ok("GET", "/wake-circles?agent=ping"))["circles"]) == 1
    assert (await service.ok("GET", "/wake-circles?agent=lone"))["circles"] == []
    assert (await service.ok("GET", "/wake-circles?since=2030-01-01"))["circles"] == []


def test_a_circle_over_others_is_one_and_a_line_is_none() -> None:
    line = [("a", "b"), ("b", "c"), ("operator", "a")]
    assert find_groups(line) == []
    assert find_groups([*line, ("c", "a"), ("c", "d"), ("x", "y"), ("y", "x")]) == [["x", "y"], ["a", "b", "c"]]
    deep = [(str(number), str(number + 1)) for number in range(5_000)]
    assert [len(group) for group in find_groups([*deep, ("5000", "0")])] == [5_001]
