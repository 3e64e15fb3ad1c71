"""Connections that are kept, shared and opened."""

import asyncio
import socket
from typing import Any

import pytest

from circadia.gateway.wire.base import ConnectFailed, ConnectionBroken, ConnectTimedOut, Origin
from tests.fixtures.leap import Leap
from tests.fixtures.ports import deaf
from tests.gateway.wire.peer import OK, Caller, answering, ask, peer, pool


async def test_two_hundred_calls_share_four_connections_and_each_gets_its_own_answer() -> None:
    async def script(caller: Caller) -> None:
        while True:
            body = (await caller.request()).split(b"\r\n\r\n", 1)[1]
            await caller.say(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body), body)

    async with peer(script) as at, pool(at, max_connections=4) as wire:
        for _ in range(2):
            answers = await asyncio.gather(*(ask(wire, b"%d" % i) for i in range(200)))
            assert [body for _, body in answers] == [b"%d" % i for i in range(200)]
        assert (at.made, at.most) == (4, 4)


async def test_who_waits_for_a_connection_is_served_in_order_of_arrival() -> None:
    async with peer(answering(OK)) as at, pool(at, max_connections=1) as wire:
        await asyncio.gather(*(ask(wire, target=f"/{i}") for i in range(50)))
        assert [int(head.split()[1][1:]) for head in at.heads] == list(range(50))


async def test_who_waits_gets_the_place_of_a_connection_that_broke() -> None:
    async def script(caller: Caller) -> None:
        head = await caller.head()
        await caller.say(b"rubbish" if b"/0" in head else OK)

    async with peer(script) as at, pool(at, max_connections=1) as wire:
        calls = [asyncio.create_task(ask(wire, b"", target=f"/{i}")) for i in range(2)]
        with pytest.raises(ConnectionBroken):
            await calls[0]
        assert (await calls[1])[1] == b"ok"
        assert at.made == 2


async def test_calls_that_are_cancelled_at_random_leave_no_connection_and_no_place_taken() -> None:
    async with peer(answering(OK)) as at, pool(at, max_connections=4) as wire:
        for step in range(30):
            calls = [asyncio.create_task(ask(wire)) for _ in range(20)]
            for _ in range(step):
                await asyncio.sleep(0)
            for number, call in enumerate(calls):
                if (number * 7 + step) % 3:
                    call.cancel()
            found = await asyncio.gather(*calls, return_exceptions=True)
            for each in found:
                assert isinstance(each, asyncio.CancelledError) or (
                    not isinstance(each, BaseException) and each[1] == b"ok"
                )
        assert at.most <= 4 + 4, "a closed connection may still be open at the other side"
        answers = await asyncio.gather(*(ask(wire) for _ in range(20)))
        assert len(answers) == 20
    await at.emptied()


async def test_the_last_connection_used_is_the_first_to_be_used_again() -> None:
    async with peer(answering(OK)) as at, pool(at) as wire:
        await asyncio.gather(*(ask(wire) for _ in range(3)))
        assert at.made == 3
        for _ in range(5):
            await ask(wire)
        assert at.made == 3


async def test_idle_connections_are_closed_after_a_while_and_used_ones_are_not(leap: Leap) -> None:
    async with peer(answering(OK)) as at, pool(at, idle_seconds=40.0) as wire:
        await asyncio.gather(*(ask(wire) for _ in range(3)))
        for _ in range(2):
            leap(20.0)
            await ask(wire)
        await at.until(lambda: at.open == 1)
        assert at.made == 3
        leap(40.0)
        await at.emptied()
        assert (await ask(wire))[1] == b"ok"
        assert at.made == 4


async def test_a_kept_connection_that_the_provider_has_closed_is_not_used() -> None:
    async def script(caller: Caller) -> None:
        await caller.request()
        await caller.say(OK)
        caller.writer.write_eof()

    async with peer(script) as at, pool(at, max_connections=1) as wire:
        for _ in range(3):
            assert (await ask(wire))[1] == b"ok"
            await at.emptied()  # so the other side knows
        assert at.made == 3


async def test_a_kept_connection_that_closes_when_the_call_is_written_breaks_the_call() -> None:
    async def script(caller: Caller) -> None:
        await caller.request()
        await caller.say(OK)
        await caller.request()
        caller.writer.close()

    async with peer(script) as at, pool(at) as wire:
        await ask(wire)
        with pytest.raises(ConnectionBroken):
            await ask(wire)
        assert at.made == 1


async def test_no_listener_is_a_refusal_and_takes_no_place() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with pool(unused.getsockname()[1], max_connections=1) as wire:
            for _ in range(3):
                with pytest.raises(ConnectFailed):
                    await ask(wire)
            found = await asyncio.gather(*(ask(wire) for _ in range(5)), return_exceptions=True)
            assert [type(each) for each in found] == [ConnectFailed] * 5


