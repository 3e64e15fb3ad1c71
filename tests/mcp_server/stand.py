"""Circadia's MCP server behind a stand-in for the gateway's door, on a real port, and official clients of it.

The stand-in does what the server counts on: it says who calls, cancels the call when the caller is gone, and tells
afterwards whether the answer went out. It holds nothing.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from circadia.agents.identity import Identity
from circadia.agents.presence import Presence
from circadia.agents.registry import AgentRegistry, NewAgent
from circadia.agents.sessions import SessionService
from circadia.agents.sleep_confirmation import SleepConfirmer
from circadia.agents.threads import ThreadService
from circadia.agents.waits import Waits
from circadia.clock import Clock, SystemClock, system_milliseconds
from circadia.ids import RandomIds, hash_token
from circadia.mcp_server.app import McpContext, McpServer
from circadia.memory.banks import NewBank
from circadia.memory.blocks import BlockAuthor, BlockUpdate
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.services import MemoryServices
from circadia.records.agent import Agent, Cause, SleepEvent, WakeEvent
from circadia.records.bank import BankPolicy
from circadia.records.principal import Principal
from circadia.server.dream_wiring import ConfiguredFolders
from circadia.server.memory_wiring import build_memory_services
from circadia.server.sleeptime_wiring import build_sleeptime
from circadia.server.wake_wiring import build_agent_services, build_wake_services
from circadia.settings import Settings
from circadia.sleeptime.triggers.dream_requests import DreamRequests
from circadia.stores.base import Store, Tx
from circadia.stores.event_log import EventLog
from circadia.stores.locks import LockKey
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite
from circadia.wake.inbox import Inbox
from circadia.wake.sleep_changes import SleepChanges
from tests.fixtures.database_file import put_database
from tests.fixtures.listening import listening

ADMIN = "operator-token-of-the-tests"
MODERN = "2026-07-28"
ERAS = ("legacy", "2026-07-28", "auto")


class Breakable:
    """A store whose reads can be made to fail as nobody foresaw."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.commits_in_order = store.commits_in_order
        self.save_touches = store.save_touches
        self.read_clock = store.read_clock
        self.broken: str | None = None

    @property
    def for_operators(self) -> Store:
        """Return the same store."""
        return self

    def begin_write(self, *keys: LockKey) -> AbstractAsyncContextManager[Tx]:
        """Open a write block."""
        return self._store.begin_write(*keys)

    def begin_read(self) -> AbstractAsyncContextManager[Tx]:
        """Open a read block."""
        if self.broken is not None:
            raise ZeroDivisionError(self.broken)
        return self._store.begin_read()

    def begin_single_read(self) -> AbstractAsyncContextManager[Tx]:
        """Open a read block of one statement."""
        return self._store.begin_single_read()

    async def ping(self) -> None:
        """Return if the database answers."""
        await self._store.ping()

    async def close(self) -> None:
        """Close the database."""
        await self._store.close()


