"""Calls as they go out: their bytes, large ones, slow readers, silence, and callers who leave."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from circadia.gateway.wire.base import ConnectionBroken, ConnectionStalled
from circadia.gateway.wire.pool import ConnectionPool
from tests.fixtures.leap import Leap
from tests.gateway.wire.peer import KEY, OK, Caller, Peer, answering, ask, peer, pool

MOST_UNREAD_BYTES = 256 * 2**10
SLICE_BYTES = 128 * 2**10

HEAD = b"HTTP/1.1 200 OK\r\n"
LARGE = bytes(range(256)) * 2**16
"""16 MiB."""


async def turns(count: int) -> None:
    """Let the event loop turn so often."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_call_goes_out_as_it_was_given() -> None:
    async with peer(answering(OK)) as at, pool(at, "http://127.0.0.1:{port}/base/") as wire:
        headers = [(b"content-type", b"a/b"), (b"x-two", b"1"), (b"x-two", b"\xe9")]
        answer = await wire.send("POST", "/v1/x?q=%20\xe9", headers, b"body")
        assert [chunk async for chunk in answer] == [b"ok"]
        assert at.heads == [
            b"POST /base/v1/x?q=%20\xe9 HTTP/1.1\r\nHost: 127.0.0.1:" + str(at.port).encode() + b"\r\n"
            b"Authorization: Bearer " + KEY + b"\r\nContent-Length: 4\r\n"
            b"content-type: a/b\r\nx-two: 1\r\nx-two: \xe9\r\n\r\n"
        ]


@pytest.mark.parametrize(
    ("method", "length"), [("GET", None), ("HEAD", None), ("POST", b"0"), ("PUT", b"0"), ("DELETE", b"0")]
)
async def test_an_empty_body_has_a_length_where_a_body_is_expected(method: str, length: bytes | None) -> None:
    async with peer(answering(b"HTTP/1.1 204 No Content\r\n\r\n")) as at, pool(at) as wire:
        await ask(wire, b"", method)
        told = [line[16:] for line in at.heads[0].split(b"\r\n") if line.startswith(b"Content-Length: ")]
        assert told == ([] if length is None else [length])


@pytest.mark.parametrize(
    ("target", "value"),
    [
        ("/x", b"a\r\nx-evil: 1"), ("/x", b"a\nb"), ("/x", b"a\rb"), ("/x", b"a\0b"), ("/x\r\nx-evil: 1", b"a"),
        ("/x y", b"a"), ("/x\ny", b"a"),
    ],
)  # fmt: skip
async def test_no_header_or_target_brings_a_line_of_its_own(target: str, value: bytes) -> None:
    async with peer(answering(OK)) as at, pool(at) as wire:
        with pytest.raises(ValueError):
            await wire.send("POST", target, [(b"x-a", value)], b"")
        assert at.made == 0


async def test_a_large_body_arrives_whole_while_the_event_loop_turns() -> None:
    got: list[bytes] = []

    async def script(caller: Caller) -> None:
        got.append(await caller.request())
        await caller.say(OK)

    async with peer(script) as at, pool(at) as wire:
        call = asyncio.create_task(ask(wire, LARGE))
        count = 0
        while not call.done():
            count += 1
            await asyncio.sleep(0)
        assert (await call)[1] == b"ok"
        assert got[0].endswith(b"\r\n\r\n" + LARGE)
        assert count > len(LARGE) / SLICE_BYTES


async def test_a_large_body_waits_for_a_provider_that_does_not_read() -> None:
    read = asyncio.Event()

    async def script(caller: Caller) -> None:
        await caller.head()
        await read.wait()
        assert await caller.reader.readexactly(len(LARGE)) == LARGE
        await caller.say(OK)

    async with peer(script) as at, pool(at) as wire:
        call = asyncio.create_task(ask(wire, LARGE))
        await at.until(lambda: bool(at.heads))
        await turns(500)
        assert not call.done()
        read.set()
        assert (await call)[1] == b"ok"


