"""To forget deletes all that rests on the episodes, in every version, and nothing else."""

from dataclasses import replace
from typing import Any

import pytest

from circadia.ids import EpisodeId
from circadia.memory import forgetting
from circadia.memory.forgetting import ForgetCounts, forget
from circadia.records.bank import Bank
from circadia.stores.base import Tx
from tests.contract.test_store_answers import answer, frame, use
from tests.memory.world import World, span


async def all_there_is(world: World, bank: Bank) -> dict[str, Any]:
    """Return what a bank holds."""
    async with world.store.begin_read() as tx:
        blocks = [each for label in await tx.blocks.labels(bank.id) for each in await tx.blocks.history(bank.id, label)]
        return {
            "episodes": await tx.episodes.find_all(bank.id),
            "notes": await tx.notes.find_all(bank.id),
            "blocks": blocks,
        }


async def forgotten(world: World, ids: list[EpisodeId], bank: Bank | None = None) -> ForgetCounts:
    async with world.store.begin_write() as tx:
        return await forget(tx, bank or world.bank, ids)


@pytest.mark.spec("MEM-03")
async def test_all_that_rests_on_an_episode_goes_in_every_version_and_nothing_else(world: World) -> None:
    other = await world.add_bank("bob")
    gone, kept = [(await world.remember(text)).episode.id for text in ("Ann's PIN is 9", "Ann likes tea")]
    theirs = (await world.remember("Bob's PIN is 8", bank=other)).episode.id
    await world.note("about PIN and tea", [gone, kept])
    stays = await world.note("about tea", [kept])
    await world.note("about Bob", [theirs], bank=other)
    first = "PIN 9\nlikes tea"
    await world.write("human", first, spans=(span(first, "PIN 9", gone), span(first, "likes tea", kept)))
    await world.write("human", "Facts:\nPIN 9\nlikes tea")
    await world.write("human", "Facts:\nPIN: 9\nlikes tea")
    await world.write("task", "PIN 9", spans=(span("PIN 9", "PIN 9", gone, kept),))
    await world.write("free", "nothing rests on anything: PIN 9")
    await world.write("human", "PIN 8", bank=other, spans=(span("PIN 8", "PIN 8", theirs),))
    before = await all_there_is(world, other)
    found = await forgotten(world, [gone, theirs, EpisodeId("epi_unknown")])
    assert found == ForgetCounts(episodes=1, notes=1, versions=4)
    assert await all_there_is(world, other) == before, "the ids of another bank touch nothing"
    left = await all_there_is(world, world.bank)
    assert [each.id for each in left["episodes"]] == [kept]
    assert [each.id for each in left["notes"]] == [stays]
    by_label = {label: [each.value for each in left["blocks"] if each.label == label] for label in ("human", "task")}
    assert by_label == {"human": ["likes tea", "Facts:\nlikes tea", "Facts:\nlikes tea"], "task": [""]}
    assert (await world.history("free"))[0].value == "nothing rests on anything: PIN 9"
    assert await world.texts("PIN") == []
    assert (await world.undo("human", to=1)).value == "likes tea"


@pytest.mark.spec("MEM-03")
async def test_demotions_by_what_is_forgotten_are_taken_back_with_what_their_reasons_say(world: World) -> None:
    other = await world.add_bank("bob")
    old, gone, new = [(await world.remember(text)).episode.id for text in ("in Porto", "in Rome", "in Lund")]
    theirs = (await world.remember("in Oslo", bank=other)).episode.id
    derived = await world.note("moved to Rome", [gone])

    async def demote(bank: Bank, evidence: str) -> None:
        async with world.store.begin_write() as tx:
            target = theirs if bank is other else old
            await world.episodes.demote(tx, bank, target, by="a pass", reason="over: Rome", evidence=evidence)

    for evidence in (gone, derived, new, "a letter"):
        await demote(world.bank, evidence)
    await demote(other, gone)
    await forgotten(world, [gone])
    left, ours = [(await all_there_is(world, each))["episodes"] for each in (other, world.bank)]
    assert [[stale.evidence for stale in each.stale] for each in ours] == [[new, "a letter"], []]
    assert [stale.evidence for each in left for stale in each.stale] == [gone], "another bank is left as it is"
    hits = [each for each in await world.find("Porto") if each.item.id == old]
    assert hits[0].scored.parts["weight"] == pytest.approx(0.09), "the index has heard of it"


@pytest.mark.spec("MEM-03")
async def test_what_remains_of_a_block_is_forgotten_later_too(world: World) -> None:
    ids = [(await world.remember(f"fact {at}")).episode.id for at in range(4)]
    value = "zero one two three"
    spans = tuple(span(value, part, ids[at]) for at, part in enumerate(value.split()))
    await world.write("human", value, spans=spans)
    for at in (1, 3, 0):
        await forgotten(world, [ids[at]])
    (left,) = await world.history("human")
    assert left.value.split() == ["two"]
    await forgotten(world, [ids[2]])
    assert (await world.history("human"))[0].value.split() == []


