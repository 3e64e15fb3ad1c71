"""Programs that know DjinnBot's Redis names talk to agents of a whole server."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from circadia.errors import ConfigError
from circadia.settings import settings_from
from tests.fixtures.redis import RedisServer, connect_redis
from tests.fixtures.server_process import CircadiaProcess
from tests.interaction.live import Live, live

pytestmark = pytest.mark.spec("WAKE-73", "CLU-40")
INBOX = "djinnbot:agent:ann:inbox"
EVENTS = "djinnbot:events:global"
ENTRY = {
    "from": "bob", "to": "ann", "message": "the build is red", "priority": "normal", "type": "help_request",
    "timestamp": "1767225600000", "metadata_run": "7",
}  # fmt: skip


@pytest.fixture
async def redis(redis_server: RedisServer) -> AsyncIterator[Any]:
    """A client of Redis."""
    async with connect_redis(redis_server) as client:
        yield client


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Return when it is so."""
    async with asyncio.timeout(60):
        while not await is_so():
            await asyncio.sleep(0.01)


async def acknowledged(redis: Any, stream: str = INBOX, group: str = "circadia") -> None:
    """Return once the group has dealt with all entries of the stream."""

    async def is_so() -> bool:
        last = await redis.xrevrange(stream, count=1)
        for each in await redis.xinfo_groups(stream) if last else ():
            if each["name"] == group:
                return each["pending"] == 0 and each["last-delivered-id"] == last[0][0]
        return False

    await until(is_so)


async def inbox(at: Live, agent: str = "ann") -> list[dict[str, Any]]:
    return (await at.rest("GET", f"/agents/{agent}/inbox?limit=500"))[1]["messages"]


async def published(redis: Any, kind: str, count: int, stream: str = EVENTS) -> list[dict[str, Any]]:
    """Return the published events of that type once there are so many."""
    events: list[dict[str, Any]] = []

    async def is_so() -> bool:
        events[:] = [json.loads(fields["data"]) for _, fields in await redis.xrange(stream)]
        events[:] = [event for event in events if event["type"] == kind]
        return len(events) >= count

    await until(is_so)
    return events


def bridge(redis_server: RedisServer, **more: object) -> dict[str, Any]:
    return {"redis_bridge": {"url": redis_server.url, **more}}


async def test_an_entry_becomes_one_message_of_its_sender(
    tmp_path: Path, redis_server: RedisServer, redis: Any
) -> None:
    async with live(tmp_path, **bridge(redis_server)) as at:
        await at.agent("bob")
        await at.agent()
        await redis.xadd(INBOX, ENTRY)
        await redis.xadd(INBOX, {**ENTRY, "from": "slack", "priority": "high", "type": "urgent", "subject": "CI"})
        await acknowledged(redis)
        second, first = await inbox(at)  # urgent ones come first
        assert (first["from"], first["content"], first["type"]) == ("bob", "the build is red", "help_request")
        assert (second["from"], second["content"]) == ("redis:slack", "CI\n\nthe build is red")
        assert (first["priority"], second["priority"], second["type"]) == ("normal", "urgent", "info")


async def test_reading_begins_where_djinnbot_has_stopped(tmp_path: Path, redis_server: RedisServer, redis: Any) -> None:
    read = await redis.xadd(INBOX, {**ENTRY, "message": "read"})
    await redis.set(f"{INBOX}:last_read", read)
    await redis.xadd(INBOX, {**ENTRY, "message": "unread"})
    async with live(tmp_path, **bridge(redis_server)) as at:
        await at.agent()
        await acknowledged(redis)
        assert [each["content"] for each in await inbox(at)] == ["unread"]


async def test_an_entry_that_was_taken_and_not_acknowledged_becomes_one_message_too(
    tmp_path: Path, redis_server: RedisServer, redis: Any
) -> None:
    await redis.xadd(INBOX, ENTRY)
    await redis.xgroup_create(INBOX, "circadia", id="0")
    assert await redis.xreadgroup("circadia", "circadia", {INBOX: ">"})
    async with live(tmp_path, **bridge(redis_server)) as at:
        await at.agent()
        await acknowledged(redis)
        assert len(await inbox(at)) == 1
        await redis.xgroup_setid(INBOX, "circadia", "0")  # as if none had ever been read
        await redis.xadd(INBOX, {**ENTRY, "message": "next"})
        await acknowledged(redis)
        assert [each["content"] for each in await inbox(at)] == ["the build is red", "next"]


