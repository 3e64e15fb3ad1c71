"""What goes out of a connection, and when."""

import asyncio
from typing import Any, cast

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from circadia.server.protocol import GatewayHttpProtocol

GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
PLAIN = [(b"content-length", b"5")]


class Wire(asyncio.Transport):
    """A transport that notes each write: each is a system call."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.closed = False
        self.gone = asyncio.Event()

    def write(self, data: Any) -> None:
        assert not self.closed
        self.sent.append(bytes(data))

    def close(self) -> None:
        self.closed = True
        self.gone.set()

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class App:
    """An application that says what it is told to, when it is told to."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.messages = messages
        self.go_on = asyncio.Semaphore(0)
        self.headers: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.headers = [name for name, _ in scope["headers"]]
        for message in self.messages:
            if message.pop("waits", False):
                await self.go_on.acquire()
            if message.pop("reads", False):
                await receive()
            await send(message)


def start(headers: list[tuple[bytes, bytes]], **more: Any) -> dict[str, Any]:
    return {"type": "http.response.start", "status": 200, "headers": headers, **more}


def body(data: bytes, *, more: bool = False, **how: Any) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more, **how}


def connected(app: ASGIApp) -> tuple[GatewayHttpProtocol, Wire]:
    config = uvicorn.Config(
        cast("Any", app), loop="asyncio", http=GatewayHttpProtocol, lifespan="off", date_header=False
    )
    config.load()
    config.loaded_app = app
    protocol, wire = GatewayHttpProtocol(config=config, server_state=ServerState(), app_state={}), Wire()
    protocol.ws_protocol_class = None  # as the server has it
    protocol.connection_made(wire)
    return protocol, wire


async def turns(count: int = 4) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_an_answer_in_one_piece_is_one_write() -> None:
    protocol, wire = connected(App(start(PLAIN), body(b"hello")))
    for number in (1, 2):
        protocol.data_received(GET)
        await turns()
        assert len(wire.sent) == number
        assert wire.sent[-1].startswith(b"HTTP/1.1 200 OK\r\n")
        assert wire.sent[-1].endswith(b"\r\n\r\nhello")
        protocol.app = App(start(PLAIN), body(b"hello"))
    protocol.connection_lost(None)


async def test_the_head_of_a_stream_waits_for_nothing_and_each_part_goes_out_at_once() -> None:
    app = App(
        start([]), body(b"one", more=True, waits=True), body(b"two", more=True, waits=True), body(b"", waits=True)
    )
    protocol, wire = connected(app)
    protocol.data_received(GET)
    await turns()
    assert len(wire.sent) == 1
    assert wire.sent[0].endswith(b"transfer-encoding: chunked\r\n\r\n")
    for part in (b"3\r\none\r\n", b"3\r\ntwo\r\n", b"0\r\n\r\n"):
        app.go_on.release()
        await turns()
        assert wire.sent[-1] == part
    assert len(wire.sent) == 4
    protocol.connection_lost(None)


async def test_the_head_of_a_stream_goes_out_with_a_part_that_is_at_hand() -> None:
    protocol, wire = connected(App(start([]), body(b"one", more=True), body(b"")))
    protocol.data_received(GET)
    await turns()
    assert len(wire.sent) == 2
    assert wire.sent[0].endswith(b"\r\n\r\n3\r\none\r\n")
    protocol.connection_lost(None)


@pytest.mark.parametrize("ends", [b"", b"connection: close\r\n"])
async def test_a_head_with_a_length_and_no_body_goes_out_with_the_end(ends: bytes) -> None:
    protocol, wire = connected(App(start(PLAIN), body(b"")))
    protocol.data_received(b"HEAD / HTTP/1.1\r\nhost: a\r\n" + ends + b"\r\n")
    await turns()
    assert b"".join(wire.sent).endswith(b"content-length: 5\r\n" + ends + b"\r\n")
    assert wire.closed == bool(ends)
    protocol.connection_lost(None)


