"""A run of the benchmarks that is stopped leaves nothing running."""

import asyncio
import os
import signal
import sys
from contextlib import suppress

import psutil

from benchmarks.server import ROOT

PATIENCE_SECONDS = 60.0


async def server_of(pid: int) -> psutil.Process:
    """Return the server that the run starts, as soon as it is there."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            for child in psutil.Process(pid).children(recursive=True):
                with suppress(psutil.Error):  # a compiler's, say, which has ended meanwhile
                    if "serve" in child.cmdline():
                        return child
            await asyncio.sleep(0.02)


async def test_the_server_of_a_benchmark_ends_with_it() -> None:
    run = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks", "holds", "--quick"), cwd=ROOT, env={**os.environ, "TERM": "dumb"},
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    server = None
    try:
        server = await server_of(run.pid)
        run.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_SECONDS):
            status = await run.wait()
        assert status == 128 + signal.SIGTERM
        assert not server.is_running()
    finally:
        for process in (run, server):
            if process is not None and psutil.pid_exists(process.pid):
                process.kill()
