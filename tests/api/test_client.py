"""The Python client against the API that it is for."""

import asyncio
import contextlib
import json
import re
import socket
import traceback
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import pytest

import circadia
from circadia import CircadiaError, SyncClient
from circadia.api.app import openapi_document
from circadia.client.calls import Client
from circadia.clock import SystemClock
from circadia.errors import (
    HTTP_STATUS,
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    PreconditionFailed,
    StorageUnavailable,
    TooLarge,
    Unauthenticated,
    Unreachable,
)
from circadia.schemas.fleet import HoldList
from tests.api.service import ADMIN, Service

NOTHING_HELD: Any = {"holds": [], "total": 0, "elsewhere": [], "total_elsewhere": 0}


async def test_it_runs_a_team_from_its_making_to_its_end(client: Client) -> None:
    made = await client.create_session(
        "team",
        agents=[{"name": "lead"}, {"name": "writer", "wake_events": ["mentioned"]}],
        threads=[{"name": "notes", "participants": ["lead"]}],
        all_but=["lead"],
    )
    assert [agent.sleeping for agent in made.agents] == [False, True]
    assert [thread.participants for thread in made.threads] == [["lead"]]
    assert [session.name for session in await client.list_sessions()] == ["default", "team"]
    helper = await client.create_agent(
        "team", "helper", description="helps", sleep_events=["agent_started"], policy={"models": ["gpt-4o-mini"]}
    )
    assert (helper.sleeping, helper.token.startswith("circadia-agent-")) == (True, True)
    assert [agent.name for agent in await client.list_agents("team")] == ["helper", "lead", "writer"]
    states = await client.list_agent_states(["team:lead", "team:writer"])
    assert [(each.reference, each.sleeping) for each in states] == [("team:lead", False), ("team:writer", True)]
    changed = await client.change_agent("team", "helper", description="is of use", wake_events=["mentioned"])
    assert (changed.description, changed.wake_events) == ("is of use", ["mentioned"])
    assert await client.show_agent("team", "helper") == changed
    assert await client.rotate_token("team", "helper") != helper.token
    await client.delete_agent("team", "helper")
    assert [agent.name for agent in (await client.show_session("team")).agents] == ["lead", "writer"]
    assert (await client.close_session("team")).status == "closed"
    assert [each.status for each in await client.list_sessions(closed=True)] == ["open", "closed"]


async def test_it_puts_to_sleep_and_wakes(client: Client) -> None:
    for name in ("ann", "bob"):
        await client.create_agent("default", name)
    assert (await client.set_sleeping("default", "ann", True)).sleeping is True
    assert (await client.sleeping("default", "ann")).generation == 1
    assert [each.agent for each in await client.set_many_sleeping("default", True)] == ["ann", "bob"]
    assert [each.sleeping for each in await client.set_many_sleeping("default", False, ["bob"])] == [False]
    assert await client.list_holds(session="default", agent="ann") == HoldList(**NOTHING_HELD)


async def test_it_talks_in_threads(client: Client) -> None:
    for name in ("ann", "bob"):
        await client.create_agent("default", name)
    thread = (await client.create_thread("default", "notes", ["ann"])).id
    assert (await client.add_participant("default", thread, "bob")).participants == ["ann", "bob"]
    said = await client.send_message("default", thread, "please start", ["bob"], sender="ann")
    assert (said.sender, said.mentions) == ("ann", ["bob"])
    assert await client.list_messages("default", thread) == [said]
    assert await client.list_messages("default", thread, after=said.number) == []
    await client.remove_participant("default", thread, "bob")
    assert (await client.close_thread("default", thread, "done")).summary == "done"
    assert [each.status for each in await client.list_threads("default")] == ["closed"]
    assert await client.list_threads("default", closed=False) == []


async def test_it_reads_the_usage_and_the_record(client: Client) -> None:
    await client.create_agent("default", "ann")
    report = await client.usage("model", since="2026-01-01", session="default")
    assert (report.group_by, report.usage, report.total.calls) == ("model", [], 0)
    assert [event.type for event in await client.list_events(types=["agent_created"], agent="ann")] == ["agent_created"]
    assert [event.type for event in await client.list_events(order="newest", limit=1)] == ["agent_created"]


