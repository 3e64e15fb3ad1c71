"""What every store promises of the record of events."""

import asyncio
import itertools
from dataclasses import replace

import pytest

from circadia.records.event import EventType
from circadia.stores.base import Store
from tests.contract.conftest import Opener
from tests.contract.rows import event, number_events, tags


@pytest.mark.spec("GATE-80")
async def test_events_come_back_as_they_were_stored_in_order(store: Store) -> None:
    rows = [
        replace(event({"deep": [1, 2.5, None, True, "½"]}), session="default", agent="ada"),
        event(kind=EventType.SLEEP_START),
    ]
    async with store.begin_write() as tx:
        assert await tx.events.last_number() == 0
        await tx.events.add(rows)
        await tx.events.add([])
    await number_events(store)
    async with store.begin_read() as tx:
        found = await tx.events.find_after(0)
        assert [replace(row, number=0) for row in found] == rows
        assert 0 < found[0].number < found[1].number == await tx.events.last_number()
        assert await tx.events.find_after(found[0].number) == found[1:]
        assert await tx.events.find_after(0, limit=1) == found[:1]
        assert await tx.events.find_after(found[1].number) == []


async def test_events_are_found_by_session_agent_and_type(store: Store) -> None:
    async with store.begin_write() as tx:
        await tx.events.add(
            [
                replace(event(1, kind=EventType.HELD), session="one", agent="ada"),
                replace(event(2, kind=EventType.ADMITTED), session="one", agent="eve"),
                replace(event(3, kind=EventType.HELD), session="two", agent="ada"),
            ]
        )
    await number_events(store)
    async with store.begin_read() as tx:
        both = {EventType.HELD, EventType.ADMITTED}
        assert [row.data["tag"] for row in await tx.events.find_after(0, session="one")] == [1, 2]
        assert [row.data["tag"] for row in await tx.events.find_after(0, agent="ada")] == [1, 3]
        assert [row.data["tag"] for row in await tx.events.find_after(0, types={EventType.HELD})] == [1, 3]
        assert [row.data["tag"] for row in await tx.events.find_after(0, types=both, session="two")] == [3]
        assert await tx.events.find_after(0, types=set()) == []


@pytest.mark.spec("GATE-80")
async def test_a_reader_that_has_seen_a_number_misses_none_below(open_store: Opener) -> None:
    """Writers in two stores, some of which fail, and a reader that goes on from the last number it saw."""
    stores = [await open_store(), await open_store()]
    writers, blocks = 8, 25
    kept = {(w, n) for w in range(writers) for n in range(blocks) if (w + n) % 5}

    async def write(writer: int) -> None:
        for n in range(blocks):
            try:
                async with stores[writer % 2].begin_write() as tx:
                    await tx.events.add([event(f"{writer}.{n}")])
                    if (writer, n) not in kept:
                        raise LookupError
            except LookupError:
                pass

    seen: list[tuple[int, int]] = []

    async def read() -> None:
        number = 0
        while len(seen) < len(kept):
            await number_events(stores[1])
            async with stores[0].begin_read() as tx:
                found = await tx.events.find_after(number)
            for row in found:
                assert row.number > number
                number = row.number
                seen.append(pair(row.data["tag"]))

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(read())
        for writer in range(writers):
            group.create_task(write(writer))
    assert sorted(seen) == sorted(kept)
    for writer in range(writers):  # each writer's own order is kept
        own = [n for w, n in seen if w == writer]
        assert own == sorted(own)
    assert [pair(tag) for tag in await tags(stores[1])] == seen


def pair(tag: object) -> tuple[int, int]:
    """Return the numbers of writer and block in a tag."""
    writer, n = str(tag).split(".")
    return int(writer), int(n)


@pytest.mark.spec("CLU-03", "LARGE-05")
async def test_events_without_a_number_are_the_newest_of_all_and_of_each_filter(store: Store) -> None:
    rows = [
        replace(event(number, kind=kind), session=home, agent=name)
        for number, (kind, home, name) in enumerate(
            itertools.product((EventType.HELD, EventType.ADMITTED), ("one", "two"), ("ada", "eve"))
        )
    ]
    async with store.begin_write() as tx:
        await tx.events.add(rows)
    await number_events(store)
    async with store.begin_write() as tx:
        await tx.events.add([replace(row, data={"tag": number + 8}) for number, row in enumerate(rows)])
    async with store.begin_read() as tx:
        for session, name, types in itertools.product(
            (None, "one"), (None, "eve"), (None, {EventType.HELD}, {EventType.HELD, EventType.ADMITTED})
        ):
            found = await tx.events.find_newest(limit=3, session=session, agent=name, types=types)
            fitting = [
                number
                for number in reversed(range(16))
                if (session in (None, rows[number % 8].session) and name in (None, rows[number % 8].agent))
                and (types is None or rows[number % 8].type in types)
            ]
            assert [row.data["tag"] for row in found] == fitting[:3]


async def test_the_newest_events_come_first(store: Store) -> None:
    async with store.begin_write() as tx:
        await tx.events.add([event(1), event(2, session="one"), event(3, kind=EventType.HELD), event(4)])
    await number_events(store)
    async with store.begin_read() as tx:
        assert [row.data["tag"] for row in await tx.events.find_newest(limit=2)] == [4, 3]
        assert [row.data["tag"] for row in await tx.events.find_newest(types={EventType.MESSAGE})] == [4, 2, 1]
        assert [row.data["tag"] for row in await tx.events.find_newest(session="one")] == [2]


async def test_those_without_a_number_take_no_place_of_a_page_of_numbered_ones(store: Store) -> None:
    async with store.begin_write() as tx:
        await tx.events.add([event(1), event(2)])
    await number_events(store)
    async with store.begin_write() as tx:
        await tx.events.add([event(3)])
    async with store.begin_read() as tx:
        newest = await tx.events.find_newest(limit=1, only_numbered=True)
    assert [row.data["tag"] for row in newest] == [3 if store.commits_in_order else 2]