@pytest.mark.spec("MEM-03")
async def test_a_note_that_is_named_goes_alone(world: World) -> None:
    other = await world.add_bank("bob")
    said = (await world.remember("Ann likes tea")).episode.id
    gone, stays = [await world.note(text, [said]) for text in ("Ann likes coffee", "Ann likes tea")]
    theirs = await world.note("about Bob", [(await world.remember("Bob", bank=other)).episode.id], bank=other)
    async with world.store.begin_write() as tx:
        assert await forget(tx, world.bank, [gone, theirs]) == ForgetCounts(episodes=0, notes=1, versions=0)
    left = await all_there_is(world, world.bank)
    assert ([each.id for each in left["episodes"]], [each.id for each in left["notes"]]) == ([said], [stays])
    assert [each.id for each in (await all_there_is(world, other))["notes"]] == [theirs]


async def test_where_there_is_nothing_to_forget_only_what_is_ready_goes(world: World) -> None:
    await world.remember("tea")
    before = await all_there_is(world, world.bank)
    for ids in ([], [EpisodeId("x")]):
        made = answer(f"a{len(ids)}", world.bank.id)
        made = replace(made, basis=replace(made.basis, generation=(await world.present()).generation))
        async with world.store.begin_write() as tx:
            assert await tx.answers.put([made])
            await tx.answer_uses.record_uses([use("u", made)])
            await tx.answer_frames.save_frames([frame(world.bank.id)])
        generation = (await world.present()).generation
        assert await forgotten(world, ids) == ForgetCounts(episodes=0, notes=0, versions=0)
        async with world.store.begin_read() as tx:
            of = world.bank.id
            left = (
                await tx.answers.find_live(of),
                await tx.answer_uses.find_uses(of),
                await tx.answer_frames.find_recent_scopes(of),
            )
        assert [*map(len, left)] == [0, 0, 0], "something may have been asked and answered that is no episode"
        assert (await world.present()).generation > generation, "and what is being made of it is not kept"
    assert await all_there_is(world, world.bank) == before


@pytest.mark.spec("MEM-03", "ANS-04")
async def test_ready_answers_of_the_bank_go_with_their_uses_and_frames(world: World) -> None:
    other = await world.add_bank("bob")
    said = (await world.remember("Ann lives in Lyon")).episode.id
    made = [answer("a1", world.bank.id), answer("a2", other.id)]

    async def kept(tx: Tx, bank: Bank) -> list[int]:
        found = (
            await tx.answers.find_live(bank.id),
            await tx.answer_uses.find_uses(bank.id),
            await tx.answer_frames.find_recent_scopes(bank.id),
        )
        return [len(each) for each in found]

    async with world.store.begin_write() as tx:
        for each in made:
            await tx.answers.put([each])
            await tx.answer_uses.record_uses([use(f"u_{each.id}", each)])
            await tx.answer_frames.save_frames([frame(each.bank_id)])
        await forget(tx, world.bank, [said], dry_run=True)
        assert await kept(tx, world.bank) == [1, 1, 1]
        await forget(tx, world.bank, [said])
        assert await kept(tx, world.bank) == [0, 0, 0]
        assert await tx.answers.get(world.bank.id, made[0].id) is None
        assert await kept(tx, other) == [1, 1, 1]


@pytest.mark.spec("MEM-03")
async def test_a_dry_run_counts_what_would_go_and_keeps_it(world: World) -> None:
    ids = [(await world.remember(text)).episode.id for text in ("one", "two")]
    await world.note("both", ids)
    before = await all_there_is(world, world.bank), await world.present()
    async with world.store.begin_write() as tx:
        found = await forget(tx, world.bank, ids, dry_run=True)
    assert found == ForgetCounts(episodes=2, notes=1, versions=0)
    assert (await all_there_is(world, world.bank), await world.present()) == before


@pytest.mark.spec("MEM-03")
async def test_more_than_one_statement_takes_is_forgotten_and_notes_that_rest_on_many_count_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "IDS_PER_STATEMENT", 3)
    ids = [(await world.remember(f"fact {at}")).episode.id for at in range(10)]
    await world.note("all", ids)
    await world.note("two", ids[8:])
    assert await forgotten(world, ids[:8]) == ForgetCounts(episodes=8, notes=1, versions=0)
    assert [each.text for each in (await all_there_is(world, world.bank))["notes"]] == ["two"]


@pytest.mark.spec("MEM-03")
async def test_a_failure_while_forgetting_keeps_everything(world: World) -> None:
    made = await world.remember("tea")
    before = await all_there_is(world, world.bank)

    async def fails() -> None:
        async with world.store.begin_write() as tx:
            await forget(tx, world.bank, [made.episode.id])
            raise RuntimeError("what came after it failed")

    with pytest.raises(RuntimeError):
        await fails()
    assert await all_there_is(world, world.bank) == before
    assert await world.texts("tea") == ["tea"]
