"""Threads and messages over REST, and what they do to sleep."""

from pathlib import Path

import pytest

from circadia.ids import AgentId
from tests.api.service import ADMIN, Service, serving

THREADS = "/sessions/default/threads"


async def opened(service: Service, *names: str, token: str = ADMIN) -> str:
    made = await service.ok("POST", THREADS, {"name": "topic", "participants": list(names)}, token=token)
    return f"{THREADS}/{made['id']}"


async def put_to_sleep(service: Service, *names: str) -> None:
    await service.ok("PUT", "/sessions/default/sleeping", {"sleeping": True, "agents": list(names)})


@pytest.mark.spec("GATE-10")
async def test_each_successful_add_wakes_the_one_who_waits_for_any(service: Service) -> None:
    ann = await service.agent("ann", wake_events=["added_to_any_thread"])
    await service.agent("bob")
    await put_to_sleep(service, "ann")
    thread = await opened(service, "ann")
    assert not await service.asleep("ann")
    await put_to_sleep(service, "ann")
    assert (await service.call("POST", f"{thread}/participants", {"agent": "ann"})).status == 409
    assert await service.asleep("ann")
    await service.ok("DELETE", f"{thread}/participants/ann")
    await service.ok("POST", f"{thread}/participants", {"agent": "ann"})
    assert not await service.asleep("ann")
    await put_to_sleep(service, "ann")
    await opened(service, "bob", token=ann)
    assert not await service.asleep("ann")


@pytest.mark.spec("GATE-10")
async def test_an_add_that_fails_wakes_nobody(service: Service) -> None:
    await service.agent("ann", wake_events=["added_to_any_thread"])
    await put_to_sleep(service, "ann")
    assert (await service.call("POST", THREADS, {"name": "t", "participants": ["ann", "nobody"]})).status == 404
    assert await service.asleep("ann")
    assert (await service.ok("GET", THREADS))["threads"] == []


@pytest.mark.spec("GATE-11")
async def test_a_first_time_happens_once_even_over_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as service:
        await service.agent("ann", wake_events=["added_to_thread_first_time"])
        await service.agent("bob", wake_events=["first_time_in_thread"])
        await put_to_sleep(service, "ann", "bob")
        thread = await opened(service, "ann", "bob")
        assert [await service.asleep(name) for name in ("ann", "bob")] == [False, False]
        for name in ("ann", "bob"):
            await service.ok("DELETE", f"{thread}/participants/{name}")
        await put_to_sleep(service, "ann", "bob")
    async with serving(tmp_path) as service:
        for name in ("ann", "bob"):
            await service.ok("POST", f"{thread}/participants", {"agent": name})
        assert [await service.asleep(name) for name in ("ann", "bob")] == [True, True]
        await opened(service, "ann", "bob")
        assert [await service.asleep(name) for name in ("ann", "bob")] == [True, False]


@pytest.mark.spec("GATE-12", "GATE-13")
async def test_a_mention_wakes_and_a_plain_message_waits(service: Service) -> None:
    await service.agent("ann", wake_events=["mentioned"])
    await service.agent("bob", wake_events=["added_to_any_thread"])
    thread = await opened(service, "ann", "bob")
    await put_to_sleep(service, "ann", "bob")
    await service.ok("POST", f"{thread}/messages", {"content": "hello all"})
    assert [await service.asleep(name) for name in ("ann", "bob")] == [True, True]
    said = await service.ok("POST", f"{thread}/messages", {"content": "hello you", "mentions": ["ann", "bob"]})
    assert (said["from"], said["mentions"]) == ("operator", ["ann", "bob"])
    assert [await service.asleep(name) for name in ("ann", "bob")] == [False, True]
    woken = (await service.events("sleep_stop"))[-1]
    assert (woken["agent"], woken["data"]["actor"]) == ("ann", "mentioned by operator")
    messages = (await service.ok("GET", f"{thread}/messages"))["messages"]
    assert [message["content"] for message in messages] == ["hello all", "hello you"]


