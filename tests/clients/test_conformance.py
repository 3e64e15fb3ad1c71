"""The MCP conformance suite passes on Circadia's own server, but for a list of what it does not offer."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.clients.conftest import Stage
from tests.clients.node_program import MODULES, node
from tests.clients.token_proxy import token_proxy

pytestmark = pytest.mark.asyncio(loop_scope="module")

SUITE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
EXPECTED = Path(__file__).with_name("conformance-expected.yaml")


async def conformance(url: str, expected: Path | None, results: Path) -> tuple[int, str]:
    """Run the active suite and return its exit status (not 0 also if a listed scenario passes) and its words."""
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
    return process.returncode, out.decode()


@pytest.mark.spec("GATE-70")
@pytest.mark.timeout(300)
async def test_circadias_own_mcp_server_conforms_but_for_the_listed_scenarios(stage: Stage, tmp_path: Path) -> None:
    agent = await stage.agent(asleep=False)
    async with token_proxy(stage.server.url, agent.token) as base:
        status, told = await conformance(f"{base}/mcp", EXPECTED, tmp_path)
    assert status == 0, told
