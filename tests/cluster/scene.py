"""What random requests act upon: agents, threads and a bank in two sessions, and the servers that take the requests."""

import asyncio
import json
import random
import re
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from circadia.testing.upstream import MockUpstream
from tests.cluster.quick_agent import LAUNCHERS
from tests.interaction.live import ADMIN, KEY, Live, live
from tests.interaction.test_mcp_door import call, messages

_ID = re.compile(r'"((?:agt|epi|msg|not|pas|pls|thr|wak|ans|ready)_[0-9a-f]+)"')
_RECENT = 12
"""Ids of a kind that requests pick from: few, so that they meet."""
HELD_SECONDS = 1.0
"""How long a call of an agent that sleeps is waited for; then its connection is cut."""
_ENDED = '"code":"ended"'
"""In the answer of a held call whose agent was disabled or deleted."""
_INTERNAL_ERROR = -32603
_UNAVAILABLE = -32055

SESSION_OF = {"ann": "default", "bob": "default", "cid": "team"}
THREADS = {"red", "blue"}
BANK_OF = {"ann": "team", "bob": "team", "cid": "solo"}
POLICY: dict[str, Any] = {
    "answer_mode": "serve", "sessions": ["*"], "may_wake": ["*"], "may_sleep": ["*"], "max_usd_per_day": 1e6,
}  # fmt: skip
EVENTS = {
    "sleep_events": ["last_thread_closed", "removed_from_last_thread"],
    "wake_events": ["mentioned", "added_to_any_thread"],
}
COORDINATION = {
    "wake_guardrails.cooldown_seconds": 0, "wake_guardrails.max_wakes_per_day": None,
    "wake_guardrails.max_wakes_per_pair_per_day": 1000, "wake_guardrails.max_wakes_per_session": 1000,
}  # fmt: skip


@asynccontextmanager
async def two_servers(folder: Path, url: str, **sections: Any) -> AsyncGenerator[tuple[Live, Live]]:
    """Run two servers with callable agents and one model provider on the database."""
    sections = {"launchers": LAUNCHERS, **sections, "server": {"database_url": url, "drain_seconds": 0.1}}
    async with (
        MockUpstream(key=KEY) as provider,
        live(folder / "here", provider=provider, **sections) as here,
        live(folder / "there", provider=provider, **sections) as there,
    ):
        yield here, there


class PauseWatcher:
    """Measures for how long this process stood still, as on a machine that is too busy."""

    def __init__(self) -> None:
        self.longest_seconds = 0.0
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(0.05)
            self.longest_seconds = max(self.longest_seconds, loop.time() - before)

    def stop(self) -> float:
        self._task.cancel()
        return self.longest_seconds


class Scene:
    def __init__(self, servers: Sequence[Live], source: random.Random) -> None:
        self.servers = servers
        self.random = source
        self.tokens: dict[str, str] = {}
        self.answers: Counter[tuple[str, int | str]] = Counter()
        """Number of answers by request and status."""
        self.failures: list[str] = []
        """Answers that no request may get."""
        self._ids: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=_RECENT))

    def choose(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def an_id(self, prefix: str) -> str:
        """Return one of the ids of this kind that were in answers of late."""
        return self.random.choice(self._ids[prefix] or ["none_0"])

    def an_agent(self) -> str:
        return self.random.choice(list(SESSION_OF))

    async def rest(self, label: str, method: str, path: str, body: object = None, *, by: str | None = None) -> Any:
        """Send a request to either server, as the operator or as an agent, and return its answer."""
        at = self.random.choice(self.servers)
        more = {} if by is None else {"token": self.tokens[by]}
        status, answer = await at.rest(method, path, body, **more)
        self._note(label, status, f"{method} {path} {json.dumps(body)}", json.dumps(answer))
        return answer if status < 400 else None

    async def copy_bank(self, source: str, target: str) -> None:
        """Export a bank at one server and import it at another, into a new bank or one that has parts of it."""
        headers = {"authorization": f"Bearer {ADMIN}"}
        here, there = (f"{at.url}/api/v1/banks" for at in self.random.sample(list(self.servers), 2))
        http = self.servers[0].http
        async with http.get(f"{here}/{source}/export", headers=headers) as response:
            lines = await response.read()
            self._note("export", response.status, source, "")
        async with http.post(f"{there}/{target}/import", data=lines, headers=headers) as response:
            self._note("import", response.status, target, await response.text())

    async def tool(self, name: str, by: str, /, **arguments: object) -> None:
        """Call a tool as an agent. A call that is held is cut off."""
        at = self.random.choice(self.servers)
        try:
            async with asyncio.timeout(HELD_SECONDS), at.tool(self.tokens[by], call(name, **arguments)) as response:
                status: int | str = response.status
                text = await response.text()
        except (TimeoutError, aiohttp.ClientError):
            status, text = "cut", ""
        error: dict[str, Any] = {}
        for message in messages(text):
            error = message.get("error", error)
        if error.get("code") in (_INTERNAL_ERROR, _UNAVAILABLE):
            status = 500
        elif error or '"isError":true' in text.replace(" ", ""):
            status = "error"
        self._note(f"tool {name}", status, f"{name} {arguments}", text)

    async def ask_model(self, by: str, text: str, *, stream: bool) -> None:
        """Make a model call as an agent. A call that is held is cut off."""
        at = self.random.choice(self.servers)
        body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": text}], "stream": stream}
        try:
            async with asyncio.timeout(HELD_SECONDS), at.call(self.tokens[by], body=body) as response:
                answer = await response.text()
                self._note("model call", response.status, text, answer)
        except (TimeoutError, aiohttp.ClientError):
            self._note("model call", "cut", text, "")

    def _note(self, label: str, status: int | str, request: str, answer: str) -> None:
        self.answers[label, status] += 1
        if isinstance(status, int) and status >= 500 and _ENDED not in answer:
            self.failures.append(f"{request[:300]} -> {status} {answer[:500]}")
        for found in _ID.findall(answer.replace('\\"', '"')):
            self._ids[found.partition("_")[0]].append(found)

    async def restore(self) -> None:
        """Make again what requests have closed, deleted or disabled."""
        await self.rest("prepare", "POST", "/sessions", {"name": "team"})
        await self.rest("prepare", "POST", "/banks", {"name": "team", "policy": {"hot_edits": True}})
        for name, session in SESSION_OF.items():
            body = {"name": name, "policy": {**POLICY, "bank": BANK_OF[name]}, **EVENTS}
            created = await self.rest("prepare", "POST", f"/sessions/{session}/agents", body)
            if created is None:
                await self.rest("prepare", "PATCH", f"/sessions/{session}/agents/{name}", {"enabled": True})
                continue
            self.tokens[name] = created["token"]
            await self.rest("prepare", "PATCH", f"/agents/{session}:{name}/coordination", COORDINATION)
        for session in ("default", "team"):
            answer = await self.rest("prepare", "GET", f"/sessions/{session}/threads?closed=false")
            threads: list[dict[str, str]] = [] if answer is None else answer["threads"]
            names: set[str] = set()
            for thread in threads:
                if thread["name"] in names:  # only one can be found by its name
                    await self.rest("prepare", "POST", f"/sessions/{session}/threads/{thread['id']}/close")
                names.add(thread["name"])
            for name in THREADS - names:
                body = {"name": name, "participants": ["default:ann", "default:bob", "team:cid"]}
                await self.rest("prepare", "POST", f"/sessions/{session}/threads", body)
