"""What each store promises of ready answers, of what they are made from, and of what came of them."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from circadia.ids import AgentId, AnswerId, BankId, PassId
from circadia.records.answer import (
    Answer,
    AnswerBasis,
    AnswerDay,
    AnswerFrame,
    AnswerScope,
    AnswerUse,
    DropReason,
    MatchKind,
)
from circadia.records.episode import EpisodeKind
from circadia.records.index_entry import BankHeads
from circadia.records.retention import RetentionKind
from circadia.stores.base import AnswerEntry, Store
from tests.contract.conftest import Opener
from tests.contract.rows import at, expire
from tests.contract.sleep_rows import banks_of
from tests.contract.test_store_memory import episode

ADA = AnswerScope(agent_id=AgentId("agt_ada"), end_user="ann", frame="f1")
BOB = AnswerScope(agent_id=AgentId("agt_bob"), frame="f1")
BASIS = AnswerBasis(
    blocks={"human": 3, "größe": 1}, shown=("human",), notes={7: 1.0}, episodes={2: 0.1 + 0.2, 2**40: 0.0},
    heads=BankHeads(2**40, 9), generation=0,
)  # fmt: skip
DAY = date(2026, 3, 29)


def answer(key: str, bank: BankId, scope: AnswerScope = ADA, *, seconds: float = 0, **more: Any) -> Answer:
    made = Answer(
        id=AnswerId(key), bank_id=bank, scope=scope, phrasings=("Où vit Ann?", "Where does Ann live?"), confidence=0.7,
        text="In Lyon \U0001f600", reasoning="She said so.", basis=BASIS, pass_id=PassId("p1"), made_at=at(seconds),
        expires_at=at(seconds + 3600), tokens=2**40, nanousd=2**41, seconds=0.25,
    )  # fmt: skip
    return replace(made, **more)


def use(key: str, of: Answer, *, seconds: float = 0, **more: Any) -> AnswerUse:
    made = AnswerUse(
        id=key, bank_id=of.bank_id, answer_id=of.id, scope=of.scope, question="where's Ann?", phrasing="Où vit Ann?",
        match_kind=MatchKind.SIMILAR, served=True, at=at(seconds),
    )  # fmt: skip
    return replace(made, **more)


def frame(bank: BankId, scope: AnswerScope = ADA, *, seconds: float = 0, **more: Any) -> AnswerFrame:
    made = AnswerFrame(
        bank_id=bank, scope=scope, upstream="openai", target="/v1/chat/completions?a=b", dialect="chat", model="m",
        body='{"messages": []}', headers=(("anthropic-beta", "x"),), at=at(seconds),
    )  # fmt: skip
    return replace(made, **more)


async def put(store: Store, *new: Answer) -> None:
    async with store.begin_write() as tx:
        for each in new:
            assert await tx.answers.put([each]) == [each.id]


async def counted(store: Store, bank: BankId) -> int:
    """Return how many changes the bank has counted."""
    async with store.begin_read() as tx:
        found = await tx.banks.get(bank)
        assert found is not None
        return found.answers


async def ids(store: Store, bank: BankId, **more: Any) -> list[str]:
    async with store.begin_read() as tx:
        return [each.id for each in await tx.answers.find_live(bank, **more)]


def entry(of: Answer) -> AnswerEntry:
    return AnswerEntry(of.id, of.scope, of.phrasings, of.confidence, of.conversation, of.revision, of.dropped)


def blank(found: Answer, why: DropReason, seconds: float, revision: int) -> Answer:
    values: dict[str, Any] = {"dropped": why.value, "dropped_at": at(seconds), "revision": revision}
    return replace(found, text="", reasoning="", phrasings=(), **values)


@pytest.mark.spec("ANS-04", "ANS-05")
async def test_an_answer_is_kept_as_it_was_given_and_each_change_is_told_by_its_number(store: Store) -> None:
    team, other = await banks_of(store, "team", "other")
    one, two = answer("a1", team), answer("a2", team, BOB, pass_id=None, nanousd=None, reasoning="")
    async with store.begin_write() as tx:
        assert await tx.answers.put([one, two]) == ["a1", "a2"]
        assert await tx.answers.put([]) == ()
    one, two = replace(one, revision=1), replace(two, revision=1)
    await put(store, answer("b1", other))
    async with store.begin_read() as tx:
        assert await tx.answers.get(team, one.id) == one
        assert await tx.answers.get(other, one.id) is None
        assert await tx.answers.find_live(team) == [one, two]
        assert await tx.answers.find_changed(team, after=0) == ([entry(one), entry(two)], True)
        assert await tx.answers.find_changed(team, after=1) == ([], False)
        assert await tx.answers.find_changed(BankId("none"), after=1) == ([], True)
    async with store.begin_write() as tx:
        await tx.answers.save_phrasings(team, one.id, ["Where?"])
        assert await tx.answers.drop(team, [two.id, AnswerId("b1"), AnswerId("none")], DropReason.VOID, at(5)) == [two]
        assert await tx.answers.drop(team, [two.id], DropReason.EXPIRED, at(6)) == []
        await tx.answers.save_phrasings(team, two.id, ["a dropped one has none"])
        await tx.answers.save_phrasings(other, one.id, ["another bank's"])
    one, gone = replace(one, phrasings=("Where?",), revision=2), blank(two, DropReason.VOID, 5, 3)
    async with store.begin_read() as tx:
        assert await tx.answers.find_changed(team, after=1) == ([entry(one), entry(gone)], False)
        assert await tx.answers.find_changed(team, after=2) == ([entry(gone)], False)
        assert await tx.answers.find_changed(team, after=0) == ([entry(one)], True)
        assert await tx.answers.get(team, two.id) == gone
        assert await tx.answers.find_live(team) == [one]
    assert (await counted(store, team), await counted(store, other)) == (3, 1)


@pytest.mark.spec("ANS-20")
async def test_up_to_which_turn_a_judge_has_read_is_kept_and_counts_as_no_change(store: Store) -> None:
    team, other = await banks_of(store, "team", "other")
    one, two = answer("a1", team), answer("a2", team, read_upto=3)
    await put(store, one, two)
    async with store.begin_write() as tx:
        await tx.answers.drop(team, [two.id], DropReason.VOID, at(5))
        await tx.answers.mark_still_right(other, [one.id], 2**41)
        await tx.answers.mark_still_right(team, [one.id, two.id, AnswerId("none")], 2**40)
        await tx.answers.mark_still_right(team, [], 2**41)
    before = await counted(store, team)
    async with store.begin_read() as tx:
        found = [await tx.answers.get(team, each.id) for each in (one, two)]
    assert [each and each.read_upto for each in found] == [2**40, 3]
    assert before == 3, "two were put, and one was dropped"


@pytest.mark.spec("ANS-20")
async def test_banks_and_answers_with_a_turn_that_nobody_has_read_are_found(store: Store) -> None:
    team, other = await banks_of(store, "team", "other")
    await add_turns(store, team, EpisodeKind.TURN, EpisodeKind.FACT, EpisodeKind.READY, EpisodeKind.TOOL)
    await add_turns(store, other, EpisodeKind.READY, EpisodeKind.TOOL)
    async with store.begin_read() as tx:
        _, fact, _, _ = [each.number for each in await tx.episodes.find_all(team)]
    old, read = answer("a1", team), answer("a2", team, read_upto=fact)
    await put(store, old, read, answer("b1", other))
    now = at(1)
    async with store.begin_read() as tx:
        assert await tx.answers.find_banks_to_review(now, after=BankId(""), limit=9) == [team]
        assert await tx.answers.find_banks_to_review(now, after=team, limit=9) == []
        assert await tx.answers.find_banks_to_review(at(3600), after=BankId(""), limit=9) == [], "all have expired"
        assert [each.id for each in await tx.answers.find_live(team, behind=fact)] == ["a1"]
        assert [each.id for each in await tx.answers.find_live(team, agent_id=ADA.agent_id, behind=fact)] == ["a1"]
        assert await tx.answers.find_live(team, agent_id=BOB.agent_id, behind=fact) == []
    async with store.begin_write() as tx:
        await tx.answers.mark_still_right(team, [old.id], fact)
        assert await tx.answers.find_banks_to_review(now, after=BankId(""), limit=9) == []


async def add_turns(store: Store, bank: BankId, *kinds: EpisodeKind) -> None:
    async with store.begin_write() as tx:
        for number, kind in enumerate(kinds):
            await tx.episodes.add(episode(f"{bank}{number}", bank=bank, kind=kind))


@pytest.mark.spec("ANS-04")
async def test_who_was_away_until_dropped_ones_were_purged_is_told_all_that_there_are(store: Store) -> None:
    team, other = await banks_of(store, "team", "other")
    made = [answer(f"a{number}", team) for number in range(4)]
    await put(store, *made)  # 1 to 4
    await put(store, answer("b0", other))
    async with store.begin_write() as tx:
        await tx.answers.drop(team, [AnswerId("a0")], DropReason.VOID, at(10))  # 5
        await tx.answers.drop(team, [AnswerId("a1")], DropReason.EXPIRED, at(20))  # 6
        await expire(tx, at(15), RetentionKind.ANSWERS, RetentionKind.ANSWER_USES)
    async with store.begin_read() as tx:
        assert await tx.answers.get(team, AnswerId("a0")) is None
        missed = await tx.answers.find_changed(team, after=4)
        assert ([each.id for each in missed.answers], missed.whole) == (["a2", "a3"], True)
        seen = await tx.answers.find_changed(team, after=5)
        assert ([(each.id, each.dropped) for each in seen.answers], seen.whole) == ([("a1", "expired")], False)
        assert not (await tx.answers.find_changed(other, after=1)).whole
    async with store.begin_write() as tx:
        await expire(tx, at(15), RetentionKind.ANSWERS, RetentionKind.ANSWER_USES)
        await expire(tx, at(21), RetentionKind.ANSWERS, RetentionKind.ANSWER_USES)
    async with store.begin_read() as tx:
        assert (await tx.answers.find_changed(team, after=5)).whole
        assert await tx.answers.find_changed(team, after=6) == ([], False)
    assert await counted(store, team) == 6, "to purge changes nothing that somebody finds"


@pytest.mark.spec("ANS-04")
async def test_nothing_comes_of_an_answer_that_was_made_before_something_was_forgotten(store: Store) -> None:
    team, other = await banks_of(store, "team", "other")
    one = answer("a1", team)
    await put(store, one, answer("b1", other))
    async with store.begin_write() as tx:
        await tx.answer_uses.record_uses([use("u1", one)])
        await tx.answer_frames.save_frames([frame(team), frame(other)])
        await tx.answer_uses.add_counts([AnswerDay(bank_id=team, day=DAY, made=1)])
        await tx.answers.drop(team, [one.id], DropReason.BY_HAND, at(1))
        await tx.banks.bump_generation(team)
        await tx.answers.clear(team)
        assert await tx.answers.put([answer("a2", team)]) == ()
        assert await tx.answer_uses.record_uses([use("u2", one)]) == []
        new = answer("a3", team, basis=replace(BASIS, generation=1))
        assert await tx.answers.put([answer("a2", team), new]) == ["a3"]
        await tx.answers.clear(other)
        await tx.answers.clear(other)
        await tx.answers.clear(BankId("none"))
    async with store.begin_read() as tx:
        assert await tx.answers.get(team, one.id) is None
        assert await tx.answer_uses.find_uses(team) == await tx.answer_frames.find_recent_scopes(team) == []
        for after in (0, 1, 2):
            found = await tx.answers.find_changed(team, after=after)
            assert ([each.id for each in found.answers], found.whole) == (["a3"], True)
        assert await tx.answers.find_changed(team, after=4) == ([], False)
        assert await tx.answers.find_changed(other, after=1) == ([], True)
        assert [each.made for each in await tx.answer_uses.find_days(team, since=DAY)] == [1]
    assert await counted(store, team) == 4


@pytest.mark.spec("ANS-04")
async def test_a_bank_that_never_had_an_answer_counts_nothing_and_one_that_goes_takes_all_with_it(store: Store) -> None:
    team, other = await banks_of(store, "team", "other")
    async with store.begin_write() as tx:
        await tx.answers.clear(team)
    assert await counted(store, team) == 0
    one = answer("a1", team)
    await put(store, one)
    day = AnswerDay(bank_id=team, day=DAY, served=1)
    async with store.begin_write() as tx:
        await tx.answer_uses.record_uses([use("u1", one)])
        await tx.answer_frames.save_frames([frame(team)])
        await tx.answer_uses.add_counts([day])
        await tx.banks.remove(team)
        assert await tx.answer_uses.record_uses([use("u2", one)]) == [], (
            "what is written behind the calls may come later"
        )
        await tx.answer_frames.save_frames([frame(team), frame(other)])
        await tx.answer_uses.add_counts([day, replace(day, bank_id=other)])
        assert await tx.answers.put([one]) == ()
    async with store.begin_read() as tx:
        assert await tx.answers.get(team, one.id) is None
        assert await tx.answer_uses.find_uses(team) == await tx.answer_frames.find_recent_scopes(team) == []
        assert await tx.answer_uses.find_days(team, since=DAY) == []
        assert await tx.answer_frames.get_frame(other, ADA) == frame(other)
        assert [each.served for each in await tx.answer_uses.find_days(other, since=DAY)] == [1]


@pytest.mark.spec("ANS-05")
async def test_live_ones_come_in_pages_of_all_or_of_one_agent(store: Store) -> None:
    team, other = await banks_of(store, "team", "other")
    made = [answer(f"a{number}", team, BOB if number % 2 else ADA) for number in range(6)]
    await put(store, *made, answer("a9", other))
    assert await ids(store, team, limit=2) == ["a0", "a1"]
    assert await ids(store, team, after=AnswerId("a1"), limit=3) == ["a2", "a3", "a4"]
    assert await ids(store, team, agent_id=BOB.agent_id) == ["a1", "a3", "a5"]
    assert await ids(store, team, agent_id=BOB.agent_id, after=AnswerId("a1"), limit=1) == ["a3"]
    assert await ids(store, team, agent_id=AgentId("none")) == []
    async with store.begin_write() as tx:
        assert await tx.answers.count_live(team, at(0)) == 6
        await tx.answers.drop(team, [AnswerId("a1"), AnswerId("a2")], DropReason.BY_HAND, at(1))
        assert await tx.answers.count_live(team, at(0)) == 4
        over, future = at(3600), at(-1)
        assert await tx.answers.count_live(team, over) == await tx.answers.count_live(team, future) == 0
    assert await ids(store, team) == ["a0", "a3", "a4", "a5"]
    assert await ids(store, team, agent_id=BOB.agent_id) == ["a3", "a5"]


@pytest.mark.spec("ANS-05")
async def test_what_was_used_longest_ago_is_too_much_by_number_by_bytes_and_by_agent(store: Store) -> None:
    team, other = await banks_of(store, "team", "other")
    made = [answer(f"a{number}", team, BOB if number == 3 else ADA, seconds=number) for number in range(5)]
    await put(store, *made, answer("b0", other))
    size = len("Où vit Ann?Where does Ann live?In Lyon \U0001f600She said so.".encode()) + len(
        '{"blocks": {"human": 3, "größe": 1}, "shown": ["human"], "notes": {"7": 1.0}, "episodes": '
        '{"2": 0.30000000000000004, "1099511627776": 0.0}, "heads": [1099511627776, 9], "generation": 0}'.encode()
    )
    async with store.begin_write() as tx:
        await tx.answer_uses.record_uses([use("u1", made[0], seconds=100)])
        gone = answer("gone", team, seconds=200)
        await tx.answers.put([gone])
        await tx.answers.drop(team, [gone.id], DropReason.WRONG, at(200))

    async def crowded(max_answers: int = 99, max_bytes: int = 10**15, max_per_agent: int = 99) -> Sequence[str]:
        async with store.begin_read() as tx:
            return await tx.answers.find_surplus(
                team, max_answers=max_answers, max_bytes=max_bytes, max_per_agent=max_per_agent
            )

    assert await crowded() == await crowded(max_answers=5, max_bytes=5 * size, max_per_agent=4) == []
    assert await crowded(max_answers=3) == ["a1", "a2"]
    assert await crowded(max_bytes=4 * size) == ["a1"]
    assert await crowded(max_bytes=5 * size - 1) == ["a1"]
    assert await crowded(max_per_agent=2) == ["a1", "a2"]
    assert await crowded(max_answers=3, max_per_agent=2) == ["a1", "a2"], "they take no room from the others"
    assert await crowded(max_answers=2, max_per_agent=2) == ["a1", "a2", "a3"]
    assert await crowded(max_bytes=0) == ["a1", "a2", "a3", "a4", "a0"]
    async with store.begin_write() as tx:
        await tx.answers.save_phrasings(team, AnswerId("a4"), ["x" * 1000])
    assert await crowded(max_bytes=5 * size + 900) == ["a1"]


@pytest.mark.spec("ANS-07", "ANS-08")
async def test_uses_are_counted_once_and_found_by_agent_and_by_whether_somebody_looked(store: Store) -> None:
    (team,) = await banks_of(store, "team")
    one, two, gone = answer("a1", team), answer("a2", team, BOB), answer("a3", team)
    await put(store, one, two, gone)
    uses = [use("u1", one, seconds=5), use("u2", two, seconds=3, served=False), use("u3", one, seconds=4)]
    async with store.begin_write() as tx:
        await tx.answers.drop(team, [gone.id], DropReason.VOID, at(1))
        assert await tx.answer_uses.record_uses([]) == ()
        assert set(await tx.answer_uses.record_uses(uses)) == {one.id, two.id}
        assert await tx.answer_uses.record_uses([uses[2]]) == [], "it is written already"
        bad = [use("u4", one, question="\0"), use("u5", one, phrasing="\ud800"), use("u6", answer("none", team))]
        assert await tx.answer_uses.record_uses(bad) == []
        assert await tx.answer_uses.record_uses([use("u7", gone, seconds=9)]) == [], "it was wasted when it was dropped"
        found = [await tx.answers.get(team, each.id) for each in (one, two, gone)]
    assert [each and (each.uses, each.used_at) for each in found] == [(2, at(5)), (1, at(3)), (0, None)]
    async with store.begin_write() as tx:
        await tx.answer_uses.save_judgment(team, "u1", right=False, at=at(20))
        await tx.answer_uses.save_judgment(team, "u2", right=True, at=at(21))
        await tx.answer_uses.save_judgment(BankId("other"), "u3", right=True, at=at(21))
    first = replace(uses[0], right=False, judged_at=at(20))
    second = replace(uses[1], right=True, judged_at=at(21))
    last = use("u7", gone, seconds=9)
    async with store.begin_read() as tx:
        assert await tx.answer_uses.find_uses(team) == [last, uses[2], second, first]
        assert await tx.answer_uses.find_uses(team, limit=2) == [last, uses[2]]
        assert await tx.answer_uses.find_uses(team, judged=True) == [second, first]
        assert await tx.answer_uses.find_uses(team, upto=at(4)) == [uses[2], second], "the first is of later"
        assert await tx.answer_uses.find_uses(team, agent_id=ADA.agent_id, judged=True, upto=at(4)) == []
        assert await tx.answer_uses.find_uses(team, judged=False, limit=1) == [last]
        assert await tx.answer_uses.find_uses(team, agent_id=ADA.agent_id, judged=True) == [first]
        assert await tx.answer_uses.find_uses(team, agent_id=BOB.agent_id) == [second]
    async with store.begin_write() as tx:
        await tx.answer_uses.save_judgment(team, "u3", right=None, at=at(22))
    untold = replace(uses[2], judged_at=at(22))
    async with store.begin_read() as tx:
        assert await tx.answer_uses.find_uses(team, judged=True) == [second, first], "nobody can tell of the other"
        assert await tx.answer_uses.find_uses(team, judged=False) == [last]
        assert await tx.answer_uses.find_uses(team) == [last, untold, second, first]
    async with store.begin_write() as tx:
        await expire(tx, at(5), RetentionKind.ANSWERS, RetentionKind.ANSWER_USES)
    async with store.begin_read() as tx:
        assert [each.id for each in await tx.answer_uses.find_uses(team)] == ["u7", "u1"]


@pytest.mark.spec("ANS-05")
async def test_those_that_are_over_are_told_until_they_are_dropped(store: Store) -> None:
    team, other = await banks_of(store, "team", "other")
    await put(store, *(answer(f"a{each}", team, seconds=each) for each in range(4)), answer("b", other))
    async with store.begin_write() as tx:
        await tx.answers.drop(team, [AnswerId("a1")], DropReason.BY_HAND, at(5))
        assert await tx.answers.find_expired(team, at(3602), limit=9) == ["a0", "a2"]
        assert await tx.answers.find_expired(team, at(3602), limit=1) == ["a0"]
        assert await tx.answers.find_expired(other, at(3599), limit=9) == []


@pytest.mark.spec("ANS-08")
async def test_counts_of_a_day_add_up_for_each_bank(store: Store) -> None:
    team, other = await banks_of(store, "team", "other")
    first = AnswerDay(
        bank_id=team, day=DAY, served=1, hints=2, misses=3, made=4, used=5, wasted=6, wasted_tokens=2**40, right=7,
        wrong=8,
    )  # fmt: skip
    async with store.begin_write() as tx:
        await tx.answer_uses.add_counts([])
        await tx.answer_uses.add_counts(
            [first, replace(first, day=DAY + timedelta(days=1)), AnswerDay(bank_id=other, day=DAY)]
        )
        await tx.answer_uses.add_counts([AnswerDay(bank_id=team, day=DAY, served=1, wasted_tokens=1)])
    async with store.begin_read() as tx:
        days = await tx.answer_uses.find_days(team, since=DAY)
        assert days == [replace(first, served=2, wasted_tokens=2**40 + 1), replace(first, day=DAY + timedelta(days=1))]
        assert await tx.answer_uses.find_days(team, since=DAY + timedelta(days=1)) == days[1:]
        assert await tx.answer_uses.find_days(other, since=DAY) == [AnswerDay(bank_id=other, day=DAY)]


@pytest.mark.spec("ANS-04")
async def test_what_no_database_can_hold_is_left_out(store: Store) -> None:
    (team,) = await banks_of(store, "team")
    bad = [answer("a1", team, text="\0"), answer("a2", team, reasoning="\ud800"), answer("a3", team, phrasings=["\0"])]
    async with store.begin_write() as tx:
        assert await tx.answers.put([*bad, answer("a4", team)]) == ["a4"]
        await tx.answers.save_phrasings(team, AnswerId("a4"), ["\0", "Where?"])
        found = await tx.answers.get(team, AnswerId("a4"))
    assert found is not None
    assert found.phrasings == ("Where?",)


@pytest.mark.spec("ANS-04")
async def test_two_writers_never_give_the_same_number_and_who_sees_one_sees_all_before_it(
    store: Store, open_store: Opener
) -> None:
    (team,) = await banks_of(store, "team")
    writers = [store, await open_store()]
    reader = await open_store()

    async def write(number: int) -> None:
        key = f"a{number:02}"
        async with writers[number % 2].begin_write() as tx:
            await tx.answers.put([answer(key, team)])
        if number % 3 == 0:
            async with writers[number % 2].begin_write() as tx:
                await tx.answers.drop(team, [AnswerId(key)], DropReason.VOID, at(1))

    seen: dict[str, int] = {}
    known = 0

    async def look() -> None:
        nonlocal known
        async with reader.begin_read() as tx:
            bank = await tx.banks.get(team)
            found = await tx.answers.find_changed(team, after=known)
        assert bank is not None
        assert found.whole is (known == 0)
        revisions = [each.revision for each in found.answers]
        assert all(known < each <= bank.answers for each in revisions)
        for each in found.answers:
            seen[each.id] = each.revision
            if each.dropped:
                del seen[each.id]
        known = bank.answers

    async def keep_looking() -> None:
        while known < 40:
            await look()

    await asyncio.gather(keep_looking(), *map(write, range(30)))
    async with reader.begin_read() as tx:
        assert seen == {each.id: each.revision for each in await tx.answers.find_live(team)}
    assert len(set(seen.values())) == len(seen) == 20
    assert known == await counted(store, team) == 40
