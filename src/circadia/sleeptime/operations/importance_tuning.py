"""Tunes a bank's importance threshold for turns by which stored turns agents were given later (MEM-18).

A turn that was left out can prove nothing later, so the tuning is careful: a threshold loses next to nothing of all
found turns, is at most 0.3, and is 0 without enough data. It only runs if the policy asks for it, and not in a pass
under review. A `min_importance` of a person or the file overrides it, and is never changed.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from circadia.records.bank import Bank, ImportanceTuning
from circadia.records.event import EventType
from circadia.records.event_data import BankUpdate
from circadia.records.sleep_pass import Pass
from circadia.sleeptime.proposals.operation import PassContext
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog

STEPS: Final = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
"""Thresholds besides 0."""
MIN_TURN_AGE: Final = timedelta(days=7)
"""Age from which on a turn has shown whether it is of use."""
FEWEST: Final = 200
"""Fewest turns of that age to tune by."""
FEWEST_FOUND: Final = 20
"""Fewest of them that were found."""
MOST_LOST: Final = 0.01
"""Maximum share of the found turns below the threshold."""


async def tune_importance(bank: Bank, ground: PassContext) -> bool:
    """Tune the bank's threshold if its policy allows it, and record an event; return whether it has changed."""
    run = ground.run
    if not _is_tunable(bank) or (run is not None and run.review):
        return False
    async with ground.store.begin_read() as tx:
        kept_count, found_count, *below = await tx.episodes.count_by_importance(
            bank.id, STEPS, before=ground.now - MIN_TURN_AGE
        )
    new = choose_threshold(kept_count, found_count, below)
    if new == bank.policy.tuned_importance:
        return False
    async with ground.store.begin_write() as tx:
        present = await tx.banks.get(bank.id)
        if present is None or not _is_tunable(present) or present.policy.tuned_importance == new:
            return False
        key, last = "" if run is None else run.id, present.policy.tuned
        anew = key and last is not None and last.pass_id == key
        before = last.before if anew and last is not None else present.policy.tuned_importance
        tuned = ImportanceTuning(importance=new, before=before, pass_id=key)
        await _save(tx, ground.events, present, tuned, by=f"pass {key}" if key else "circadia")
    return True


async def undo_tuning(tx: Tx, events: EventLog, bank: Bank, run: Pass, *, by: str) -> None:
    """Undo the tuning of a pass, unless a later one has tuned since."""
    tuned = bank.policy.tuned
    if tuned is not None and tuned.pass_id == run.id:
        await _save(tx, events, bank, replace(tuned, importance=tuned.before, pass_id=""), by=by)


def _is_tunable(bank: Bank) -> bool:
    return bank.policy.tune_importance and not bank.policy.min_importance


async def _save(tx: Tx, events: EventLog, bank: Bank, tuned: ImportanceTuning, *, by: str) -> None:
    before = bank.policy.tuned_importance
    await tx.banks.save(replace(bank, policy=bank.policy.model_copy(update={"tuned": tuned})))
    data = BankUpdate(bank=bank.name, by=by, tuned_importance=tuned.importance, before=before)
    await events.record(tx, EventType.BANK_CHANGED, data)


def choose_threshold(kept: int, found: int, below: Sequence[int]) -> float:
    """Return the highest step with next to no found turns `below` it; 0 without enough data."""
    if kept < FEWEST or found < FEWEST_FOUND:
        return 0.0
    return max((step for step, lost in zip(STEPS, below, strict=True) if lost <= MOST_LOST * found), default=0.0)