@pytest.mark.spec("GATE-13")
async def test_waking_the_awake_is_nothing(service: Service) -> None:
    await service.agent("ann", wake_events=["mentioned"])
    thread = await opened(service, "ann")
    await service.ok("POST", f"{thread}/messages", {"content": "hello", "mentions": ["ann"]})
    assert await service.events("sleep_start", "sleep_stop") == []


@pytest.mark.spec("GATE-12", "GATE-72")
async def test_a_message_that_is_refused_wakes_nobody(service: Service) -> None:
    ann = await service.agent("ann")
    bob = await service.agent("bob", wake_events=["mentioned"])
    cat = await service.agent("cat", wake_events=["mentioned"])
    thread = await opened(service, "ann", "bob")
    await put_to_sleep(service, "bob", "cat")

    async def tries(token: str, **body: object) -> int:
        path = f"{thread}/messages"
        return (await service.call("POST", path, {"content": "hello", **body}, token=token)).status

    assert await tries(ann, mentions=["cat"]) == 422
    assert await tries(ann, mentions=["bob", "nobody"]) == 404
    assert await tries(ann, mentions=["bob", "ann"]) == 422
    assert await tries(bob, mentions=["bob"]) == 422
    assert await tries(cat, mentions=["bob"]) == 403
    assert await tries(ann, content=" ", mentions=["bob"]) == 422
    assert await tries(ann, mentions=["bob"], **{"from": "bob"}) == 403
    await service.ok("POST", f"{thread}/close")
    assert await tries(ann, mentions=["bob"]) == 409
    assert [await service.asleep(name) for name in ("bob", "cat")] == [True, True]
    assert (await service.ok("GET", f"{thread}/messages"))["messages"] == []


@pytest.mark.spec("GATE-72")
async def test_only_participants_and_the_operator_read_post_add_and_close(service: Service) -> None:
    ann = await service.agent("ann")
    bob = await service.agent("bob")
    thread = await opened(service, "ann")
    tries = (
        ("GET", f"{thread}/messages", None), ("POST", f"{thread}/messages", {"content": "hello"}),
        ("POST", f"{thread}/participants", {"agent": "bob"}), ("DELETE", f"{thread}/participants/ann", None),
        ("POST", f"{thread}/close", {"summary": "done"}),
    )  # fmt: skip
    for method, path, body in tries:
        answer = await service.call(method, path, body, token=bob)
        assert (answer.status, "ask to be added" in answer.body["detail"]) == (403, True)
    assert (await service.ok("GET", THREADS, token=bob))["threads"] == []
    assert len((await service.ok("GET", THREADS, token=ann))["threads"]) == 1
    await service.ok("POST", f"{thread}/messages", {"content": "hello"}, token=ann)
    closed = await service.ok("POST", f"{thread}/close", {"summary": "done"}, token=ann)
    assert (closed["status"], closed["summary"]) == ("closed", "done")


@pytest.mark.spec("GATE-20", "GATE-72")
async def test_closing_twice_is_an_error_and_fires_nothing(service: Service) -> None:
    await service.agent("ann", sleep_events=["last_thread_closed"])
    thread = await opened(service, "ann")
    await service.ok("POST", f"{thread}/close")
    assert await service.asleep("ann")
    await service.ok("PUT", "/sessions/default/agents/ann/sleeping", {"sleeping": False})
    again = await service.call("POST", f"{thread}/close")
    assert (again.status, again.code) == (409, "conflict")
    assert not await service.asleep("ann")


