"""Answers as they come over a real socket: each framing, each way to break."""

import asyncio
import socket
import struct

import pytest

from circadia.gateway.wire.base import ConnectionBroken
from tests.gateway.wire.peer import KEY, OK, Caller, answering, ask, peer, pool

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"

GOOD = {
    "of a length": (OK, 200, b"ok"),
    "empty": (HEAD + b"content-length: 0\r\n\r\n", 200, b""),
    "in chunks": (CHUNKED + b"2\r\nok\r\n1\r\n!\r\n0\r\n\r\n", 200, b"ok!"),
    "with extensions and trailers": (
        CHUNKED + b"2;name=value\r\nok\r\n0;last\r\nx-sum: 1\r\nx-more: 2\r\n\r\n", 200, b"ok"
    ),
    "without content": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    "not modified, with a length": (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", 304, b""),
    "behind interim ones": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\ncontent-length: 7\r\n\r\n" + OK,
        200,
        b"ok",
    ),
    "of HTTP/1.0, kept alive": (
        b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok", 200, b"ok"
    ),
    "that offers an upgrade": (
        HEAD + b"upgrade: h2c\r\nconnection: upgrade\r\ncontent-length: 2\r\n\r\nok", 200, b"ok"
    ),
    "without a reason": (b"HTTP/1.1 404\r\ncontent-length: 2\r\n\r\nno", 404, b"no"),
    "with an empty line before and behind": (b"\r\n" + OK + b"\r\n", 200, b"ok"),
}  # fmt: skip


@pytest.mark.parametrize(("sent", "status", "body"), GOOD.values(), ids=GOOD)
async def test_an_answer_comes_whole_and_its_connection_serves_the_next_call(
    sent: bytes, status: int, body: bytes
) -> None:
    async with peer(answering(sent)) as at, pool(at) as wire:
        for _ in range(3):
            answer, read = await ask(wire)
            assert (answer.status, read, answer.at_end) == (status, body, True)
            assert not any(name.startswith((b"x-", b"link")) for name, _ in answer.headers)
        assert at.made == 1


@pytest.mark.parametrize(("sent", "status", "body"), GOOD.values(), ids=GOOD)
async def test_an_answer_that_comes_byte_by_byte_is_the_same(sent: bytes, status: int, body: bytes) -> None:
    async with peer(answering(*(sent[i : i + 1] for i in range(len(sent))))) as at, pool(at) as wire:
        for _ in range(2):
            answer, read = await ask(wire)
            assert (answer.status, read) == (status, body)


async def test_headers_come_in_order_with_names_in_lower_case_and_values_as_they_are() -> None:
    sent = HEAD + b"X-A: One\r\nset-cookie: a=1\r\nSet-Cookie: b=\xe92\r\nX-Empty:\r\nContent-Length: 0\r\n\r\n"
    async with peer(answering(sent)) as at, pool(at) as wire:
        answer, _ = await ask(wire)
        assert answer.headers == [
            (b"x-a", b"One"), (b"set-cookie", b"a=1"), (b"set-cookie", b"b=\xe92"), (b"x-empty", b""),
            (b"content-length", b"0"),
        ]  # fmt: skip
        assert (answer.header(b"set-cookie"), answer.header(b"x-b")) == ("a=1", None)


async def test_trailers_of_one_answer_are_no_headers_of_the_next() -> None:
    async with peer(answering(CHUNKED + b"0\r\nx-trailer: 1\r\n\r\n")) as at, pool(at) as wire:
        for _ in range(2):
            answer, _ = await ask(wire)
            assert answer.headers == [(b"transfer-encoding", b"chunked")]


CLOSING = {
    "closed on purpose": HEAD + b"connection: close\r\ncontent-length: 2\r\n\r\nok",
    "until the end of the connection": HEAD + b"\r\nok",
    "of HTTP/1.0": b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
}


@pytest.mark.parametrize("sent", CLOSING.values(), ids=CLOSING)
async def test_a_connection_that_the_provider_does_not_keep_is_not_used_again(sent: bytes) -> None:
    async with peer(answering(sent, then_close=True)) as at, pool(at) as wire:
        for _ in range(2):
            assert (await ask(wire))[1] == b"ok"
        assert at.made == 2
        await at.emptied()


async def test_the_answer_to_head_has_no_body() -> None:
    async with peer(answering(HEAD + b"content-length: 1000\r\n\r\n")) as at, pool(at) as wire:
        for _ in range(2):
            answer, body = await ask(wire, b"", "HEAD")
            assert (answer.status, body) == (200, b"")


async def test_chunks_are_there_as_soon_as_they_have_come() -> None:
    more = asyncio.Event()

    async def script(caller: Caller) -> None:
        await caller.request()
        await caller.say(CHUNKED + b"3\r\none\r\n")
        await more.wait()
        await caller.say(b"3\r\ntwo\r\n0\r\n\r\n")

    async with peer(script) as at, pool(at) as wire:
        answer = await wire.send("POST", "/", [], b"")
        assert await anext(answer) == b"one"
        more.set()
        assert [chunk async for chunk in answer] == [b"two"]


