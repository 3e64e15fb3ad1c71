"""What is remembered: sound input only, once each, and never rewritten."""

import asyncio
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from circadia.errors import Conflict, InvalidRequest, NotFound, TooLarge
from circadia.ids import EpisodeId
from circadia.memory.episodes import StoredEpisode, shown_name
from circadia.records.bank import BankPolicy, Trust
from circadia.records.episode import EpisodeKind
from circadia.testing.clock import START
from tests.memory.world import World

AHEAD = timedelta(minutes=5)
MAX_CHARACTERS = 100_000
MAX_METADATA = 16 * 2**10
MAX_NAME = 200

BAD: list[dict[str, Any]] = [
    {"text": ""},
    {"text": " \n\t"},
    {"text": "a\0b"},
    {"text": "a\ud800"},
    {"speaker": ""},
    {"speaker": "\0"},
    {"speaker": "x" * (MAX_NAME + 1)},
    {"conversation": "\udfff"},
    {"conversation": ""},
    {"key": ""},
    {"key": "x" * (MAX_NAME + 1)},
    {"at": START.replace(tzinfo=None)},
    {"at": START + AHEAD + timedelta(seconds=1)},
    {"at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))},
    {"importance": math.nan},
    {"importance": math.inf},
    {"importance": -0.01},
    {"importance": 1.01},
    {"metadata": {"a": {1, 2}}},
    {"metadata": {"a": 2**70}},
    {"metadata": {"a": "\ud800"}},
    {"metadata": {"\ud800": 1}},
    {"metadata": {"a": [{"b": math.nan}]}},
    {"metadata": {"a": -math.inf}},
]


async def given_to(world: World, given: dict[str, Any]) -> StoredEpisode:
    values: dict[str, Any] = {"text": "x", **given}
    return await world.remember(values.pop("text"), **values)


@pytest.mark.spec("MEM-01")
async def test_an_episode_has_what_it_was_given(world: World) -> None:
    at = START - timedelta(days=1)
    given: dict[str, Any] = {
        "speaker": "Bo", "at": at, "conversation": "s", "kind": EpisodeKind.FACT, "metadata": {"a": [1, None, "ü"]},
        "importance": 0.25, "trust": Trust.EXTERNAL, "incomplete": True, "key": "k",
    }  # fmt: skip
    made = await world.remember("téa\n", **given)
    async with world.store.begin_read() as tx:
        kept = await world.episodes.get(tx, world.bank, made.episode.id)
    assert {name: getattr(kept, name) for name in given} == given
    assert (kept.text, kept.stored_at, kept.repeats, kept.stale) == ("téa\n", START, 0, ())
    assert (await world.present()).written_at == START


@pytest.mark.spec("MEM-17")
async def test_bad_input_is_refused_and_stores_nothing(world: World) -> None:
    for given in BAD:
        with pytest.raises(InvalidRequest):
            await given_to(world, given)
    async with world.store.begin_read() as tx:
        assert await tx.episodes.count(world.bank.id) == 0
    assert (await world.present()).written_at is None


@pytest.mark.spec("MEM-17")
async def test_what_is_too_long_is_refused_and_the_longest_is_kept(world: World) -> None:
    for given in ({"text": "x" * (MAX_CHARACTERS + 1)}, {"metadata": {"a": "x" * MAX_METADATA}}):
        with pytest.raises(TooLarge):
            await given_to(world, given)
    assert (await world.remember("ü" * MAX_CHARACTERS)).new
    assert (await world.remember("x", metadata={"a": "x" * (MAX_METADATA - 10)})).new


async def test_any_time_that_was_is_kept_by_both_databases(world: World) -> None:
    times = [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2000, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        START + AHEAD,
    ]
    for at in times:
        made = await world.remember(f"long ago {at}", at=at)
        async with world.store.begin_read() as tx:
            assert (await world.episodes.get(tx, world.bank, made.episode.id)).at == at
    assert len(await world.texts("long ago", since=-1e12)) == len(times)
    with pytest.raises(InvalidRequest):
        await world.remember("before all time", at=datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))))


