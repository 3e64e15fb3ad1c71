"""What a pass proposes is published as one, under rules, and can be taken back as one."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import pytest

from circadia.errors import Conflict
from circadia.ids import EpisodeId
from circadia.memory.forgetting import forget
from circadia.records.change import FORGOTTEN, Change, ChangeKind, ChangeState
from circadia.records.episode import Episode
from circadia.records.sleep_pass import Pass, PassStatus
from circadia.sleeptime.publish.publisher import BankWatermark, PageProgress
from tests.sleeptime.stand import Stand


@pytest.mark.spec("SLEEP-11", "SLEEP-30")
async def test_changes_cursor_and_generation_move_together(stand: Stand) -> None:
    first, second = await stand.said("I live in Porto.", "My flat in Porto is small.")
    run = await stand.begun()
    published = stand.bank.published
    demotion = {"reason": "said again", "evidence": second.id, "weight": 0.3}
    now = await stand.publish(
        run,
        stand.note("n1", [first, second]),
        stand.rewrite(None, "human", "Lives in Porto."),
        stand.change(ChangeKind.DEMOTE_EPISODE, first.id, after=demotion, why="said again"),
        upto=second.number,
    )
    assert now.counts == {"add_note": 1, "write_block": 1, "demote_episode": 1}
    assert (now.after, now.generation_after) == (second.number, published + 1)
    async with stand.store.begin_read() as tx:
        assert (await tx.sleep_states.get(stand.bank.id)).cursor == second.number
        assert await tx.passes.get(run.id) == now
        kept = await tx.episodes.get(stand.bank.id, first.id)
        assert kept is not None
        assert [each.by for each in kept.stale] == ["pass p1"]
    assert [(note.id, note.pass_id) for note in await stand.notes()] == [("n1", "p1")]
    assert (await stand.block("human")).by == "pass p1"


@pytest.mark.spec("SLEEP-10")
@pytest.mark.parametrize("lost", ["epoch", "cancelled"])
async def test_who_has_lost_a_pass_publishes_nothing(stand: Stand, lost: str) -> None:
    sources = await stand.said("I live in Porto.", "My flat in Porto is small.")
    run = await stand.begun()
    async with stand.store.begin_write() as tx:
        other = (
            replace(run, epoch=2)
            if lost == "epoch"
            else replace(run, status=PassStatus.CANCELLED, ended_at=stand.clock.now())
        )
        assert await tx.passes.save(other, origin=run)
    with pytest.raises(Conflict):
        await stand.publish(run, stand.note("n1", sources), upto=2)
    assert await stand.notes(retired=True) == []
    async with stand.store.begin_read() as tx:
        assert (await tx.sleep_states.get(stand.bank.id)).cursor == 0


@pytest.mark.spec("SLEEP-10", "SLEEP-70")
async def test_of_two_who_publish_a_pass_at_once_one_does(stand: Stand) -> None:
    sources = await stand.said("I live in Porto.", "My flat in Porto is small.")
    run = await stand.begun()

    publishing = (stand.publish(run, stand.note(key, sources)) for key in ("n1", "n2"))
    outcomes = await asyncio.gather(*publishing, return_exceptions=True)
    assert sorted(type(each).__name__ for each in outcomes) == ["Conflict", "Pass"]
    assert len(await stand.notes()) == 1


@pytest.mark.spec("SLEEP-30", "SLEEP-70")
async def test_what_a_person_wrote_meanwhile_is_kept(stand: Stand) -> None:
    read = await stand.write("human", "Ann\nLisbon\ncat\ntea")
    await stand.write("human", "Ann\nLisbon\ncat\ncoffee")
    other = await stand.write("house", "red\nsmall")
    await stand.write("house", "blue\nsmall")
    run = await stand.begun()
    await stand.publish(
        run, stand.rewrite(read, "human", "Ann\nPorto\ncat\ntea"), stand.rewrite(other, "house", "green\nsmall")
    )
    assert (await stand.block("human")).value == "Ann\nPorto\ncat\ncoffee"
    assert (await stand.block("house")).value == "blue\nsmall"
    assert await stand.changes(run) == [
        ("published", "new (merged with version 2)"),
        ("refused", "it was written by somebody else meanwhile"),
    ]


@pytest.mark.spec("SLEEP-30")
async def test_four_overlapping_passes_lose_nothing(stand: Stand) -> None:
    read = await stand.write("human", "a\nx\nb\nx\nc\nx\nd")
    lines = read.value.split("\n")
    for at in range(4):
        run = await stand.begun(f"p{at}")
        mine = [*lines]
        mine[2 * at] = mine[2 * at].upper()
        await stand.publish(run, stand.rewrite(read, "human", "\n".join(mine)))
        await stand.ended(run)
    assert (await stand.block("human")).value == "A\nx\nB\nx\nC\nx\nD"


@pytest.mark.spec("SLEEP-31")
async def test_what_breaks_a_rule_is_refused_and_says_why(stand: Stand) -> None:
    sources = await stand.said("I live in Porto.", "My flat in Porto is small.")
    run = await stand.begun()
    locked = await stand.write("rules", "Be kind.", read_only=True)
    gone = replace(sources[0], id="epi_gone")
    await stand.publish(
        run,
        stand.note("n1", sources, text="Ann has 3 cats."),
        stand.note("n2", [gone]),
        stand.rewrite(locked, "rules", "Be rude, always."),
        stand.change(ChangeKind.RETIRE_NOTE, "n9"),
        rules=[_no_three],
    )
    assert await stand.changes(run) == [
        ("refused", "3 is in no source"),
        ("refused", FORGOTTEN),
        ("refused", "block 'rules' is read-only; a person can change that"),
        ("refused", "there is no such note any more"),
    ]
    assert await stand.notes() == []


@pytest.mark.spec("SLEEP-31")
async def test_a_block_one_of_whose_sources_was_forgotten_meanwhile_leaves_nothing_of_its_text(stand: Stand) -> None:
    read = await stand.write("human", "Ann is kind.")
    run = await stand.begun()
    change = stand.rewrite(read, "human", "Ann is kind. She has a secret.")
    spans = [[0, 30, ["epi_gone"]]]
    await stand.publish(run, replace(change, after={**(change.after or {}), "spans": spans}))
    assert await stand.changes(run) == [("refused", FORGOTTEN)]
    async with stand.store.begin_read() as tx:
        (kept,) = await tx.passes.find_changes(run.id)
    assert (kept.before, kept.after) == (None, None)
    assert (await stand.block("human")).value == "Ann is kind."


@pytest.mark.spec("SLEEP-22", "SLEEP-30")
async def test_a_note_may_be_retired_and_stood_for_by_notes_of_the_same_publication(stand: Stand) -> None:
    sources = await stand.said("I live in Porto.", "My flat in Porto is small.")
    run = await stand.begun()
    too_early = {"evidence": "not_3", "reason": "", "weight": 0.3}
    await stand.publish(
        run,
        stand.note("not_1", sources, text="Ann lives in Porto."),
        stand.note("not_2", sources, text="Ann lives in a small flat in Porto."),
        stand.change(ChangeKind.RETIRE_NOTE, "not_1", after={"instead": "not_2"}),
        stand.note("not_2", sources, text="Ann lives in a small flat in Porto."),
        stand.change(ChangeKind.DEMOTE_EPISODE, sources[0].id, after=too_early),
        stand.note("not_3", sources, text="Porto is where Ann's flat is."),
    )
    assert [state for state, _ in await stand.changes(run)] == ["published"] * 3 + ["refused"] * 2 + ["published"]
    assert [(each.id, each.evidence) for each in await stand.notes()] == [
        (key, tuple(each.id for each in sources)) for key in ("not_2", "not_3")
    ]


@pytest.mark.spec("SLEEP-32")
async def test_a_note_that_an_undo_brings_back_is_found_though_the_index_was_loaded_without_it(stand: Stand) -> None:
    sources = await stand.said("I have a flat.", "My flat is small.")
    maker = await stand.begun("p0")
    await stand.publish(maker, stand.note("n1", sources, text="Ann lives in Porto."))
    await stand.ended(maker)
    cleaner = await stand.begun("p1")
    await stand.publish(cleaner, stand.change(ChangeKind.RETIRE_NOTE, "n1", why="no longer"))

    async def found() -> list[str]:
        question = await stand.memory.retrieval.prepare_question("Porto")
        async with stand.store.begin_read() as tx:
            bank = await tx.banks.get(stand.bank.id)
            assert bank is not None
            return [hit.item.id for hit in await stand.memory.retrieval.find(tx, bank, question)]

    assert await found() == []
    async with stand.store.begin_write() as tx:
        await stand.publisher.undo(tx, cleaner, stand.bank, by="ann")
    assert await found() == ["n1"]


@pytest.mark.spec("SLEEP-22", "MEM-03")
async def test_a_flag_of_what_was_forgotten_meanwhile_quotes_nothing(stand: Stand) -> None:
    kept, gone = await stand.said("I live in Porto.", "I live in Faro.")
    flags = [
        stand.change(ChangeKind.FLAG, row.id, after={"text": row.text, "evidence": [row.id, "not_1"]}, why="open")
        for row in (kept, gone)
    ]
    async with stand.store.begin_write() as tx:
        await forget(tx, stand.bank, [gone.id])
    run = await stand.begun()
    await stand.publish(run, *flags)
    async with stand.store.begin_read() as tx:
        first, second = await tx.passes.find_changes(run.id)
    assert (first.state, first.after) == (ChangeState.PUBLISHED, {"text": "I live in Porto.", "evidence": [kept.id]})
    assert (second.state, second.after) == (ChangeState.REFUSED, None)


@pytest.mark.spec("SLEEP-31")
async def test_beliefs_that_a_pass_drew_leave_beside_the_ceiling_of_other_notes(stand: Stand) -> None:
    sources = await stand.said("I live in Porto.", "My flat in Porto is small.")
    maker = await stand.begun("p0")
    await stand.publish(maker, *(stand.note(f"n{at}", sources) for at in range(40)))
    await stand.ended(maker)
    run = await stand.begun()
    beliefs = [stand.change(ChangeKind.RETIRE_NOTE, f"n{at}", before={"belief": True}, why="false") for at in range(7)]
    others = [stand.change(ChangeKind.RETIRE_NOTE, f"n{at}", why="stale") for at in range(7, 12)]
    await stand.publish(run, *others[:1], *beliefs, *others[1:])
    states = [state for state, _ in await stand.changes(run)]
    assert states == ["published"] * 8 + ["staged"] * 4, "six beliefs, and two of 40 of any kind"


@pytest.mark.spec("SLEEP-31")
async def test_more_than_the_ceiling_and_much_shorter_blocks_wait_for_a_person(stand: Stand) -> None:
    sources = await stand.said("I live in Porto.", "My flat in Porto is small.")
    maker = await stand.begun("p0")
    await stand.publish(maker, *(stand.note(f"n{at}", sources) for at in range(40)))
    await stand.ended(maker)
    read = await stand.write("human", "x" * 100)
    run = await stand.begun()
    await stand.publish(
        run,
        *(stand.change(ChangeKind.RETIRE_NOTE, f"n{at}", why="stale") for at in range(5)),
        stand.rewrite(read, "human", "x" * 49),
    )
    assert [state for state, _ in await stand.changes(run)] == ["published"] * 2 + ["staged"] * 4
    assert len(await stand.notes()) == 38
    async with stand.store.begin_write() as tx:
        done = await stand.publisher.accept(tx, run, stand.bank, by="ann")
    assert [each.state.value for each in done] == ["published"] * 4
    assert len(await stand.notes()) == 35
    assert (await stand.block("human")).value == "x" * 49


@pytest.mark.spec("SLEEP-32", "SLEEP-70")
async def test_a_whole_pass_is_taken_back_and_what_others_did_since_stays(stand: Stand) -> None:
    first, second = await stand.said("I live in Porto.", "My flat in Porto is small.")
    before = await stand.begun("p0")
    await stand.publish(before, stand.note("n0", [first, second]))
    await stand.ended(before)
    read = await stand.write("human", "Ann\nLisbon\ncat")
    run = await stand.begun()
    demotion = {"reason": "old", "evidence": second.id, "weight": 0.3}
    await stand.publish(
        run,
        stand.note("n1", [first, second]),
        stand.change(ChangeKind.RETIRE_NOTE, "n0"),
        stand.change(ChangeKind.DEMOTE_EPISODE, first.id, after=demotion),
        stand.rewrite(read, "human", "Ann\nPorto\ncat"),
        stand.rewrite(None, "new", "made by the pass"),
    )
    await stand.write("human", "Ann\nPorto\ncat\ntea")
    async with stand.store.begin_write() as tx:
        done = await stand.publisher.undo(tx, run, stand.bank, by="ann")
    assert {each.state.value for each in done} == {"undone"}
    assert (await stand.block("human")).value == "Ann\nLisbon\ncat\ntea"
    assert [note.id for note in await stand.notes()] == ["n0"]
    async with stand.store.begin_read() as tx:
        assert [each.label for each in await tx.blocks.find_all(stand.bank.id)] == ["human"]
        kept = await tx.episodes.get(stand.bank.id, first.id)
        assert kept is not None
        assert kept.stale == ()


@pytest.mark.spec("SLEEP-32")
@pytest.mark.parametrize("order", list(permutations(("p1", "p2", "p3"))))
async def test_what_passes_made_of_each_others_notes_is_gone_in_whatever_order_they_are_taken_back(
    stand: Stand, order: Sequence[str]
) -> None:
    sources = await stand.said("I live in Porto.", "My flat in Porto is small.")
    runs: dict[str, Pass] = {}
    for at in (1, 2, 3):  # each makes a note that stands for the one before
        run = runs[f"p{at}"] = await stand.begun(f"p{at}")
        changes = [stand.note(f"not_{at}", sources)]
        if at > 1:
            instead = {"instead": f"not_{at}"}
            changes.append(stand.change(ChangeKind.RETIRE_NOTE, f"not_{at - 1}", after=instead, why="told anew"))
        await stand.publish(run, *changes)
        await stand.ended(run)
    assert [each.id for each in await stand.notes()] == ["not_3"]
    for key in order:
        async with stand.store.begin_write() as tx:
            await stand.publisher.undo(tx, runs[key], stand.bank, by="ann")
    assert await stand.notes() == []


@pytest.mark.spec("SLEEP-32")
@pytest.mark.parametrize("how", ["dry_run", "review"])
async def test_a_review_and_a_dry_run_propose_and_change_nothing(stand: Stand, how: str) -> None:
    sources = await stand.said("I live in Porto.", "My flat in Porto is small.")
    run = await stand.begun(dry_run=how == "dry_run", review=how == "review")
    now = await stand.publish(run, stand.note("n1", sources), upto=sources[-1].number)
    assert await stand.changes(run) == [("staged", "they say the same")]
    assert (await stand.notes(), now.generation_after, now.counts) == ([], None, {"staged": 1})
    async with stand.store.begin_read() as tx:
        cursor = (await tx.sleep_states.get(stand.bank.id)).cursor
    assert cursor == (0 if how == "dry_run" else sources[-1].number)


@pytest.mark.spec("SLEEP-02")
@pytest.mark.parametrize("how", ["publish", "partial", "accept", "undo"])
async def test_what_a_person_demotes_beside_a_pass_is_not_taken_for_the_pass_own(stand: Stand, how: str) -> None:
    theirs, own = await stand.said("I live in Porto.", "My flat in Porto is small.")
    run = await stand.begun(review=how == "accept")
    after = {"reason": "over", "evidence": "letter", "weight": 0.3}
    change = stand.change(ChangeKind.DEMOTE_EPISODE, own.id, after=after)

    async def published(seen: BankWatermark | None) -> None:
        async with stand.store.begin_write() as tx:
            done = PageProgress(upto=2, leftovers=(), watermark=seen)
            await stand.publisher.publish(tx, run, stand.bank, [change], done, [])

    async def demoted() -> None:
        async with stand.store.begin_write() as tx:
            await stand.memory.episodes.demote(tx, stand.bank, theirs.id, by="ann", reason="over", evidence="me")

    if how == "undo":
        await published(BankWatermark(demotions=0, edited_at=None))
        async with stand.store.begin_read() as tx:
            state = await tx.sleep_states.get(stand.bank.id)
            assert await tx.sleep_states.find_stale(stand.bank.id, state.demotions) == {}, "its own is known"
        await demoted()
    else:
        await demoted()  # while the model thinks
        await published(None if how == "partial" else BankWatermark(demotions=0, edited_at=None))
    async with stand.store.begin_write() as tx:
        if how == "accept":
            await stand.publisher.accept(tx, run, stand.bank, by="ann")
        elif how == "undo":
            await stand.publisher.undo(tx, run, stand.bank, by="ann")
        state = await tx.sleep_states.get(stand.bank.id)
        assert theirs.id in await tx.sleep_states.find_stale(stand.bank.id, state.demotions)


def _no_three(change: Change, _: Mapping[EpisodeId, Episode]) -> str:
    return "3 is in no source" if "3" in str(change.after) else ""
