"""Records the shapes of real programs' requests, for `test_recorded_shapes`.

`python -m tests.clients.record_shapes [PROGRAM …]` has each program answer two questions in one session, with a
provider that first calls a tool. It writes `shapes/PROGRAM.json`.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from circadia.cli.agents.programs import SETUPS, Program
from circadia.testing.upstream import MockUpstream
from circadia.testing.upstream_script import RecordedRequest, ScriptedToolCall
from tests.clients.coding_agents import print_settings, start_program
from tests.clients.request_shapes import ShapeWriter
from tests.clients.shape_provider import Answer, FreeFormToolCall, ShapeProvider, to_document
from tests.interaction.live import KEY, Live, live

Json = dict[str, Any]

SHAPES = Path(__file__).with_name("shapes")
QUESTIONS = ("Which agents share my workbench in the harbour?", "Please note the word lantern in the file notes.txt")
ANSWERS = ("Only you sit at that workbench.", "The lantern is noted now.")
BESIDE = "A workbench title"
BESIDE_IN_FORM = '{"title": "A workbench title", "complexity_reasoning": "short", "complexity_score": 1}'
EDIT = "\n\nnotes.txt\n```\nlantern\n```\n"
"""What aider takes for a new file, which it then commits."""
COMMANDS = {
    Program.CODEX: (
        "codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox '{}'",
        "codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox resume --last '{}'",
    ),
    Program.CLAUDE_CODE: (
        "claude -p --allowedTools mcp__circadia__list_agents -- '{}'",
        "claude -c -p --allowedTools mcp__circadia__list_agents -- '{}'",
    ),
    Program.OPENCODE: ("opencode run -m openai/gpt-4o-mini '{}'", "opencode run -c -m openai/gpt-4o-mini '{}'"),
    Program.AIDER: (
        "git init -q . && git config user.name Ann && git config user.email ann@example.com && "
        "aider --no-check-update --no-analytics --yes-always --message '{}'",
        "aider --no-check-update --no-analytics --yes-always --restore-chat-history --message '{}'",
    ),
}
"""The command for the first question, and the one that goes on with its session."""
SERVERS = {Program.GEMINI: "gemini --skip-trust -y --acp", Program.QWEN_CODE: "qwen -y --acp"}
"""Those that rewrite their first turn when a session goes on in another process: they get both in one, by ACP."""
TOOLS: dict[Program, Answer] = {
    Program.CODEX: FreeFormToolCall(name="exec", text="text(await tools.mcp__circadia__list_agents({}))"),
    Program.CLAUDE_CODE: ScriptedToolCall(name="mcp__circadia__list_agents"),
    Program.GEMINI: ScriptedToolCall(name="mcp_circadia_list_agents"),
    Program.OPENCODE: ScriptedToolCall(name="circadia_list_agents"),
    Program.QWEN_CODE: ScriptedToolCall(name="mcp__circadia__list_agents"),
}
"""The call with which the model answers first; aider has no tools."""
RESULTS = ('"tool_result"', '_call_output"', '"functionResponse"', '"role": "tool"')


def items_of(body: Json) -> list[Json]:
    return body.get("messages") or body.get("input") or body.get("contents") or []


def texts_in(value: Any) -> Iterator[str]:
    """Yield all strings in a part of a body."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:  # pyright: ignore[reportUnknownVariableType]
            yield from texts_in(part)
    elif isinstance(value, str):
        yield value


def count_questions(body: Json) -> int:
    """Return the number of the person's questions that are texts of their own."""
    return len({text.strip().strip('"') for text in texts_in(items_of(body))} & set(QUESTIONS))


def is_own(program: Program, body: Json) -> bool:
    """Return whether the program asks for itself: not the person's question last, or without its tools."""
    asked = [item for item in items_of(body) if item.get("role") == "user" and not _has_result(item)]
    has_tools = bool(body.get("tools")) or any(item.get("type") == "additional_tools" for item in items_of(body))
    return not (asked and count_questions({"input": asked[-1:]})) or (program in TOOLS and not has_tools)


def choose_answer(program: Program, seen: RecordedRequest) -> Answer:
    """Return the call of a tool for a question, and a text for its result."""
    body = seen.json()
    if is_own(program, body):
        return BESIDE_IN_FORM if "schema" in seen.body.decode().lower() else BESIDE
    if program in TOOLS and not _has_result(items_of(body)[-1]):
        return TOOLS[program]
    place = count_questions(body) - 1
    return ANSWERS[place] + (EDIT if program is Program.AIDER and place else "")


def _has_result(item: Json) -> bool:
    return any(word in json.dumps(item) for word in RESULTS)


