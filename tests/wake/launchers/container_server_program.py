"""A server that launches one stubborn container, to be killed: `container_server_program.py PULSE ENGINE FOLDER`."""

import sys
from pathlib import Path

import uvloop

from tests.wake.launchers.benches import a_launch
from tests.wake.launchers.container_bench import ContainerBench, Podman


async def nothing() -> None:
    """Take note of nothing."""


async def main(pulse: str, engine: str, folder: Path) -> None:
    bench = ContainerBench(Podman(address=engine, command=(), environment={}), folder)
    await bench.launcher("stubborn").run(a_launch(pulse, epoch=3), nothing)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
