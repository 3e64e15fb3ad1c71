"""What every store promises of passes, their changes, how far they have come, and their model calls."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from circadia.errors import Conflict
from circadia.ids import BankId, CallId, EpisodeId, PassId
from circadia.records.bank import Trust
from circadia.records.call import CallStatus
from circadia.records.change import ChangeKind, ChangeState
from circadia.records.conversation import OpenTurn
from circadia.records.episode import Demotion, Episode, EpisodeKind
from circadia.records.retention import RetentionKind
from circadia.records.sleep_call import OperationModelCost, SleepCost
from circadia.records.sleep_pass import Backlog, Leftover, Pass, PassStatus, SleepState, Trigger
from circadia.stores.base import Store
from tests.contract.conftest import Opener
from tests.contract.rows import agent, at, call, expire
from tests.contract.sleep_rows import asked, banks_of, change, sleep_pass


async def kept(store: Store, *passes: Pass) -> None:
    async with store.begin_write() as tx:
        for each in passes:
            await tx.passes.add(each)


async def said(
    store: Store, bank: BankId, key: str, *, seconds: float = 0, trust: Trust = Trust.AGENT,
    kind: EpisodeKind = EpisodeKind.TURN, importance: float | None = None, incomplete: bool = False,
    conversation: str | None = None,
) -> int:  # fmt: skip
    episode = Episode(
        id=EpisodeId(key), number=0, bank_id=bank, at=at(seconds), stored_at=at(seconds), text=key, trust=trust,
        kind=kind, importance=importance, incomplete=incomplete, speaker="ann", digest=key, conversation=conversation,
    )  # fmt: skip
    async with store.begin_write() as tx:
        await tx.episodes.add(episode)
    async with store.begin_read() as tx:
        found = await tx.episodes.get(bank, episode.id)
    assert found is not None
    return found.number


async def claimable(store: Store, now: datetime, *, limit: int) -> Sequence[str]:
    """Return what a claim takes, and undo it."""
    claimed: Sequence[str] = ()
    with suppress(LookupError):
        async with store.begin_write() as tx:
            claimed = [job.id for job in await tx.passes.claim("w", now=now, until=now, limit=limit)]
            raise LookupError
    return claimed


@pytest.mark.spec("SLEEP-12")
async def test_a_pass_is_kept_as_it_was_given(store: Store) -> None:
    (bank,) = await banks_of(store, "team")
    full = sleep_pass(
        "p1", bank, trigger=Trigger.HAND, by="ann", instructions="dates first", operations=("dates", "reflect"),
        dry_run=True, review=True, status=PassStatus.RUNNING, attempt=2, epoch=3, owner="exe", lease_until=at(9),
        not_before=at(2), started_at=at(4), run_seconds=1.25, after=7, upto=2**40, generation_before=3,
        generation_after=4, counts={"add_note": 2}, detail="d", budget_tokens=2**40,
    )  # fmt: skip
    await kept(store, full)
    async with store.begin_read() as tx:
        assert await tx.passes.get(full.id) == full
        assert await tx.passes.get_open(bank) == full
        assert await tx.passes.find_claimed() == [full]
        assert await tx.passes.get(PassId("none")) is None
        assert (await tx.passes.count_by_status())[PassStatus.RUNNING] == 1


@pytest.mark.spec("SLEEP-10")
async def test_a_bank_has_one_open_pass_whoever_asks(open_store: Opener) -> None:
    stores = [await open_store(), await open_store()]
    (bank,) = await banks_of(stores[0], "team")

    async def ask(n: int) -> bool:
        try:
            await kept(stores[n % 2], sleep_pass(f"p{n}", bank))
        except Conflict:
            return False
        return True

    assert (await asyncio.gather(*(ask(n) for n in range(10)))).count(True) == 1
    async with stores[0].begin_write() as tx:
        found = await tx.passes.get_open(bank)
        assert found is not None
        assert await tx.passes.save(replace(found, status=PassStatus.SKIPPED, ended_at=at(1)), origin=found)
    assert await ask(11)


@pytest.mark.spec("SLEEP-10")
async def test_a_pass_is_moved_only_from_where_it_was_seen_to_stand(store: Store) -> None:
    (bank,) = await banks_of(store, "team")
    first = sleep_pass("p1", bank)
    await kept(store, first)
    taken = replace(first, status=PassStatus.RUNNING, epoch=1, owner="exe", lease_until=at(9), attempt=1)
    async with store.begin_write() as tx:
        assert await tx.passes.save(taken, origin=first)
        assert not await tx.passes.save(replace(taken, owner="other"), origin=first)
        assert not await tx.passes.save(replace(taken, epoch=2), origin=replace(taken, epoch=0))
        await tx.passes.renew_leases("other", at(90))
        assert await tx.passes.get(first.id) == taken
        await tx.passes.renew_leases("exe", at(99))
        assert await tx.passes.get(first.id) == replace(taken, lease_until=at(99))


@pytest.mark.spec("SLEEP-14")
async def test_the_bank_that_was_served_longest_ago_comes_first(store: Store) -> None:
    old, fresh, new, later = await banks_of(store, "old", "fresh", "new", "later")
    done: dict[str, Any] = {"status": PassStatus.SUCCEEDED, "ended_at": at(9)}
    await kept(
        store,
        sleep_pass("p1", old, started_at=at(1), **done),
        sleep_pass("p2", fresh, started_at=at(5), **done),
        sleep_pass("p3", fresh, seconds=10),
        sleep_pass("p4", old, seconds=11),
        sleep_pass("p5", new, seconds=12),
        sleep_pass("p6", later, seconds=9, not_before=at(100)),
    )
    assert await claimable(store, at(99), limit=1) == ["p5"]  # nobody has served its bank
    assert await claimable(store, at(99), limit=2) == ["p4", "p5"]
    assert await claimable(store, at(99), limit=9) == ["p3", "p4", "p5"]
    assert await claimable(store, at(100), limit=1) == ["p6"]
    async with store.begin_read() as tx:
        assert [each.id for each in await tx.passes.find_all(limit=2)] == ["p6", "p5"]
        assert [each.id for each in await tx.passes.find_all(bank_id=old, before=PassId("p4"))] == ["p1"]
        assert [each.id for each in await tx.passes.find_all(status=PassStatus.SUCCEEDED)] == ["p2", "p1"]
        assert await tx.passes.count_started(None, at(1), at(9)) == 2
        assert await tx.passes.count_started(fresh, at(1), at(9)) == 1
        assert await tx.passes.count_started(None, at(6), at(9)) == 0
        assert await tx.passes.count_started(None, at(1), at(5)) == 1


@pytest.mark.spec("SLEEP-32", "SLEEP-60")
async def test_changes_are_kept_in_order_and_move_by_their_number(store: Store) -> None:
    team, other = await banks_of(store, "team", "other")
    await kept(store, sleep_pass("p1", team), sleep_pass("p2", other))
    full = change(
        "p1", 1, kind=ChangeKind.WRITE_BLOCK, target="human", before={"version": 3, "value": "a"},
        after={"value": "b", "spans": [[0, 1]]}, why="because",
    )  # fmt: skip
    async with store.begin_write() as tx:
        await tx.passes.save_changes([change("p1", 2), full])
        await tx.passes.save_changes([change("p2", 1, target="human")])
        await tx.passes.save_changes([])
    published = replace(full, state=ChangeState.PUBLISHED, at=at(50))
    async with store.begin_write() as tx:
        await tx.passes.save_changes([published])
    async with store.begin_read() as tx:
        assert await tx.passes.find_changes(PassId("p1")) == [published, change("p1", 2)]
        assert await tx.passes.find_changes(PassId("p1"), state=ChangeState.STAGED) == [change("p1", 2)]
        assert await tx.passes.find_changes(PassId("p1"), kind=ChangeKind.FLAG) == []
        assert await tx.passes.find_changes(PassId("p1"), kind=change("p1", 2).kind, state=ChangeState.STAGED)
        assert [await tx.passes.last_change_number(PassId(each)) for each in ("p1", "p9")] == [2, 0]
        assert await tx.passes.find_changes_of(team, "human") == [published]


@pytest.mark.spec("SLEEP-60")
async def test_passes_that_ended_long_ago_are_deleted_with_their_changes(store: Store) -> None:
    team, quiet = await banks_of(store, "team", "quiet")
    old = sleep_pass("p1", team, status=PassStatus.SUCCEEDED, ended_at=at(10))
    new = sleep_pass("p2", team, status=PassStatus.SUCCEEDED, ended_at=at(20))
    waits = sleep_pass("p3", quiet)
    async with store.begin_write() as tx:
        for each in (old, new, waits):
            await tx.passes.add(each)
        await tx.passes.save_changes([change("p1", 1), change("p2", 1)])
    async with store.begin_write() as tx:
        assert await expire(tx, at(20), RetentionKind.PASSES) == 1
    async with store.begin_read() as tx:
        assert [each.id for each in await tx.passes.find_all()] == ["p3", "p2"]
        assert await tx.passes.find_changes(PassId("p1")) == []
        assert len(await tx.passes.find_changes(PassId("p2"))) == 1


@pytest.mark.spec("SLEEP-11")
async def test_what_waits_is_counted_from_the_episodes_behind_the_cursor(store: Store) -> None:
    team, quiet, empty = await banks_of(store, "team", "quiet", "empty")
    first = await said(store, team, "e1", seconds=1)
    await said(store, team, "e2", seconds=2, importance=0.5, conversation="talk")
    await said(store, team, "e3", seconds=3, trust=Trust.PERSON, importance=0.25, conversation="talk")
    await said(store, team, "e4", seconds=4, incomplete=True, conversation="other")
    last = await said(store, team, "e5", seconds=5, kind=EpisodeKind.FACT)
    done = await said(store, quiet, "e6", seconds=6)
    full = SleepState(
        bank_id=quiet, cursor=done, leftovers=(Leftover(first=1, last=2, failures=1, cause="429"),), failures=3,
        not_before=at(7), paused_by="ann", succeeded_at=at(8),
    )  # fmt: skip
    async with store.begin_write() as tx:
        assert await tx.sleep_states.get(team) == SleepState(bank_id=team)
        assert await tx.sleep_states.fetch_backlog(team, first) == Backlog(
            episodes=4, turns=1, importance=0.75, conversations=2, oldest_at=at(2), newest_at=at(5), last=last
        )
        assert await tx.sleep_states.fetch_backlog(team, last) == Backlog()
        assert await tx.sleep_states.find_banks_with_backlog() == [quiet, team]
        await tx.sleep_states.put(replace(full, leftovers=()))
        assert await tx.sleep_states.find_banks_with_backlog() == [team]
        await tx.sleep_states.put(full)
        assert await tx.sleep_states.get(quiet) == full
        assert sorted(await tx.sleep_states.find_banks_with_backlog()) == sorted([team, quiet])
        assert await tx.sleep_states.get(empty) == SleepState(bank_id=empty)


@pytest.mark.spec("SLEEP-10", "SLEEP-40")
async def test_an_answer_is_found_by_its_question_and_counts_with_what_is_reserved(store: Store) -> None:
    team, other = await banks_of(store, "team", "other")
    by = agent("tier")
    async with store.begin_write() as tx:
        await tx.calls.add([
            replace(call("c1", by=by), input_tokens=5, output_tokens=2, cost_nanousd=70, total_seconds=1.5),
            replace(call("c2", by=by, status=CallStatus.RESERVED), reserved_tokens=100, reserved_nanousd=900),
            replace(call("c3", by=by), input_tokens=1),
        ])  # fmt: skip
        await tx.sleep_calls.add(asked("c1", team, at=at(1)))
        await tx.sleep_calls.add(asked("c2", team, at=at(2), pass_id=PassId("p2"), operation="reflect"))
        await tx.sleep_calls.add(asked("c3", other, at=at(3), answer="{}"))
        assert await tx.sleep_calls.get_answered(team, "k") is None
        answered = asked("c1", team, at=at(1), answer='{"a": 1}')
        await tx.sleep_calls.save_outcome(answered)
        assert await tx.sleep_calls.get_answered(team, "k") == answered
        assert await tx.sleep_calls.get_answered(team, "l") is None
        assert [len(await tx.sleep_calls.find_unanswered(bank, "k")) for bank in (team, other)] == [1, 0]
        assert [each.id for each in await tx.sleep_calls.find_by_pass(PassId("p1"))] == ["c1", "c3"]
        assert await tx.sleep_calls.sum_cost(bank_id=team) == SleepCost(calls=2, tokens=107, nanousd=970, seconds=1.5)
        assert (await tx.sleep_calls.sum_cost(since=at(2))).calls == 2
        assert (await tx.sleep_calls.sum_cost(pass_id=PassId("p2"))).tokens == 100
        assert (await tx.sleep_calls.sum_cost(operation="reflect")).nanousd == 900
        assert (await tx.sleep_calls.sum_cost(operation="none")) == SleepCost(calls=0, tokens=0, nanousd=0, seconds=0.0)
        line = (await tx.sleep_calls.sum_cost_by_model(PassId("p2")))[0]
        cost = SleepCost(calls=1, tokens=100, nanousd=900, seconds=0.0)
        assert line == OperationModelCost(operation="reflect", model=call("c2", by=by).model, failed=0, spent=cost)
        assert [each.spent.calls for each in await tx.sleep_calls.sum_cost_by_model(PassId("p1"))] == [2]
        assert await expire(tx, at(3), RetentionKind.SLEEP_ANSWERS) == 2
        assert await expire(tx, at(3), RetentionKind.SLEEP_ANSWERS) == 0
        assert await tx.sleep_calls.find_unanswered(team, "k") == []
        assert await tx.sleep_calls.get_answered(team, "k") is None
        assert await tx.sleep_calls.get_answered(other, "k") is not None


@pytest.mark.spec("SLEEP-81", "SLEEP-87")
async def test_thinking_is_counted_and_a_pass_with_its_own_budget_counts_against_no_other(store: Store) -> None:
    (team,) = await banks_of(store, "team")
    spent = {"input_tokens": 5, "output_tokens": 20, "reasoning_tokens": 15, "cost_nanousd": 70}
    async with store.begin_write() as tx:
        await tx.calls.add([replace(call(key, by=agent("tier")), **spent) for key in ("c1", "c2")])
        await tx.sleep_calls.add(asked("c1", team))
        await tx.sleep_calls.add(asked("c2", team, own_budget=True))
        await tx.sleep_calls.save_outcome(asked("c1", team, answer="{}", thinking_nanousd=40))
        await tx.sleep_calls.save_outcome(asked("c2", team, error="cut", thinking_nanousd=2))
        one = SleepCost(calls=1, tokens=25, nanousd=70, seconds=0.0, thinking_tokens=15, thinking_nanousd=40)
        both = replace(one, calls=2, tokens=50, nanousd=140, thinking_tokens=30, thinking_nanousd=42)
        assert await tx.sleep_calls.sum_cost(bank_id=team, shared=True) == one
        assert await tx.sleep_calls.sum_cost(shared=True) == one
        assert await tx.sleep_calls.sum_cost(bank_id=team) == both
        assert await tx.sleep_calls.sum_cost_by_operation(team, since=at(0)) == {"consolidate": both}
        assert (await tx.sleep_calls.find_by_pass(PassId("p1")))[1].own_budget


@pytest.mark.spec("SLEEP-87", "SLEEP-88")
async def test_texts_are_measured_in_bytes_and_those_without_a_vector_are_counted(store: Store) -> None:
    team, other = await banks_of(store, "team", "other")
    numbers = [await said(store, team, text) for text in ("one", "猫が好き", "back\\slash")]
    await said(store, other, "elsewhere")
    async with store.begin_write() as tx:
        assert await tx.sleep_states.measure_texts(team, numbers[0], numbers[-1]) == (3, 3 + 12 + 10)
        assert await tx.sleep_states.measure_texts(team, numbers[1], numbers[1]) == (1, 12)
        assert await tx.sleep_states.measure_texts(team, numbers[-1] + 1, 0) == (0, 0)
        assert await tx.episodes.count_without_vector(team) == 3
        await tx.episodes.save_vectors({numbers[0]: b"v"}, "fake@1/8")
        assert await tx.episodes.count_without_vector(team) == 2
        assert await tx.notes.count_without_vector(team) == 0


@pytest.mark.spec("MEM-03")
async def test_an_answer_that_comes_after_its_bank_was_forgotten_or_deleted_is_dropped(store: Store) -> None:
    team, other, third = await banks_of(store, "team", "other", "third")
    async with store.begin_write() as tx:
        for number, bank in enumerate((team, other, third)):
            await tx.sleep_calls.add(asked(f"c{number}", bank))
        assert await tx.sleep_calls.forget_answers(team) == 1
        await tx.banks.remove(other)
        for number, bank in enumerate((team, other, third)):
            await tx.sleep_calls.save_outcome(asked(f"c{number}", bank, answer="{}"))
        found = [await tx.sleep_calls.get_answered(bank, "k") for bank in (team, other, third)]
        assert [each is not None for each in found] == [False, False, True]


async def test_a_bank_goes_with_its_passes(store: Store) -> None:
    (bank,) = await banks_of(store, "team")
    await kept(store, sleep_pass("p1", bank))
    async with store.begin_write() as tx:
        await tx.passes.save_changes([change("p1", 1)])
        await tx.sleep_states.put(SleepState(bank_id=bank))
        await tx.sleep_calls.add(asked("c1", bank))
        await tx.banks.remove(bank)
        assert await tx.passes.find_all() == []
        assert await tx.sleep_calls.find_by_pass(PassId("p1")) == []
        assert await tx.banks.get(bank) is None


@pytest.mark.spec("SLEEP-02")
async def test_banks_in_which_others_have_changed_something_are_found_with_how_much(store: Store) -> None:
    team, quiet, empty = await banks_of(store, "team", "quiet", "empty")
    for key in ("e1", "e2", "e3"):
        await said(store, team, key, seconds=1)
    async with store.begin_read() as tx:
        assert await tx.sleep_states.find_banks_with_changes() == []
        rows = await tx.episodes.find_all(team)
    why = Demotion(by="ann", reason="over", evidence="letter", at=at(5), weight=0.3)
    async with store.begin_write() as tx:
        for row, stale in ((rows[0], (why,)), (rows[1], (why,)), (rows[1], ())):
            await tx.episodes.demote(row.id, stale)
        await tx.banks.mark_edited(quiet, at(7))
    async with store.begin_write() as tx:
        assert sorted(await tx.sleep_states.find_banks_with_changes()) == sorted([team, quiet])
        assert await tx.sleep_states.count_stale(team, 0) == 1, "what was taken back is not stale"
        assert dict(await tx.sleep_states.find_stale(team, 0)) == {rows[0].id: (why,)}
        assert await tx.sleep_states.count_stale(team, 1) == 0
        assert [await tx.sleep_states.count_items(team, most) for most in (1, 2, 3, 9)] == [1, 2, 3, 3]
        assert await tx.sleep_states.count_items(empty, 9) == 0
        await tx.sleep_states.put(SleepState(bank_id=team, demotions=3))
        await tx.sleep_states.put(SleepState(bank_id=quiet, edited_at=at(7)))
        assert await tx.sleep_states.find_banks_with_changes() == []
        await tx.banks.mark_edited(quiet, at(6))  # a clock that was set back hides no edit
        assert await tx.sleep_states.find_banks_with_changes() == [quiet]


@pytest.mark.spec("SLEEP-04", "SLEEP-10")
async def test_turns_of_other_processes_are_found_by_bank_until_they_end_or_their_lease_does(store: Store) -> None:
    def turn(owner: str, number: int, *, bank: str = "team", user: str = "", seconds: float = 0) -> OpenTurn:
        return OpenTurn(owner=owner, id=number, bank=bank, end_user=user, at=at(seconds), lease_until=at(15))

    async with store.begin_write() as tx:
        await tx.open_turns.add([
            turn("a", 1, seconds=1), turn("a", 2, seconds=2), turn("b", 2, seconds=3),
            turn("a", 3, bank="t-{user}", user="x"),
        ])  # fmt: skip
        await tx.open_turns.add([turn("a", 1, seconds=4)])

    async def newest(besides: str, *, bank: str = "team", user: str = "", now: float = 10) -> datetime | None:
        async with store.begin_read() as tx:
            return await tx.open_turns.find_newest_start(bank, user, besides=besides, now=at(now))

    assert (await newest("b"), await newest("a"), await newest("c")) == (at(4), at(3), at(4))
    assert (await newest("b", bank="t-{user}", user="x"), await newest("b", bank="t-{user}")) == (at(0), None)
    async with store.begin_write() as tx:
        await tx.open_turns.remove("a", [1])
        await tx.open_turns.remove("a", [])
        await tx.open_turns.renew_leases("b", at(30))
    assert (await newest("b"), await newest("b", now=15), await newest("c", now=29)) == (at(2), None, at(3))
    async with store.begin_write() as tx:
        await tx.open_turns.delete_expired(at(16))
        await tx.open_turns.renew_leases("a", at(99))
    assert (await newest("b", now=20), await newest("a", now=20)) == (None, at(3))


@pytest.mark.spec("SLEEP-10")
async def test_what_is_still_asked_has_a_lease_that_can_be_renewed(store: Store) -> None:
    (team,) = await banks_of(store, "team")
    async with store.begin_write() as tx:
        await tx.sleep_calls.add(asked("c1", team, at=at(1), lease_until=at(15)))
        await tx.sleep_calls.add(asked("c2", team, at=at(1), error="429"))
        await tx.sleep_calls.add(asked("c3", team, at=at(1), answer="{}"))
        await tx.sleep_calls.renew_lease(CallId("c1"), at(20))
        assert await tx.sleep_calls.find_unanswered(team, "k") == [asked("c1", team, at=at(1), lease_until=at(20))]
        assert await tx.sleep_calls.find_unanswered(team, "l") == []
        await tx.sleep_calls.save_outcome(asked("c1", team, at=at(1), error="dropped"))
        assert await tx.sleep_calls.find_unanswered(team, "k") == []
