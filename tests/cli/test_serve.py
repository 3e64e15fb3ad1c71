"""`circadia serve`: what it says, what it refuses, how it ends."""

import asyncio
import signal
import socket
import stat
from pathlib import Path

import aiohttp
import pytest

from circadia.client import Client
from tests.cli.terminal import refused, run, started


def found_in(said: str) -> tuple[str, str]:
    """Return the URL and the token that the server prints."""
    words = said.replace("=", " ").split()
    url = next(word for word in words if word.startswith("http://"))
    return url, next(word for word in words if word.startswith("circadia-admin-"))


async def test_the_first_start_prints_the_operators_token_and_the_next_does_not(home: Path) -> None:
    words = ("serve", "--port", "0", "--data", str(home / "data"))
    async with started(*words) as server:
        url, token = found_in(await server.until("agents add"))
        kept = home / "data" / "admin.token"
        assert kept.read_text("ascii").strip() == token
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert (await run("agents", "add", "ann", "--url", url, "--data", str(home / "data"))).status == 0
        server.signal(signal.SIGTERM)
        assert (await server.ended()).status == 0
    async with started(*words) as server:
        await server.until("Data:")
        server.signal(signal.SIGTERM)
        assert "circadia-admin-" not in (await server.ended()).out


async def test_ctrl_c_ends_it_quietly(home: Path) -> None:
    async with started("serve", "--port", "0") as server:
        await server.until("listens")
        server.signal(signal.SIGINT)
        ended = await server.ended()
    assert ended.status == 130
    assert "Traceback" not in ended.err
    assert (home / ".local" / "share" / "circadia" / "circadia.db").exists(), "the user's own data folder"


@pytest.mark.spec("GATE-49")
async def test_what_happens_while_it_stops_is_still_recorded(home: Path) -> None:
    """A held call that ends with the server leaves its `dropped` event, although the stop came by SIGTERM."""
    (home / "circadia.yaml").write_text("upstreams: {openai: {base_url: 'http://127.0.0.1:9'}}", "utf-8")
    words = ("serve", "--port", "0", "--data", str(home / "data"))
    async with started(*words) as server:
        url, token = found_in(await server.until("agents add"))
        async with Client(url, token) as client:
            made = await client.create_agent("default", "ann", sleep_events=["agent_started"])
            call = asyncio.create_task(model_status(url, made.token))
            while not (await client.list_holds()).holds:
                await asyncio.sleep(0.02)
        server.signal(signal.SIGTERM)
        assert (await server.ended()).status == 0
        assert await call == 503
    async with started(*words) as server:
        url = (await server.until("listens")).split()[-1]
        listed = await run("events", "--url", url, "--token", token, "--agent", "ann", "--json")
    assert "dropped" in [each["type"] for each in listed.json["events"]]


async def model_status(url: str, token: str) -> int:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as http:
        async with http.post(f"{url}/llm/openai/v1/chat/completions", json=body) as answer:
            return answer.status


@pytest.mark.spec("WAKE-16")
async def test_an_address_that_the_command_gives_is_no_change_of_the_file(home: Path) -> None:
    file = home / "circadia.yaml"
    file.write_text("server: {port: 4999, host: localhost}\n", "utf-8")
    async with started("serve", "--port", "0", "--host", "127.0.0.1", "--data", str(home / "data")) as server:
        await server.until("listens")
        await server.until("passes ask no model: no provider", errors=True)
        file.write_text("server: {port: 4999, host: localhost}\nlimits: {max_holds: 5}\n", "utf-8")
        told = await server.until("after a restart", errors=True)
    assert "a change of limits takes effect after a restart" in told


async def test_a_port_that_is_taken_is_told(home: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        async with started("serve", "--port", str(port)) as server:
            refused(await server.ended(), 10, f"127.0.0.1:{port}", "--port")


@pytest.mark.parametrize("host", ["192.0.2.1", "999.1.1.1", "x" * 70])
async def test_a_host_that_is_not_of_this_machine_is_told(home: Path, host: str) -> None:
    async with started("serve", "--host", host, "--port", "0") as server:
        refused(await server.ended(), 10, host, "choose another with --host")


async def test_a_second_server_on_the_same_folder_is_refused(home: Path) -> None:
    words = ("serve", "--port", "0", "--data", str(home / "data"))
    async with started(*words) as first:
        await first.until("listens")
        async with started(*words) as second:
            refused(await second.ended(), 10, "another Circadia server", str(first.pid), "--data")


async def test_a_data_folder_that_cannot_be_written_is_told(home: Path) -> None:
    folder = home / "data"
    folder.mkdir(mode=0o555)
    program = ("tests.cli.without_override",)
    async with started("serve", "--port", "0", "--data", str(folder), program=program) as server:
        refused(await server.ended(), 10, str(folder), "Permission denied", "--data")


async def test_a_database_that_cannot_be_written_is_told_at_the_start(home: Path) -> None:
    data = str(home / "data")
    await run("migrate", "--data", data)
    (home / "data" / "circadia.db").chmod(0o400)
    program = ("tests.cli.without_override",)
    async with started("serve", "--port", "0", "--data", data, program=program) as server:
        refused(await server.ended(), 10, "data/circadia.db", "check the owner and the mode")


@pytest.mark.parametrize("content", [b"", b"short\n", b"\xff" * 32])
async def test_a_token_file_that_is_empty_short_or_none_is_refused(home: Path, content: bytes) -> None:
    (home / "data").mkdir(mode=0o700)
    (home / "data" / "admin.token").write_bytes(content)
    async with started("serve", "--port", "0", "--data", str(home / "data")) as server:
        refused(await server.ended(), 10, "data/admin.token", "remove it, and the next start makes a new one")


async def test_a_data_folder_that_is_a_file_is_told(home: Path) -> None:
    (home / "file").write_text("", "utf-8")
    async with started("serve", "--port", "0", "--data", str(home / "file")) as server:
        refused(await server.ended(), 10, str(home / "file"), "--data")


async def test_a_bad_configuration_is_told_with_the_nearest_key(home: Path) -> None:
    (home / "circadia.yaml").write_text("servr: {port: 1}", "utf-8")
    refused(await run("serve"), 9, "'servr'", "'server'")


async def test_a_variable_that_the_configuration_names_must_be_set(home: Path) -> None:
    text = "upstreams: {openai: {base_url: 'http://127.0.0.1:9', key_env: NO_SUCH_KEY}}"
    (home / "circadia.yaml").write_text(text, "utf-8")
    async with started("serve", "--port", "0") as server:
        refused(await server.ended(), 9, "upstreams.openai", "NO_SUCH_KEY")
    async with started("serve", "--port", "0", env={"NO_SUCH_KEY": "k"}) as server:
        _, token = found_in(await server.until("agents add"))
    kept = home / ".local" / "share" / "circadia" / "admin.token"
    assert kept.read_text("ascii").strip() == token, "a start that failed has not used up the one telling of it"


@pytest.mark.spec("CLU-10")
@pytest.mark.parametrize("role", ["gateway", "worker"])
async def test_a_gateway_or_a_worker_needs_postgresql(home: Path, role: str) -> None:
    async with started("serve", "--role", role) as server:
        refused(await server.ended(), 10, role, "--role all")