class Door:
    """The stand-in. Set `deaf` and answers are lost on their way, as if each caller had just gone."""

    def __init__(self, identity: Identity, app: ASGIApp) -> None:
        self.deaf = False
        self.answering = asyncio.Event()
        """Set once an answer was lost that way."""
        self.ended = asyncio.Queue[bool]()
        """One item for each POST that ended: whether its answer went out."""
        self._identity = identity
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["method"] != "POST":
            await send({"type": "http.response.start", "status": 405, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        token = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        told: list[Callable[[bool], Awaitable[None]]] = []
        inner: dict[str, Any] = {
            **scope, "circadia.principal": await self._identity.authenticate(token), "circadia.sent": told,
        }  # fmt: skip
        body = await _body(receive)
        sent = False

        async def out(message: Message) -> None:
            nonlocal sent
            if self.deaf:
                self.answering.set()
                await asyncio.Future[None]()
            await send(message)
            sent = message["type"] == "http.response.body" and not message.get("more_body", False)

        working = asyncio.create_task(self._work(inner, body, out))
        gone: asyncio.Task[Any] = asyncio.create_task(_next(receive))
        try:
            await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (working, gone):
                task.cancel()
            await asyncio.gather(working, gone, return_exceptions=True)
            for tell in told:
                await asyncio.shield(tell(sent))
            self.ended.put_nowait(sent)

    async def _work(self, scope: Scope, body: bytes, send: Send) -> None:
        given = False

        async def receive() -> Message:
            nonlocal given
            if given:
                await asyncio.Future[None]()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, receive, send)


async def _next(receive: Receive) -> Message:
    return await receive()


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


@dataclass
class Stand:
    """The server under test, its services, and what the tests ask of them."""

    url: str
    door: Door
    store: Breakable
    registry: AgentRegistry
    sessions: SessionService
    sleep: SleepChanges
    threads: ThreadService
    waits: Waits
    inbox: Inbox
    memory: MemoryServices
    tokens: dict[str, str] = field(default_factory=dict[str, str])

    async def agent(
        self, name: str, *, session: str = "default", wakes: bool = True, policy: dict[str, object] | None = None
    ) -> Agent:
        """Make an agent that wakes when it is mentioned."""
        new = NewAgent(
            name=name, description=f"does {name}", policy=policy or {},
            sleep_events=frozenset({SleepEvent.LAST_THREAD_CLOSED}) if wakes else frozenset(),
            wake_events=frozenset({WakeEvent.MENTIONED}) if wakes else frozenset(),
        )  # fmt: skip
        async with self.store.begin_write() as tx:
            if await tx.sessions.get_by_name(session) is None:
                await self.sessions.create(tx, Principal(), session)
            home = await tx.sessions.get_by_name(session)
            assert home is not None
            agent, self.tokens[name] = await self.registry.add(tx, home, new, by="operator")
        return agent

    async def row(self, agent: Agent) -> Agent:
        """Return the agent's row as it is now."""
        async with self.store.begin_read() as tx:
            found = await tx.agents.get(agent.id)
        assert found is not None
        return found

    async def unread(self, agent: Agent) -> list[str]:
        """Return the contents of what the agent has not handled."""
        async with self.store.begin_read() as tx:
            return [each.message.content for each in await tx.deliveries.find_unread(agent.id)]

    async def bank(self, name: str, *, hot_edits: bool = False, human: str | None = None) -> None:
        """Make a bank, or change it, as the operator; `human` is the text of its block of that label."""
        policy = BankPolicy(hot_edits=hot_edits)
        async with self.store.begin_write() as tx:
            found = await tx.banks.get_by_name(name)
            if found is None:
                bank = await self.memory.banks.create(tx, NewBank(name=name, policy=policy), by="operator")
            else:
                bank = await self.memory.banks.change(tx, found, by="operator", policy=policy)
            if human is not None:
                edit = BlockUpdate(value=human)
                await self.memory.blocks.write(tx, bank, "human", edit, writer=BlockAuthor.PERSON, by="operator")

    async def set_asleep(self, agent: Agent, asleep: bool) -> None:
        """Put the agent to sleep or wake it, as the operator."""
        async with self.store.begin_write() as tx:
            await self.sleep.change_sleep(tx, agent.id, asleep=asleep, cause=Cause.OPERATOR, actor="operator")

    def break_reading(self, reason: str) -> None:
        """From now on each read of the database fails as nobody foresaw."""
        self.store.broken = reason

    @asynccontextmanager
    async def client(self, name: str, era: str = "legacy") -> AsyncGenerator[Client]:
        """Connect an official client with the token of this agent, or the operator's."""
        token = ADMIN if name == "operator" else self.tokens[name]
        headers = {"authorization": f"Bearer {token}"}
        # It speaks plain HTTP: to load the authorities of TLS would take longer than most calls.
        async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False, verify=False) as http:
            async with Client(streamable_http_client(self.url, http_client=http), mode=era) as client:
                yield client

    async def call(self, name: str, version: str, tool: str, /, **arguments: object) -> httpx2.Response:
        """Call a tool of the protocol's `version` in one HTTP request of its own."""
        body, headers = tool_call(version, tool, arguments)
        sent = {**headers, "authorization": f"Bearer {self.tokens[name]}"}
        async with httpx2.AsyncClient(timeout=60, trust_env=False, verify=False) as http:
            return await http.post(self.url, content=body, headers=sent)


def tool_call(version: str, tool: str, arguments: Mapping[str, object]) -> tuple[bytes, dict[str, str]]:
    """Return body and headers of a tool call of the protocol's `version`."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    headers = {"accept": "application/json", "content-type": "application/json", "mcp-protocol-version": version}
    if version == MODERN:
        prefix = "io.modelcontextprotocol/"
        params["_meta"] = {f"{prefix}protocolVersion": version, f"{prefix}clientCapabilities": {}}
        headers |= {"mcp-method": "tools/call", "mcp-name": tool}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode(), headers


def structured(result: CallToolResult) -> dict[str, Any]:
    """Return the structured answer of a call that went well."""
    assert not result.is_error, text(result)
    assert result.structured_content is not None
    return result.structured_content


def text(result: CallToolResult) -> str:
    """Return the text of an answer."""
    return "\n".join(getattr(block, "text", "") for block in result.content)


def refused(result: CallToolResult) -> str:
    """Return the text of an answer that is an error."""
    assert result.is_error, text(result)
    return text(result)


@asynccontextmanager
async def stand(folder: Path, clock: Clock | None = None) -> AsyncGenerator[Stand]:
    """Run the server with a fresh database."""
    clock = clock or SystemClock()
    store = Breakable(await open_sqlite(put_database(folder)))
    signals = LocalSignals()
    ids = RandomIds(system_milliseconds)
    presence = Presence(store, signals)
    settings = Settings.model_validate({})
    events = EventLog(clock, signals)
    tier = build_wake_services(settings, clock, ids, events)
    sleep = tier.sleep
    registry, threads, sessions = build_agent_services(settings, clock, ids, events, tier)
    waits = Waits(clock, store, signals, presence)
    async with store.begin_write() as tx:
        await sessions.ensure_default(tx)
    memory = build_memory_services(settings, clock, ids, events, BundledEmbedder())
    asked = DreamRequests(clock, ids, events, settings.dreams)
    server = McpServer(
        McpContext(
            store=store, clock=clock, threads=threads, waits=waits,
            confirmer=SleepConfirmer(clock, store, signals, presence, None), settings=settings, wake=tier,
            memory=memory, sleeptime=build_sleeptime(settings, clock, ids, memory),
            folders=ConfiguredFolders(asked, settings, {}, (None, None), clock),
        )
    )  # fmt: skip
    door = Door(Identity(store, signals, admin_token_hashes=[hash_token(ADMIN)]), server)
    try:
        async with server.run(), listening(door) as url:
            yield Stand(url, door, store, registry, sessions, sleep, threads, waits, tier.inbox, memory)
    finally:
        await store.close()