@pytest.mark.spec("UI-07")
async def test_it_changes_settings_only_if_they_are_as_it_has_read_them(client: Client) -> None:
    await client.create_agent("default", "ann")
    await client.create_bank("notes")
    coordination, schedule = await client.show_coordination("ann"), await client.show_schedule("ann")
    agent, bank = await client.show_agent("default", "ann"), await client.show_bank("notes")
    night = [{"start_time": "22:00", "end_time": "06:00"}]
    tried = await client.set_schedule("ann", blackouts=night, dry_run=True, if_match=schedule.etag)
    assert await client.show_schedule("ann") == schedule
    changed = await client.change_coordination("ann", {"on_busy": "refuse"}, if_match=coordination.etag)
    reset = await client.reset_coordination("ann", "on_busy", if_match=changed.etag)
    assert reset.etag == coordination.etag
    assert (await client.set_schedule("ann", blackouts=night, if_match=schedule.etag)).etag == tried.etag
    await client.change_agent("default", "ann", description="writes", if_match=agent.etag)
    await client.change_bank("notes", description="of ann", if_match=bank.etag)
    for stale in (
        client.change_coordination("ann", {"on_busy": "refuse"}, if_match=coordination.etag),
        client.reset_coordination("ann", "on_busy", if_match=coordination.etag),
        client.set_schedule("ann", routines=[], if_match=schedule.etag),
        client.change_agent("default", "ann", description="reads", if_match=agent.etag),
        client.change_bank("notes", description="of bob", if_match=bank.etag),
    ):
        with pytest.raises(PreconditionFailed, match="read it again, then write"):
            await stale


async def test_an_agents_token_opens_the_agents_doors(service: Service) -> None:
    token = await service.agent("ann")
    async with Client(service.url + "/", token) as own:
        assert (await own.set_sleeping("default", "ann", True)).actor == "ann"
        with pytest.raises(Forbidden):
            await own.list_sessions()


async def test_each_problem_becomes_the_error_of_its_code(service: Service, client: Client) -> None:
    with pytest.raises(NotFound, match="no session 'nowhere'"):
        await client.show_session("nowhere")
    with pytest.raises(Conflict):
        await client.close_session("default")
    with pytest.raises(InvalidRequest, match="wake_events"):
        await client.create_agent("default", "ann", wake_events=["nap"])
    with pytest.raises(TooLarge):
        await client.send_message("default", "t", "x" * 2_000_000)
    with pytest.raises(NotFound):
        await client.sleeping("../..", "a/b?c#d")
    async with Client(service.url, "wrong") as stranger:
        with pytest.raises(Unauthenticated):
            await stranger.list_sessions()
    await service.parts.store.close()
    with pytest.raises(StorageUnavailable) as told:
        await client.list_sessions()
    assert told.value.retry_after_seconds == 1.0


async def answering(answer: bytes) -> tuple[asyncio.Server, str]:
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answers, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    ("status", "kind"), [(421, "misdirected"), (403, "forbidden"), (503, "storage_unavailable"), (418, "error")]
)
async def test_an_answer_without_a_code_is_judged_by_its_status(status: int, kind: str) -> None:
    server, url = await answering(b"HTTP/1.1 %d X\r\ncontent-length: 5\r\nconnection: close\r\n\r\nsorry" % status)
    async with server, Client(url, ADMIN, max_retries=0) as client:
        with pytest.raises(CircadiaError, match="sorry") as told:
            await client.list_sessions()
    assert told.value.code == kind


