"""The documented programs of other languages, run as they stand in the docs against a real server."""

import asyncio
from pathlib import Path

import pytest

from tests.house.live_server import live_server
from tests.house.tree import ROOT, Block, blocks, pages

NODE = ROOT / "tests" / "clients" / "node"
PROGRAMS = [
    block
    for page in pages()
    for block in blocks(page)
    if "run-by=tests/clients/test_frameworks.py" in block.flags and block.language == "javascript"
]


@pytest.mark.parametrize("block", PROGRAMS, ids=str)
async def test_a_documented_node_program_runs_as_it_stands(block: Block, tmp_path: Path) -> None:
    # Beside node_modules, where imports are looked up; ignored by git, or who looks at all files would miss it.
    program = NODE / f".example-{abs(hash(str(block)))}.mjs"
    program.write_text(block.body, "utf-8")
    try:
        async with live_server(tmp_path) as environment, asyncio.timeout(60):
            process = await asyncio.create_subprocess_exec(
                "node",
                str(program),
                env={**environment},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            said, _ = await process.communicate()
        assert process.returncode == 0, said.decode()
        assert b"Say hello." in said  # the mock provider repeats what it was asked
    finally:
        program.unlink()
