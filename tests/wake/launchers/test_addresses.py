"""Where a webhook may connect to."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from circadia.wake.launchers.base import LaunchFailed
from circadia.wake.launchers.http_post import AddressGuard, AddressRefused
from tests.wake.launchers.benches import a_launch
from tests.wake.launchers.webhook_bench import WebhookBench

pytestmark = pytest.mark.spec("WAKE-51")

INNER = [
    "127.0.0.1",
    "127.9.9.9",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "224.0.0.1",
    "239.1.1.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::127.0.0.1",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd12:3456::1",
    "ff02::1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1",
    "2002:7f00:1::",
    "2001:0:7f00:1::",
    "2001:db8::1",
]
PUBLIC = ["1.1.1.1", "93.184.215.14", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]


@pytest.mark.parametrize("address", INNER)
def test_an_inner_address_is_refused(address: str) -> None:
    with pytest.raises(AddressRefused):
        AddressGuard((), encrypted=True).check(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_passes_only_when_encrypted(address: str) -> None:
    AddressGuard((), encrypted=True).check(address)
    with pytest.raises(AddressRefused, match="use https"):
        AddressGuard((), encrypted=False).check(address)


def test_settings_can_allow_a_network() -> None:
    guard = AddressGuard(("10.1.0.0/16", "fd00::/8"), encrypted=False)
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "fd00::5"):
        guard.check(address)
    for address in ("10.2.0.1", "fc00::1"):
        with pytest.raises(AddressRefused):
            guard.check(address)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        opened.settimeout(0.0)
        yield opened


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1"])
async def test_no_spelling_of_an_inner_address_is_connected_to(listener: socket.socket, host: str) -> None:
    url = f"http://{host}:{listener.getsockname()[1]}/pulses"
    with pytest.raises(LaunchFailed):
        await WebhookBench(calls_back=False).posting_to(url, allowed_networks=()).run(a_launch(), never)
    with pytest.raises(BlockingIOError):
        listener.accept()


async def test_a_name_that_resolves_to_an_inner_address_the_second_time_is_not_connected_to(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check looks at the address of each connection, so what a name said before does not count."""
    answers = ["93.184.215.14", "127.0.0.1"]
    port = listener.getsockname()[1]

    async def rebinding(self: object, host: object, *args: object, **more: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answers.pop(0), port))]

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", rebinding)
    guard = AddressGuard((), encrypted=True)
    guard.check(answers.pop(0))
    url = f"https://receiver.example:{port}/pulses"
    with pytest.raises(LaunchFailed, match="not a public address"):
        await WebhookBench(calls_back=False).posting_to(url, allowed_networks=()).run(a_launch(), never)
    with pytest.raises(BlockingIOError):
        listener.accept()


async def never() -> None:
    raise AssertionError("nothing may be started")
