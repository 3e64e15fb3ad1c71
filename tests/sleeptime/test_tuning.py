"""A bank that wants it leaves out what next to nothing of what was found lies below."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from circadia.memory.banks import Banks
from circadia.memory.episodes import NewEpisode
from circadia.records.bank import Bank, BankPolicy, Trust
from circadia.records.event import EventType
from circadia.records.sleep_pass import Pass
from circadia.sleeptime.operation import Ground
from circadia.sleeptime.operations.reindex import Reindex
from circadia.sleeptime.tuning import FEWEST, FEWEST_FOUND, SETTLED, threshold
from tests.sleeptime.stand import Stand

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
    assert threshold(kept, found, below) == wanted


@pytest.fixture
async def stand(stand: Stand) -> Stand:
    """A bank of whose turns those that score 0.2 and more are found."""
    async with stand.store.write() as tx:
        for at in range(FEWEST):
            new = NewEpisode(text=f"{at}", speaker="ann", trust=Trust.PERSON, importance=at % 5 / 10)
            await stand.memory.episodes.remember(tx, stand.bank, new)
        used = [each.number for each in await tx.episodes.every(stand.bank.id, limit=FEWEST) if at_least(each, 0.2)]
        await tx.episodes.use(stand.bank.id, used, stand.clock.now(), before=stand.clock.now())
    stand.clock.advance((SETTLED + timedelta(hours=1)).total_seconds())
    return stand


def at_least(row: object, least: float) -> bool:
    return getattr(row, "importance", 0.0) >= least


async def wanting(stand: Stand, **keys: object) -> Bank:
    """Return the bank with this policy."""
    async with stand.store.write() as tx:
        return await stand.memory.banks.change(tx, stand.bank, by="ann", policy=replace(BankPolicy(), **keys))


async def ended(stand: Stand, bank: Bank, run: Pass | None = None) -> tuple[dict[str, int], float]:
    """End a pass; return what it tells that it made anew, and from which importance on the bank keeps turns now."""

    async def go_on() -> None:
        return None

    ground = Ground(
        store=stand.store, retrieval=stand.memory.retrieval, now=stand.clock.now(), go_on=go_on, run=run
    )  # fmt: skip
    counts = dict(await Reindex(views=0).close(bank, ground))
    async with stand.store.read() as tx:
        present = await tx.banks.get(bank.id)
    assert present is not None
    return counts, present.policy.min_importance


async def test_a_pass_tunes_a_bank_that_wants_it_once_and_tells_it(stand: Stand) -> None:
    bank = await wanting(stand, tune_importance=True, own=True)
    run = await stand.begun("p7")
    assert await ended(stand, bank, run) == ({"thresholds": 1}, 0.2)
    assert await ended(stand, bank, run) == ({}, 0.2)
    async with stand.store.read() as tx:
        told = [each.data for each in await tx.events.after(0, types=[EventType.BANK_CHANGED])]
        present = await tx.banks.get(bank.id)
    assert told[-1] == {"bank": "ann", "by": "pass p7", "min_importance": 0.2, "before": 0.0}
    assert present is not None
    assert present.policy == replace(bank.policy, min_importance=0.2), "nothing else is changed"


@pytest.mark.parametrize(
    ("keys", "review"), [({"min_importance": 0.7}, False), ({"min_importance": 0.7, "tune_importance": True}, True)]
)
async def test_nothing_is_tuned_that_nobody_asked_for_or_where_proposals_wait(
    stand: Stand, keys: dict[str, object], review: bool
) -> None:
    bank = await wanting(stand, **keys)
    assert await ended(stand, bank, await stand.begun(review=review)) == ({}, 0.7)


async def test_where_too_little_is_known_nothing_is_left_out(stand: Stand) -> None:
    bank = await wanting(stand, min_importance=0.2, tune_importance=True)
    async with stand.store.write() as tx:
        (first,) = await tx.episodes.every(bank.id, limit=1)
        await tx.episodes.remove([first.id])
    assert await ended(stand, bank) == ({"thresholds": 1}, 0.0)


async def test_who_switches_it_off_meanwhile_is_heeded(stand: Stand) -> None:
    before = await wanting(stand, tune_importance=True)
    await wanting(stand, min_importance=0.1)
    assert isinstance(stand.memory.banks, Banks)
    assert await ended(stand, before) == ({}, 0.1)
