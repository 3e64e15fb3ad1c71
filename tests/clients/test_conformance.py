"""The MCP conformance suite, on Circadia's own server and on a server behind the gateway."""

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.clients.node_program import FOLDER, MODULES, node
from tests.clients.token_proxy import token_proxy
from tests.fixtures.server_process import CircadiaProcess

pytestmark = pytest.mark.timeout(300)

SUITE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
EXPECTED = Path(__file__).with_name("conformance-expected.yaml")


async def conformance(url: str, results: Path, *, expected: Path | None = None) -> tuple[int, str]:
    """Run the active suite and return its exit status (not 0 also if a listed scenario passes) and its summary."""
    listed = () if expected is None else ("--expected-failures", str(expected))
    process = await asyncio.create_subprocess_exec(
        *(node(), str(SUITE), "server", "--url", url, "--suite", "active", "--output-dir", str(results), *listed),
        env={**os.environ, "NO_COLOR": "1"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode().partition("=== SUMMARY ===")[2] or out.decode()


@contextlib.asynccontextmanager
async def full_server() -> AsyncGenerator[str]:
    """Yield the URL of a server that has all that the suite asks for."""
    process = await asyncio.create_subprocess_exec(
        *(node(), str(FOLDER / "conformance_server.mjs")), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.terminate()
        await process.communicate()


@pytest.mark.spec("GATE-35", "GATE-70")
async def test_circadias_own_mcp_server_conforms_but_for_the_listed_scenarios(tmp_path: Path) -> None:
    async with CircadiaProcess(tmp_path) as server:
        tokens = await server.create_session("suite", [{"name": "worker"}])
        async with token_proxy(server.url, tokens["worker"]) as base:
            status, told = await conformance(f"{base}/mcp", tmp_path / "results", expected=EXPECTED)
    assert status == 0, told


@pytest.mark.spec("GATE-35", "GATE-41", "GATE-74")
async def test_a_server_behind_the_gateway_conforms_in_full(tmp_path: Path) -> None:
    async with full_server() as url:
        async with CircadiaProcess(tmp_path, {"mcp_servers": {"full": {"url": url}}}) as server:
            tokens = await server.create_session("suite", [{"name": "worker"}])
            async with token_proxy(server.url, tokens["worker"]) as base:
                status, told = await conformance(f"{base}/mcp/full", tmp_path / "results")
    assert status == 0, told
