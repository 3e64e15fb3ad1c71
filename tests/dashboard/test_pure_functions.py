"""The dashboard's functions without a page: the server's clock, batches of events, refreshes, formats."""

import asyncio

import pytest

from tests.clients.node_program import node
from tests.house.tree import ROOT


@pytest.mark.spec("UI-12")
async def test_clock_batches_refreshes_and_formats_do_as_their_own_tests_say() -> None:
    tests = sorted((ROOT / "dashboard" / "test").glob("*.test.ts"))
    assert tests
    program = await asyncio.create_subprocess_exec(
        node(), "--no-warnings", "--test", *tests, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(60):
        output, _ = await program.communicate()
    assert program.returncode == 0, output.decode()
