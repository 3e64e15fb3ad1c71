"""A server that launches one stubborn agent, to be killed: `server_program.py PULSE LOOP STDIN|FILE FOLDER`."""

import asyncio
import sys
from pathlib import Path

import uvloop

from tests.wake.launchers.benches import SubprocessBench, a_launch


async def nothing() -> None:
    """Take note of nothing."""


async def main(pulse: str, mode: str, folder: Path) -> None:
    await SubprocessBench(folder, in_file=mode == "file").launcher("stubborn").run(a_launch(pulse, epoch=3), nothing)


if __name__ == "__main__":
    run = uvloop.run if sys.argv[2] == "uvloop" else asyncio.run
    run(main(sys.argv[1], sys.argv[3], Path(sys.argv[4])))