@pytest.mark.parametrize("close", [b"", b"connection: close\r\n"])
async def test_an_answer_that_comes_before_the_body_was_written_is_read(close: bytes) -> None:
    said = b"HTTP/1.1 413 Content Too Large\r\n" + close + b"content-length: 9\r\n\r\ntoo large"

    async def script(caller: Caller) -> None:
        await caller.head()
        await caller.say(said)
        if close:
            caller.writer.write_eof()

    async with peer(script) as at, pool(at) as wire:
        for _ in range(2):
            answer, body = await ask(wire, LARGE)
            assert (answer.status, body) == (413, b"too large")
        assert at.made == 2
        await at.emptied()


async def test_a_provider_is_held_up_while_nobody_reads_its_answer() -> None:
    async def script(caller: Caller) -> None:
        await caller.request()
        await caller.say(HEAD + b"content-length: %d\r\n\r\n" % len(LARGE))
        for start in range(0, len(LARGE), 2**16):
            await caller.say(LARGE[start : start + 2**16])

    async with peer(script) as at, pool(at) as wire:
        answer = await wire.send("POST", "/", [], b"")
        async with asyncio.timeout(60):
            while answer.unread <= MOST_UNREAD_BYTES:
                await asyncio.sleep(0)
        await turns(500)
        assert answer.unread <= MOST_UNREAD_BYTES + 2**18, "no more than what one read had brought"
        assert b"".join([chunk async for chunk in answer]) == LARGE
        assert answer.at_end
        assert (at.open, at.made) == (1, 1)


async def test_a_provider_that_says_nothing_for_too_long_is_silent(leap: Leap) -> None:
    async def script(caller: Caller) -> None:
        await caller.request()

    async with peer(script) as at, pool(at, answer_timeout_seconds=20.0, max_connections=1) as wire:
        for count in (1, 2):
            call = asyncio.create_task(ask(wire))
            await at.until(lambda count=count: len(at.heads) == count)
            leap(20.0)
            with pytest.raises(ConnectionStalled):
                await call
        assert at.made == 2


async def test_a_provider_that_stops_within_its_answer_is_silent(leap: Leap) -> None:
    async def script(caller: Caller) -> None:
        await caller.request()
        await caller.say(HEAD + b"content-length: 10\r\n\r\nhalf")

    async with peer(script) as at, pool(at, answer_timeout_seconds=20.0) as wire:
        answer = await wire.send("POST", "/", [], b"")
        assert await anext(answer) == b"half"
        leap(20.0)
        with pytest.raises(ConnectionStalled):
            await anext(answer)
        await at.emptied()


async def test_a_provider_that_does_not_take_the_body_is_silent() -> None:
    async def script(caller: Caller) -> None:
        await caller.head()
        cast("asyncio.ReadTransport", caller.writer.transport).pause_reading()
        await asyncio.Event().wait()

    async with peer(script) as at, pool(at, answer_timeout_seconds=0.05) as wire:
        with pytest.raises(ConnectionStalled):
            await ask(wire, LARGE * 4)


async def test_each_byte_starts_the_clock_anew(leap: Leap) -> None:
    more = asyncio.Semaphore(0)

    async def script(caller: Caller) -> None:
        await caller.request()
        await caller.say(HEAD + b"content-length: 5\r\n\r\n")
        for _ in range(5):
            await more.acquire()
            await caller.say(b"x")

    async with peer(script) as at, pool(at, answer_timeout_seconds=40.0) as wire:
        answer = await wire.send("POST", "/", [], b"")
        for _ in range(5):
            leap(20.0)
            await turns(3)
            more.release()
            assert await anext(answer) == b"x"


