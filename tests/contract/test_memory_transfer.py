"""On each database an export, taken into another bank, is the same bank."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from circadia.clock import Clock
from circadia.errors import InvalidRequest
from circadia.ids import BankId, EpisodeId, NoteId
from circadia.memory.banks import BankService
from circadia.memory.episodes import EpisodeService, NewEpisode
from circadia.memory.transfer.importer import BankImporter, ImportCounts, read_lines
from circadia.memory.transfer.lines import export_lines
from circadia.records.bank import Bank, BankPolicy, Trust
from circadia.records.block import Block, BlockSpan
from circadia.records.episode import Demotion, EpisodeKind
from circadia.records.note import Note, NoteKind
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sql.blocks import Blocks
from circadia.testing.clock import ManualClock
from tests.contract.test_store_answers import answer, frame
from tests.wake.fleet import CountedIds

NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)
HOME = Bank(id=BankId("b1"), name="home", created_at=NOON, policy=BankPolicy(keep_days=1000.5))


class Memory:
    """What takes in, and what remembers."""

    def __init__(self, clock: Clock) -> None:
        ids, events = CountedIds(), EventLog(clock, LocalSignals())
        self.clock = clock
        self.episodes = EpisodeService(clock, ids, events)
        self.intake = BankImporter(clock, events, BankService(clock, ids, events, {}), self.episodes)

    async def out(self, store: Store, name: str) -> bytes:
        """Return an export."""
        async with store.begin_read() as tx:
            bank = await tx.banks.get_by_name(name)
            assert bank is not None
            return b"".join([chunk async for chunk in export_lines(tx, bank, self.clock.now())])

    async def take(self, store: Store, name: str, lines: bytes) -> ImportCounts:
        """Take an export in."""
        async with store.begin_write() as tx:
            return await self.intake.add_lines(tx, name, read_lines(lines), by="operator")


async def fill(store: Store, memory: Memory) -> None:
    """Make the bank: twelve episodes, half of them with all that one may have, a note, a block with a branch."""
    stale = (Demotion(by="pass", reason="moved", evidence="e9", at=NOON, weight=0.3, valid_to=NOON),)
    async with store.begin_write() as tx:
        await tx.banks.add(HOME)
        made: list[EpisodeId] = []
        for number in range(6):
            full = NewEpisode(
                text=f"said {number} – ü \U0001f600\n", speaker="Ann", trust=Trust.PERSON, at=NOON,
                kind=EpisodeKind.FACT, conversation="s", importance=0.25, metadata={"a": [1, {"b": None}]},
                incomplete=True, key=f"k{number}",
            )  # fmt: skip
            made.append((await memory.episodes.append(tx, HOME, full, repeats=number, stale=stale)).id)
            bare = NewEpisode(text="the same", speaker="Bob", trust=Trust.TOOL, at=NOON)
            made.append((await memory.episodes.append(tx, HOME, bare)).id)
        await tx.notes.add(
            Note(
                id=NoteId("n1"), number=0, bank_id=HOME.id, kind=NoteKind.SUMMARY, at=NOON, text="all of it",
                trust=Trust.TOOL, importance=0.9, evidence=tuple(made[:3]), pass_id="p1", created_at=NOON,
                retired_at=NOON, valid_to=NOON - timedelta(days=1),
            )
        )  # fmt: skip
        first = Block(
            bank_id=HOME.id, label="human", version=1, parent=None, value="Ann", limit=10, by="pass", at=NOON,
            spans=(BlockSpan(start=0, end=3, episodes=(made[0],)),),
        )  # fmt: skip
        for version, parent, more in ((1, None, {}), (2, 1, {"deleted": True, "value": "", "spans": ()}), (3, 1, {})):
            await tx.blocks.add(replace(first, version=version, parent=parent, **more))


async def kept(store: Store, name: str) -> tuple[list[object], list[object], list[Block]]:
    """Return a bank's episodes and notes without what is of this database alone, and its blocks."""
    async with store.begin_read() as tx:
        bank = await tx.banks.get_by_name(name)
        assert bank is not None
        alike = {"id": "", "number": 0, "bank_id": "", "stored_at": NOON}
        episodes = await tx.episodes.find_all(bank.id)
        order = {each.id: EpisodeId(str(place)) for place, each in enumerate(episodes)}
        notes = [
            replace(
                note,
                id=NoteId(""),
                number=0,
                bank_id=HOME.id,
                terms=b"",
                evidence=sorted(map(order.__getitem__, note.evidence)),
            )
            for note in await tx.notes.find_all(bank.id, retired=True)
        ]
        blocks = [
            replace(
                block, bank_id=HOME.id,
                spans=[replace(span, episodes=[order[each] for each in span.episodes]) for span in block.spans],
            )
            for block in await tx.blocks.history(bank.id, "human")
        ]  # fmt: skip
        return list[object](replace(each, **alike) for each in episodes), list(notes), blocks


