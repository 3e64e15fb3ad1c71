"""What is sent to a provider again, what is not, and what is not taken from it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from circadia.clock import SystemClock
from circadia.errors import ConfigError, UpstreamFailed, UpstreamTimedOut
from circadia.gateway.calls.upstream import Upstream, provider_headers
from circadia.server.wiring import build_server
from circadia.settings import UpstreamSettings, settings_from
from tests.fixtures.leap import Leap
from tests.gateway.wire.peer import OK, Caller, Peer, answering, peer, pool

BUSY = b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy"


class InstantClock(SystemClock):
    """A clock that notes how long it should sleep, and does not."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        """Note."""
        self.slept.append(seconds)


@asynccontextmanager
async def upstream(at: Peer, clock: SystemClock | None = None, **settings: object) -> AsyncGenerator[Upstream]:
    """Make a provider of the peer, with a key."""
    given = UpstreamSettings.model_validate({"base_url": f"http://127.0.0.1:{at.port}", **settings})
    async with pool(at, answer_timeout_seconds=given.answer_timeout_seconds) as wire:
        yield Upstream("it", given, "sk-secret", wire, clock or InstantClock(), max_answer_bytes=1000)


def in_turn(*said: bytes) -> Callable[[Caller], "asyncio.Future[None]"]:
    """Return a script that gives the peer's next answer to each request; an empty one closes the connection."""

    async def script(caller: Caller) -> None:
        while True:
            await caller.request()
            answer = said[len(caller.peer.heads) - 1]
            if not answer:
                caller.writer.close()
                return
            await caller.say(answer)

    return lambda caller: asyncio.ensure_future(script(caller))


@pytest.mark.spec("GATE-63")
async def test_a_break_before_the_answer_and_a_busy_provider_are_tried_again_with_growing_pauses() -> None:
    clock = InstantClock()
    async with peer(in_turn(b"", BUSY, OK)) as at, upstream(at, clock) as it:
        answer, whole = await it.send("POST", "/", [], b"x", again=True)
        assert (answer.status, whole) == (200, b"ok")
        assert (len(at.heads), clock.slept) == (3, [0.25, 0.5])


@pytest.mark.spec("GATE-63")
@pytest.mark.parametrize("first", [b"", BUSY])
async def test_nothing_is_sent_again_where_a_repeat_could_do_harm(first: bytes) -> None:
    async with peer(in_turn(first, OK)) as at, upstream(at) as it:
        if first:
            answer, whole = await it.send("POST", "/", [], b"x", again=False)
            assert (answer.status, whole) == (503, b"busy")
        else:
            with pytest.raises(UpstreamFailed, match="broke off"):
                await it.send("POST", "/", [], b"x", again=False)
        assert len(at.heads) == 1


@pytest.mark.spec("GATE-63")
async def test_what_may_be_sent_once_only_is_not_sent_over_a_connection_that_may_be_closing() -> None:
    async def script(caller: Caller) -> None:
        await caller.request()
        await caller.say(OK)
        await caller.request()
        caller.writer.close()  # an idle connection whose time was over when the call came

    async with peer(script) as at, upstream(at) as it:
        await it.send("POST", "/", [], b"x", again=True)
        answer, whole = await it.send("POST", "/", [], b"y", again=True, once=True)
        assert (answer.status, whole) == (200, b"ok")
        assert len(at.heads) == 2


@pytest.mark.spec("GATE-63")
@pytest.mark.parametrize("status", [b"429 Slow", b"503 Busy"])
async def test_a_date_to_try_again_at_is_left_to_the_caller(status: bytes) -> None:
    later = b"HTTP/1.1 %b\r\nretry-after: Wed, 21 Oct 2037 07:28:00 GMT\r\ncontent-length: 4\r\n\r\nbusy" % status
    async with peer(in_turn(later, OK)) as at, upstream(at) as it:
        answer, whole = await it.send("POST", "/", [], b"x", again=True)
        assert (answer.status, whole) == (int(status[:3]), b"busy")
        assert len(at.heads) == 1


