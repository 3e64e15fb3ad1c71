"""The record of events over REST: pages, and the stream."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from jsonschema import ValidationError

from circadia.api.events import EventTail
from circadia.errors import TargetGone
from circadia.records.event import Event, EventType
from circadia.stores.base import Tx
from tests.api.service import ADMIN, Service, serving
from tests.fixtures.documented import validate
from tests.watched_store import HookedStore


class Stream:
    """A reader of server-sent events."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer
        self.comments = 0

    async def block(self) -> dict[str, str]:
        """Return the fields of the next block that is no comment; none at the end of the stream."""
        while True:
            fields: dict[str, str] = {}
            while line := (await asyncio.wait_for(self.answer.content.readline(), 60)).decode().rstrip("\n"):
                name, _, value = line.partition(": ")
                self.comments += name == ""
                fields[name] = value
            if "" not in fields:
                return fields

    async def numbers(self, count: int) -> list[int]:
        """Return the numbers of the next events, which are also their ids."""
        found: list[int] = []
        while len(found) < count:
            fields = await self.block()
            if "data" in fields:
                event = json.loads(fields["data"])
                assert str(event["number"]) == fields["id"]
                found.append(event["number"])
        return found


class CountingStore(HookedStore):
    """Counts reads."""

    reads = 0

    def begin_read(self) -> AbstractAsyncContextManager[Tx]:
        self.reads += 1
        return super().begin_read()


@contextlib.asynccontextmanager
async def stream(service: Service, query: str = "", **headers: str) -> AsyncGenerator[Stream]:
    url = f"{service.url}/api/v1/events/stream{query}"
    async with service.http.get(url, headers={"Authorization": f"Bearer {ADMIN}", **headers}) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.content_type == "text/event-stream"
        made = Stream(answer)
        assert (await made.block())["retry"] == "1000"
        yield made


async def happen(service: Service, count: int, *, told: bool = True, session: str = "default", **given: Any) -> None:
    """Store events as the gate's journal does; without `told` the signal is lost."""
    data = {"door": "model", "what": "POST /v1/chat/completions"}
    async with service.parts.store.begin_write() as tx:
        await tx.events.add(
            [
                Event(
                    type=EventType.HELD,
                    at=service.clock.now(),
                    session=session,
                    data={**data, "hold": f"{place}"},
                    **given,
                )
                for place in range(count)
            ]
        )
        if told:
            tx.after_commit(lambda: service.parts.signals.publish("event", session))


@pytest.mark.spec("GATE-80")
async def test_the_record_is_numbered_and_read_page_by_page(service: Service) -> None:
    await service.agent("ann")
    await happen(service, 5, agent="ann")
    whole = (await service.ok("GET", "/events"))["events"]
    numbers = [event["number"] for event in whole]
    assert numbers == sorted(set(numbers))
    assert [event["type"] for event in whole] == ["session_created", "agent_created", *["held"] * 5]
    pages: list[dict[str, Any]] = []
    after = 0
    while page := (answer := await service.ok("GET", f"/events?after={after}&limit=2"))["events"]:
        pages += page
        after = answer["after"]
    assert pages == whole
    assert (await service.ok("GET", f"/events?after={after}"))["after"] == after


@pytest.mark.spec("GATE-80")
async def test_the_record_is_cut_by_session_agent_and_type(service: Service) -> None:
    await service.agent("ann")
    await service.ok("POST", "/sessions", {"name": "team", "agents": [{"name": "bob"}]})
    await happen(service, 2, agent="ann")
    await happen(service, 3, session="team", agent="bob")

    async def count(query: str) -> int:
        return len((await service.ok("GET", f"/events?{query}"))["events"])

    assert [await count("session=team"), await count("agent=ann"), await count("type=session_created")] == [5, 3, 2]
    assert [await count("type=held&session=default"), await count("type=held&type=session_created")] == [2, 7]


@pytest.mark.spec("GATE-80")
async def test_what_changes_in_threads_and_sleep_is_in_the_record(service: Service) -> None:
    await service.agent("ann", wake_events=["mentioned"])
    thread = (await service.ok("POST", "/sessions/default/threads", {"name": "t", "participants": ["ann"]}))["id"]
    path = f"/sessions/default/threads/{thread}"
    await service.ok("PUT", "/sessions/default/agents/ann/sleeping", {"sleeping": True})
    await service.ok("POST", f"{path}/messages", {"content": "secret words", "mentions": ["ann"]})
    await service.ok("DELETE", f"{path}/participants/ann")
    await service.ok("POST", f"{path}/close")
    events = await service.events()
    assert [event["type"] for event in events] == [
        "session_created", "agent_created", "thread_created", "participant_added", "sleep_start", "message",
        "sleep_stop", "wake", "participant_removed", "thread_closed",
    ]  # fmt: skip
    assert "secret words" not in str(events)