@pytest.mark.timeout(300)
async def test_each_entry_becomes_one_message_although_the_server_is_killed(
    tmp_path: Path, redis_server: RedisServer, redis: Any
) -> None:
    async with CircadiaProcess(tmp_path, bridge(redis_server)) as server:
        await server.call("POST", "/sessions/default/agents", {"name": "ann"})
        for number in range(200):
            await redis.xadd(INBOX, {**ENTRY, "message": str(number)})
        for count in (1, 20, 60):

            async def have_come(count: int = count) -> bool:
                return (await server.call("GET", "/agents/ann/inbox"))["counts"]["unread"] >= count

            await until(have_come)
            await server.kill9()
            await server.start()
        await acknowledged(redis)
        messages = (await server.call("GET", "/agents/ann/inbox?limit=500"))["messages"]
        assert [each["content"] for each in messages] == [str(number) for number in range(200)]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"message": " "}, "a message needs content"),
        ({"message": "x" * 64_001}, "a message may have 64000 characters, this one has 64001"),
        ({"type": "rumour"}, "there is no message type 'rumour'; use one of info, review_request, help_request"),
        ({"priority": "dire"}, "there is no priority 'dire'; use one of low, normal, high, urgent"),
        ({"from": "ann"}, "'ann' may not send a message to itself"),
        ({"from": "x>>>\n<<<"}, "the sender 'x>>>\\n<<<' is no name; "),
    ],
)
async def test_an_entry_that_can_never_be_a_message_is_set_aside_with_the_reason(
    tmp_path: Path, redis_server: RedisServer, redis: Any, fields: Mapping[str, str], reason: str
) -> None:
    async with live(tmp_path, **bridge(redis_server)) as at:
        await at.agent()
        poison = {**ENTRY, **fields}
        entry = await redis.xadd(INBOX, poison)
        await redis.xadd(INBOX, ENTRY)
        await acknowledged(redis)
        ((_, dead),) = await redis.xrange(f"{INBOX}:dead")
        assert dead.pop("reason").startswith(reason)
        assert dead == {**poison, "entry": entry}
        assert [each["content"] for each in await inbox(at)] == ["the build is red"]


async def subscribed(redis: Any) -> None:
    """Return once the server hears wakes."""

    async def is_so() -> bool:
        return await redis.pubsub_numpat() >= 1

    await until(is_so)


async def wakes(at: Live) -> list[dict[str, Any]]:
    return (await at.rest("GET", "/wakes"))[1]["wakes"]


async def test_a_publication_wakes_an_agent_whose_held_call_goes_out(
    tmp_path: Path, redis_server: RedisServer, redis: Any
) -> None:
    async with live(tmp_path, **bridge(redis_server)) as at:
        token = await at.agent()
        await subscribed(redis)
        await at.sleeping(True)
        held = asyncio.create_task(at.answered(token))
        await at.held(1)
        await redis.publish("djinnbot:agent:ann:wake", "no JSON")
        await redis.publish("djinnbot:agent:nobody:wake", '{"from": "slack"}')
        await redis.publish("djinnbot:agent:ann:wake", '{"from": "slack", "reason": "blocker", "message": "look"}')
        async with asyncio.timeout(60):
            assert (await held)[0] == 200
        (wake,) = await wakes(at)
        assert (wake["from"], wake["reason"], wake["decision"]) == ("redis:slack", "blocker", "admitted")
        assert [each["content"] for each in await inbox(at)] == ["look"]


@pytest.mark.parametrize("wake_on_high_priority", [True, False])
async def test_a_publication_that_announces_an_entry_is_one_wake_with_it(
    tmp_path: Path, redis_server: RedisServer, redis: Any, wake_on_high_priority: bool
) -> None:
    agents = {"ann": {"coordination": {"wake_on_high_priority": wake_on_high_priority}}, "bob": {}}
    async with live(tmp_path, agents=agents, **bridge(redis_server)) as at:
        await subscribed(redis)
        entry = await redis.xadd(INBOX, {**ENTRY, "priority": "high"})
        call = json.dumps({"from": "bob", "priority": "high", "messageType": "help_request", "messageId": entry})
        for _ in range(2):
            await redis.publish("djinnbot:agent:ann:wake", call)
        await redis.publish("djinnbot:agent:bob:wake", '{"from": "slack"}')

        async def is_last_heard() -> bool:
            return any(each["agent"] == "bob" for each in await wakes(at))

        await until(is_last_heard)
        await acknowledged(redis)
        (wake,) = [each for each in await wakes(at) if each["agent"] == "ann"]
        assert wake["from"] == "bob"
        assert len(await inbox(at)) == 1


