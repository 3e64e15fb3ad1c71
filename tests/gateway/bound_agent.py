"""A server with an agent that is bound to a bank, for the tests of memory at the gateway."""

import sqlite3
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from circadia.clock import SystemClock
from circadia.ids import RandomIds
from circadia.memory.banks import BankService
from circadia.memory.blocks import BlockAuthor, BlockService, BlockUpdate
from circadia.records.agent import AgentPolicy
from circadia.records.bank import Bank, BankPolicy
from circadia.records.episode import Episode
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite
from tests.interaction.live import Live, live

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"


@dataclass
class BoundAgentServer:
    """A server with an agent that is bound to a bank, and its database."""

    at: Live
    token: str
    store: Store

    async def say(
        self, body: object, *, path: str = CHAT, headers: Mapping[str, str] | None = None, token: str | None = None
    ) -> bytes:
        """Make a call and let memory be written; return the whole answer."""
        upstream = "anthropic" if path == MESSAGES else "openai"
        async with self.at.call(token or self.token, path, body, upstream=upstream, headers=headers) as response:
            answer = await response.read()
            assert response.status == 200, answer
        await self.at.server.exchanges.flush()
        return answer

    async def episodes(self, bank: str = "memory") -> Sequence[Episode]:
        """Return what the bank holds; nothing if there is none."""
        await self.at.server.exchanges.flush()
        found = await self.bank(bank)
        async with self.store.begin_read() as tx:
            return [] if found is None else await tx.episodes.find_all(found.id)

    async def texts(self, bank: str = "memory") -> list[tuple[str, str]]:
        """Return speaker and text of each episode, in order."""
        return [(each.speaker, each.text) for each in await self.episodes(bank)]

    async def bank(self, name: str = "memory") -> Bank | None:
        async with self.store.begin_read() as tx:
            return await tx.banks.get_by_name(name)

    async def make(self, policy: BankPolicy | None = None, block: str = "") -> None:
        """Make the bank, with a pinned block that a person wrote."""
        clock = SystemClock()
        events = EventLog(clock, LocalSignals())
        async with self.store.begin_write() as tx:
            banks = BankService(clock, RandomIds(lambda: 0), events, {})
            bank = await banks.resolve_bound_bank(tx, AgentPolicy(bank="memory"), None, make=True)
            assert bank is not None
            if policy is not None:
                await banks.change(tx, bank, by="operator", policy=policy)
            if block:
                edit = BlockUpdate(value=block, pinned=True)
                blocks = BlockService(clock, events)
                await blocks.write(tx, bank, "likes", edit, writer=BlockAuthor.PERSON, by="operator")

    @property
    def sent(self) -> Any:
        """Return the body of the last call that went upstream."""
        return self.at.upstream.requests[-1].json()


@asynccontextmanager
async def bound(
    folder: Path,
    *,
    others: Mapping[str, Mapping[str, object]] | None = None,
    sections: Mapping[str, Any] | None = None,
    **policy: object,
) -> AsyncGenerator[BoundAgentServer]:
    """Run a server with an agent `ann`, bound to the bank `memory` unless the policy says otherwise, and others."""
    policies = {"ann": {"bank": "memory", **policy}, **(others or {})}
    agents = {name: {**each, "token_env": name.upper()} for name, each in policies.items()}
    environment = {name.upper(): token_of(name) for name in agents}
    async with live(folder, agents=agents, environment=environment, **(sections or {})) as at:
        store = await open_sqlite(folder / "circadia.db")
        try:
            yield BoundAgentServer(at, token_of("ann"), store)
        finally:
            await store.close()


def rename(folder: Path, table: str, to: str) -> None:
    """Take a table away from the server of the folder, or give it back."""
    with closing(sqlite3.connect(folder / "circadia.db", timeout=60, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")  # else nothing waits for a writer that comes between
        database.execute(f"ALTER TABLE {table} RENAME TO {to}")
        database.execute("COMMIT")


def token_of(name: str) -> str:
    return f"token-of-agent-{name}-in-the-tests-0123456789"


def chat(*said: str, **more: object) -> dict[str, Any]:
    """Return a chat: the texts are the user's and the model's in turn, the last one the user's."""
    roles = ("user", "assistant")
    first = 1 - len(said) % 2
    messages = [{"role": roles[(first + at) % 2], "content": text} for at, text in enumerate(said)]
    return {"model": "gpt-4o-mini", "messages": messages, **more}


def asking(path: str, text: str, *, stream: bool) -> dict[str, Any]:
    """Return a request of the path's API."""
    body: dict[str, Any] = {"model": "mock-1", "stream": stream}
    if path == RESPONSES:
        return {**body, "input": text}
    return {**body, "max_tokens": 50, "messages": [{"role": "user", "content": text}]}


def fenced(body: Mapping[str, Any]) -> str:
    """Return what memory put into the last user turn of a request."""
    last = body["messages"][-1]["content"]
    last = last if isinstance(last, str) else last[-1]["text"]
    return last[last.index("<circadia-memory ") :] if "<circadia-memory " in last else ""