@pytest.mark.spec("GATE-80")
async def test_the_stream_tells_what_happens_from_now_on(service: Service) -> None:
    await happen(service, 3)
    async with stream(service) as live:
        await happen(service, 2)
        first = await live.numbers(2)
        await happen(service, 1)
        assert first + await live.numbers(1) == [event["number"] for event in (await service.events("held"))[3:]]


@pytest.mark.spec("GATE-80")
@pytest.mark.parametrize("by_header", [True, False])
async def test_the_stream_resumes_without_a_gap_or_a_double(service: Service, by_header: bool) -> None:
    await happen(service, 1300)
    every = [event["number"] for event in (await service.ok("GET", "/events?limit=10000"))["events"]]
    seen: list[int] = []
    for part in (1, 499, 500, 1):
        last = str(seen[-1] if seen else 0)
        query, headers = ("?after=999999", {"Last-Event-ID": last}) if by_header else (f"?after={last}", {})
        async with stream(service, query, **headers) as live:
            seen += await live.numbers(part)
    async with stream(service, f"?after={seen[-1]}") as live:
        await happen(service, 20)
        seen += await live.numbers(len(every) + 20 - len(seen))
    assert seen == [event["number"] for event in (await service.ok("GET", "/events?limit=10000"))["events"]]


@pytest.mark.spec("GATE-80")
async def test_many_writers_and_followers_agree_on_the_record(service: Service) -> None:
    async with stream(service, "?after=0") as one, stream(service, "?after=0") as other:
        writing = asyncio.gather(*(happen(service, 3) for _ in range(40)))
        seen = await asyncio.gather(one.numbers(121), other.numbers(121))
        await writing
    every = [event["number"] for event in (await service.ok("GET", "/events"))["events"]]
    assert seen[0] == seen[1] == every


@pytest.mark.spec("GATE-80")
async def test_a_follower_who_saw_nothing_yet_resumes_where_it_began(service: Service) -> None:
    url = f"{service.url}/api/v1/events/stream?type=held"
    async with service.http.get(url, headers={"Authorization": f"Bearer {ADMIN}"}) as answer:
        began = (await Stream(answer).block())["id"]
    await happen(service, 2)
    async with stream(service, **{"Last-Event-ID": began}) as live:
        assert len(await live.numbers(2)) == 2


@pytest.mark.spec("GATE-80")
async def test_the_stream_is_cut_by_session_agent_and_type(service: Service) -> None:
    await service.ok("POST", "/sessions", {"name": "team", "agents": [{"name": "bob"}]})
    async with stream(service, "?session=team&agent=bob&type=held&after=0") as live:
        await happen(service, 600, agent="ann")
        await happen(service, 2, session="team", agent="ann")
        await happen(service, 2, session="team", agent="bob")
        wanted = (await service.ok("GET", "/events?session=team&agent=bob&type=held"))["events"]
        assert await live.numbers(2) == [event["number"] for event in wanted]


@pytest.mark.spec("GATE-80")
async def test_all_who_stand_at_the_end_of_the_record_share_each_read_of_it(service: Service) -> None:
    store = CountingStore(service.parts.store)
    tail = EventTail(replace(service.parts, store=store))
    await happen(service, 600)  # more than is kept
    began = last = (await service.events())[-1]["number"]
    with tail.follow():
        assert await asyncio.gather(*(tail.wait_for_events(last) for _ in range(50))) == [[]] * 50
        assert store.reads == 1
        for round_ in range(1, 4):
            waiting = [asyncio.create_task(tail.wait_for_events(last)) for _ in range(50)]
            await service.clock.wait_for_sleepers(1)
            await happen(service, 2)
            told = [[each.event.number for each in found or ()] for found in await asyncio.gather(*waiting)]
            assert told == [[last + 1, last + 2]] * 50
            assert store.reads == 1 + round_
            assert [each.event.number for each in await tail.wait_for_events(last) or ()] == [last + 1, last + 2], (
                "it is kept"
            )
            assert await tail.wait_for_events(began - 1) is None, "so far back it is not"
            last += 2
        assert store.reads == 4
    assert service.clock.sleepers == 0


@pytest.mark.spec("GATE-80")
async def test_a_follower_who_stands_beyond_the_end_or_goes_takes_nothing_from_the_others(service: Service) -> None:
    await happen(service, 3)
    async with stream(service, "?after=999999"), stream(service) as live:
        async with stream(service):
            await service.clock.wait_for_sleepers(1)
            await happen(service, 1)
            first = await live.numbers(1)
        await happen(service, 1, session="team")
        for count in (1, 700, 1):
            await happen(service, count, agent="ann")
        seen = first + await live.numbers(703)
        assert seen == [event["number"] for event in (await service.ok("GET", "/events?limit=10000"))["events"]][-704:]