async def test_a_kept_connection_gives_each_call_its_whole_time(leap: Leap) -> None:
    more = asyncio.Semaphore(0)

    async def script(caller: Caller) -> None:
        while True:
            await caller.request()
            await more.acquire()
            await caller.say(OK)

    async with peer(script) as at, pool(at, answer_timeout_seconds=30.0) as wire:
        for count in range(1, 5):
            call = asyncio.create_task(ask(wire))
            await at.until(lambda count=count: len(at.heads) == count)
            leap(15.0)
            await turns(3)
            more.release()
            assert (await call)[1] == b"ok"
        assert at.made == 1


async def test_a_slow_reader_is_no_silence_of_the_provider(leap: Leap) -> None:
    size = 2**20 * 8

    async def script(caller: Caller) -> None:
        await caller.request()
        await caller.say(HEAD + b"content-length: %d\r\n\r\n" % size, b"x" * size)

    async with peer(script) as at, pool(at, answer_timeout_seconds=20.0) as wire:
        answer = await wire.send("POST", "/", [], b"")
        while answer.unread <= MOST_UNREAD_BYTES:
            await asyncio.sleep(0)
        leap(60.0)
        await turns(20)
        assert sum([len(chunk) async for chunk in answer]) == size


async def _in_line(wire: ConnectionPool, at: Peer) -> None:
    await asyncio.gather(ask(wire), ask(wire))


async def _before_the_head(wire: ConnectionPool, at: Peer) -> None:
    await ask(wire)


async def _within_the_body(wire: ConnectionPool, at: Peer) -> None:
    async for _ in await wire.send("POST", "/half", [], b""):
        pass


async def _while_the_body_goes_out(wire: ConnectionPool, at: Peer) -> None:
    await ask(wire, LARGE * 4)


@pytest.mark.parametrize("stage", [_in_line, _before_the_head, _within_the_body, _while_the_body_goes_out])
async def test_a_caller_who_leaves_takes_the_connection_along_and_leaves_the_place_to_others(
    stage: Callable[[ConnectionPool, Peer], Awaitable[None]],
) -> None:
    async def script(caller: Caller) -> None:
        head = await caller.head()
        if b"/half" in head:
            await caller.say(HEAD + b"content-length: 10\r\n\r\nhalf")
        if b"/well" in head:
            await caller.say(OK)

    async with peer(script) as at, pool(at, max_connections=1) as wire:
        for _ in range(3):
            count = len(at.heads)
            call = asyncio.ensure_future(stage(wire, at))
            await at.until(lambda count=count: len(at.heads) > count)
            await turns(20)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await at.emptied()
        assert (await ask(wire, b"", target="/well"))[1] == b"ok"
        assert at.most == 1


async def test_an_answer_that_is_closed_ends_the_providers_work_and_its_reader() -> None:
    async def script(caller: Caller) -> None:
        await caller.request()
        await caller.say(HEAD + b"\r\nhalf")

    async with peer(script) as at, pool(at) as wire:
        answer = await wire.send("POST", "/", [], b"")
        assert await anext(answer) == b"half"
        reading = asyncio.ensure_future(anext(answer))
        await turns(3)
        answer.close()
        answer.close()
        with pytest.raises(ConnectionBroken):
            await reading
        await at.emptied()


async def test_to_close_what_was_read_to_its_end_changes_nothing() -> None:
    async with peer(answering(OK)) as at, pool(at) as wire:
        answer, _ = await ask(wire)
        again = await wire.send("POST", "/", [], b"")
        answer.close()
        assert [chunk async for chunk in again] == [b"ok"]
        assert [chunk async for chunk in answer] == []
        assert at.made == 1


async def test_a_whole_answer_that_is_closed_unread_is_not_given() -> None:
    async with peer(answering(OK)) as at, pool(at) as wire:
        answer = await wire.send("POST", "/", [], b"")
        answer.close()
        with pytest.raises(ConnectionBroken):
            await anext(answer)
        assert (await ask(wire))[1] == b"ok"
