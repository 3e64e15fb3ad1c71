"""Other programs, as their own documents tell to run them: set up here, left out with a reason where that fails."""

import asyncio
import contextlib
import os
import shutil
import socket
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp
import yaml

from benchmarks.folders import cache
from benchmarks.processes import stop

LITELLM: Final = "1.102.0"
PORTKEY: Final = "1.15.2"
MEM0: Final = "2.2.1"
LANGMEM: Final = "0.0.30"
LANGMEM_WITH: Final = ("langgraph==1.2.22", "langchain==1.4.7", "langchain-core==1.7.2", "langchain-openai==1.7.3")
"""What it is used with: it names lower bounds only, and pip looks for minutes."""
CHROMA: Final = "1.5.9"
GPTCACHE: Final = "0.1.44"
BPE: Final = "0.1.4"
"""Of bpe-openai, which counts tokens and brings its vocabulary with it."""
INSTALL_SECONDS: Final = 900.0
START_SECONDS: Final = 180.0
STOP_SECONDS: Final = 15.0
KEY: Final = "sk-benchmark"


class NotInstallable(Exception):
    """A peer cannot be run here; says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Peer:
    """A running proxy in front of the fast upstream."""

    pid: int
    """Its process; its children count too."""
    port: int
    """Where it listens, on 127.0.0.1."""
    path: str
    """Where it takes chat completions."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """What it wants to be told."""


Start = Callable[[Path, int], contextlib.AbstractAsyncContextManager[Peer]]
"""Starts a peer in a folder of its own, in front of the upstream on a port. Raises NotInstallable."""


@contextlib.asynccontextmanager
async def litellm(folder: Path, upstream: int) -> AsyncGenerator[Peer]:
    """LiteLLM's proxy: no database, one worker, one model, its key check on."""
    python = await installed(f"litellm-{LITELLM}", f"litellm[proxy]=={LITELLM}")
    model = {"model": "openai/gpt-4o-mini", "api_base": f"http://127.0.0.1:{upstream}/v1", "api_key": KEY}
    config = {
        "model_list": [{"model_name": "gpt-4o-mini", "litellm_params": model}],
        "litellm_settings": {"telemetry": False},
        "general_settings": {"master_key": KEY},
    }
    file = folder / "litellm.yaml"
    file.write_text(yaml.safe_dump(config), "utf-8")
    port = free_port()
    program = str(python.with_name("litellm"))
    command = [program, "--config", str(file), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONPATH": ""}
    headers = {"Authorization": f"Bearer {KEY}"}
    async with _running(command, folder, environment) as pid:
        await _until_up(port, "/health/liveliness", folder)
        yield Peer(pid=pid, port=port, path="/v1/chat/completions", headers=headers)


@contextlib.asynccontextmanager
async def portkey(folder: Path, upstream: int) -> AsyncGenerator[Peer]:
    """Portkey's gateway: without its console."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise NotInstallable("there is no Node.js with npm")
    home = cache() / f"portkey-{PORTKEY}"
    program = home / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"
    if not program.exists():
        home.mkdir(parents=True, exist_ok=True)
        await _install(
            npm,
            "install",
            "--prefix",
            str(home),
            "--silent",
            "--no-audit",
            "--no-fund",
            f"@portkey-ai/gateway@{PORTKEY}",
        )
    port = free_port()
    command = [node, str(program), "--headless", f"--port={port}"]
    headers = {
        "Authorization": f"Bearer {KEY}",
        "x-portkey-provider": "openai",
        "x-portkey-custom-host": f"http://127.0.0.1:{upstream}/v1",
    }
    environment = {**os.environ, "TRUSTED_CUSTOM_HOSTS": "127.0.0.1,localhost"}
    async with _running(command, folder, environment) as pid:
        await _until_up(port, "/", folder)
        yield Peer(pid=pid, port=port, path="/v1/chat/completions", headers=headers)


PEERS: Final[Mapping[str, Start]] = {f"LiteLLM {LITELLM}": litellm, f"Portkey {PORTKEY}": portkey}


async def installed(name: str, *requirements: str) -> Path:
    """Return the Python of an environment that has these, made at the first use. Raises NotInstallable."""
    home = cache() / name
    python = home / "bin" / "python"
    complete = home / "complete"  # an installation that broke off lacks it
    if not complete.exists():
        shutil.rmtree(home, ignore_errors=True)
        await _install(sys.executable, "-m", "venv", str(home))
        await _install(str(python), "-m", "pip", "install", "-q", *requirements)
        complete.touch()
    return python


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _install(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        out, _ = await asyncio.wait_for(process.communicate(), INSTALL_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise NotInstallable(f"`{' '.join(command)}` took longer than {INSTALL_SECONDS:g} s") from None
    if process.returncode != 0:
        raise NotInstallable(f"`{' '.join(command)}` failed: {_last_line(out.decode(errors='replace'))}")


@contextlib.asynccontextmanager
async def _running(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> AsyncGenerator[int]:
    with (folder / "peer.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        yield process.pid
    finally:
        await stop(process, STOP_SECONDS)


async def _until_up(port: int, path: str, folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    async with aiohttp.ClientSession() as http:
        while time.monotonic() < deadline:
            with contextlib.suppress(aiohttp.ClientError):
                async with http.get(f"http://127.0.0.1:{port}{path}") as answer:
                    if answer.status < 500:
                        return
            await asyncio.sleep(0.5)
    said = _last_line((folder / "peer.log").read_text("utf-8", "replace"))
    raise NotInstallable(f"it did not listen within {START_SECONDS:g} s: {said}")


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"