ENDLESS = b"x" * 70_000
BAD = {
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\ncontent-le",
    "only interim answers": b"HTTP/1.1 100 Continue\r\n\r\n",
    "half a body": HEAD + b"content-length: 10\r\n\r\nhalf",
    "half a chunk": CHUNKED + b"a\r\nhalf",
    "chunks without the last one": CHUNKED + b"2\r\nok\r\n",
    "trailers without an end": CHUNKED + b"2\r\nok\r\n0\r\nx: y",
    "TLS": b"\x15\x03\x01\x00\x02\x02\x46",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "a page": b"<html>",
    "a status of letters": b"HTTP/1.1 abc OK\r\n\r\n",
    "status 0": b"HTTP/1.1 000 OK\r\ncontent-length: 0\r\n\r\n",
    "another protocol from now on": b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nhello",
    "a length and chunks": HEAD + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "chunks and a length": HEAD + b"transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "two lengths": HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\nok",
    "a negative length": HEAD + b"content-length: -2\r\n\r\nok",
    "a length beyond numbers": HEAD + b"content-length: 99999999999999999999\r\n\r\nok",
    "a coding of its own": HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "chunks twice": HEAD + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "a chunk size of letters": CHUNKED + b"zz\r\nok\r\n0\r\n\r\n",
    "a negative chunk size": CHUNKED + b"-2\r\nok\r\n0\r\n\r\n",
    "a chunk size beyond numbers": CHUNKED + b"ffffffffffffffffff\r\nok\r\n0\r\n\r\n",
    "a chunk longer than its size": CHUNKED + b"2\r\nokay\r\n0\r\n\r\n",
    "a NUL in a header": HEAD + b"x-a: b\0c\r\ncontent-length: 2\r\n\r\nok",
    "a space in a header's name": HEAD + b"x a: b\r\ncontent-length: 2\r\n\r\nok",
    "a folded header": HEAD + b"x-a: b\r\n c\r\ncontent-length: 2\r\n\r\nok",
    "a large head": HEAD + b"x-a: " + ENDLESS + b"\r\ncontent-length: 2\r\n\r\nok",
    "many headers": HEAD + b"x-a: 0123456789\r\n" * 5000 + b"content-length: 2\r\n\r\nok",
    "a header without an end": HEAD + b"x-a: " + ENDLESS * 4,
    "interim answers without an end": b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000,
    "a chunk extension without an end": CHUNKED + b"2;x=" + ENDLESS * 4,
    "a trailer without an end": CHUNKED + b"2\r\nok\r\n0\r\nx-a: " + ENDLESS * 4,
}


@pytest.mark.parametrize("sent", BAD.values(), ids=BAD)
async def test_what_is_no_whole_answer_breaks_the_call_and_its_connection(sent: bytes) -> None:
    async def script(caller: Caller) -> None:
        if at.made > 1:
            await answering(OK)(caller)
        await caller.request()
        await caller.say(sent)
        if len(sent) < 2 * len(ENDLESS):  # the endless ones must be ended by the gateway
            caller.writer.close()

    async with peer(script) as at, pool(at, max_connections=1) as wire:
        with pytest.raises(ConnectionBroken) as caught:
            await ask(wire)
        assert KEY.decode() not in repr(caught.value)
        assert (await ask(wire))[1] == b"ok"
        assert at.made == 2


async def test_what_came_before_a_break_is_given_first() -> None:
    async with peer(answering(CHUNKED + b"2\r\nok\r\nzz\r\n")) as at, pool(at) as wire:
        answer = await wire.send("POST", "/", [], b"")
        assert await anext(answer) == b"ok"
        for _ in range(2):
            with pytest.raises(ConnectionBroken):
                await anext(answer)
        await at.emptied()


@pytest.mark.parametrize("said", [b"", HEAD + b"content-length: 10\r\n\r\nhalf", HEAD + b"\r\nhalf"])
async def test_a_reset_breaks_the_call_even_where_an_answer_ends_with_its_connection(said: bytes) -> None:
    read = asyncio.Event()

    async def script(caller: Caller) -> None:
        await caller.request()
        await caller.say(said)
        await read.wait()
        sock: socket.socket = caller.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        caller.writer.transport.abort()

    async with peer(script) as at, pool(at) as wire:
        if not said:
            read.set()
            with pytest.raises(ConnectionBroken, match="before"):
                await ask(wire)
            return
        answer = await wire.send("POST", "/", [], b"")
        assert await anext(answer) == b"half"
        read.set()
        with pytest.raises(ConnectionBroken, match="within"):
            await anext(answer)


BEHIND = {
    "one byte": b"H",
    "rubbish": b"rubbish",
    "another answer": b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison",
    "an interim answer": b"HTTP/1.1 100 Continue\r\n\r\n",
}


@pytest.mark.parametrize("more", BEHIND.values(), ids=BEHIND)
async def test_what_comes_behind_an_answer_reaches_no_other_call(more: bytes) -> None:
    async with peer(answering(OK + more)) as at, pool(at) as wire:
        for _ in range(3):
            assert (await ask(wire))[1] == b"ok"
        assert at.made == 3


async def test_what_comes_on_an_idle_connection_closes_it() -> None:
    speak = asyncio.Event()

    async def script(caller: Caller) -> None:
        await caller.request()
        await caller.say(OK)
        await speak.wait()
        await caller.say(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 6\r\n\r\npoison")

    async with peer(script) as at, pool(at) as wire:
        assert (await ask(wire))[1] == b"ok"
        speak.set()
        await at.emptied()
        assert (await ask(wire))[0].status == 200
        assert at.made == 2
