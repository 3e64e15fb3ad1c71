"""Coding agents that people run, set up as the documentation says, are held for longer than they wait by themselves."""

import asyncio
import os
import re
from pathlib import Path

import pytest

from tests.interaction.live import FAST, live

BIN = Path(__file__).with_name("agents") / "node_modules" / ".bin"
GUIDE = Path(__file__).parents[2] / "docs" / "get-started.md"
IDLE = "stream_idle_timeout_ms = 3000\nstream_max_retries = 0\nrequest_max_retries = 0\n"
"""Codex's own time-out without events is 300 s, five times."""
SOME_SECONDS = 10.0
LONG_SECONDS = 35 * 60.0


def codex_config(url: str, more: str) -> str:
    """Return the documented configuration for this server."""
    section = GUIDE.read_text("utf-8").split("### Codex\n")[1]
    block = re.search(r"```toml\n(.*?)```", section, re.S)
    assert block
    provider, servers = block[1].replace("http://127.0.0.1:4114", url).split("\n\n[mcp_servers")
    return f"{provider}\n{more}\n[mcp_servers{servers}"


def claude_variables(url: str, token: str) -> dict[str, str]:
    """Return the documented environment for this server and agent."""
    section = GUIDE.read_text("utf-8").split("### Claude Code\n")[1].split("###")[0]
    named = dict(re.findall(r"^export (\w+)=(\S+)", section, re.M))
    return {name: value.replace("http://127.0.0.1:4114", url) for name, value in named.items()} | {
        "ANTHROPIC_AUTH_TOKEN": token
    }


@pytest.mark.slow
@pytest.mark.spec("GATE-93")
@pytest.mark.timeout(LONG_SECONDS + 300)
async def test_claude_code_is_held_for_longer_than_its_own_limit(tmp_path: Path) -> None:
    async with live(tmp_path / "server", timings={}) as at:
        token = await at.agent()
        await at.sleeping(True)
        claude = await asyncio.create_subprocess_exec(
            *(BIN / "claude", "-p", "Say hello."),
            cwd=tmp_path,
            env={**os.environ, "HOME": str(tmp_path), **claude_variables(at.url, token)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said = asyncio.create_task(claude.communicate())
        held = len(await at.held(2))  # the prompt, and a title for the session
        done, _ = await asyncio.wait((said,), timeout=LONG_SECONDS)
        assert not done, said.result()[0].decode()
        await at.sleeping(False)
        output, _ = await said
        assert claude.returncode == 0, output.decode()
        assert len(at.upstream.requests) == held
        assert not await at.events("dropped")


@pytest.mark.slow
@pytest.mark.spec("GATE-93")
@pytest.mark.timeout(LONG_SECONDS + 300)
@pytest.mark.parametrize(("more", "seconds", "timings"), [(IDLE, SOME_SECONDS, FAST), ("", LONG_SECONDS, {})])
async def test_codex_is_held_for_longer_than_it_waits_for_an_event(
    tmp_path: Path, more: str, seconds: float, timings: dict[str, float]
) -> None:
    async with live(tmp_path / "server", timings=timings) as at:
        token = await at.agent()
        home = tmp_path / "codex"
        home.mkdir()
        (home / "config.toml").write_text(codex_config(at.url, more), "utf-8")
        await at.sleeping(True)
        codex = await asyncio.create_subprocess_exec(
            *(BIN / "codex", "exec", "--skip-git-repo-check", "Say hello."),
            cwd=tmp_path,
            env={**os.environ, "CODEX_HOME": str(home), "HOME": str(tmp_path), "OPENAI_API_KEY": token},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said = asyncio.create_task(codex.communicate())
        await at.held(1)
        done, _ = await asyncio.wait((said,), timeout=seconds)
        assert not done, said.result()[0].decode()
        await at.sleeping(False)
        output, _ = await said
        assert codex.returncode == 0, output.decode()
        (request,) = at.upstream.requests
        assert b"mcp__circadia" in request.body, "it offers Circadia's tools"
        assert [event["type"] for event in await at.events("held", "admitted", "dropped")] == ["held", "admitted"]
