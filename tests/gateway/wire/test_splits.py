"""However the network cuts an answer, it is the same; whatever comes, a call ends."""

import asyncio
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as some

from circadia.gateway.wire.base import ConnectionBroken, WireError
from circadia.gateway.wire.connection import ProviderConnection, ProviderResponse

LOOSE = settings(max_examples=150, deadline=None)
BODIES = some.lists(some.binary(min_size=1, max_size=40), max_size=8)
STARTS = [
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"content-length: 5\r\n\r\nhello", b"\r\n\r\n",
    b"transfer-encoding: chunked\r\n\r\n", b"5\r\nhello\r\n", b"0\r\n\r\n", b"connection: close\r\n",
]  # fmt: skip
RUBBISH = some.lists(some.sampled_from(STARTS) | some.binary(max_size=8), max_size=12).map(b"".join)


class Wire(asyncio.Transport):
    """The network, in the test's hands."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def write(self, data: Any) -> None:
        """Take bytes."""

    def get_write_buffer_size(self) -> int:
        """Return how much waits: nothing."""
        return 0

    def is_closing(self) -> bool:
        """Return whether it was closed."""
        return self.closed

    def abort(self) -> None:
        """Close."""
        self.closed = True

    def pause_reading(self) -> None:
        """Hold up."""

    def resume_reading(self) -> None:
        """Go on."""


class Line:
    """A connection with one call on it, and what became of it."""

    def __init__(self) -> None:
        self.given_back = 0
        self.wire = Wire()
        self.connection = ProviderConnection(self._released, lambda _: None, asyncio.get_running_loop(), 60.0)
        self.connection.connection_made(self.wire)
        self.answer: ProviderResponse = self.connection.ask(b"", b"", has_no_body=False)

    def _released(self, connection: ProviderConnection) -> None:
        self.given_back += 1

    def hear(self, sent: bytes, cuts: list[int]) -> None:
        """Let the bytes come, cut in pieces; then, if nobody has closed, the end of the connection."""
        ends = [0, *sorted(cut % (len(sent) + 1) for cut in cuts), len(sent)]
        for start, end in pairwise(ends):
            if end > start and not self.wire.closed:
                self.connection.data_received(sent[start:end])

    def end(self) -> None:
        """Let the connection end."""
        if not self.wire.closed:
            self.connection.eof_received()
        self.connection.connection_lost(None)

    async def read(self) -> bytes | WireError:
        """Return what a reader gets, who must not have to wait."""
        try:
            async with asyncio.timeout(60):
                await self.answer.wait_for_head()
                return b"".join([chunk async for chunk in self.answer])
        except WireError as error:
            return error


@LOOSE
@given(parts=BODIES, cuts=some.lists(some.integers(0, 10_000), max_size=30))
async def test_a_body_in_chunks_is_the_same_however_it_is_cut(parts: list[bytes], cuts: list[int]) -> None:
    sent = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    sent += b"".join(b"%x;a=b\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\nx-sum: 1\r\n\r\n"
    line = Line()
    line.hear(sent, cuts)
    assert line.given_back == 1
    line.end()
    assert await line.read() == b"".join(parts)


@LOOSE
@given(parts=BODIES, cuts=some.lists(some.integers(0, 10_000), max_size=30), cut_short=some.integers(1, 1000))
async def test_a_body_of_a_length_is_the_same_however_it_is_cut_and_broken_if_cut_short(
    parts: list[bytes], cuts: list[int], cut_short: int
) -> None:
    body = b"".join(parts)
    sent = b"HTTP/1.1 200 OK\r\nx-a: b\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    whole, short = Line(), Line()
    whole.hear(sent, cuts)
    assert whole.given_back == 1
    whole.end()
    assert await whole.read() == body
    short.hear(sent[: -(cut_short % len(sent)) or -1], cuts)
    short.end()
    assert isinstance(await short.read(), ConnectionBroken)
    assert short.given_back == 0


@LOOSE
@given(parts=BODIES, cuts=some.lists(some.integers(0, 10_000), max_size=30))
async def test_a_body_until_the_end_is_the_same_however_it_is_cut(parts: list[bytes], cuts: list[int]) -> None:
    line = Line()
    line.hear(b"HTTP/1.1 200 OK\r\n\r\n" + b"".join(parts), cuts)
    line.end()
    assert await line.read() == b"".join(parts)
    assert line.given_back == 0


@LOOSE
@given(sent=RUBBISH, cuts=some.lists(some.integers(0, 10_000), max_size=10))
async def test_whatever_comes_a_call_ends_and_is_given_back_once_at_most(sent: bytes, cuts: list[int]) -> None:
    whole, cut = Line(), Line()
    for line, places in ((whole, []), (cut, cuts)):
        line.hear(sent, places)
        line.end()
        assert line.given_back <= 1
    first, second = await whole.read(), await cut.read()
    assert isinstance(first, bytes | ConnectionBroken)
    assert (first if isinstance(first, bytes) else None) == (second if isinstance(second, bytes) else None)
