"""Filters by tags and metadata: equal, any of, range, not; the same on each database and in an index loaded anew."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from circadia.errors import InvalidRequest
from circadia.memory.forgetting import forget
from circadia.memory.search.retrieval import Retrieval
from circadia.records.value_filter import MATCHES_NOTHING, build_filter, parse_filter
from tests.memory.world import World

pytestmark = pytest.mark.spec("MEM-40")

TEXTS: Mapping[str, Mapping[str, Any]] = {
    "tea red": {"team": "red", "tags": ["work", "home"], "score": 3, "due": "2026-01-31", "big": 2**63},
    "tea blue": {"team": "blue", "tags": ["home"], "score": 3.5, "due": "2026-02-01T00:30:00+01:00", "big": 2**63 - 1},
    "tea green": {"team": "green", "score": -1, "by": {"name": "ann", "size": {"w": 1}}, "ok": True, "one": 1},
    "tea none": {"odd": [{"a": 1}, None, "x" * 300, "\u0000"], "ok": False, "nan": "2026"},
    "tea bare": {},
}
EVERY = ["bare", "blue", "green", "none", "red"]


async def found(world: World, document: object, **more: Any) -> list[str]:
    """Return the last words of what a filtered search finds."""
    hits = await world.find("tea", where=build_filter(document), limit=50, **more)
    return sorted(hit.item.text.split()[1] for hit in hits)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, EVERY),
        ({"team": "red"}, ["red"]),
        ({"team": ["red", "green", "gold"]}, ["green", "red"]),
        ({"tags": "home"}, ["blue", "red"]),
        ({"tags": "work", "team": "red"}, ["red"]),
        ({"tags": "work", "team": "blue"}, []),
        ({"tags": {"not": "work"}}, ["bare", "blue", "green", "none"]),
        ({"tags": {"not": ["work", "home"]}}, ["bare", "green", "none"]),
        ({"score": 3.0}, ["red"]),
        ({"score": {"gte": 3}}, ["blue", "red"]),
        ({"score": {"gt": 3, "lt": 4}}, ["blue"]),
        ({"score": {"gte": -1, "lte": 3, "not": 3}}, ["green"]),
        ({"due": {"gte": "2026-01-31", "lt": "2026-02-01"}}, ["blue", "red"]),
        ({"due": {"gt": "2026-01-31"}}, ["blue"]),
        ({"due": "2026-01-31"}, ["red"]),
        ({"due": {"gte": 0}}, []),
        ({"score": {"gte": "2026-01-01"}}, []),
        ({"big": 2**63}, ["red"]),
        ({"ok": True}, ["green"]),
        ({"ok": {"not": True}}, ["bare", "blue", "none", "red"]),
        ({"one": True}, []),
        ({"by.name": "ann", "by.size.w": 1}, ["green"]),
        ({"team": "t"}, []),
        ({"nowhere": 1}, []),
        ({"nowhere": {"not": 1}}, EVERY),
    ],
)
async def test_a_filter_finds_what_meets_all_its_conditions(
    world: World, document: Mapping[str, Any], expected: list[str]
) -> None:
    for text, metadata in TEXTS.items():
        await world.remember(text, metadata=metadata)
    assert await found(world, document) == expected
    anew = replace(world, retrieval=Retrieval(world.clock, world.questions, max_bytes=10**9))
    assert await found(anew, document) == expected


async def test_what_comes_and_goes_later_is_filtered_too(world: World) -> None:
    before = [(await world.remember(f"tea a{at}", metadata={"at": at})).episode.id for at in range(3)]
    assert await found(world, {"at": {"gte": 1}}) == ["a1", "a2"]
    await world.remember("tea plain")
    await world.remember("tea a3", metadata={"at": 3})
    assert await found(world, {"at": {"gte": 1}}) == ["a1", "a2", "a3"]
    async with world.store.begin_write() as tx:
        await forget(tx, world.bank, before[1:2])
    assert await found(world, {"at": {"gte": 1}}) == ["a2", "a3"]
    await world.remember("tea a4", metadata={"at": 4})
    assert await found(world, {"at": {"gte": 1}}) == ["a2", "a3", "a4"]


async def test_a_page_is_full_where_enough_match_and_each_passage_of_a_match_counts(world: World) -> None:
    for number in range(300):
        await world.remember(f"tea tea tea x{number}", metadata={"rare": number % 30 == 0})
    long = "\n\n".join(f"About tea number {number}." + " word" * 120 for number in range(4))
    await world.remember(long, metadata={"rare": True, "long": True})
    hits = await world.find("tea", where=build_filter({"rare": True}), limit=10)
    assert len(hits) == 10
    passages = await world.find("tea number 3", where=build_filter({"long": True}), limit=10)
    assert len(passages) == 4 < max(hit.scored.passage for hit in passages)
    by_speaker = await world.find("tea", where=build_filter({"rare": True}), speaker="Ann", limit=50)
    assert len(by_speaker) == 14
    assert not await world.find("tea", where=build_filter({"rare": True}), speaker="Bob", limit=50)


async def test_notes_have_no_metadata_so_a_filter_finds_none(world: World) -> None:
    said = (await world.remember("tea", metadata={"team": "red"})).episode.id
    await world.note("Ann likes tea", [said])
    assert len(await world.find("tea")) == 2
    assert [hit.item.id for hit in await world.find("tea", where=build_filter({"team": {"not": "blue"}}))] == [said]


async def test_only_who_filters_pays_for_the_metadata(world: World) -> None:
    for number in range(20):
        await world.remember(f"tea {number}", metadata={"item": f"{number}" * 50})
    await world.find("tea")
    held = world.retrieval.loaded.get(world.bank.id)
    assert held is not None
    bare = held.nbytes
    await world.find("tea", where=build_filter({"item": "1"}))
    assert held.nbytes > bare + 20 * 50
    assert await world.find("tea", where=MATCHES_NOTHING) == []


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "5", "{", '{"a": null}', '{"a": []}', '{"a": {}}', '{"a": {"near": 1}}', '{"a": {"gte": true}}',
        '{"a": {"gte": "soon"}}', '{"a": {"gte": 1, "lt": "2026-01-01"}}', '{"a": [1, null]}', '{"a": {"not": {}}}',
        '{"a": "' + "x" * 201 + '"}', '{"a": [' + "1," * 100 + "1]}", '{"a": 1e999}',
        "{" + ",".join(f'"k{at}": 1' for at in range(21)) + "}",
    ],
)  # fmt: skip
def test_a_filter_that_is_none_is_told(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_filter(text)