async def test_sleeps_wakes_pulses_and_messages_are_published_in_order(
    tmp_path: Path, redis_server: RedisServer, redis: Any
) -> None:
    async with live(tmp_path, **bridge(redis_server)) as at, redis.pubsub() as listening:
        await listening.subscribe("djinnbot:events:lifecycle")
        await listening.get_message(timeout=60)
        await at.agent()
        await at.sleeping(True)
        await at.rest("POST", "/messages", {"to": "ann", "content": "hello", "type": "info"})
        await at.rest("POST", "/wakes", {"to": "ann", "reason": "user_request"})
        await published(redis, "AGENT_STATE_CHANGED", 2)
        await published(redis, "AGENT_PULSE_STARTED", 1)
        events = [json.loads(fields["data"]) for _, fields in await redis.xrange(EVENTS)]
        assert [event["number"] for event in events] == sorted({event["number"] for event in events})
        asleep, message, *_ = events
        assert (asleep["type"], asleep["agentId"], asleep["toState"]) == ("AGENT_STATE_CHANGED", "ann", "idle")
        assert (message["type"], message["from"]) == ("AGENT_MESSAGE_RECEIVED", "operator")
        assert {event["type"] for event in events} == {
            "AGENT_STATE_CHANGED", "AGENT_MESSAGE_RECEIVED", "AGENT_WAKE", "AGENT_PULSE_STARTED",
        }  # fmt: skip
        heard = [json.loads((await listening.get_message(timeout=60))["data"]) for _ in events]
        assert heard == events


