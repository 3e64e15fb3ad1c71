"""An episode expires on its date: no search, context or pass has it from then on, also in a loaded index."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from circadia.errors import InvalidRequest
from circadia.memory.search.retrieval import Retrieval
from circadia.memory.transfer.importer import BankImporter, read_lines
from circadia.memory.transfer.lines import episode_line
from circadia.records.episode import Episode
from circadia.records.index_entry import Layer
from tests.memory.world import World

pytestmark = pytest.mark.spec("MEM-40")


def later(world: World, seconds: float) -> datetime:
    return world.clock.now() + timedelta(seconds=seconds)


async def shown(world: World, question: str) -> str:
    """Return the context that fits a question."""
    asked = await world.retrieval.prepare_question(question)
    async with world.store.begin_read() as tx:
        bank = await world.present()
        return (await world.contexts.build(tx, bank, asked, stable_tokens=0, fitting_tokens=2_000)).fitting


@pytest.mark.parametrize("loaded", [True, False])
async def test_an_episode_is_found_until_its_moment_and_no_longer(world: World, loaded: bool) -> None:
    passages = "\n\n".join(f"The code of door {number} is {number}." + " x" * 250 for number in range(4))
    gone = await world.remember("The code is 4711.", expires_at=later(world, 60))
    long = await world.remember(passages, expires_at=later(world, 90))
    stays = await world.remember("The code of the cellar is 12.")
    if loaded:
        assert len({hit.item.id for hit in await world.find("code")}) == 3
    world.clock.advance(59)
    assert "4711" in await shown(world, "code")
    world.clock.advance(1)
    assert {hit.item.id for hit in await world.find("code")} == {long.episode.id, stays.episode.id}
    assert "4711" not in await shown(world, "code")
    world.clock.advance(30)
    assert [hit.item.id for hit in await world.find("code")] == [stays.episode.id]
    async with world.store.begin_read() as tx:
        weights = await world.retrieval.read_weights(
            tx, await world.present(), {Layer.EPISODES: [gone.episode.number, 1, 2, 3], Layer.NOTES: []}
        )
        left = await tx.episodes.find_all(world.bank.id, now=world.clock.now())
    assert weights is not None
    assert (list(weights.weights[Layer.EPISODES]), [each.id for each in left]) == ([3], [stays.episode.id])
    world_anew = replace(world, retrieval=Retrieval(world.clock, world.questions, max_bytes=10**9))
    assert [hit.item.id for hit in await world_anew.find("code")] == [stays.episode.id]


async def test_what_expires_in_the_past_or_without_a_zone_is_refused(world: World) -> None:
    for moment in (later(world, 0), datetime(2030, 1, 1)):  # noqa: DTZ001
        with pytest.raises(InvalidRequest):
            await world.remember("Tea.", expires_at=moment)


async def test_a_text_that_stays_is_no_repetition_of_one_that_expires(world: World) -> None:
    first = await world.remember("Ann likes tea.", expires_at=later(world, 60))
    assert not (await world.remember("Ann likes tea.", expires_at=later(world, 60))).new
    assert (await world.remember("Ann likes tea.")).new
    world.clock.advance(61)
    (hit,) = await world.find("tea")
    assert hit.item.id != first.episode.id


async def test_an_import_keeps_the_date(world: World) -> None:
    importer = BankImporter(world.clock, world.events, world.banks, world.episodes)

    async def add(text: str, expires_at: str) -> None:
        line: dict[str, Any] = {"type": "episode", "speaker": "a", "text": text, "key": text, "expires_at": expires_at}
        async with world.store.begin_write() as tx:
            await importer.add_lines(tx, "ann", read_lines(json.dumps(line).encode()), by="me")

    await add("The door is open.", later(world, 60).isoformat())
    await add("The door was closed.", "2020-01-01T00:00:00Z")
    (hit,) = await world.find("door")
    assert isinstance(hit.item, Episode)
    exported = json.loads(episode_line(hit.item))["expires_at"]
    assert datetime.fromisoformat(exported) == later(world, 60)
    async with world.store.begin_read() as tx:
        expired = await tx.episodes.find_expired(world.clock.now(), limit=9)
        long_ago = datetime(2019, 1, 1, tzinfo=UTC)
        is_due = [(await tx.due_work.find(each, fleet_rule="")).expired for each in (long_ago, world.clock.now())]
    assert ([len(ids) for ids in expired.values()], is_due) == ([1], [False, True])
