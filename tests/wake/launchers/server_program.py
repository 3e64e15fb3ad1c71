"""A server that launches one stubborn agent, to be killed: `server_program.py LOOP STDIN|FILE FOLDER`."""

import asyncio
import sys
from pathlib import Path

import uvloop

from tests.wake.launchers.benches import SubprocessBench, a_launch


async def nothing() -> None:
    """Take note of nothing."""


async def main(mode: str, folder: Path) -> None:
    await SubprocessBench(folder, in_file=mode == "file").launcher("stubborn").run(a_launch(epoch=3), nothing)


if __name__ == "__main__":
    run = uvloop.run if sys.argv[1] == "uvloop" else asyncio.run
    run(main(sys.argv[2], Path(sys.argv[3])))
