"""Tunes from which importance on a bank keeps turns, by what agents were given later of those that it has (MEM-18).

What was left out can show nothing any more, so little is risked: only what next to nothing of all that was found lies
below is left out, never what scores 0.3 or more, and nothing while there is too little to tell. Nothing is tuned that
nobody has asked for, nor by a pass whose proposals wait for a person.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from circadia.records.bank import Bank
from circadia.records.event import Event, EventType
from circadia.sleeptime.operation import Ground

STEPS: Final = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
"""Thresholds besides 0."""
SETTLED: Final = timedelta(days=7)
"""After which it can be told of a turn whether it is of use."""
FEWEST: Final = 200
"""Such turns without which nothing can be told."""
FEWEST_FOUND: Final = 20
"""Of them those that were found, likewise."""
MOST_LOST: Final = 0.01
"""Share of all that was found that may lie below the threshold."""


async def tune(bank: Bank, ground: Ground) -> bool:
    """Set the bank's threshold, with an event, where its policy wants it; return whether it was another."""
    run = ground.run
    if not bank.policy.tune_importance or (run is not None and run.review):
        return False
    async with ground.store.read() as tx:
        kept, found, *below = await tx.episodes.found_below(bank.id, STEPS, before=ground.now - SETTLED)
    new = threshold(kept, found, below)
    if new == bank.policy.min_importance:
        return False
    async with ground.store.write() as tx:
        present = await tx.banks.get(bank.id)
        if present is None or not present.policy.tune_importance or present.policy.min_importance == new:
            return False
        await tx.banks.save(replace(present, policy=replace(present.policy, min_importance=new)))
        by = "circadia" if run is None else f"pass {run.id}"
        told = {"bank": present.name, "by": by, "min_importance": new, "before": present.policy.min_importance}
        await tx.events.add([Event(type=EventType.BANK_CHANGED, at=ground.now, data=told)])
    return True


def threshold(kept: int, found: int, below: Sequence[int]) -> float:
    """Return the greatest step `below` which next to nothing of what was found lies; 0 if it cannot be told."""
    if kept < FEWEST or found < FEWEST_FOUND:
        return 0.0
    return max((step for step, lost in zip(STEPS, below, strict=True) if lost <= MOST_LOST * found), default=0.0)