@pytest.mark.spec("GATE-80")
async def test_who_reads_slowly_holds_nobody_up_and_misses_nothing(service: Service) -> None:
    agent = "a" * 10_000
    await service.ok("POST", "/sessions", {"name": "team"})
    async with stream(service) as slow, stream(service, "?session=team") as other, stream(service) as live:
        seen: list[int] = []
        for _ in range(12):  # more than a page, and more than a connection holds
            await happen(service, 100, agent=agent)
            await happen(service, 1, session="team")
            seen += await live.numbers(101)
            await other.numbers(1)
        assert await slow.numbers(len(seen)) == seen
        await happen(service, 1)
        assert await slow.numbers(1) == await live.numbers(1)


@pytest.mark.spec("SHIP-07")
async def test_each_event_of_the_stream_has_the_schema_of_its_kind(service: Service) -> None:
    await service.ok("POST", "/sessions", {"name": "team", "agents": [{"name": "bob"}]})
    await happen(service, 1)
    async with stream(service, "?after=0") as live:
        events = [json.loads((await live.block())["data"]) for _ in range(4)]
    assert [event["type"] for event in events] == ["session_created", "session_created", "agent_created", "held"]
    item = ("paths", "/api/v1/events/stream", "get", "responses", "200", "content", "text/event-stream", "x-itemSchema")
    for event in events:
        validate(event, *item, "properties", "data", "contentSchema")
        with pytest.raises(ValidationError):
            validate({**event, "data": {"unknown": 1}, "type": "held"}, "components", "schemas", "EventView")


@pytest.mark.spec("GATE-80")
async def test_a_lost_signal_costs_a_sweep_only(service: Service) -> None:
    async with stream(service) as live:
        await service.clock.wait_for_sleepers(1)
        await happen(service, 1, told=False)
        service.clock.advance(1.0)
        assert len(await live.numbers(1)) == 1


async def test_a_silent_stream_is_kept_alive_by_comments(service: Service) -> None:
    async with stream(service) as live:
        for _ in range(31):
            await service.clock.wait_for_sleepers(1)
            service.clock.advance(1.0)
        await happen(service, 1)
        await live.numbers(1)
        assert live.comments == 2


async def test_the_stream_ends_when_the_server_stops(service: Service) -> None:
    async with stream(service) as live:
        await service.clock.wait_for_sleepers(1)
        service.parts.presence.stop(TargetGone("the server is stopping"))
        service.clock.advance(1.0)
        assert await asyncio.wait_for(live.answer.content.read(), 60) == b""


async def test_a_follower_who_goes_leaves_nothing_behind(service: Service) -> None:
    async with stream(service):
        await service.clock.wait_for_sleepers(1)
    async with asyncio.timeout(60):
        while service.clock.sleepers:
            await asyncio.sleep(0.01)


@pytest.mark.spec("GATE-80")
async def test_the_record_survives_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as service:
        await happen(service, 3)
        before = (await service.ok("GET", "/events"))["events"]
    async with serving(tmp_path) as service:
        async with stream(service, f"?after={before[1]['number']}") as live:
            assert await live.numbers(2) == [event["number"] for event in before[2:]]


@pytest.mark.parametrize("last", ["x", "-1", "1.5", "9" * 30, "9" * 5_000, "²"])
async def test_a_wrong_last_event_id_is_told(service: Service, last: str) -> None:
    answer = await service.call("GET", "/events/stream", headers={"Last-Event-ID": last})
    assert (answer.status, "Last-Event-ID" in answer.body["detail"]) == (422, True)


@pytest.mark.spec("GATE-80")
async def test_who_reads_slowly_misses_nothing_however_far_the_others_are_ahead(service: Service) -> None:
    """His stream stands still, full of what he has not read, while others are told of 8,000 events (40 MB) more."""
    text = "x" * 5_000
    async with stream(service) as slow, stream(service) as quick:
        told: list[int] = []
        for _ in range(16):
            await happen(service, 500, agent=text)
            told += await quick.numbers(500)
        assert told == list(range(told[0], told[0] + 8_000))
        assert await slow.numbers(8_000) == told


async def test_the_newest_events_are_listed_newest_first(service: Service) -> None:
    for name in ("ann", "bob", "cyd"):
        await service.ok("POST", "/sessions/default/agents", {"name": name})
    oldest = await service.ok("GET", "/events?type=agent_created")
    newest = await service.ok("GET", "/events?type=agent_created&order=newest&limit=2")
    assert newest["events"] == oldest["events"][:0:-1]
    assert newest["after"] == (await service.ok("GET", "/events"))["after"]