async def test_a_caller_that_waits_for_leave_to_send_gets_it_at_once() -> None:
    protocol, wire = connected(App(start(PLAIN, reads=True), body(b"hello")))
    protocol.data_received(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n")
    await turns()
    assert wire.sent == [b"HTTP/1.1 100 Continue\r\n\r\n"]
    protocol.data_received(b"{}")
    await turns()
    assert wire.sent[1].endswith(b"hello")
    protocol.connection_lost(None)


async def test_what_waits_is_not_written_to_a_connection_that_is_closing() -> None:
    protocol, wire = connected(App(start(PLAIN), body(b"hello", waits=True)))
    protocol.data_received(GET)
    await turns()
    assert wire.sent == [], "its body is at hand, as a rule"
    wire.closed = True
    protocol.shutdown()
    await turns()
    assert wire.sent == []
    protocol.connection_lost(None)


@pytest.mark.spec("GATE-35")
@pytest.mark.parametrize(
    ("first", "dribbled"),
    [
        (GET, b"GET / HTTP/1.1\r\n"),
        (GET, b"G"),
        (b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 99\r\n\r\n", b"x"),
        (b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", b"x: y\r\n"),
    ],
)
async def test_who_dribbles_after_an_answer_is_closed_when_an_idle_caller_would_be(
    first: bytes, dribbled: bytes
) -> None:
    protocol, wire = connected(App(start(PLAIN), body(b"hello")))
    protocol.timeout_keep_alive = cast("int", 0.02)
    protocol.data_received(first)
    await turns()
    assert wire.sent
    protocol.data_received(dribbled)
    async with asyncio.timeout(60):
        await wire.gone.wait()
    protocol.connection_lost(None)


@pytest.mark.spec("GATE-35")
async def test_no_time_runs_against_a_request_while_it_is_served() -> None:
    protocol, wire = connected(App(start(PLAIN), body(b"hello")))
    for _ in range(2):
        assert protocol.timeout_keep_alive_task is not None
        app = protocol.app = App(start(PLAIN, waits=True), body(b"hello"))
        protocol.data_received(GET)
        assert protocol.timeout_keep_alive_task is None
        await turns()
        app.go_on.release()
        await turns()
    assert not wire.closed
    protocol.connection_lost(None)
    assert protocol.timeout_keep_alive_task is None


@pytest.mark.spec("GATE-35")
async def test_what_comes_behind_a_body_is_no_header_of_the_request() -> None:
    app = App(start(PLAIN, reads=True), body(b"hello"))
    protocol, _ = connected(app)
    request = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    protocol.data_received(request + b"authorization: Bearer stolen\r\nx-circadia-user: eve\r\n\r\n")
    await turns()
    assert app.headers == [b"host", b"transfer-encoding"]
    protocol.connection_lost(None)


WISHES = (b"connection: upgrade\r\nupgrade: websocket\r\n", b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n")


class Reader:
    """An application that reads each body whole and answers with its length."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        whole = message["body"]
        while message["more_body"]:
            message = await receive()
            whole += message["body"]
        self.bodies.append(whole)
        for each in (start(PLAIN), body(b"hello")):
            await send(each)


@pytest.mark.parametrize("wish", WISHES)
async def test_a_caller_who_asks_for_another_protocol_is_answered_as_any_other_and_is_no_news(
    wish: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    protocol, wire = connected(App(start(PLAIN), body(b"hello")))
    protocol.data_received(GET[:-2] + wish + b"\r\n")
    await turns()
    assert wire.sent[0].startswith(b"HTTP/1.1 200 OK\r\n")
    assert not caplog.records
    protocol.connection_lost(None)


@pytest.mark.spec("GATE-35")
@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("wish", WISHES)
@pytest.mark.parametrize(
    ("framed", "whole"),
    [
        (b"content-length: 23\r\n\r\nGET /own HTTP/1.1\r\n\r\n{}", b"GET /own HTTP/1.1\r\n\r\n{}"),
        (b"transfer-encoding: chunked\r\n\r\n3\r\none\r\n1\r\n2\r\n0\r\nx: y\r\n\r\n", b"one2"),
        (b"content-length: 0\r\n\r\n", b""),
        (b"\r\n", b""),
    ],
)
async def test_who_asks_for_another_protocol_is_read_with_its_body_and_the_next_request_after_it(
    framed: bytes, whole: bytes, wish: bytes, size: int
) -> None:
    app = Reader()
    protocol, wire = connected(app)
    sent = b"POST / HTTP/1.1\r\nhost: a\r\n" + wish + framed
    sent += b"PUT /next HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nnext"
    for at in range(0, len(sent), size):
        protocol.data_received(sent[at : at + size])
    await turns(12)
    assert app.bodies == [whole, b"next"]
    assert b"".join(wire.sent).count(b"HTTP/1.1 200 OK\r\n") == 2
    assert not wire.closed
    protocol.connection_lost(None)


@pytest.mark.spec("GATE-35")
async def test_a_broken_body_behind_a_wish_for_another_protocol_is_refused() -> None:
    protocol, wire = connected(Reader())
    protocol.data_received(b"POST / HTTP/1.1\r\nhost: a\r\n" + WISHES[1] + b"transfer-encoding: chunked\r\n\r\nzz\r\n")
    await turns()
    assert b"".join(wire.sent).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert wire.closed
    protocol.connection_lost(None)


async def test_many_wishes_in_one_piece_are_read_one_after_the_other() -> None:
    app = Reader()
    protocol, _ = connected(app)
    protocol.data_received((GET[:-2] + WISHES[0] + b"\r\n") * 3000)
    await turns(20_000)
    assert len(app.bodies) == 3000
    protocol.connection_lost(None)


CHUNKED = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.spec("GATE-35")
@pytest.mark.parametrize(
    ("begun", "status"),
    [
        (b"GET /", b"414"),
        (GET[:-2] + b"x", b"431"),
        (GET[:-2] + b"x: y", b"431"),
        (CHUNKED + b"1;", b"431"),
        (CHUNKED + b"1\r\nx\r\n0\r\nx: y", b"431"),
    ],
)
async def test_what_has_no_end_is_not_collected(begun: bytes, status: bytes) -> None:
    """httptools joins each piece of a header to those before it: 140 MB in 20 s took the event loop for 7 s."""
    protocol, wire = connected(Reader())
    protocol.data_received(begun)
    for _ in range(9):
        assert not wire.closed
        protocol.data_received(b"a" * 8_000)
    assert wire.closed
    assert b"".join(wire.sent).startswith(b"HTTP/1.1 %b " % status)
    protocol.connection_lost(None)


@pytest.mark.spec("GATE-35")
async def test_trailers_without_end_do_not_write_into_an_answer_that_has_begun() -> None:
    protocol, wire = connected(App(start([]), body(b"one", more=True), body(b"", waits=True)))
    protocol.data_received(CHUNKED + b"0\r\nx: y")
    await turns()
    begun = list(wire.sent)
    protocol.data_received(b"a" * 70_000)
    assert wire.closed
    assert wire.sent == begun
    protocol.connection_lost(None)


@pytest.mark.spec("GATE-35")
@pytest.mark.parametrize("framed", [b"content-length: 200000\r\n\r\n" + b"a" * 200_000, b"\r\n"])
async def test_a_long_body_and_many_requests_on_a_connection_are_no_long_head(framed: bytes) -> None:
    app = Reader()
    protocol, wire = connected(app)
    sent = (b"POST / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 30_000 + b"\r\n" + framed) * 5
    for at in range(0, len(sent), 50_000):
        protocol.data_received(sent[at : at + 50_000])
        await turns(12)
    assert len(app.bodies) == 5
    assert not wire.closed
    protocol.connection_lost(None)