@pytest.mark.spec("GATE-20")
async def test_the_last_close_puts_those_to_sleep_who_are_left_with_none_the_closer_too(service: Service) -> None:
    ann = await service.agent("ann", sleep_events=["last_thread_closed"])
    await service.agent("bob", sleep_events=["last_thread_closed"])
    await service.agent("cat", sleep_events=["removed_from_last_thread"])
    first = await opened(service, "ann", "bob", "cat")
    second = await opened(service, "bob")
    await service.ok("POST", f"{first}/close", token=ann)
    assert [await service.asleep(name) for name in ("ann", "bob", "cat")] == [True, False, False]
    await service.ok("POST", f"{second}/close")
    assert await service.asleep("bob")


@pytest.mark.spec("GATE-20")
async def test_a_real_removal_from_the_last_open_thread_puts_to_sleep(service: Service) -> None:
    await service.agent("ann", sleep_events=["removed_from_last_thread"])
    await service.agent("bob")
    first, second, closed = [await opened(service, "ann") for _ in range(3)]
    await service.ok("POST", f"{closed}/close")
    await service.ok("DELETE", f"{first}/participants/ann")
    assert not await service.asleep("ann")
    assert (await service.call("DELETE", f"{second}/participants/bob")).status == 404
    assert (await service.call("DELETE", f"{first}/participants/ann")).status == 404
    assert (await service.call("DELETE", f"{closed}/participants/ann")).status == 409
    assert not await service.asleep("ann")
    await service.ok("DELETE", f"{second}/participants/ann")
    assert await service.asleep("ann")


async def test_a_thread_is_found_by_its_id_or_by_its_name_if_only_one_has_it(service: Service) -> None:
    await service.agent("ann")
    thread = await opened(service, "ann")
    await service.ok("POST", f"{THREADS}/topic/messages", {"content": "hello"})
    await opened(service, "ann")
    assert (await service.call("GET", f"{THREADS}/topic/messages")).status == 409
    assert len((await service.ok("GET", f"{thread}/messages"))["messages"]) == 1
    missing = await service.call("GET", f"{THREADS}/topik/messages")
    assert (missing.status, "did you mean 'topic'?" in missing.body["detail"]) == (404, True)


async def test_messages_are_read_page_by_page(service: Service) -> None:
    await service.agent("ann")
    thread = await opened(service, "ann")
    for number in range(5):
        await service.ok("POST", f"{thread}/messages", {"content": str(number), "from": "user"})
    seen: list[str] = []
    after = 0
    while page := (answer := await service.ok("GET", f"{thread}/messages?after={after}&limit=2"))["messages"]:
        seen += [message["content"] for message in page]
        assert {message["from"] for message in page} == {"user"}
        after = answer["after"]
    assert seen == ["0", "1", "2", "3", "4"]


async def test_threads_are_listed_with_or_without_the_closed(service: Service) -> None:
    await service.agent("ann")
    closed, _ = [await opened(service, "ann") for _ in range(2)]
    await service.ok("POST", f"{closed}/close")
    every = (await service.ok("GET", THREADS))["threads"]
    assert [thread["status"] for thread in every] == ["closed", "open"]
    assert [thread["id"] for thread in (await service.ok("GET", f"{THREADS}?closed=false"))["threads"]] == [
        every[1]["id"]
    ]


@pytest.mark.spec("GATE-71")
async def test_each_other_participant_gets_a_delivery_and_reading_the_thread_handles_none(service: Service) -> None:
    made = {
        name: await service.ok("POST", "/sessions/default/agents", {"name": name}) for name in ("ann", "bob", "cat")
    }
    thread = await opened(service, "ann", "bob")
    await service.ok("POST", f"{thread}/messages", {"content": "hello"}, token=made["ann"]["token"])
    await service.ok("POST", f"{thread}/messages", {"content": "hello", "from": "bob"})
    for token in (ADMIN, made["bob"]["token"]):
        assert len((await service.ok("GET", f"{thread}/messages", token=token))["messages"]) == 2
    async with service.parts.store.begin_read() as tx:
        unread = [await tx.deliveries.count_unread(AgentId(agent["id"])) for agent in made.values()]
    assert unread == [1, 1, 0]