async def record(program: Program, folder: Path) -> Json:
    """Run a program's session and return the shapes of its requests."""
    async with ShapeProvider(lambda seen: choose_answer(program, seen)) as provider, MockUpstream(key=KEY) as other:
        base = {"base_url": other.base_url, "key_env": "KEY"}
        upstreams = {api: {**base, "api": api} for api in ("openai", "anthropic", "gemini")}
        async with live(folder / "server", upstreams=upstreams) as at, asyncio.timeout(300):
            settings = await _settings(program, at, provider.base_url)
            if program in SERVERS:
                output = await _talk(program, settings, folder / "home", provider)
            else:
                output = await _run(program, settings, folder / "home")
        for answer in ANSWERS:
            assert answer in output, output
        return _write(program, provider)


async def _settings(program: Program, at: Live, provider_url: str) -> str:
    """Return the printed settings, with the provider itself in the place of the gateway."""
    settings = await print_settings(program, at, await at.agent(program))
    path = SETUPS[program].path
    return settings.replace(at.url + path, provider_url + ("/v1" if path.endswith("/v1") else ""))


async def _run(program: Program, settings: str, home: Path) -> str:
    """Ask each question with a command of its own; return what they print."""
    outputs: list[str] = []
    for command, question in zip(COMMANDS[program], QUESTIONS, strict=True):
        *first, last = command.format(question).split(" && ")
        running = await start_program(program, settings, home, *first, last)
        output, _ = await running.communicate()
        outputs.append(output.decode())
        assert running.returncode == 0, outputs
        settings = "\n".join(line for line in settings.splitlines() if " mcp add " not in line)
    return "".join(outputs)


async def _talk(program: Program, settings: str, home: Path, provider: ShapeProvider) -> str:
    """Ask both questions over the Agent Client Protocol; return all that the program sends."""
    running = await start_program(program, settings, home, SERVERS[program], stdin=asyncio.subprocess.PIPE)
    assert running.stdin is not None
    assert running.stdout is not None
    lines: list[str] = []

    async def ask(number: int, method: str, params: Json) -> Json:
        assert running.stdin is not None
        assert running.stdout is not None
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        running.stdin.write(json.dumps(message).encode() + b"\n")
        while line := await running.stdout.readline():
            lines.append(line.decode())
            if line.startswith(b"{") and (answer := json.loads(line)).get("id") == number and "method" not in answer:
                assert "result" in answer, answer
                return answer["result"]
        raise AssertionError("".join(lines))

    await ask(1, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    session = (await ask(2, "session/new", {"cwd": str(home), "mcpServers": []}))["sessionId"]
    for number, question in enumerate(QUESTIONS, 3):
        await _wait_until_quiet(provider)
        prompt = [{"type": "text", "text": question}]
        await ask(number, "session/prompt", {"sessionId": session, "prompt": prompt})
    await _wait_until_quiet(provider)
    running.stdin.close()
    lines.append((await running.stdout.read()).decode())
    await running.wait()
    texts = [json.loads(line).get("params", {}).get("update", {}) for line in lines if line.startswith("{")]
    return "".join(
        each.get("content", {}).get("text", "") for each in texts if "message" in str(each.get("sessionUpdate"))
    )


async def _wait_until_quiet(provider: ShapeProvider) -> None:
    """Wait as a person does who reads: until the program has asked nothing for itself for some seconds."""
    count = -1
    while count != len(provider.requests):
        count = len(provider.requests)
        await asyncio.sleep(4)


def _write(program: Program, provider: ShapeProvider) -> Json:
    """Return the shapes of all requests; what is as in an earlier one is written once."""
    writer = ShapeWriter((*QUESTIONS, *ANSWERS))
    requests: list[Json] = []
    known: dict[str, Json] = {}
    for number, (seen, answer) in enumerate(provider.answers):
        body: Json = {}
        for name, value in writer.body(seen.json()).items():
            text = json.dumps([name, value])
            body[name] = known.get(text, value)
            if len(text) > 300:
                known.setdefault(text, {"as_in": number})
        requests.append({
            "path": seen.path + (f"?{seen.query}" if seen.query else ""),
            "own": is_own(program, seen.json()),
            "headers": writer.headers(seen.headers),
            "body": body,
            "answer": to_document(answer),
        })  # fmt: skip
    return {"questions": QUESTIONS, "answers": ANSWERS, "requests": requests}


async def _main(names: list[str]) -> None:
    for program in map(Program, names or list(Program)):
        with tempfile.TemporaryDirectory() as folder:
            shapes = await record(program, Path(folder))
        text = json.dumps(shapes, indent=1)
        assert len(text) < 60_000
        assert "circadia-agent-" not in text
        (SHAPES / f"{program}.json").write_text(f"{text}\n", "utf-8")
        print(program, len(shapes["requests"]), "requests", len(text), "bytes")


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1:]))
