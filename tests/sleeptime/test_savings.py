"""What hot calls were spared by what passes made: which tokens count, to whom, at which price."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from circadia.ids import AgentId, BankId, CallId, EpisodeId
from circadia.llm.prices import PriceList
from circadia.memory.context import Context, excerpt_tokens
from circadia.memory.uses import BankUse, UseQueue, build_uses
from circadia.records.block import Block
from circadia.records.call import Call, CallStatus
from circadia.records.change import ChangeKind
from circadia.records.episode import Episode
from circadia.records.index_entry import Excerpt, Layer
from circadia.records.note import Note
from circadia.records.retention import RetentionKind
from circadia.records.sleep_call import Benefit
from circadia.sleeptime.budget.savings import Savings, Source, Weight, compute_savings, fit_seconds_per_token
from circadia.stores.sqlite import open_sqlite
from tests.contract.rows import expire
from tests.sleeptime.stand import Stand

BOUND = 10_000
FEWEST = 10

ANN = AgentId("agt_ann")
LONG = "I have moved to Porto, and my new flat there is near the river, where it floods the cellar each winter {}."


def source(operation: str, size: int, *evidence: str) -> Source:
    return Source(operation=operation, tokens=size, evidence=tuple(map(EpisodeId, evidence)))


@pytest.mark.spec("SLEEP-42")
def test_a_source_saves_its_evidence_less_itself_and_each_episode_is_saved_once() -> None:
    names = ("a", "b", "c", "shown", "known")
    rows = {EpisodeId(key): Weight(number=n, text_hash=n, tokens=100) for n, key in enumerate(names)}
    sources = [
        source("consolidate", 30, "a", "b", "shown", "known", "forgotten"),
        source("reflect", 30, "a", "b", "c"),
        source("compress", 30, "a", "b", "c"),
    ]
    found = list(compute_savings(sources, rows, shown={3}, known={4}))
    assert found == [("consolidate", 170), ("reflect", 70), ("compress", 0)]


def savings(stand: Stand) -> Savings:
    prices = {"openai": PriceList(base_url="https://api.openai.com", api="openai")}
    return Savings(stand.clock, stand.store, stand.memory.uses, prices)


async def gains(stand: Stand) -> Sequence[Benefit]:
    async with stand.store.begin_read() as tx:
        return await tx.benefits.find_all(stand.bank.id, since=stand.clock.now().date())


async def asked(stand: Stand, question: str, *, fitting: int = 1_000) -> Context:
    found = await stand.memory.retrieval.prepare_question(question)
    async with stand.store.begin_read() as tx:
        bank = await tx.banks.get(stand.bank.id)
        assert bank is not None
        return await stand.memory.contexts.build(tx, bank, found, stable_tokens=1_000, fitting_tokens=fitting)


def size(row: Episode | Note) -> int:
    """Return what a context takes for it."""
    layer = Layer.NOTES if isinstance(row, Note) else Layer.EPISODES
    speaker = row.speaker if isinstance(row, Episode) else None
    return excerpt_tokens(Excerpt(layer, row.number, row.at, row.text, row.trust.value, speaker, row.kind.value))


async def noted(stand: Stand, *, operation: str = "consolidate") -> tuple[Note, Sequence[Episode]]:
    """Let a pass make a note of three things that were said."""
    said = await stand.said(*[LONG.format(n) for n in range(3)])
    run = await stand.begun()
    await stand.publish(run, replace(stand.note("not_1", said, "Ann's flat floods."), operation=operation), upto=3)
    await stand.ended(run)
    (note,) = await stand.notes()
    return note, said


def notes_only(stand: Stand, note: Note, **more: Any) -> BankUse:
    """Return an answer in which the note stands alone."""
    use = BankUse(
        bank=stand.bank.id, agent=ANN, upstream=None, model=None, notes=[note.number], episodes=[],
        blocks=[], known=[],
    )  # fmt: skip
    return replace(use, **more)


@pytest.mark.spec("SLEEP-42")
async def test_a_note_is_credited_to_who_made_it_at_the_price_of_the_call_s_model(stand: Stand) -> None:
    note, said = await noted(stand, operation="contradictions")
    uses = stand.memory.uses
    uses.add(notes_only(stand, note, upstream="openai", model="gpt-4o-mini"))
    uses.add(notes_only(stand, note, upstream="openai", model="gpt-4o-mini", episodes=[said[0].number]))
    uses.add(notes_only(stand, note, upstream="openai", model="gpt-4o-mini", known=[hash(said[0].text)]))
    await savings(stand).step()
    (found,) = await gains(stand)
    spared = 7 * size(said[0]) - 3 * size(note)
    assert (found.operation, found.uses, found.saved_tokens) == ("contradictions", 3, spared)
    assert (found.saved_nanousd, found.unpriced_tokens, found.saved_seconds) == (150 * spared, 0, 0.0)
    await savings(stand).step()
    assert await gains(stand) == [found], "what was counted is counted once"


@pytest.mark.spec("SLEEP-42")
async def test_a_context_notes_what_stands_in_it_and_a_rewritten_block_saves_the_evidence_of_its_spans(
    stand: Stand,
) -> None:
    note, said = await noted(stand)
    rewritten = stand.change(
        ChangeKind.WRITE_BLOCK, "human", before=None,
        after={"value": "Ann lives in Porto.", "spans": [[0, 19, [each.id for each in said]]]}, why="new",
    )  # fmt: skip
    run = await stand.begun("p2")
    await stand.publish(run, rewritten, upto=3)
    context = await asked(stand, "Where is the flat?")
    shown = {hit.scored.number for hit in context.hits if hit.scored.layer is Layer.EPISODES}
    assert shown == {each.number for each in said}
    stand.memory.uses.add(*build_uses([stand.bank], ANN, context.hits, context.blocks))
    context = await asked(stand, "", fitting=0)
    stand.memory.uses.add(*build_uses([stand.bank], ANN, context.hits, context.blocks))
    await savings(stand).step()
    by = {each.operation: each for each in await gains(stand)}
    assert (by["consolidate"].uses, by["consolidate"].saved_tokens) == (1, 0), "its evidence stands beside it"
    assert (by["test"].uses, by["test"].saved_tokens) == (2, 3 * size(said[0]) - 7)
    assert by["test"].unpriced_tokens == by["test"].saved_tokens
    assert note.text == "Ann's flat floods."


@pytest.mark.spec("SLEEP-42", "MEM-03")
async def test_what_is_forgotten_or_imported_or_of_a_deleted_bank_saves_nothing(stand: Stand) -> None:
    note, said = await noted(stand)
    async with stand.store.begin_write() as tx:
        await tx.notes.add(replace(note, id=type(note.id)("not_2"), pass_id=None))
    imported = (await stand.notes())[-1]
    uses = stand.memory.uses
    uses.add(notes_only(stand, imported))
    await savings(stand).step()
    assert await gains(stand) == []
    uses.add(notes_only(stand, note))
    async with stand.store.begin_write() as tx:
        await tx.notes.remove([note.id])
        await tx.episodes.remove([said[0].id])
    await savings(stand).step()
    assert await gains(stand) == []
    uses.add(notes_only(stand, imported))
    async with stand.store.begin_write() as tx:
        await tx.banks.remove(stand.bank.id)
    await savings(stand).step()
    assert await gains(stand) == []


@pytest.mark.spec("SLEEP-42")
async def test_who_made_a_note_or_a_block_is_known_after_the_records_of_the_pass_are_gone(stand: Stand) -> None:
    note, said = await noted(stand, operation="own_notes")
    spans = [[0, 19, [each.id for each in said]]]
    written = stand.change(ChangeKind.WRITE_BLOCK, "tasks", after={"value": "Ann lives in Porto.", "spans": spans})
    run = await stand.begun("p2")
    await stand.publish(run, replace(written, operation="own_tasks"), upto=3)
    await stand.ended(run)
    await stand.write("tasks", "Ann lives in Porto. And?")
    async with stand.store.begin_write() as tx:
        assert await expire(tx, stand.clock.now() + timedelta(seconds=1), RetentionKind.PASSES) == 2
    stand.memory.uses.add(notes_only(stand, note, notes=[], blocks=[await stand.block("tasks")]))
    stand.memory.uses.add(notes_only(stand, note))
    await savings(stand).step()
    assert {each.operation: each.saved_tokens for each in await gains(stand)} == {
        "own_notes": 3 * size(said[0]) - size(note), "own_tasks": 3 * size(said[0]) - 7,
    }  # fmt: skip


@pytest.mark.spec("SLEEP-42")
async def test_a_bank_that_fails_loses_no_other_s_uses_and_what_finds_no_database_is_counted_later(
    stand: Stand, tmp_path: Path
) -> None:
    note, _ = await noted(stand)
    bad = Block(
        bank_id=stand.bank.id, label="bad", version=1, parent=None, value="x", limit=9, by="t", at=stand.clock.now(),
        spans=[None],  # pyright: ignore[reportArgumentType]
    )  # fmt: skip
    stand.memory.uses.add(notes_only(stand, note, bank=BankId("another"), notes=[], blocks=[bad]))
    stand.memory.uses.add(notes_only(stand, note))
    await savings(stand).step()
    assert [each.uses for each in await gains(stand)] == [1]
    closed = await open_sqlite(tmp_path / "other.db")
    await closed.close()
    stand.memory.uses.add(notes_only(stand, note))
    await Savings(stand.clock, closed, stand.memory.uses, {}).step()
    await savings(stand).step()
    assert [each.uses for each in await gains(stand)] == [2]


def line(stand: Stand, n: int, **more: Any) -> Call:
    made = Call(
        id=CallId(f"c{n:03}"), at=stand.clock.now(), agent_id=ANN, session="default", agent="ann", upstream="openai",
        endpoint="chat_completions", model="gpt-4o-mini-2024-07-18", status=CallStatus.DONE, streamed=True,
        input_tokens=100 * n + 50, cached_tokens=50, first_token_seconds=0.4 + 0.01 * n,
    )  # fmt: skip
    return replace(made, **more)


@pytest.mark.spec("SLEEP-42")
async def test_seconds_and_price_of_what_a_tool_hands_out_are_those_of_the_agent_s_last_calls(stand: Stand) -> None:
    note, said = await noted(stand)
    async with stand.store.begin_write() as tx:
        await tx.calls.add([line(stand, n) for n in range(FEWEST)])
    stand.memory.uses.add(notes_only(stand, note))
    await savings(stand).step()
    (found,) = await gains(stand)
    spared = 3 * size(said[0]) - size(note)
    assert (found.saved_tokens, found.saved_nanousd, found.unpriced_tokens) == (spared, 150 * spared, 0)
    assert found.saved_seconds == pytest.approx(spared * 0.01 / 100)


@pytest.mark.spec("SLEEP-42")
async def test_a_call_for_embeddings_tells_no_price_and_one_of_another_provider_its_own(stand: Stand) -> None:
    note, said = await noted(stand)
    spared = 3 * size(said[0]) - size(note)
    embedding = line(stand, FEWEST, endpoint="embeddings", model="text-embedding-3-small")
    async with stand.store.begin_write() as tx:
        await tx.calls.add([*(line(stand, n) for n in range(FEWEST)), embedding])
    counted = savings(stand)
    stand.memory.uses.add(notes_only(stand, note))
    await counted.step()
    assert [each.saved_nanousd for each in await gains(stand)] == [150 * spared]
    stand.memory.uses.add(notes_only(stand, note, upstream="free", model="gpt-4o-mini"))
    stand.memory.uses.add(notes_only(stand, note, upstream="openai", model="gpt-4o-mini"))
    await counted.step()
    (found,) = await gains(stand)
    assert (found.saved_nanousd, found.unpriced_tokens) == (2 * 150 * spared, spared)


async def test_a_ledger_that_cannot_tell_seconds_tells_none(stand: Stand) -> None:
    lines = [line(stand, n) for n in range(FEWEST)]
    assert fit_seconds_per_token(lines, "openai", "gpt-4o-mini") == pytest.approx(0.0001)
    assert fit_seconds_per_token(lines[1:], "openai", "gpt-4o-mini") == 0.0
    assert fit_seconds_per_token(lines, "another", "gpt-4o-mini") == 0.0
    assert fit_seconds_per_token([lines[0]] * FEWEST, "openai", "gpt-4o-mini") == 0.0
    slow_at_first = [replace(each, first_token_seconds=9.0 - n) for n, each in enumerate(lines)]
    assert fit_seconds_per_token(slow_at_first, "openai", "gpt-4o-mini") == 0.0


async def test_what_waits_is_bounded_and_what_is_dropped_is_counted(stand: Stand) -> None:
    uses = UseQueue()
    uses.add(*build_uses([stand.bank], ANN, ()))
    assert not uses.drain(), "nothing stood in it"
    use = BankUse(
        bank=stand.bank.id, agent=ANN, upstream=None, model=None, notes=[1], episodes=(), blocks=(), known=()
    )  # fmt: skip
    for _ in range(BOUND + 2):
        uses.add(use)
    assert (uses.dropped, len(uses.drain()), uses.drain()) == (2, BOUND, [])


@pytest.mark.spec("SLEEP-20", "SLEEP-42")
async def test_the_notes_that_agents_are_given_are_marked_once_a_day(stand: Stand) -> None:
    note, _ = await noted(stand)
    counted, first = savings(stand), stand.clock.now()
    stand.memory.uses.add(notes_only(stand, note))
    await counted.step()
    assert await marked(stand) == first
    spared = await gains(stand)
    assert [each.uses for each in spared] == [1]
    stand.clock.advance(60)
    stand.memory.uses.add(notes_only(stand, note))
    await savings(stand).step()  # another process, which does not remember
    assert await marked(stand) == first
    stand.clock.advance(timedelta(days=1).total_seconds())
    stand.memory.uses.add(notes_only(stand, note))
    await counted.step()
    assert await marked(stand) == stand.clock.now()


async def marked(stand: Stand) -> datetime | None:
    """Return when the note was last given to somebody."""
    (note,) = await stand.notes()
    return note.used_at


@pytest.mark.spec("SLEEP-42")
async def test_an_answer_of_episodes_alone_is_not_noted(stand: Stand) -> None:
    await stand.said("I live in Porto.")
    context = await asked(stand, "Porto")
    assert context.hits
    assert not build_uses([stand.bank], ANN, context.hits, known=["a long history"])