@pytest.mark.spec("MEM-16")
async def test_a_copy_of_a_bank_has_the_same_episodes_notes_blocks_and_what_they_rest_on(store: Store) -> None:
    memory = Memory(ManualClock())
    await fill(store, memory)
    lines = await memory.out(store, "home")
    assert await memory.take(store, "copy", lines) == ImportCounts(bank="copy", episodes=12, notes=1, versions=3)
    assert await kept(store, "copy") == await kept(store, "home")
    assert await memory.take(store, "copy", lines) == ImportCounts(bank="copy", known=16)
    assert await memory.take(store, "home", lines) == ImportCounts(bank="home", known=16)
    third = await memory.out(store, "copy")
    async with store.begin_write() as tx:
        await tx.banks.remove(HOME.id)
    assert await memory.take(store, "copy", lines) == ImportCounts(bank="copy", known=16)
    assert await memory.take(store, "home", lines) == ImportCounts(bank="home", episodes=12, notes=1, versions=3)
    assert (await memory.out(store, "home")).splitlines()[1:13] == lines.splitlines()[1:13]
    assert await memory.take(store, "third", third) == ImportCounts(bank="third", episodes=12, notes=1, versions=3)
    assert await kept(store, "third") == await kept(store, "copy")


@pytest.mark.spec("MEM-16", "SLEEP-20")
async def test_a_copy_tells_when_its_notes_were_found_and_what_no_line_tells_counts_as_found(store: Store) -> None:
    memory = Memory(ManualClock())
    await fill(store, memory)

    async def copied(bank: str, lines: bytes) -> Note:
        await memory.take(store, bank, lines)
        async with store.begin_read() as tx:
            there = await tx.banks.get_by_name(bank)
            assert there is not None
            (note,) = await tx.notes.find_all(there.id, retired=True)
            return note

    assert (await copied("never", await memory.out(store, "home"))).used_at is None
    async with store.begin_write() as tx:
        (note,) = await tx.notes.find_all(HOME.id, retired=True)
        await tx.notes.retire(note.id, None)
    returned = await memory.out(store, "home")
    assert (await copied("returned", returned)).used_at == note.created_at
    async with store.begin_write() as tx:
        await tx.notes.mark_used(HOME.id, [note.number], NOON - timedelta(days=1), before=NOON)
    lines = await memory.out(store, "home")
    assert (await copied("found", lines)).used_at == NOON - timedelta(days=1)
    rows = [json.loads(each) for each in lines.splitlines()]
    assert sum(each.pop("used_at", None) is not None for each in rows) == 1
    old = b"\n".join(json.dumps(each).encode() for each in rows)
    assert (await copied("old", old)).used_at == note.created_at


@pytest.mark.spec("MEM-17")
async def test_ready_answers_are_no_part_of_an_export(store: Store) -> None:
    memory = Memory(ManualClock())
    await fill(store, memory)
    lines = await memory.out(store, "home")
    async with store.begin_write() as tx:
        assert await tx.answers.put([answer("a1", HOME.id)])
        await tx.answer_frames.save_frames([frame(HOME.id)])
    assert await memory.out(store, "home") == lines


@pytest.mark.spec("MEM-16", "MEM-17")
async def test_versions_of_a_block_are_read_once_for_all_lines_of_a_call(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, history = list[int](), Blocks.history

    async def count(self: Blocks, *args: Any, **more: Any) -> Sequence[Block]:
        versions = await history(self, *args, **more)
        read.append(len(versions))
        return versions

    monkeypatch.setattr(Blocks, "history", count)
    memory = Memory(ManualClock(NOON))
    head: dict[str, Any] = {"type": "bank", "version": 1, "name": "home", "policy": {}}
    lines: list[dict[str, Any]] = [
        {
            "type": "block", "label": label, "version": number, "parent": number - 1 or None, "value": f"v{number}",
            "limit": 2_000, "at": NOON.isoformat(), "by": "ann",
        }
        for number in range(1, 101)
        for label in ("a", "b")
    ]  # fmt: skip
    body = b"\n".join(json.dumps(line).encode() for line in (head, *lines))
    await memory.take(store, "home", body)
    counts = await memory.take(store, "home", body)
    assert (counts.versions, counts.known) == (0, 200)
    assert read == [0, 0, 100, 100]


async def test_a_bad_line_leaves_nothing_of_its_call(store: Store) -> None:
    memory = Memory(ManualClock())
    await fill(store, memory)
    lines = (await memory.out(store, "home")).splitlines(keepends=True)
    late = lines[4].replace(b"2025-06-01", b"2999-06-01")
    with pytest.raises(InvalidRequest, match=r"line 5: .* in the future"):
        await memory.take(store, "copy", b"".join([*lines[:4], late]))
    async with store.begin_read() as tx:
        assert await tx.banks.get_by_name("copy") is None
