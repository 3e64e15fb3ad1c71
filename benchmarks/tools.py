"""The fast upstream and the load generator: compiled where there is a C compiler, else their stand-ins in Python."""

import asyncio
import contextlib
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.folders import cache

SOURCES: Final = Path(__file__).with_name("native")


class LoadFailed(Exception):
    """There was no good answer at all; says what came in its place."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What a run of closed-loop load found; times in milliseconds."""

    requests: int
    """Good answers."""
    errors: int
    """Bad answers and broken connections."""
    seconds: float
    """From the first request to the last answer."""
    p50: float
    """Median time of an answer."""
    p90: float
    """The ninth decile."""
    p99: float
    """The last centile."""

    @property
    def rate(self) -> float:
        """Good answers a second."""
        return self.requests / self.seconds


def find_compiler() -> str | None:
    """Return a C compiler; none if there is none, or if this is no Linux: the C programs use epoll."""
    if not sys.platform.startswith("linux"):
        return None
    return next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)


def tool(name: str) -> Sequence[str]:
    """Return the command of `fast_upstream`, `load` or, with a compiler only, `delay_proxy`."""
    compiler = find_compiler()
    if compiler is None:
        return [sys.executable, "-m", f"benchmarks.native.{name}"]
    return [str(_built(compiler, name))]


def slow_sync(milliseconds: int) -> dict[str, str] | None:
    """Return the environment in which each sync of a file takes so much longer; none without a C compiler."""
    compiler = find_compiler()
    if compiler is None:
        return None
    library = _built(compiler, "slow_sync", "-shared", "-fPIC", "-ldl")
    return {"LD_PRELOAD": str(library), "SLOW_SYNC_MS": str(milliseconds)}


def _built(compiler: str, name: str, *options: str) -> Path:
    source = SOURCES / f"{name}.c"
    built = cache() / f"{name}-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}"
    if not built.exists():
        subprocess.run([compiler, "-O2", "-o", f"{built}.part", source, *options], check=True)
        Path(f"{built}.part").rename(built)
    return built


@contextlib.asynccontextmanager
async def fast_upstream(chunks: int = 20) -> AsyncGenerator[int]:
    """Run the fast upstream; yield its port. A stream has so many chunks."""
    process = await asyncio.create_subprocess_exec(
        *tool("fast_upstream"), str(chunks), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield int(await process.stdout.readline())
    finally:
        process.stdin.close()
        await process.wait()


async def load(
    port: int, connections: int, seconds: float, request: Path, mark: str, *, size: int | None = None,
    every_seconds: float = 0.0,
) -> Load:  # fmt: skip
    """Send the request over and over; an answer is good if it is a 200 and holds `mark`.

    With `size` the file holds several requests, which have so many bytes each and are sent in turn. A connection sends
    no sooner than `every_seconds` after it last did.

    Raises:
        LoadFailed: there was no good answer at all.
    """
    options = (size or request.stat().st_size, 1000 * every_seconds)
    process = await asyncio.create_subprocess_exec(
        *tool("load"), str(port), str(connections), str(seconds), str(request), mark, *map(str, options),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, said = await process.communicate()
    if process.returncode != 0:
        raise LoadFailed(said.decode(errors="replace").strip())
    found = Load(**json.loads(out))
    if found.requests == 0:
        raise LoadFailed(said.decode(errors="replace").split("\r\n", 1)[0].strip())
    return found
