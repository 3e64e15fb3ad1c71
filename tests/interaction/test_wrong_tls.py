"""Certificates that are none, and TLS where there should be none or the other way round: errors that help."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from circadia.wake.launchers.base import LaunchFailed
from tests.fixtures.certificates import served
from tests.interaction.live import KEY, live
from tests.interaction.test_mcp_door import ask, call
from tests.wake.launchers.benches import TOKEN, a_launch
from tests.wake.launchers.webhook_bench import WebhookBench

YESTERDAY = (-3, -1)
TODAY = (-1, 1)
TOMORROW = (1, 3)
NO_TLS = "it speaks no TLS there; correct the port, or write http://"
NOT_TRUSTED = "its certificate is not trusted here (self-signed certificate); name a file"
SECRETS = {"MCP_SECRET": "a-secret-of-the-mcp-server"}


@asynccontextmanager
async def peer(tls: ssl.SSLContext | None) -> AsyncGenerator[int]:
    """Serve what a plain or a TLS web server says to whom it does not understand, and yield the port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(1000):
            writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "localhost", 0, ssl=tls, family=2)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def told(folder: Path, url: str) -> dict[str, str]:
    """Return what each of the three callers says of a place: a model's, a tool's, a pulse's."""
    servers = {"remote": {"url": f"{url}/mcp", "headers_env": {"x-secret": "MCP_SECRET"}}}
    async with live(
        folder / "server", upstream={"base_url": url, "retries": 0}, mcp_servers=servers, environment=SECRETS
    ) as at:
        token = await at.agent()
        async with at.call(token) as response:
            assert response.status == 502
            model = await response.text()
        tool = json.dumps((await ask(at, token, call("echo"), "/remote"))[-1]["error"])

    async def noted() -> None:
        """Take note of nothing."""

    try:
        ended = await WebhookBench(calls_back=False).posting_to(f"{url}/pulses?key=sesame").run(a_launch(), noted)
        assert not ended.succeeded
        pulse = ended.detail
    except LaunchFailed as error:
        pulse = str(error)
    said = {"model": model, "tool": tool, "pulse": pulse}
    for secret in (KEY, token, TOKEN, "sesame", *SECRETS.values()):
        assert secret not in str(said)
    return said


@pytest.mark.spec("GATE-62", "WAKE-51")
async def test_a_certificate_that_nobody_signed_is_told_with_what_to_do(tmp_path: Path) -> None:
    async with peer(served(tmp_path, "localhost")) as port:
        for who, text in (await told(tmp_path, f"https://localhost:{port}")).items():
            assert NOT_TRUSTED in text, who


@pytest.mark.spec("GATE-62")
@pytest.mark.parametrize(
    ("name", "days", "reason"),
    [
        ("localhost", YESTERDAY, "its certificate has expired; whoever runs it must renew it"),
        ("localhost", TOMORROW, "its certificate is not valid yet; check this machine's clock"),
        ("other.example", TODAY, "its certificate is for another name; use the name that it is for"),
        ("127.0.0.2", TODAY, "its certificate is for another name; use the name that it is for"),
    ],
    ids=["expired", "not yet valid", "other name", "other address"],
)
async def test_a_trusted_certificate_that_does_not_hold_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, days: tuple[int, int], reason: str
) -> None:
    context = served(tmp_path, name, days=days)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    async with peer(context) as port:
        assert reason in (await told(tmp_path, f"https://localhost:{port}"))["model"]


@pytest.mark.spec("GATE-62", "WAKE-51")
async def test_tls_to_a_plain_port_is_told_as_such(tmp_path: Path) -> None:
    async with peer(None) as port:
        for who, text in (await told(tmp_path, f"https://localhost:{port}")).items():
            assert NO_TLS in text, who


@pytest.mark.spec("GATE-62", "WAKE-51")
async def test_plain_text_to_a_tls_port_is_told_with_a_guess(tmp_path: Path) -> None:
    async with peer(served(tmp_path, "localhost")) as port:
        for who, text in (await told(tmp_path, f"http://localhost:{port}")).items():
            assert "if it speaks TLS there, write https://" in text, who
