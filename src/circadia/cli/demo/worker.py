"""One agent of the demo, as its user would write it: a loop around the official `openai` and `mcp` clients.

It runs as its own program and imports nothing from Circadia. The environment has the addresses and the token:
`OPENAI_BASE_URL`, `OPENAI_API_KEY`, `MCP_URL`, `MCP_TOKEN`. The only argument is a JSON file with its part of the story
(`story.py`). It prints its activity as JSON lines and ends when its standard input ends.

The steps are scripted, because the demo's small model calls no tools; each model and MCP call is real.
"""

import asyncio
import contextlib
import json
import os
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from openai import AsyncOpenAI, OpenAIError

CLIENT_ERRORS = (OpenAIError, MCPError, httpx2.HTTPError, OSError, ExceptionGroup)
KEPT_MESSAGES = 24
PAUSE_AFTER_ERROR_SECONDS = 1.0
GRACE_SECONDS = 8.0

T = TypeVar("T")


def report(event: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


class ToolFailed(Exception):
    """A tool answered with an error."""


class WorkerStopped(Exception):
    """The demo ended the run."""


class DemoAgent:
    """A model with a memory of the last turns, and tools at one MCP server."""

    def __init__(self, part: dict[str, Any], model: AsyncOpenAI, tools: Client, stop: asyncio.Event) -> None:
        self.part = part
        self._model = model
        self._tools = tools
        self._stop = stop
        self._history: list[dict[str, str]] = []

    async def think(self, prompt: str, purpose: str) -> str:
        """Ask the model, and remember the prompt and its answer."""
        self._history.append({"role": "user", "content": prompt})
        self._history = self._history[-KEPT_MESSAGES:]
        report("doing", what="thinks" if purpose == "work" else "asks the model what to do next")
        started = asyncio.get_running_loop().time()
        messages: Any = [{"role": "system", "content": self.part["system"]}, *self._history]
        limit: Any = {self.part["limit_field"]: self.part["max_tokens"]}
        answer = await self._until_stopped(
            self._model.chat.completions.create(model=self.part["model"], messages=messages, stream=False, **limit),
            grace_seconds=GRACE_SECONDS,
        )
        usage = answer.usage
        cached = usage.prompt_tokens_details.cached_tokens if usage and usage.prompt_tokens_details else 0
        report(
            "model",
            purpose=purpose,
            input=usage.prompt_tokens if usage else None,
            output=usage.completion_tokens if usage else None,
            cached=cached or 0,
            seconds=asyncio.get_running_loop().time() - started,
        )
        text = (answer.choices[0].message.content or "").strip()
        self._history.append({"role": "assistant", "content": text})
        return text

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its structured answer."""
        result = await self._until_stopped(self._tools.call_tool(tool, arguments))
        report("tool", name=tool)
        if result.is_error:
            raise ToolFailed(f"{tool}: {' '.join(getattr(block, 'text', '') for block in result.content)}")
        return result.structured_content or {}

    async def world(self, what: str, seconds: float) -> None:
        """Wait for an outside activity such as a query or a build."""
        report("doing", what=what)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)
            raise WorkerStopped

    async def wait(self) -> list[dict[str, Any]]:
        """Wait for a mention up to the client's timeout; return the messages, none after an empty wait."""
        report("doing", what="waits for a mention")
        started = asyncio.get_running_loop().time()
        answer = await self.call("wait_for_mention", timeout_seconds=self.part["wait_seconds"])
        messages = answer.get("messages", [])
        report("wait", empty=not messages, seconds=asyncio.get_running_loop().time() - started)
        return messages

    async def _until_stopped(self, work: Awaitable[T], *, grace_seconds: float = 0.0) -> T:
        """Await `work`; when the run ends, cancel it after `grace_seconds`."""
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and grace_seconds:
                await asyncio.wait({task}, timeout=grace_seconds)
            if not task.done():
                raise WorkerStopped
            return task.result()
        finally:
            for future in (task, stop):
                future.cancel()
            await asyncio.gather(task, stop, return_exceptions=True)


class Specialist:
    """Does the work of a mention, and replies to its sender."""

    def __init__(self, agent: DemoAgent) -> None:
        self._agent = agent

    async def handle(self, message: dict[str, Any]) -> None:
        incident = message["content"].partition(":")[0]
        job = self._agent.part["jobs"][incident]
        await self._agent.world(job["what"], job["seconds"])
        finding = await self._agent.think(f"{message['content']}\n{job['prompt']}", "work")
        await self._agent.call(
            "send_message",
            thread=message["thread"],
            content=f"{incident}: {job['finding']} {finding}",
            mentions=[message["from"]],
        )
        report("done", incident=incident)


class Coordinator:
    """Opens a thread for each incident, asks the specialists in turn, collects their replies, closes it."""

    def __init__(self, agent: DemoAgent) -> None:
        self._agent = agent
        self._asked: dict[str, list[str]] = {}
        self._thread: dict[str, str] = {}
        self._called_in: dict[str, str] = {}

    async def handle(self, message: dict[str, Any]) -> None:
        """Take the next step in the mentioned incident."""
        incident = message["content"].partition(":")[0]
        steps = self._agent.part["incidents"][incident]
        if incident not in self._thread:
            report("incident", incident=incident, state="taken")
            self._called_in[incident] = message["thread"]
            await self._agent.think(f"{message['content']}\nWho should look first? One short sentence.", "work")
            opened = await self._agent.call("create_thread", name=f"work on {incident}", participants=[])
            self._thread[incident] = opened["thread"]["id"]
            self._asked[incident] = []
        else:
            await self._agent.call("remove_participant", thread=self._thread[incident], agent=message["from"])
            await self._agent.think(f"{message['content']}\nWhat follows? One short sentence.", "work")
        asked_agents = self._asked[incident]
        if len(asked_agents) < len(steps):
            await self._ask(incident, steps[len(asked_agents)])
        else:
            for thread in (self._thread[incident], self._called_in[incident]):
                await self._agent.call("close_thread", thread=thread, summary=message["content"][:200])
            report("incident", incident=incident, state="closed")

    async def _ask(self, incident: str, step: dict[str, str]) -> None:
        """Add a specialist to the thread and mention it."""
        thread = self._thread[incident]
        await self._agent.call("add_participant", thread=thread, agent=step["agent"])
        self._asked[incident].append(step["agent"])
        await self._agent.call(
            "send_message", thread=thread, content=f"{incident}: {step['ask']}", mentions=[step["agent"]]
        )


async def loop(agent: DemoAgent) -> None:
    """Wait and work until the run ends; after an empty wait, ask the model what to do."""
    handler = Coordinator(agent) if "incidents" in agent.part else Specialist(agent)
    while True:
        try:
            messages = await agent.wait()
            for message in messages:
                await handler.handle(message)
            if not messages:
                await agent.think(agent.part["idle_prompt"], "empty")
        except (*CLIENT_ERRORS, ToolFailed) as error:
            report("error", message=f"{type(error).__name__}: {error}")
            await agent.world("pauses after an error", PAUSE_AFTER_ERROR_SECONDS)


@contextlib.asynccontextmanager
async def open_clients() -> AsyncGenerator[tuple[AsyncOpenAI, Client]]:
    """Open both clients with their default timeouts and retries."""
    headers = {"Authorization": f"Bearer {os.environ['MCP_TOKEN']}"}
    # A custom client must repeat the SDK's timeouts: 30 s, and 300 s between two bytes of an answer.
    http = httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(30.0, read=300.0))
    async with AsyncOpenAI() as model, http:
        async with Client(streamable_http_client(os.environ["MCP_URL"], http_client=http)) as tools:
            yield model, tools


def watch_stdin(stop: asyncio.Event, running: asyncio.AbstractEventLoop) -> None:
    """Set `stop` at the end of standard input."""
    sys.stdin.buffer.read()
    running.call_soon_threadsafe(stop.set)


async def main() -> int:
    """Run the agent with the part in the file named by the first argument."""
    part = json.loads(await asyncio.to_thread(Path(sys.argv[1]).read_text, "utf-8"))
    stop = asyncio.Event()
    threading.Thread(target=watch_stdin, args=(stop, asyncio.get_running_loop()), daemon=True).start()
    status = 0
    try:
        async with open_clients() as (model, tools):
            report("ready")
            with contextlib.suppress(WorkerStopped):
                await loop(DemoAgent(part, model, tools, stop))
    except CLIENT_ERRORS as error:
        if not stop.is_set():
            report("error", message=f"{type(error).__name__}: {error}", fatal=True)
            status = 1
    report("end")
    return status


if __name__ == "__main__":
    # Without os._exit the interpreter would wait for the thread that reads standard input.
    code = asyncio.run(main())
    sys.stdout.flush()
    os._exit(code)
