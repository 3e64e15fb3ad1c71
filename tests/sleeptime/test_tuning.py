"""A bank that wants it leaves out what next to nothing of what was found lies below."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from circadia.memory.episodes import NewEpisode
from circadia.records.bank import Bank, BankPolicy, ImportanceTuning, Trust
from circadia.records.event import EventType
from circadia.records.sleep_pass import Pass
from circadia.sleeptime.operations.importance_tuning import choose_threshold
from circadia.sleeptime.operations.reindex import Reindex
from circadia.sleeptime.proposals.operation import PassContext
from tests.sleeptime.stand import Stand
from tests.sleeptime.tier_stand import Tier

FEWEST = 200
FEWEST_FOUND = 20
SETTLED = timedelta(days=7)

pytestmark = pytest.mark.spec("MEM-18")


@pytest.mark.parametrize(
    ("kept", "found", "below", "wanted"),
    [
        (FEWEST - 1, 100, [0] * 6, 0.0),
        (1_000, FEWEST_FOUND - 1, [0] * 6, 0.0),
        (FEWEST, FEWEST_FOUND, [0] * 6, 0.3),
        (1_000, 100, [0, 1, 1, 2, 9, 50], 0.15),
        (1_000, 99, [0, 0, 1, 2, 9, 50], 0.1),
        (1_000, 100, [2, 2, 2, 2, 2, 2], 0.0),
    ],
)
def test_the_threshold_is_the_greatest_below_which_one_in_a_hundred_of_what_was_found_lies(
    kept: int, found: int, below: Sequence[int], wanted: float
) -> None:
    assert choose_threshold(kept, found, below) == wanted


@pytest.fixture
async def stand(stand: Stand) -> Stand:
    """A bank of whose turns those that score 0.2 and more are found."""
    async with stand.store.begin_write() as tx:
        for at in range(FEWEST):
            new = NewEpisode(text=f"{at}", speaker="ann", trust=Trust.PERSON, importance=at % 5 / 10)
            await stand.memory.episodes.remember(tx, stand.bank, new)
        used = [each.number for each in await tx.episodes.find_all(stand.bank.id, limit=FEWEST) if at_least(each, 0.2)]
        await tx.episodes.mark_used(stand.bank.id, used, stand.clock.now(), before=stand.clock.now())
    stand.clock.advance((SETTLED + timedelta(hours=1)).total_seconds())
    return stand


def at_least(row: object, least: float) -> bool:
    return getattr(row, "importance", 0.0) >= least


async def wanting(stand: Stand, **keys: object) -> Bank:
    """Return the bank with this policy."""
    async with stand.store.begin_write() as tx:
        return await stand.memory.banks.change(tx, stand.bank, by="ann", policy=BankPolicy.model_validate(keys))


async def ended(stand: Stand, bank: Bank, run: Pass | None = None) -> tuple[dict[str, int], float]:
    """End a pass; return what it tells that it made anew, and from which importance on the bank keeps turns now."""

    async def go_on() -> None:
        return None

    ground = PassContext(
        store=stand.store, events=stand.memory.events, now=stand.clock.now(), go_on=go_on, run=run
    )  # fmt: skip
    counts = dict(await Reindex().close(bank, ground))
    async with stand.store.begin_read() as tx:
        present = await tx.banks.get(bank.id)
    assert present is not None
    return counts, present.policy.least_importance


async def test_a_pass_tunes_a_bank_that_wants_it_once_and_tells_it(stand: Stand) -> None:
    bank = await wanting(stand, tune_importance=True, own=True)
    run = await stand.begun("p7")
    assert await ended(stand, bank, run) == ({"thresholds": 1}, 0.2)
    assert await ended(stand, bank, run) == ({}, 0.2)
    async with stand.store.begin_read() as tx:
        told = [each.data for each in await tx.events.find_after(0, types=[EventType.BANK_CHANGED])]
        present = await tx.banks.get(bank.id)
    assert told[-1] == {"bank": "ann", "by": "pass p7", "tuned_importance": 0.2, "before": 0.0}
    assert present is not None
    assert present.policy.model_copy(update={"tuned": None}) == bank.policy, "nothing else is changed"


@pytest.mark.parametrize(("keys", "review"), [({}, False), ({"tune_importance": True}, True)])
async def test_nothing_is_tuned_that_nobody_asked_for_or_where_proposals_wait(
    stand: Stand, keys: dict[str, object], review: bool
) -> None:
    bank = await wanting(stand, **keys)
    assert await ended(stand, bank, await stand.begun(review=review)) == ({}, 0.0)


@pytest.mark.parametrize("stated", [0.05, 0.7])
async def test_what_a_person_states_holds_until_it_is_taken_back(stand: Stand, stated: float) -> None:
    bank = await wanting(stand, min_importance=stated, tune_importance=True)
    run = await stand.begun("p1")
    assert await ended(stand, bank, run) == ({}, stated)
    await stand.ended(run)
    bank = await wanting(stand, tune_importance=True)
    assert await ended(stand, bank, await stand.begun("p2")) == ({"thresholds": 1}, 0.2)
    tuned = ImportanceTuning(importance=0.2, before=0.0, pass_id="p2")
    bank = await wanting(stand, tune_importance=True, tuned=tuned, min_importance=stated)
    assert bank.policy.least_importance == stated
    assert (await wanting(stand, tuned=tuned)).policy.least_importance == 0.0, "it is switched off"


async def test_where_too_little_is_known_nothing_is_left_out(stand: Stand) -> None:
    bank = await wanting(stand, tune_importance=True, tuned=ImportanceTuning(importance=0.3, before=0.0, pass_id="p0"))
    async with stand.store.begin_write() as tx:
        (first,) = await tx.episodes.find_all(bank.id, limit=1)
        await tx.episodes.remove([first.id])
    assert await ended(stand, bank) == ({"thresholds": 1}, 0.0)


@pytest.mark.parametrize("now", [{"min_importance": 0.1}, {"min_importance": 0.1, "tune_importance": True}])
async def test_who_switches_it_off_or_states_another_meanwhile_is_heeded(stand: Stand, now: dict[str, object]) -> None:
    before = await wanting(stand, tune_importance=True)
    await wanting(stand, **now)
    assert await ended(stand, before) == ({}, 0.1)


async def tuned_by(stand: Stand, bank: Bank, key: str, least: float) -> Pass:
    """Let a pass tune after turns of at least this importance were found, too, and end."""
    async with stand.store.begin_write() as tx:
        rows = [each.number for each in await tx.episodes.find_all(bank.id, limit=FEWEST) if at_least(each, least)]
        await tx.episodes.mark_used(bank.id, rows, stand.clock.now(), before=stand.clock.now())
    run = await stand.begun(key)
    assert await ended(stand, bank, run) == ({"thresholds": 1}, least)
    await stand.ended(run)
    return run


async def undone(stand: Stand, run: Pass) -> float:
    """Undo a pass; return from which importance on the bank keeps turns then."""
    tier = Tier(stand, None).tier
    async with stand.store.begin_write() as tx:
        bank = await stand.memory.banks.get(tx, stand.bank.name)
        present = await tx.passes.get(run.id)
        assert present is not None
        await tier.undo(tx, bank, present, by="ann")
        return (await stand.memory.banks.get(tx, stand.bank.name)).policy.least_importance


@pytest.mark.spec("SLEEP-32")
async def test_undo_puts_back_what_was_before_the_pass_and_leaves_what_another_has_tuned_since(stand: Stand) -> None:
    bank = await wanting(stand, tune_importance=True)
    first, second = await tuned_by(stand, bank, "p1", 0.2), await tuned_by(stand, bank, "p2", 0.1)
    assert await undone(stand, first) == 0.1
    assert await undone(stand, second) == 0.2
    assert await undone(stand, second) == 0.2
    async with stand.store.begin_read() as tx:
        told = [each.data for each in await tx.events.find_after(0, types=[EventType.BANK_CHANGED])]
    assert told[-1] == {"bank": "ann", "by": "ann", "tuned_importance": 0.2, "before": 0.1}


@pytest.mark.spec("SLEEP-32")
async def test_undo_of_a_pass_that_has_tuned_twice_puts_back_what_was_before_both(stand: Stand) -> None:
    bank = await wanting(stand, tune_importance=True)
    run = await stand.begun()
    assert await ended(stand, bank, run) == ({"thresholds": 1}, 0.2)
    async with stand.store.begin_write() as tx:
        rows = [each.number for each in await tx.episodes.find_all(bank.id, limit=FEWEST) if at_least(each, 0.1)]
        await tx.episodes.mark_used(bank.id, rows, stand.clock.now(), before=stand.clock.now())
    assert await ended(stand, await wanted(stand), run) == ({"thresholds": 1}, 0.1)
    await stand.ended(run)
    assert await undone(stand, run) == 0.0


async def wanted(stand: Stand) -> Bank:
    async with stand.store.begin_read() as tx:
        return await stand.memory.banks.get(tx, stand.bank.name)
