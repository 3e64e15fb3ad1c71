"""What programs that a server starts can read of it: launched agents and stdio MCP servers."""

import asyncio
import json
import os
import shlex
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.fixtures.ports import reserved_port

KEY = "key-of-the-provider-0123456789"
ADMIN = "operator-token-of-this-test"
NOBODY = "65534:65534"
# It runs as a plain user, but may still search the folders that lead to the interpreter of a checkout that is root's.
PLAIN_USER = (
    "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
    "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
)  # fmt: skip
LOOK = "tr '\\0' '\\n' <\"/proc/$PPID/environ\" | grep -c PROVIDER_KEY; head -c 1 \"/proc/$PPID/mem\" | wc -c"
"""Prints how often the parent's environment has the key, then how much of its memory can be read: `0` and `0`."""
MCP_PROGRAM = """
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id": *\\([0-9]*\\).*/\\1/p')
  case $line in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":
{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}' "$id" | tr -d '\\n'; echo ;;
    *'"tools/call"'*) text=$( { LOOK; } 2>/dev/null | tr '\\n' ' ')
      printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}\\n' "$id" "$text" ;;
  esac
done
"""


@dataclass
class Running:
    """A server in a process that was not forked from another: its environment is what it was started with."""

    url: str
    http: aiohttp.ClientSession

    async def call(self, method: str, path: str, document: object = None) -> Any:
        async with self.http.request(method, f"{self.url}/api/v1{path}", json=document) as answer:
            assert answer.status < 400, await answer.text()
            return await answer.json()

    async def pulse_of(self, agent: str) -> str:
        """Run the agent's program once and return what it said."""
        await self.call("POST", f"/agents/{agent}/pulses", {})
        async with asyncio.timeout(60):
            while True:
                (pulse,) = (await self.call("GET", f"/agents/{agent}/pulses"))["pulses"]
                if pulse["ended_at"] is not None:
                    return str(pulse["detail"]).partition("its last output:\n")[2]
                await asyncio.sleep(0.05)

    async def tool_of(self, server: str, token: str) -> str:
        """Call the only tool of the MCP server and return what it said."""
        body: dict[str, object] = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "look", "arguments": {}},
        }
        headers = {"authorization": f"Bearer {token}", "accept": "application/json"}
        async with self.http.post(f"{self.url}/mcp/{server}", json=body, headers=headers) as answer:
            text = await answer.text()
            return json.loads(text[text.index("{") :])["result"]["content"][0]["text"]


@pytest.fixture
def folder() -> Generator[Path]:
    """Yield a folder that every user may search, unlike pytest's."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


@asynccontextmanager
async def serving(
    folder: Path, config: Mapping[str, Any], prefix: Sequence[str] = (), *, admin: bool = True
) -> AsyncGenerator[Running]:
    (folder / "circadia.yaml").write_text(yaml.safe_dump(dict(config)))
    (folder / "data").mkdir(mode=0o700)
    if prefix:
        os.chown(folder / "data", 65534, 65534)
    environment = {
        **os.environ,
        "PROVIDER_KEY": KEY,
        "NO_COLOR": "1",
        **({"CIRCADIA_ADMIN_TOKEN": ADMIN} if admin else {}),
    }
    with reserved_port() as port:
        words = [
            "serve",
            "--config",
            str(folder / "circadia.yaml"),
            "--data",
            str(folder / "data"),
            "--port",
            str(port),
        ]
        process = await asyncio.create_subprocess_exec(
            *(*prefix, sys.executable, "-m", "circadia", *words), env=environment, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            said: list[str] = []
            while not any("listens on" in line for line in said):
                line = await asyncio.wait_for(process.stdout.readline(), 60)
                assert line, "the server ended"
                said.append(line.decode())
            token = ADMIN if admin else (folder / "data" / "admin.token").read_text().strip()
            async with aiohttp.ClientSession(headers={"authorization": f"Bearer {token}"}) as http:
                yield Running(f"http://127.0.0.1:{port}", http)
        finally:
            with suppress(ProcessLookupError):  # it ended by itself
                process.terminate()
            await process.communicate()


def programs(look: str, user: str | None = None) -> dict[str, Any]:
    given = {} if user is None else {"user": user}
    mcp = MCP_PROGRAM.replace("LOOK", look)
    return {
        "upstreams": {"openai": {"base_url": "http://127.0.0.1:1", "key_env": "PROVIDER_KEY"}},
        "launchers": {
            "program": {"kind": "subprocess", "command": ["sh", "-c", f"{{ {look}; }} 2>/dev/null"], **given}
        },
        "mcp_servers": {"tools": {"command": ["sh", "-c", mcp], **given}},
        "agents": {
            "ann": {"coordination": {"launcher": "program", "heartbeat_minutes": None}},
            "eve": {"mcp_servers": ["tools"]},  # resident: a launched agent sleeps outside of its pulses
        },
    }


async def seen_by_both(server: Running) -> tuple[list[str], list[str]]:
    token = (await server.call("POST", "/sessions/default/agents/eve/token"))["token"]
    tool = await server.tool_of("tools", token)
    return (await server.pulse_of("ann")).split(), tool.split()


@pytest.mark.spec("GATE-62", "WAKE-52")
async def test_a_program_of_the_same_plain_user_reads_neither_the_servers_environment_nor_its_memory(
    folder: Path,
) -> None:
    prefix = PLAIN_USER if os.geteuid() == 0 else ()
    async with serving(folder, programs(LOOK), prefix) as server:
        assert await seen_by_both(server) == (["0", "0"], ["0", "0"])


@pytest.mark.spec("GATE-62", "WAKE-52")
@pytest.mark.setting("launchers.subprocess.user", "mcp_servers.user")
async def test_a_program_with_a_user_of_its_own_reads_nothing_of_a_server_that_runs_as_root(folder: Path) -> None:
    prefix = () if os.geteuid() == 0 else ("sudo", "--non-interactive", "--preserve-env")
    files = " ".join(shlex.quote(str(folder / "data" / name)) for name in ("admin.token", "circadia.db"))
    look = f"{LOOK}; cat {files} | wc -c; id -u; id -g; echo $HOME"
    async with serving(folder, programs(look, NOBODY), prefix, admin=False) as server:
        seen = ["0", "0", "0", "65534", "65534", "/"]
        assert await seen_by_both(server) == (seen, seen)


@pytest.mark.parametrize(
    ("user", "prefix", "told"),
    [
        ("no-such-user", (), ".user: there is no user 'no-such-user' on this machine"),
        (NOBODY, PLAIN_USER, ".user: only a server that runs as root"),
    ],
)
async def test_a_server_that_cannot_run_a_program_as_its_user_says_so_and_does_not_start(
    folder: Path, user: str, prefix: Sequence[str], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(AssertionError, match="the server ended"):
        async with serving(folder, programs("true", user), prefix):
            pass
    assert told in capfd.readouterr().err


async def test_a_server_warns_of_programs_that_run_as_its_own_user(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with serving(folder, programs("true")):
        pass
    said = capfd.readouterr().err
    assert "launchers.program runs as the server's own user" in said
    assert "mcp_servers.tools runs as the server's own user" in said
