"""A memory in one process on SQLite, with an embedder that does as a test says."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from circadia.errors import UpstreamFailed
from circadia.ids import NoteId
from circadia.memory.banks import NewBank
from circadia.memory.embedding.background import BackgroundEmbedder
from circadia.memory.embedding.base import Embedder, normalize_vectors
from circadia.memory.embedding.questions import ActiveEmbedder
from circadia.memory.episodes import NewEpisode, searched_text
from circadia.memory.search.columns import Array
from circadia.memory.search.retrieval import SearchHit
from circadia.memory.search.terms import stored_terms
from circadia.memory.search.vectors import stored_vector
from circadia.memory.services import MemoryServices
from circadia.records.bank import Bank, Trust
from circadia.records.note import Note, NoteKind
from circadia.server.memory_wiring import build_memory_services
from circadia.settings import Settings
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite
from circadia.testing.clock import START, ManualClock
from tests.fixtures.database_file import put_database
from tests.interaction.live import Live
from tests.wake.fleet import CountedIds


@dataclass(kw_only=True)
class FakeEmbedder:
    """Vectors that depend on the text alone."""

    name: str = "fake@1/8"
    refused: str | None = None
    """A text with this in it fails, and all that is asked with it."""
    error: UpstreamFailed | None = None
    """All fails so."""
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """Answers wait until it is set, as it is at first."""
    asked: list[list[str]] = field(default_factory=list[list[str]])

    def __post_init__(self) -> None:
        self.gate.set()

    @property
    def texts(self) -> list[str]:
        return [text for each in self.asked for text in each]

    def embed_nowait(self, question: str) -> Array | None:
        return None

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Array:
        self.asked.append(list(texts))
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        if self.refused is not None and any(self.refused in text for text in texts):
            raise UpstreamFailed("some text is too long")
        digests = [hashlib.sha256(f"{self.name} {text}".encode()).digest()[:8] for text in texts]
        return normalize_vectors(np.array([list(each) for each in digests], np.float32) - 127.5, len(texts), 8)


class Stand:
    """The memory of one server."""

    def __init__(self, store: Store, clock: ManualClock, embedder: Embedder | None, before: Embedder | None) -> None:
        self.store = store
        self.clock = clock
        self.signals = LocalSignals()
        self.previous = None if before is None else ActiveEmbedder(before)
        settings, ids = Settings.model_validate({}), CountedIds(run=str(id(self)))
        self.memory: MemoryServices = build_memory_services(
            settings, clock, ids, EventLog(clock, self.signals), embedder, self.previous
        )
        self.background = (
            None if embedder is None else BackgroundEmbedder(clock, store, self.signals, embedder, self.previous)
        )  # fmt: skip

    async def bank(self, name: str = "ann") -> Bank:
        async with self.store.begin_write() as tx:
            found = await tx.banks.get_by_name(name)
            return found or await self.memory.banks.create(tx, NewBank(name=name), by="operator")

    async def remember(self, *texts: str, bank: str = "ann") -> None:
        found = await self.bank(bank)
        async with self.store.begin_write() as tx:
            for text in texts:
                new = NewEpisode(text=text, speaker="Ann", trust=Trust.PERSON)
                await self.memory.episodes.remember(tx, found, new)

    async def note(self, text: str) -> None:
        bank = await self.bank()
        async with self.store.begin_write() as tx:
            await tx.notes.add(
                Note(
                    id=NoteId("not_1"), number=0, bank_id=bank.id, at=START, text=text, trust=Trust.PERSON,
                    kind=NoteKind.SUMMARY, evidence=(), created_at=START,
                )
            )  # fmt: skip

    async def catch_up(self) -> None:
        assert self.background is not None
        await self.background.catch_up()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Embed in the background, as a server does; it rests when the block begins."""
        assert self.background is not None
        task = asyncio.create_task(self.background.run())
        try:
            await self.clock.wait_for_sleepers(1)
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def pass_on(self, seconds: float) -> None:
        """Let time pass, and what is due then come to its end."""
        self.clock.advance(seconds)
        await self.clock.wait_for_sleepers(1)

    async def find(self, question: str, *, bank: str = "ann") -> Sequence[SearchHit]:
        asked = replace(await self.memory.retrieval.prepare_question(question), limit=50)
        async with self.store.begin_read() as tx:
            found = await tx.banks.get_by_name(bank)
            assert found is not None
            return await self.memory.retrieval.find(tx, found, asked)

    async def join_passages(self, embedder: Embedder | None) -> None:
        """Make the texts of `ann` look as a release without passages has stored and embedded them."""
        bank = await self.bank()
        async with self.store.begin_write() as tx:
            for row in await tx.episodes.find_all(bank.id):
                text = searched_text(row.at, row.speaker, row.text)
                await tx.episodes.save_passages({row.number: (stored_terms(text, row.text), None)})
                if embedder is not None:
                    (vector,) = await embedder.embed([text])
                    await tx.episodes.save_vectors({row.number: stored_vector(vector)}, embedder.name)

    async def embedders(self) -> list[str | None]:
        """Return by what each episode is embedded, in order."""
        async with self.store.begin_read() as tx:
            banks = [await tx.episodes.find_all(bank.id, limit=1000) for bank in await tx.banks.find_all()]
        return [each.embedder for each in sorted((row for rows in banks for row in rows), key=lambda row: row.number)]


@dataclass(kw_only=True)
class Stands:
    """Makes servers on one database and one clock."""

    store: Store
    clock: ManualClock = field(default_factory=ManualClock)

    @classmethod
    async def at(cls, folder: Path) -> Self:
        return cls(store=await open_sqlite(put_database(folder)))

    def stand(self, embedder: Embedder | None, before: Embedder | None = None) -> Stand:
        return Stand(self.store, self.clock, embedder, before)


def parts(found: Sequence[SearchHit]) -> dict[str, Any]:
    """Return the parts of each score, by text."""
    return {each.item.text: each.scored.parts for each in found}


async def embedded_by(server: Live, text: str) -> str:
    """Have a server remember a text in its bank `ann`; return by what its vector was made, once there is one."""
    kept = (await server.rest("POST", "/banks/ann/episodes", {"text": text}))[1]
    async with asyncio.timeout(60):
        while (by := (await server.rest("GET", f"/banks/ann/episodes/{kept['id']}"))[1]["embedded_by"]) is None:
            await asyncio.sleep(0.02)
    return by
