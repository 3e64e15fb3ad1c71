"""Streams of events as the Python client follows them: over drops, restarts and gaps, and to their end."""

import asyncio
import contextlib
import json
import re
import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from circadia import SyncClient
from circadia.client.calls import Client
from circadia.errors import Forbidden, TargetGone
from circadia.schemas.events import EventView
from tests.api.service import ADMIN, Service
from tests.api.test_client import HurriedClock, answer, answering

BUSY = b"HTTP/1.1 503 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Line:
    """A line to the service that can be cut."""

    def __init__(self, url: str) -> None:
        self._port = int(url.rsplit(":", 1)[1])
        self._ends: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.connections = 0
        self.url = ""

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncGenerator["Line"]:
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            self.cut()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Drop all connections."""
        for end in self._ends:
            end.transport.abort()
        self._ends.clear()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._ends |= {writer, far_writer}
        for one, other in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(_pump(one, other))
            self._tasks.add(task)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


@pytest.mark.spec("GATE-80")
async def test_following_goes_on_after_a_drop_without_a_gap_or_a_double(service: Service, client: Client) -> None:
    await service.agent("ann")

    async def happen(times: int) -> None:
        for asleep in [True, False] * times:
            await client.set_sleeping("default", "ann", asleep)

    async with Line(service.url).open() as line, Client(line.url, ADMIN) as far:
        seen: list[EventView] = []
        async with contextlib.aclosing(far.events(0)) as events:
            for _ in range(3):
                await happen(2)
                while len(seen) < len(await client.list_events()):
                    seen.append(await asyncio.wait_for(anext(events), 60))
                line.cut()
        assert line.connections == 3
    assert seen == await client.list_events()


@pytest.mark.spec("GATE-80")
async def test_following_from_now_on_misses_nothing_in_a_drop_before_the_first_event(
    service: Service, client: Client
) -> None:
    await service.agent("ann")
    async with Line(service.url).open() as line, Client(line.url, ADMIN) as far:
        async with contextlib.aclosing(far.events(types=["sleep_start"])) as events:
            first = asyncio.ensure_future(anext(events))
            await service.clock.wait_for_sleepers(1)
            line.cut()
            await client.set_sleeping("default", "ann", True)
            assert (await asyncio.wait_for(first, 60)).type == "sleep_start"


async def test_following_without_leave_is_refused_at_once(service: Service) -> None:
    token = await service.agent("ann")
    async with Client(service.url, token) as own:
        with pytest.raises(Forbidden):
            await anext(own.events())


async def test_events_that_a_server_no_longer_keeps_do_not_end_the_stream() -> None:
    head = b'{"number": 9, "type": "sleep_start", "at": "2026-01-31T12:00:00Z", '
    event = head + b'"session": null, "agent": null, "data": {}}'
    body = b'id: 1\n\nevent: gap\ndata: {"after":1,"oldest":9}\n\nid: 9\ndata: %s\n\n' % event
    server, url = await answering(answer(body, b"text/event-stream"))
    gaps: list[tuple[int, int]] = []
    async with server, Client(url, ADMIN) as client:
        followed = client.events(1, on_gap=lambda gap: gaps.append((gap.after, gap.oldest)))
        async with contextlib.aclosing(followed) as events:
            assert (await anext(events)).number == 9
        assert gaps == [(1, 9)]
        with pytest.raises(TargetGone, match="after 1 and before 9 have been deleted"):
            await anext(client.events(1))


class Lives:
    """A server of events that drops each of its connections; it answers them with these bodies, or 503 for none."""

    def __init__(self, *bodies: bytes) -> None:
        self._bodies = list(bodies)
        self.resumed: list[str] = []
        """What each connection asked to go on after."""

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncGenerator[str]:
        async with await asyncio.start_server(self._answer, "127.0.0.1", 0) as server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        last = re.search(rb"(?i)last-event-id: (\d+)", head)
        self.resumed.append(last[1].decode() if last else "")
        body = self._bodies.pop(0)
        writer.write(answer(body, b"text/event-stream") if body else BUSY)
        writer.close()


def sent_event(number: int) -> bytes:
    event: dict[str, Any] = {
        "type": "sleep_start",
        "at": "2026-01-31T12:00:00Z",
        "session": None,
        "agent": None,
        "data": {},
    }
    return b"id: %d\ndata: %b\n\n" % (number, json.dumps({"number": number, **event}).encode())


@pytest.mark.spec("GATE-80")
async def test_a_stream_is_resumed_over_a_restart_with_longer_pauses_until_an_event_comes() -> None:
    gap = b'event: gap\ndata: {"after":2,"oldest":5}\n\n'
    lives, clock = Lives(sent_event(1), b"", b"", sent_event(2) + gap, sent_event(5)), HurriedClock()
    async with lives.open() as url, Client(url, ADMIN, clock=clock) as client:
        async with contextlib.aclosing(client.events(0, on_gap=lambda _: None)) as events:
            assert [(await anext(events)).number for _ in range(3)] == [1, 2, 5]
    assert lives.resumed == ["0", "1", "1", "1", "2"]
    assert clock.pauses == [0.2, 0.4, 0.8, 0.2]


@pytest.mark.spec("SHIP-15")
async def test_who_leaves_an_iterator_or_its_client_without_an_event_loop_closes_its_connection() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    closed = threading.Event()

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + sent_event(9))
        with contextlib.suppress(OSError):
            await reader.read()
        closed.set()
        writer.close()

    def leave_the_loop(url: str) -> bool:
        with SyncClient(url, ADMIN) as client:
            for each in client.events(0):
                assert each.number == 9
                break
            return closed.wait(30)

    def leave_the_client(url: str) -> bool:
        with SyncClient(url, ADMIN) as client:
            events = client.events(0)
            assert next(events).number == 9
        assert next(events, None) is None
        return closed.wait(30)

    async with await asyncio.start_server(answers, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for leave in (leave_the_loop, leave_the_client):
            closed.clear()
            assert await asyncio.to_thread(leave, url)
