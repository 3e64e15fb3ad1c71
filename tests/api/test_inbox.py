"""Inboxes over REST: pages, search, marks, and the sender's view."""

from typing import Any

import pytest

from tests.api.service import Service


@pytest.fixture
async def tokens(service: Service) -> tuple[str, str]:
    """Make ann and bob; return their tokens."""
    return await service.agent("ann"), await service.agent("bob")


async def send(service: Service, token: str, content: str, **more: object) -> str:
    body = {"to": "bob", "content": content, **more}
    return (await service.ok("POST", "/messages", body, token=token))["message"]


async def inbox(service: Service, query: str = "", **who: str) -> Any:
    return await service.ok("GET", f"/agents/bob/inbox{query}", **who)


def texts(page: Any) -> list[str]:
    return [each["content"] for each in page["messages"]]


@pytest.mark.spec("WAKE-33")
async def test_an_inbox_is_read_page_by_page_urgent_ones_first(service: Service, tokens: tuple[str, str]) -> None:
    ann, _ = tokens
    for number in range(5):
        await send(service, ann, f"n{number}", priority="urgent" if number == 3 else "normal")
    page = await inbox(service, "?limit=2")
    assert (texts(page), page["counts"]["unread"]) == (["n3", "n0"], 5)
    page = await inbox(service, f"?limit=2&after={page['after']}")
    assert texts(page) == ["n1", "n2"]
    page = await inbox(service, f"?limit=2&after={page['after']}")
    assert (texts(page), page["after"]) == (["n4"], None)
    assert texts(await inbox(service, "?order=oldest")) == [f"n{number}" for number in range(5)]
    for wrong in ("?after=msg_nowhere", "?limit=0", "?order=newest", "?state=lost"):
        assert (await service.call("GET", f"/agents/bob/inbox{wrong}")).status == 422, wrong


@pytest.mark.spec("WAKE-30", "WAKE-34")
async def test_a_look_by_a_person_marks_nothing_and_one_by_the_agent_is_seen_by_the_sender(
    service: Service, tokens: tuple[str, str]
) -> None:
    ann, bob = tokens

    async def state() -> list[str]:
        return [each["state"] for each in (await service.ok("GET", "/agents/ann/sent", token=ann))["messages"]]

    message = await send(service, ann, "hello")
    await inbox(service)
    assert await state() == ["delivered"]
    assert texts(await inbox(service, token=bob)) == ["hello"]
    assert await state() == ["seen"]
    assert texts(await inbox(service)) == ["hello"]
    acked = await service.ok("POST", f"/agents/bob/inbox/{message}/ack", token=bob)
    assert acked == {"message": message, "state": "handled", "changed": True}
    assert (await service.ok("POST", f"/agents/bob/inbox/{message}/ack"))["changed"] is False
    assert await state() == ["handled"]
    assert texts(await inbox(service)) == []
    assert texts(await inbox(service, "?state=handled&state=unread")) == ["hello"]
    assert (await service.call("POST", f"/agents/ann/inbox/{message}/ack")).code == "not_found"
    assert (await service.call("POST", f"/agents/bob/inbox/{message}/ack", token=ann)).code == "forbidden"


@pytest.mark.spec("WAKE-30")
async def test_a_snoozed_message_says_when_it_is_unread_again(service: Service, tokens: tuple[str, str]) -> None:
    ann, bob = tokens
    message = await send(service, ann, "later")
    path = f"/agents/bob/inbox/{message}/snooze"
    assert await service.ok("POST", path, {"seconds": 60}, token=bob) == {
        "message": message, "until": "2026-01-01T00:01:00Z",
    }  # fmt: skip
    assert texts(await inbox(service)) == []
    assert [each["until"] for each in (await inbox(service, "?state=leased"))["messages"]] == ["2026-01-01T00:01:00Z"]
    for seconds in (0, -1, 2_592_001, "60", True, None):
        assert (await service.call("POST", path, {"seconds": seconds}, token=bob)).status == 422, seconds
    await service.ok("POST", f"/agents/bob/inbox/{message}/ack")
    assert (await service.call("POST", path, {"seconds": 60})).code == "conflict"


@pytest.mark.spec("WAKE-33")
async def test_a_search_takes_words_and_how_they_begin(service: Service, tokens: tuple[str, str]) -> None:
    ann, _ = tokens
    await send(service, ann, "100% of APPLES")
    await send(service, ann, "1000 pears")
    assert texts(await inbox(service, "?q=100%25")) == ["100% of APPLES", "1000 pears"]
    assert texts(await inbox(service, "?q=app+100")) == ["100% of APPLES"]
    assert texts(await inbox(service, "?q=apples")) == ["100% of APPLES"]
    assert texts(await inbox(service, "?q=plums")) == []


@pytest.mark.spec("WAKE-34")
async def test_the_senders_pages_never_part_the_readers_of_a_message(service: Service, tokens: tuple[str, str]) -> None:
    ann, _ = tokens
    names = [f"r{number}" for number in range(5)]
    for name in names:
        await service.agent(name)
    for number in range(2):
        await send(service, ann, f"direct {number}")
    await service.ok("POST", "/sessions/default/threads", {"name": "t", "participants": ["ann", *names]})
    await service.ok("POST", "/sessions/default/threads/t/messages", {"content": "to all"}, token=ann)
    seen: list[tuple[str, str]] = []
    query = "?limit=3"
    while True:
        page = await service.ok("GET", f"/agents/ann/sent{query}")
        seen += [(each["content"], each["to"]) for each in page["messages"]]
        if page["before"] is None:
            break
        query = f"?limit=3&before={page['before']}"
    assert sorted(seen[:5]) == [("to all", name) for name in names]
    assert seen[5:] == [("direct 1", "bob"), ("direct 0", "bob")]


@pytest.mark.spec("WAKE-34")
async def test_an_answer_names_what_it_answers_and_only_what_one_knows_can_be_answered(
    service: Service, tokens: tuple[str, str]
) -> None:
    ann, bob = tokens
    carl = await service.agent("carl")
    asked = await send(service, ann, "is it red?")
    await service.ok("POST", "/messages", {"to": "ann", "content": "no", "reply_to": asked}, token=bob)
    got = (await service.ok("GET", "/agents/ann/inbox"))["messages"]
    assert [(each["content"], each["reply_to"]) for each in got] == [("no", asked)]
    stolen = {"to": "ann", "content": "I know", "reply_to": asked}
    assert (await service.call("POST", "/messages", stolen, token=carl)).code == "not_found"