@pytest.mark.spec("MEM-04")
async def test_a_key_stands_for_one_episode_of_its_bank_for_ever(world: World) -> None:
    other = await world.add_bank("bob")
    first = await world.remember("tea", key="k")
    world.clock.advance(1e7)
    again = await world.remember("tea", key="k")
    assert (again.episode.id, again.new) == (first.episode.id, False)
    with pytest.raises(Conflict, match="new key"):
        await world.remember("coffee", key="k")
    assert (await world.remember("tea", key="l")).new, "another key is another episode, on purpose"
    assert (await world.remember("coffee", key="k", bank=other)).new
    at_once = await asyncio.gather(*(world.remember("milk", key="m") for _ in range(8)))
    assert sum(each.new for each in at_once) == 1
    assert len({each.episode.id for each in at_once}) == 1


@pytest.mark.spec("MEM-04")
async def test_an_exact_repetition_within_the_window_is_counted_and_what_differs_is_not_one(world: World) -> None:
    first = await world.remember("tea")
    world.clock.advance(3600)
    assert not (await world.remember("tea")).new
    for other in ({"text": "tea "}, {"speaker": "Bo"}, {"conversation": "None"}, {"conversation": "s"}):
        assert (await given_to(world, {"text": "tea", **other})).new, other
    async with world.store.begin_read() as tx:
        kept = await world.episodes.get(tx, world.bank, first.episode.id)
    assert kept.repeats == 1
    world.clock.advance(1)
    assert (await world.remember("tea")).new, "the window counts from the first"


async def test_a_window_may_be_of_any_length(world: World) -> None:
    for seconds, new in ((0.0, True), (1e308, False)):
        async with world.store.begin_write() as tx:
            policy = BankPolicy(duplicate_seconds=seconds)
            world.bank = await world.banks.change(tx, world.bank, by="t", policy=policy)
        await world.remember("tea")
        world.clock.advance(1)
        assert (await world.remember("tea")).new == new


@pytest.mark.spec("MEM-03")
async def test_a_demotion_counts_once_for_each_evidence_multiplies_and_is_taken_back_alone(world: World) -> None:
    made = (await world.remember("tea")).episode.id

    async def demote(evidence: str, weight: float) -> bool:
        async with world.store.begin_write() as tx:
            return await world.episodes.demote(
                tx, world.bank, made, by="p", reason="r", evidence=evidence, weight=weight
            )

    assert [await demote("e1", 0.5), await demote("e1", 0.1), await demote("e2", 0.5)] == [True, False, True]
    assert (await world.find("tea"))[0].scored.parts["weight"] == 0.25
    async with world.store.begin_write() as tx:
        assert await world.episodes.restore(tx, world.bank, made, evidence="e1")
        assert not await world.episodes.restore(tx, world.bank, made, evidence="e1")
    assert (await world.find("tea"))[0].scored.parts["weight"] == 0.5
    for weight in (0.0, 1.01, math.nan, -1.0):
        with pytest.raises(InvalidRequest):
            await demote("e3", weight)
    other = await world.add_bank("bob")
    with pytest.raises(NotFound):
        async with world.store.begin_write() as tx:
            await world.episodes.demote(tx, other, made, by="p", reason="r", evidence="e4")
    with pytest.raises(NotFound):
        async with world.store.begin_read() as tx:
            await world.episodes.get(tx, world.bank, EpisodeId("unknown"))


@pytest.mark.spec("MEM-13")
@pytest.mark.parametrize(
    ("speaker", "shown"),
    [
        ("user_23adf1fa6149fc1ca41ae65dd20d18e8e8b8ef923a5275acc15514e047fa29f5_account_", "user_23adf1_account"),
        ("01a20432-0acc-7e83-8abc-9826c03f590c", "01a204"),
        ("ann.de-bar@example.org", "ann.de-bar@example.org"),
        ("+49 1511 2345678", "+49 1511 2345678"),
        ("customer-1234567890123456", "customer-1234567890123456"),
        ("Decade Cafe Facade", "Decade Cafe Facade"),
    ],
)
def test_a_key_for_a_name_is_shown_by_its_beginning(speaker: str, shown: str) -> None:
    assert shown_name(speaker) == shown
