"""Blocks: limits, versions, who may write, undo and restore, and what parts of them rest on."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circadia.errors import Conflict, Forbidden, InvalidRequest, NotFound
from circadia.ids import BankId, EpisodeId
from circadia.memory.blocks import BlockAuthor, BlockUpdate, carry_spans, remove_episodes
from circadia.records.bank import BankPolicy
from circadia.records.block import Block, BlockSpan
from circadia.stores.base import Tx
from circadia.testing.clock import START
from tests.memory.world import World, span

LIMIT = 5_000
MOST = 100_000


async def opened(world: World) -> None:
    """Let agents write blocks."""
    async with world.store.begin_write() as tx:
        world.bank = await world.banks.change(tx, world.bank, by="operator", policy=BankPolicy(hot_edits=True))


async def values(world: World) -> dict[str, str]:
    async with world.store.begin_read() as tx:
        return {each.label: each.value for each in await tx.blocks.find_all(world.bank.id)}


def block(value: str, *spans: BlockSpan) -> Block:
    return Block(
        bank_id=BankId("b"), label="l", version=1, parent=None, value=value, limit=LIMIT, spans=spans, by="x", at=START
    )  # fmt: skip


@pytest.mark.spec("MEM-09")
async def test_each_way_of_writing_keeps_the_limit_in_characters_and_changes_nothing_beyond_it(world: World) -> None:
    await world.write("human", "ü" * 10, limit=10)
    ways: list[Callable[[Tx], Awaitable[Block]]] = [
        lambda tx: world.blocks.write(
            tx, world.bank, "human", BlockUpdate(value="x" * 11), writer=BlockAuthor.PERSON, by="t"
        ),
        lambda tx: world.blocks.write(tx, world.bank, "human", BlockUpdate(limit=9), writer=BlockAuthor.PERSON, by="t"),
        lambda tx: world.blocks.insert(
            tx, world.bank, "human", "", line=None, expected=None, writer=BlockAuthor.PERSON, by="t"
        ),
        lambda tx: world.blocks.write(
            tx, world.bank, "human", BlockUpdate(value="ü" * 9 + "ab"), writer=BlockAuthor.SLEEP, by="t"
        ),
    ]
    for way in ways:
        with pytest.raises(InvalidRequest, match=r"shorten it by 1"):
            async with world.store.begin_write() as tx:
                await way(tx)
    await world.write("human", "üa")
    with pytest.raises(InvalidRequest, match=r"would be 11"):
        async with world.store.begin_write() as tx:
            await world.blocks.replace(
                tx, world.bank, "human", "a", "b" * 10, expected=None, writer=BlockAuthor.PERSON, by="t"
            )
    assert [each.version for each in await world.history("human")] == [1, 2]


@pytest.mark.spec("MEM-17")
async def test_limits_labels_and_texts_that_no_block_can_have_are_refused_by_both_databases(world: World) -> None:
    for limit in (0, -1, MOST + 1):
        with pytest.raises(InvalidRequest, match="limit of a block"):
            await world.write("human", "x", limit=limit)
    for label in ("", "a" * 101, "a\nb", "\0", "\ud800"):
        with pytest.raises(InvalidRequest, match="label"):
            await world.write(label, "x")
    for text in ("a\0b", "a\ud800b"):
        for edit in ({"value": text}, {"description": text}, {"why": text}):
            more: dict[str, Any] = {"value": "x", **edit}
            with pytest.raises(InvalidRequest):
                await world.write("human", **more)
    assert await values(world) == {}


@pytest.mark.spec("MEM-09")
async def test_a_write_against_another_version_than_the_present_is_a_conflict_and_changes_nothing(world: World) -> None:
    await world.write("human", "one", expected_version=0)
    for expected in (0, 2):
        with pytest.raises(Conflict, match="at version 1"):
            await world.write("human", "two", expected_version=expected)
    await world.write("human", "two", expected_version=1)
    with pytest.raises(Conflict, match="does not exist"):
        await world.write("other", "x", expected_version=1)
    blocks = world.blocks
    who: dict[str, Any] = {"writer": BlockAuthor.PERSON, "by": "t"}
    ways: list[Callable[[Tx], Awaitable[Block]]] = [
        lambda tx: blocks.delete(tx, world.bank, "human", expected=1, **who),
        lambda tx: blocks.undo(tx, world.bank, "human", expected=1, by="t"),
        lambda tx: blocks.insert(tx, world.bank, "human", "x", line=1, expected=1, **who),
        lambda tx: blocks.replace(tx, world.bank, "human", "two", "x", expected=1, **who),
    ]
    for way in ways:
        with pytest.raises(Conflict, match="at version 2"):
            async with world.store.begin_write() as tx:
                await way(tx)
    assert [each.value for each in await world.history("human")] == ["one", "two"]


@pytest.mark.spec("MEM-09")
async def test_of_two_writers_who_read_the_same_version_one_is_told_and_nothing_is_lost(world: World) -> None:
    await world.write("human", "one")
    async with world.store.begin_read() as tx:
        read = await world.blocks.get(tx, world.bank, "human")
    await world.write("human", "two", expected_version=read.version)
    with pytest.raises(Conflict, match="read it again"):
        await world.write("human", "other two", expected_version=read.version)
    assert await values(world) == {"human": "two"}


@pytest.mark.spec("MEM-10")
async def test_who_writes_says_what_may_be_written(world: World) -> None:
    await world.write("human", "person", read_only=True)
    with pytest.raises(Forbidden, match="hot_edits"):
        await world.write("scratch", "x", writer=BlockAuthor.HOT)
    await world.write("scratch", "x", writer=BlockAuthor.SLEEP)
    await opened(world)
    await world.write("scratch", "y", writer=BlockAuthor.HOT)
    for writer in (BlockAuthor.SLEEP, BlockAuthor.HOT):
        with pytest.raises(Forbidden, match="read-only"):
            await world.write("human", "x", writer=writer)
        with pytest.raises(Forbidden, match="only a person"):
            await world.write("scratch", "x", writer=writer, limit=MOST)
        with pytest.raises(Forbidden, match="only a person"):
            await world.write("scratch", "x", writer=writer, read_only=True)
        with pytest.raises(Forbidden, match="read-only"):
            async with world.store.begin_write() as tx:
                await world.blocks.delete(tx, world.bank, "human", writer=writer, by="t")
    assert await values(world) == {"human": "person", "scratch": "y"}


@pytest.mark.spec("MEM-09", "MEM-10")
async def test_a_deletion_is_no_way_around_a_limit_or_a_read_only_mark(world: World) -> None:
    await opened(world)
    await world.write("scratch", "x", limit=10)
    await world.write("rule", "x", read_only=True)
    async with world.store.begin_write() as tx:
        await world.blocks.delete(tx, world.bank, "scratch", writer=BlockAuthor.HOT, by="t")
        await world.blocks.delete(tx, world.bank, "rule", writer=BlockAuthor.PERSON, by="t")
    with pytest.raises(Forbidden, match="only a person"):
        await world.write("scratch", "x" * 11, writer=BlockAuthor.HOT, limit=MOST)
    with pytest.raises(InvalidRequest, match="shorten"):
        await world.write("scratch", "x" * 11, writer=BlockAuthor.HOT)
    with pytest.raises(Forbidden, match="read-only"):
        await world.write("rule", "mine", writer=BlockAuthor.HOT)
    assert (await world.write("scratch", "again", writer=BlockAuthor.HOT)).version == 3
    assert (await world.write("rule", "again", read_only=False)).read_only is False


@pytest.mark.spec("MEM-11")
async def test_undo_goes_back_step_by_step_and_a_later_write_branches_off(world: World) -> None:
    for value in ("one", "two", "three"):
        await world.write("human", value)
    assert (await world.undo("human")).value == "two"
    assert (await world.undo("human")).value == "one"
    with pytest.raises(NotFound):
        await world.undo("human")
    assert (await world.undo("human", to=3)).value == "three"
    await world.undo("human", to=2)
    branch = await world.write("human", "two and a half")
    assert (await world.undo("human")).value == "two"
    history = await world.history("human")
    parents = {each.version: each.parent for each in history}
    assert parents[branch.version] == branch.version - 1
    assert parents[branch.version - 1] == 2
    assert [each.value for each in history[:3]] == ["one", "two", "three"]
    with pytest.raises(NotFound, match="99"):
        await world.undo("human", to=99)
    with pytest.raises(NotFound, match="ever"):
        await world.undo("unknown")


@pytest.mark.spec("MEM-11")
async def test_a_deleted_block_comes_back_by_undo_and_is_gone_again_by_its_version(world: World) -> None:
    await world.write("human", "one", description="d", limit=50)
    async with world.store.begin_write() as tx:
        gone = await world.blocks.delete(tx, world.bank, "human", writer=BlockAuthor.PERSON, by="t")
        with pytest.raises(NotFound, match="has none yet"):
            await world.blocks.get(tx, world.bank, "human")
    back = await world.undo("human")
    assert (back.value, back.description, back.limit, back.deleted) == ("one", "d", 50, False)
    assert (await world.undo("human", to=gone.version)).deleted
    assert (await world.write("human", "new", expected_version=0)).version == 5


@pytest.mark.spec("MEM-11")
async def test_all_blocks_are_put_back_to_a_time_also_one_before_the_first(world: World) -> None:
    begin = world.clock.now()
    world.clock.advance(10)
    await world.write("a", "a1")
    await world.write("b", "b1", pinned=False)
    noon = world.clock.now()
    world.clock.advance(10)
    await world.write("a", "a2")
    async with world.store.begin_write() as tx:
        await world.blocks.delete(tx, world.bank, "b", writer=BlockAuthor.PERSON, by="t")
    await world.write("c", "c1")
    async with world.store.begin_write() as tx:
        made = await world.blocks.restore(tx, world.bank, noon, by="t")
        assert [each.label for each in made] == ["a", "b", "c"]
        assert await world.blocks.restore(tx, world.bank, noon, by="t") == []
    assert await values(world) == {"a": "a1", "b": "b1"}
    assert (await world.history("b"))[-1].pinned is False
    async with world.store.begin_write() as tx:
        await world.blocks.restore(tx, world.bank, begin, by="t")
    assert await values(world) == {}
    async with world.store.begin_write() as tx:
        assert await world.blocks.restore(tx, world.bank, begin - timedelta(days=1), by="t") == []
        await world.blocks.restore(tx, world.bank, world.clock.now() - timedelta(seconds=10), by="t")
    assert await values(world) == {"a": "a1", "b": "b1"}


@pytest.mark.spec("MEM-10")
async def test_lines_are_inserted_where_they_are_asked_for_and_replaced_texts_must_be_unique(world: World) -> None:
    await world.write("l", "one\nthree")

    async def insert(text: str, line: int | None) -> str:
        async with world.store.begin_write() as tx:
            made = await world.blocks.insert(
                tx, world.bank, "l", text, line=line, expected=None, writer=BlockAuthor.PERSON, by="t"
            )
        return made.value

    async def replace(old: str, new: str) -> str:
        async with world.store.begin_write() as tx:
            made = await world.blocks.replace(
                tx, world.bank, "l", old, new, expected=None, writer=BlockAuthor.PERSON, by="t"
            )
        return made.value

    assert await insert("two", 2) == "one\ntwo\nthree"
    assert await insert("four", None) == await replace("four", "four") == "one\ntwo\nthree\nfour"
    assert await insert("zero", 1) == "zero\none\ntwo\nthree\nfour"
    for line in (0, -1, 7):
        with pytest.raises(InvalidRequest, match="1 to 6"):
            await insert("x", line)
    for old, times in (("o", "4"), ("five", "0"), ("", "0")):
        with pytest.raises(InvalidRequest, match=f"occurs {times} times"):
            await replace(old, "x")
    assert await replace("three\nfour", "3") == "zero\none\ntwo\n3"
    await world.write("l", "aaa")
    with pytest.raises(InvalidRequest, match="2 times"):
        await replace("aa", "b")


@pytest.mark.spec("MEM-03")
@pytest.mark.parametrize(
    ("before", "part", "after", "kept"),
    [
        ("Ann likes tea.", "likes tea", "Ann Lee likes tea.", "likes tea"),
        ("Ann likes tea.", "likes tea", "Ann likes tea. Bo too.", "likes tea"),
        ("Her phone: 5551234", "phone: 5551234", "Her phone: 555 1234", "phone: 555 1234"),
        ("Ann likes tea.", "Ann likes tea.", "Bo.", None),
        ("a tea b", "tea", "b tea a", "tea"),
        ("a tea b", "tea", "coffee", None),
        ("tea\ntea", "tea", "milk\ntea\ntea", "tea"),
        ("tea", "tea", "", None),
        ("Ann has tea.\nAnn has milk.\nAnn has oil.", "Ann has oil.", "Ann has tea.\nAnn has oil.", "Ann has oil."),
        ("Ann has tea.\nAnn has milk.\nAnn has oil.", "Ann has milk.", "Ann has milk.\nAnn has oil.", "Ann has milk."),
    ],
)
def test_a_part_keeps_what_it_rests_on_over_an_edit(before: str, part: str, after: str, kept: str | None) -> None:
    found = carry_spans(block(before, span(before, part, "e1")), after)
    assert [after[each.start : each.end] for each in found] == ([] if kept is None else [kept])


PARTS = st.lists(st.tuples(st.text("ab\n", min_size=1, max_size=4), st.sampled_from(["", "e1", "e2"])), max_size=8)


def made_of(parts: list[tuple[str, str]]) -> Block:
    """Return a block of parts, each with the episode that it rests on."""
    value, spans = "", list[BlockSpan]()
    for text, episode in parts:
        if episode:
            spans.append(BlockSpan(start=len(value), end=len(value) + len(text), episodes=(EpisodeId(episode),)))
        value += text
    return block(value, *spans)


def rests_on(found: Block) -> list[tuple[str, str]]:
    """Return each character with the episode that it rests on."""
    owners = [""] * len(found.value)
    for each in found.spans:
        assert 0 <= each.start < each.end <= len(found.value)
        for at in range(each.start, each.end):
            assert not owners[at], "spans do not overlap"
            owners[at] = each.episodes[0]
    return list(zip(found.value, owners, strict=True))


@pytest.mark.spec("MEM-03")
@given(parts=PARTS)
def test_forgetting_takes_out_each_part_that_rests_on_it_and_nothing_else_but_emptied_lines(
    parts: list[tuple[str, str]],
) -> None:
    before = made_of(parts)
    left = rests_on(remove_episodes(before, frozenset([EpisodeId("e1")])))
    kept = [each for each in rests_on(before) if each[1] != "e1"]
    assert "e1" not in {episode for _, episode in left}
    assert [each for each in left if each[0] != "\n"] == [each for each in kept if each[0] != "\n"]
    assert sum(each[0] == "\n" for each in left) <= sum(each[0] == "\n" for each in kept)
    if "e1" not in {episode for _, episode in parts}:
        assert left == kept


@given(parts=PARTS, others=PARTS, at=st.integers(0, 8))
def test_after_any_edit_parts_lie_in_the_text_without_overlap_and_untouched_ones_are_the_same(
    parts: list[tuple[str, str]], others: list[tuple[str, str]], at: int
) -> None:
    before = made_of(parts)
    inserted = "".join(text for text, _ in others)
    place = len("".join(text for text, _ in parts[:at]))
    after = block(before.value[:place] + inserted + before.value[place:])
    found = rests_on(block(after.value, *carry_spans(before, after.value)))
    owned = sum(bool(episode) for _, episode in found)
    assert owned >= sum(len(text) for text, episode in parts if episode), "an insertion between parts loses none"
    assert carry_spans(before, before.value) == before.spans
    rests_on(block(inserted, *carry_spans(before, inserted)))


LINES = st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=6, unique=True)


@pytest.mark.spec("MEM-03")
@given(lines=LINES, at=st.integers(0, 5))
def test_a_line_that_goes_takes_nothing_from_what_the_others_rest_on(lines: list[str], at: int) -> None:
    at %= len(lines)
    value = "\n".join(lines)
    starts = [len("\n".join(lines[:number])) + bool(number) for number in range(len(lines))]
    spans = [
        BlockSpan(start=start, end=start + len(line), episodes=(EpisodeId(f"e{number}"),))
        for number, (start, line) in enumerate(zip(starts, lines, strict=True))
    ]
    after = "\n".join(line for number, line in enumerate(lines) if number != at)
    left = {each.episodes[0]: after[each.start : each.end] for each in carry_spans(block(value, *spans), after)}
    assert left == {f"e{number}": line for number, line in enumerate(lines) if number != at}