async def test_what_is_no_circadia_is_told_as_such() -> None:
    server, url = await answering(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>")
    async with server, Client(url, ADMIN) as client:
        with pytest.raises(Unreachable, match="check the address"):
            await client.list_sessions()


def answer(body: bytes, kind: bytes = b"application/json") -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
    return head % (kind, len(body)) + body


async def test_what_a_newer_server_adds_is_ignored() -> None:
    server, url = await answering(answer(json.dumps({**NOTHING_HELD, "oldest": {"of": "tomorrow"}}).encode()))
    async with server, Client(url, ADMIN) as client:
        assert await client.list_holds() == HoldList(**NOTHING_HELD)


async def test_an_answer_that_does_not_fit_is_told_by_its_place_and_without_its_values() -> None:
    body = b'{"agent": "ann", "token": ["circadia-agent-secret"]}'
    server, url = await answering(answer(body))
    async with server, Client(url, ADMIN) as client:
        with pytest.raises(Unreachable, match=r"AgentToken\.token: .* same version") as told:
            await client.rotate_token("default", "ann")
    assert "secret" not in "".join(traceback.format_exception(told.value))


class Flaky:
    """A server that answers the first requests with these statuses, and later ones that nothing is held."""

    def __init__(self, *statuses: int, retry_after: str = "0") -> None:
        self._statuses = list(statuses)
        self._retry_after = retry_after
        self.bodies: list[bytes] = []

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncGenerator[str]:
        async with await asyncio.start_server(self._answer, "127.0.0.1", 0) as server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        self.bodies.append(await reader.readexactly(int(length[1]) if length else 0))
        status = self._statuses.pop(0) if self._statuses else 200
        body = json.dumps(NOTHING_HELD).encode() if status == 200 else b"busy"
        writer.write(
            b"HTTP/1.1 %d X\r\nretry-after: %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            b"connection: close\r\n\r\n%s" % (status, self._retry_after.encode(), len(body), body)
        )
        writer.close()


async def test_a_read_is_sent_again_after_a_temporary_failure() -> None:
    flaky = Flaky(503, 429, 502)
    async with flaky.open() as url, Client(url, ADMIN) as client:
        assert await client.list_holds() == HoldList(**NOTHING_HELD)
    assert len(flaky.bodies) == 4


@pytest.mark.parametrize(
    ("flaky", "retries"),
    [(Flaky(503, 503), 1), (Flaky(404), 3), (Flaky(503, retry_after="61"), 3)],
    ids=["as often as told", "never what stays wrong", "not after more than a minute"],
)
async def test_retries_end(flaky: Flaky, retries: int) -> None:
    async with flaky.open() as url, Client(url, ADMIN, max_retries=retries) as client:
        with pytest.raises(CircadiaError):
            await client.list_holds()
    assert len(flaky.bodies) == (2 if retries == 1 else 1)


class HurriedClock(SystemClock):
    """A clock that notes pauses instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


async def test_the_pause_before_a_retry_doubles_up_to_five_seconds() -> None:
    clock = HurriedClock()
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        async with Client(url, ADMIN, max_retries=7, clock=clock) as client:
            with pytest.raises(Unreachable):
                await client.list_holds()
    assert clock.pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


async def test_a_pause_that_a_server_states_as_no_number_is_the_clients_own() -> None:
    clock, flaky = HurriedClock(), Flaky(503, retry_after="²")
    async with flaky.open() as url, Client(url, ADMIN, clock=clock) as client:
        assert await client.list_holds() == HoldList(**NOTHING_HELD)
    assert clock.pauses == [0.2]


async def test_a_change_is_sent_again_only_with_a_key_and_unchanged() -> None:
    for key, times in ((None, 1), ("once", 2)):
        flaky = Flaky(503)
        async with flaky.open() as url, Client(url, ADMIN) as client:
            with pytest.raises(CircadiaError):
                await client.wake_agent("ann", "user_request", "look", key=key)
        assert len(flaky.bodies) == times
        assert len(set(flaky.bodies)) == 1


async def test_times_may_be_datetimes(service: Service, client: Client) -> None:
    day = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert await client.usage(since=day) == await client.usage(since="2026-01-31T12:00:00+00:00")
    await client.create_bank("team")
    assert (await client.forget_episodes("team", since=day, until=day)).episodes == 0


@pytest.mark.spec("SHIP-15")
async def test_a_program_without_an_event_loop_has_the_same_methods(service: Service) -> None:
    def work() -> tuple[bool, list[int]]:
        with SyncClient(service.url, ADMIN) as client:
            client.create_agent("default", "ann")
            client.set_sleeping("default", "ann", True)
            state = client.wait_until_sleeping("default", "ann", timeout_seconds=60)
            events = client.events(0)
            numbers = [next(events).number, next(events).number]
            events.close()
            with pytest.raises(NotFound):
                client.show_agent("default", "bob")
            return state.sleeping, numbers

    sleeping, numbers = await asyncio.to_thread(work)
    assert sleeping
    assert numbers == sorted(numbers)


async def test_nobody_there_is_told_with_what_to_do() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        async with Client(f"http://127.0.0.1:{bound.getsockname()[1]}", ADMIN, max_retries=0) as client:
            with pytest.raises(Unreachable, match="is `circadia serve` running"):
                await client.list_sessions()
            with pytest.raises(Unreachable):
                await anext(client.events())


async def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        async with Client(f"http://127.0.0.1:{bound.getsockname()[1]}", ADMIN, timeout=0.05, max_retries=0) as client:
            with pytest.raises(Unreachable, match="no answer"):
                await client.list_sessions()


async def test_a_client_that_is_not_open_says_so() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await Client("http://127.0.0.1:1", ADMIN).list_sessions()


def test_the_package_exports_the_client_and_the_root_of_the_errors() -> None:
    assert set(circadia.__all__) == {"Client", "CircadiaError", "SyncClient"}
    assert not hasattr(circadia, "Server")
    assert all(issubclass(kind, CircadiaError) for kind in HTTP_STATUS)


def test_there_is_a_method_for_each_operation() -> None:
    paths = openapi_document()["paths"]
    names: set[str] = {each["operationId"] for item in paths.values() for each in item.values()}
    renamed = {"get_sleeping": "sleeping", "follow_events": "events", "report_usage": "usage"}
    assert not [name for name in names if not hasattr(Client, renamed.get(name) or name)]