@pytest.mark.spec("GATE-63")
async def test_an_answer_that_breaks_off_is_not_asked_for_again() -> None:
    half = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\nconnection: close\r\n\r\nhalf"

    async def script(caller: Caller) -> None:
        await caller.request()
        await caller.say(half)
        caller.writer.close()

    async with peer(script) as at, upstream(at) as it:
        with pytest.raises(UpstreamFailed, match="broke off in its answer"):
            await it.send("POST", "/", [], b"x", again=True)
        assert len(at.heads) == 1


@pytest.mark.spec("GATE-63")
async def test_a_silent_provider_is_not_asked_again(leap: Leap) -> None:
    async def script(caller: Caller) -> None:
        await caller.request()

    async with peer(script) as at, upstream(at, answer_timeout_seconds=20.0) as it:
        call = asyncio.ensure_future(it.send("POST", "/", [], b"x", again=True))
        await at.until(lambda: len(at.heads) == 1)
        leap(20.0)
        with pytest.raises(UpstreamTimedOut):
            await call
        await at.emptied()
        assert at.made == 1


@pytest.mark.parametrize(
    ("status", "kind"), [(b"200", b"application/json"), (b"200", b"application/x+json"), (b"502", b"audio/mpeg")]
)
async def test_json_and_errors_are_given_whole_however_they_are_sent(status: bytes, kind: bytes) -> None:
    head = b"HTTP/1.1 %b It\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n" % (status, kind)
    async with peer(in_turn(head + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")) as at, upstream(at, retries=0) as it:
        assert (await it.send("POST", "/", [], b"x", again=True))[1] == b"abc"


@pytest.mark.spec("GATE-62")
@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 307 Elsewhere\r\nlocation: http://elsewhere.example/\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n" + b"x" * 5000,
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    ],
    ids=["a redirect", "more than is allowed", "another protocol"],
)
async def test_what_the_gateway_does_not_take_fails_and_says_no_key(said: bytes) -> None:
    async with peer(answering(said)) as at, upstream(at) as it:
        with pytest.raises(UpstreamFailed) as caught:
            await it.send("POST", "/", [], b"x", again=False)
        assert "secret" not in repr(caught.value)
        assert len(at.heads) == 1


@pytest.mark.parametrize("kind", [b"text/event-stream; charset=utf-8", b"application/x-ndjson", b"audio/mpeg"])
async def test_a_stream_is_given_before_its_end_and_its_connection_kept_when_it_was_read(kind: bytes) -> None:
    said = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n" % kind
    more = asyncio.Event()

    async def script(caller: Caller) -> None:
        while True:
            await caller.request()
            await caller.say(said)
            await more.wait()
            await caller.say(b"9\r\ndata: x\n\n\r\n0\r\n\r\n")

    async with peer(script) as at, upstream(at) as it:
        for _ in range(2):
            more.clear()
            answer, whole = await it.send("POST", "/", [], b"x", again=True)
            assert whole is None
            more.set()
            assert [chunk async for chunk in answer] == [b"data: x\n\n"]
        assert at.made == 1


@pytest.mark.spec("GATE-62")
def test_a_key_that_no_header_can_hold_is_the_operators_error_and_is_not_repeated() -> None:
    settings = UpstreamSettings.model_validate({"base_url": "https://h"})
    for key in ("sk-secret\n", "sk-secret\r\nx: y", "sk-sécret"):
        with pytest.raises(ConfigError, match="'it'") as caught:
            provider_headers("it", settings, key)
        assert "cret" not in str(caught.value)


@pytest.mark.spec("GATE-62")
async def test_a_password_in_a_base_url_stops_the_start_and_is_not_repeated(tmp_path: Path) -> None:
    settings = settings_from({"upstreams": {"it": {"base_url": "https://user:secret@h"}}})
    with pytest.raises(ConfigError, match=r"upstreams\.it\.base_url") as caught:
        async with build_server(settings, tmp_path, {}, ("token",)):
            pass
    assert "secret" not in str(caught.value)
