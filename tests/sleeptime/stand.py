"""A bank with things in it, and what works on it while nobody waits."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Self

from circadia.ids import PassId
from circadia.memory.banks import NewBank
from circadia.memory.blocks import BlockAuthor, BlockUpdate
from circadia.memory.episodes import NewEpisode
from circadia.records.bank import Bank, Trust
from circadia.records.block import Block
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode
from circadia.records.note import Note
from circadia.records.sleep_pass import Pass, PassStatus, Trigger
from circadia.server.memory_wiring import build_memory_services
from circadia.settings import Settings
from circadia.settings.sleeptime import SleeptimeSettings
from circadia.sleeptime.engine.pass_runner import SleepContext
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.sleeptime.grounding.change_rules import Rule, check_changes, source_ids_of
from circadia.sleeptime.publish.effects import Effects
from circadia.sleeptime.publish.publisher import PageProgress, Publisher
from circadia.sleeptime.triggers.pass_lifecycle import PassLifecycle
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.testing.clock import ManualClock
from tests.wake.fleet import CountedIds, SettableClock


class Stand:
    """A store with one bank, `ann`, and the services over it."""

    def __init__(self, store: Store, bank: Bank) -> None:
        self.store = store
        self.clock = SettableClock()
        self.ids = CountedIds()
        self.memory = build_memory_services(
            Settings.model_validate({}), self.clock, self.ids, EventLog(self.clock, LocalSignals()), None
        )
        self.publisher = Publisher(self.clock, Effects(self.clock, self.memory))
        self.bank = bank
        self.workers: list[SleepWorker] = []
        """Those that may still run passes when the test ends."""

    @classmethod
    async def made(cls, store: Store) -> Self:
        """Return one on a store with nothing in it."""
        stand = cls(store, Bank(id="", name="", created_at=ManualClock().now()))  # pyright: ignore[reportArgumentType]
        async with store.begin_write() as tx:
            stand.bank = await stand.memory.banks.create(tx, NewBank(name="ann"), by="test")
        return stand

    async def said(self, *texts: str, trust: Trust = Trust.PERSON, **more: Any) -> list[Episode]:
        """Remember things, a minute apart."""
        found: list[Episode] = []
        for text in texts:
            self.clock.advance(60)
            new = NewEpisode(text=text, speaker="ann", trust=trust, **more)
            async with self.store.begin_write() as tx:
                found.append((await self.memory.episodes.remember(tx, self.bank, new)).episode)
        async with self.store.begin_read() as tx:
            return [one for one in [await tx.episodes.get(self.bank.id, each.id) for each in found] if one is not None]

    async def begun(self, key: str = "p1", **more: Any) -> Pass:
        """Return a running pass."""
        now = self.clock.now()
        run = Pass(
            id=PassId(key), bank_id=self.bank.id, trigger=Trigger.HAND, status=PassStatus.RUNNING, epoch=1,
            owner="exe", created_at=now, started_at=now, lease_until=now + timedelta(seconds=30), **more,
        )  # fmt: skip
        async with self.store.begin_write() as tx:
            await tx.passes.add(run)
        return run

    async def ended(self, run: Pass) -> None:
        """End it."""
        async with self.store.begin_write() as tx:
            present = await tx.passes.get(run.id)
            assert present is not None
            done = replace(present, status=PassStatus.SUCCEEDED, ended_at=self.clock.now())
            assert await tx.passes.save(done, origin=present)

    def context(self, **more: Any) -> SleepContext:
        """Return what passes over the bank run with."""
        signals, settings = LocalSignals(), SleeptimeSettings.model_validate({})
        rows = PassLifecycle(self.clock, self.ids, EventLog(self.clock, signals))
        tier = SleeptimeService(self.clock, self.memory.events, settings, rows, self.publisher)
        return SleepContext(
            store=self.store, signals=signals, ids=self.ids, sleeptime=tier, operations=lambda _, __, ___: [],
            retrieval=self.memory.retrieval, **more,
        )  # fmt: skip

    async def publish(self, run: Pass, *changes: Change, upto: int = 0, rules: Sequence[Rule] = ()) -> Pass:
        """Publish changes of a pass."""
        async with self.store.begin_write() as tx:
            keys = {key for each in changes for key in source_ids_of(each)}
            found = check_changes(changes, await tx.episodes.get_by_ids(self.bank.id, keys), rules)
            return await self.publisher.publish(
                tx, run, self.bank, changes, PageProgress(upto=upto, leftovers=()), found
            )

    async def changes(self, run: Pass) -> list[tuple[str, str]]:
        """Return state and reason of a pass' changes."""
        async with self.store.begin_read() as tx:
            return [(each.state.value, each.why) for each in await tx.passes.find_changes(run.id)]

    async def notes(self, *, retired: bool = False) -> Sequence[Note]:
        """Return the bank's notes."""
        async with self.store.begin_read() as tx:
            return await tx.notes.find_all(self.bank.id, retired=retired)

    async def write(self, label: str, value: str, *, writer: BlockAuthor = BlockAuthor.PERSON, **more: Any) -> Block:
        """Write a block as a person."""
        async with self.store.begin_write() as tx:
            return await self.memory.blocks.write(
                tx, self.bank, label, BlockUpdate(value=value, **more), writer=writer, by="ann"
            )

    async def block(self, label: str) -> Block:
        """Return a block."""
        async with self.store.begin_read() as tx:
            return await self.memory.blocks.get(tx, self.bank, label)

    def change(self, kind: ChangeKind, target: str, **more: Any) -> Change:
        """Return a change."""
        return Change(
            pass_id=PassId("p1"), number=0, operation="test", kind=kind, target=target, at=self.clock.now(), **more
        )

    def note(self, key: str, sources: Sequence[Episode], text: str = "Ann lives in Porto.") -> Change:
        """Return a change that adds a note."""
        after = {
            "id": key, "kind": "consolidation", "text": text, "evidence": [each.id for each in sources],
            "trust": "person", "importance": None, "at": self.clock.now().isoformat(),
        }  # fmt: skip
        return self.change(ChangeKind.ADD_NOTE, key, after=after, why="they say the same")

    def rewrite(self, read: Block | None, label: str, value: str, **more: Any) -> Change:
        """Return a change that writes a block that the pass has read."""
        before = None if read is None else {"version": read.version, "value": read.value}
        return self.change(ChangeKind.WRITE_BLOCK, label, before=before, after={"value": value}, why="new", **more)
