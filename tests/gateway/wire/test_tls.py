"""Connections over TLS, with certificates made for the occasion."""

import asyncio
import ssl
from pathlib import Path

import pytest

from circadia.gateway.wire.base import ConnectFailed, ConnectTimedOut
from circadia.gateway.wire.dialer import tls_context
from tests.fixtures.certificates import served
from tests.gateway.wire.peer import OK, Caller, answering, ask, peer, pool

LARGE = bytes(range(256)) * 2**14
"""4 MiB."""


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """What a provider serves whose certificate the machine trusts, for `localhost` and 127.0.0.1."""
    server = served(tmp_path, "localhost", "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    return server


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_trusted_provider_is_called_over_tls_by_name_or_address(trusted: ssl.SSLContext, host: str) -> None:
    chosen: list[str | None] = []

    async def script(caller: Caller) -> None:
        chosen.append(caller.writer.get_extra_info("ssl_object").selected_alpn_protocol())
        await answering(OK)(caller)

    async with peer(script, tls=trusted) as at:
        async with pool(at, f"https://{host}:{{port}}", context=tls_context()) as wire:
            for _ in range(3):
                assert (await ask(wire))[1] == b"ok"
            assert (at.made, chosen) == (1, ["http/1.1"])
        await at.emptied()


async def test_a_large_body_and_a_large_answer_pass_over_tls(trusted: ssl.SSLContext) -> None:
    async def script(caller: Caller) -> None:
        while True:
            assert (await caller.request()).endswith(LARGE)
            await caller.say(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(LARGE), LARGE)

    async with peer(script, tls=trusted) as at:
        async with pool(at, "https://localhost:{port}", context=tls_context()) as wire:
            for _ in range(2):
                answer = await wire.send("POST", "/", [], LARGE)
                while answer.unread < 2**18:  # the provider is held up
                    await asyncio.sleep(0)
                assert b"".join([chunk async for chunk in answer]) == LARGE
            assert at.made == 1


async def test_a_provider_whose_certificate_nobody_signed_is_refused(tmp_path: Path) -> None:
    async with peer(answering(OK), tls=served(tmp_path, "localhost")) as at:
        async with pool(at, "https://localhost:{port}", context=tls_context(), max_connections=1) as wire:
            for _ in range(2):
                with pytest.raises(ConnectFailed):
                    await ask(wire)
        assert at.heads == []


async def test_a_trusted_certificate_of_another_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = served(tmp_path, "other.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    async with peer(answering(OK), tls=server) as at:
        async with pool(at, "https://localhost:{port}", context=tls_context()) as wire:
            with pytest.raises(ConnectFailed):
                await ask(wire)
        assert at.heads == []


async def test_a_provider_without_tls_is_refused_and_one_that_never_shakes_hands_is_told_as_unreached() -> None:
    async with peer(answering(OK)) as at:
        async with pool(
            at, "https://localhost:{port}", context=tls_context(), connect_timeout_seconds=0.1, max_connections=1
        ) as wire:
            with pytest.raises(ConnectTimedOut):
                await ask(wire)
        await at.emptied()

    async def rude(caller: Caller) -> None:
        await caller.say(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")

    async with peer(rude) as at, pool(at, "https://localhost:{port}", context=tls_context()) as wire:
        with pytest.raises(ConnectFailed):
            await ask(wire)


async def test_a_caller_who_leaves_while_hands_are_shaken_closes_the_connection() -> None:
    async with peer(Caller.gone) as at:
        async with pool(at, "https://localhost:{port}", context=tls_context(), max_connections=1) as wire:
            for _ in range(2):
                call = asyncio.create_task(ask(wire))
                await at.until(lambda: at.open == 1)
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call
                await at.emptied()