async def test_a_name_that_nobody_has_is_a_refusal() -> None:
    async with pool(80, "http://" + "a" * 64 + ".test:{port}") as wire:
        found = await asyncio.gather(*(ask(wire) for _ in range(3)), return_exceptions=True)
        assert [type(each) for each in found] == [ConnectFailed] * 3


async def test_a_name_is_resolved_and_a_call_reaches_its_host() -> None:
    async with peer(answering(OK)) as at, pool(at, "http://localhost:{port}") as wire:
        assert (await ask(wire))[1] == b"ok"
        assert f"Host: localhost:{at.port}\r\n".encode() in at.heads[0]


async def test_an_address_of_ipv6_is_reached_where_the_machine_has_it() -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        async with pool(9, "http://[::1]:{port}") as wire:
            with pytest.raises(ConnectFailed):
                await ask(wire)
        return
    async with peer(answering(OK), host="::1") as at, pool(at, "http://[::1]:{port}") as wire:
        assert (await ask(wire))[1] == b"ok"
        assert f"Host: [::1]:{at.port}\r\n".encode() in at.heads[0]


def resolve_to(monkeypatch: pytest.MonkeyPatch, *ports: int) -> None:
    """Let `provider.test` have an address for each of these ports of this machine."""
    loop = asyncio.get_running_loop()
    real = loop.getaddrinfo

    async def getaddrinfo(host: str, port: int, **options: Any) -> list[Any]:
        if host != "provider.test":
            return await real(host, port, **options)
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", each)) for each in ports]

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)


async def test_an_address_that_does_not_answer_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with deaf("127.0.0.1") as port:
        async with peer(answering(OK)) as at, pool(at, "http://provider.test:{port}") as wire:
            resolve_to(monkeypatch, port, at.port)
            assert (await ask(wire))[1] == b"ok"


async def test_an_address_that_refuses_is_passed_over_and_where_all_refuse_the_failure_names_no_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = unused.getsockname()[1]
        async with peer(answering(OK)) as at, pool(at, "http://provider.test:{port}") as wire:
            resolve_to(monkeypatch, nobody, at.port)
            assert (await ask(wire))[1] == b"ok"
        async with peer(answering(OK)) as at, pool(at, "http://provider.test:{port}") as wire:
            resolve_to(monkeypatch, nobody, nobody)
            with pytest.raises(ConnectFailed, match="nothing listens there") as failure:
                await ask(wire)
            assert "127.0.0.1" not in str(failure.value)


async def test_a_connection_that_takes_too_long_is_told_as_that_and_takes_no_place() -> None:
    with deaf("127.0.0.1") as port:
        async with pool(port, connect_timeout_seconds=0.05, max_connections=1) as wire:
            for _ in range(3):
                with pytest.raises(ConnectTimedOut):
                    await ask(wire)


async def test_a_caller_who_leaves_while_connecting_leaves_the_place_to_others() -> None:
    with deaf("127.0.0.1") as port:
        async with pool(port, connect_timeout_seconds=0.2, max_connections=1) as wire:
            first, second = (asyncio.create_task(ask(wire)) for _ in range(2))
            for _ in range(10):
                await asyncio.sleep(0)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            with pytest.raises(ConnectTimedOut):
                await second


async def test_to_close_the_pool_breaks_what_is_under_way() -> None:
    async with peer(Caller.gone) as at, pool(at) as wire:
        calls = [asyncio.create_task(ask(wire)) for _ in range(3)]
        await at.until(lambda: at.open == 3)
        for _ in range(20):
            await asyncio.sleep(0)
        await wire.close()
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(each) for each in found} == {ConnectionBroken}
        await at.emptied()


@pytest.mark.parametrize(
    ("url", "host", "port", "authority", "prefix"),
    [
        ("https://api.openai.com", "api.openai.com", 443, b"api.openai.com", b""),
        ("https://api.openai.com:443/", "api.openai.com", 443, b"api.openai.com", b""),
        ("http://h:8080/a/b/", "h", 8080, b"h:8080", b"/a/b"),
        ("http://[::1]:8080/a%2Fb", "::1", 8080, b"[::1]:8080", b"/a%2Fb"),
        ("https://bücher.example", "xn--bcher-kva.example", 443, b"xn--bcher-kva.example", b""),
        ("http://127.0.0.1", "127.0.0.1", 80, b"127.0.0.1", b""),
    ],
)
def test_an_origin_is_read_from_a_base_url(url: str, host: str, port: int, authority: bytes, prefix: bytes) -> None:
    found = Origin.from_url(url)
    assert (found.host, found.port, found.authority, found.prefix) == (host, port, authority, prefix)
    assert found.secure is url.startswith("https")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h", "http://", "http:///path", "http://user:secret@h", "https://secret@h", "http://h?q=1", "http://h#f",
        "http://h:0", "http://h:99999", "no url", "http://" + "a." * 200 + "b",
    ],
)  # fmt: skip
def test_what_is_more_or_less_than_a_base_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ValueError) as caught:
        Origin.from_url(url)
    assert "secret" not in str(caught.value)