async def test_while_redis_is_away_nothing_waits_and_afterwards_nothing_is_missing(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    redis_server.stop()
    async with live(tmp_path, **bridge(redis_server)) as at:
        await at.agent()
        await at.rest("POST", "/messages", {"to": "ann", "content": "0"})
    for start in range(3):  # Redis comes and goes, and so does the server
        async with live(tmp_path, **bridge(redis_server)) as at:
            redis_server.start()
            async with connect_redis(redis_server) as redis:
                await redis.xadd(INBOX, {**ENTRY, "message": f"entry {start}"})
                await acknowledged(redis)
                await published(redis, "AGENT_MESSAGE_RECEIVED", 1 + 2 * start)
            redis_server.stop()
            await at.rest("POST", "/messages", {"to": "ann", "content": f"away {start}"})
    redis_server.start()
    async with live(tmp_path, **bridge(redis_server)) as at, connect_redis(redis_server) as redis:
        events = await published(redis, "AGENT_MESSAGE_RECEIVED", 7)
        written = await at.events("direct_message")
        assert [event["number"] for event in events] == [event["number"] for event in written]
        assert len(await inbox(at)) == 7


async def test_what_redis_has_lost_is_published_again_and_the_rest_is_not(
    tmp_path: Path, redis_server: RedisServer, redis: Any
) -> None:
    async with live(tmp_path, **bridge(redis_server)) as at:
        await at.agent()
        for number in range(3):
            await at.rest("POST", "/messages", {"to": "ann", "content": str(number)})
        *_, lost = await published(redis, "AGENT_MESSAGE_RECEIVED", 3)
    ((entry, _),) = await redis.xrevrange(EVENTS, count=1)
    await redis.xdel(EVENTS, entry)  # as after a failover to a replica that had not got it
    await redis.set(f"{EVENTS}:circadia", lost["number"] - 1)
    async with live(tmp_path, **bridge(redis_server)) as at:
        assert (await published(redis, "AGENT_MESSAGE_RECEIVED", 3))[-1] == lost
    await redis.flushall()
    async with live(tmp_path, **bridge(redis_server)) as at:
        await at.rest("POST", "/messages", {"to": "ann", "content": "next"})
        (event,) = await published(redis, "AGENT_MESSAGE_RECEIVED", 1)
        assert event["number"] > lost["number"]


async def test_two_servers_share_the_work_without_doing_any_twice(
    tmp_path: Path, postgres_url: str, redis_server: RedisServer, redis: Any
) -> None:
    sections: dict[str, Any] = {"server": {"database_url": postgres_url}, **bridge(redis_server)}
    async with live(tmp_path / "here", **sections) as here, live(tmp_path / "there", **sections) as there:
        await here.agent()
        for number in range(50):
            await redis.xadd(INBOX, {**ENTRY, "message": str(number)})
            await (here if number % 2 else there).rest("POST", "/messages", {"to": "ann", "content": "by REST"})
        await acknowledged(redis)
        await published(redis, "AGENT_MESSAGE_RECEIVED", 100)
        written = await here.events("direct_message")
        events = await published(redis, "AGENT_MESSAGE_RECEIVED", len(written))
        assert [event["number"] for event in events] == [event["number"] for event in written]
        assert len(written) == 100


@pytest.mark.setting(
    "redis_bridge.url_env", "redis_bridge.prefix", "redis_bridge.session", "redis_bridge.inbox_stream",
    "redis_bridge.wake_channel", "redis_bridge.group", "redis_bridge.events_stream", "redis_bridge.events_channel",
)  # fmt: skip
async def test_each_name_may_be_another(tmp_path: Path, redis_server: RedisServer, redis: Any) -> None:
    section = {
        "url_env": "REDIS_URL", "prefix": "team", "session": "night", "inbox_stream": "{prefix}/in/{agent}",
        "wake_channel": "{prefix}/wake/{agent}", "group": "readers", "events_stream": "{prefix}/log",
        "events_channel": "{prefix}/live",
    }  # fmt: skip
    environment = {"REDIS_URL": redis_server.url}
    async with live(tmp_path, environment=environment, redis_bridge=section) as at, redis.pubsub() as listening:
        await listening.subscribe("team/live")
        await listening.get_message(timeout=60)
        await at.rest("POST", "/sessions", {"name": "night"})
        await at.rest("POST", "/sessions/night/agents", {"name": "ann"})
        await at.agent()
        await subscribed(redis)
        await redis.xadd("team/in/ann", ENTRY)
        await acknowledged(redis, "team/in/ann", "readers")
        await redis.publish("team/wake/ann", '{"from": "slack"}')
        assert len(await inbox(at, "night:ann")) == 1
        ((message), *_) = await published(redis, "AGENT_MESSAGE_RECEIVED", 1, "team/log")
        assert message["agentId"] == "ann"
        assert json.loads((await listening.get_message(timeout=60))["data"]) == message
        (wake,) = await published(redis, "AGENT_WAKE", 1, "team/log")
        assert wake["from"] == "redis:slack"


@pytest.mark.setting("redis_bridge.url", "redis_bridge.max_entries")
async def test_streams_that_the_server_writes_are_trimmed(
    tmp_path: Path, redis_server: RedisServer, redis: Any
) -> None:
    async with live(tmp_path, redis_bridge={"url": redis_server.url, "max_entries": 10}) as at:
        await at.agent()
        for number in range(300):
            await redis.xadd(INBOX, {**ENTRY, "message": str(number) if number % 2 else " "})
        await acknowledged(redis)
        assert len(await inbox(at)) == 150
        assert await redis.xlen(f"{INBOX}:dead") <= 110  # Redis trims by a hundred

        async def are_published() -> bool:
            events = await redis.xrevrange(EVENTS, count=1)
            last = (await at.events("direct_message"))[-1]["number"]
            return bool(events) and json.loads(events[0][1]["data"])["number"] == last

        await until(are_published)
        assert await redis.xlen(EVENTS) <= 110


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({"url": "localhost:6379"}, "redis_bridge.url: this is no URL of a Redis server; write redis://"),
        ({"url": "redis://a", "url_env": "REDIS"}, "redis_bridge: url and url_env say the same; leave one out"),
        ({"inbox_stream": "inbox"}, "redis_bridge.inbox_stream: the name must hold `{agent}` once"),
    ],
)
def test_a_section_that_cannot_be_meant_is_refused(section: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        settings_from({"redis_bridge": section})
    assert str(refusal.value).startswith(told)
