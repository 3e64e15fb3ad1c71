"""How a pass ended, and what is told of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from circadia.records.sleep_pass import Pass, PassStatus
from circadia.sleeptime.proposals.operation import Operation, Step
from circadia.sleeptime.publish.publisher import FULL, UNREAD

NOT_DONE: Final = ("refused", "staged", FULL, UNREAD)
"""Counts of changes that did not take effect."""
UPKEEP_COUNTS: Final = ("vectors", "answers", "answers_dropped", "answers_judged")
"""Counts of maintenance, which changes no memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PassOutcome:
    run: Pass
    status: PassStatus
    detail: str


def decide_outcome(run: Pass, failed: Sequence[str]) -> PassOutcome:
    """Return how a pass ended, by its counts and by what failed in it."""
    done = sum(number for kind, number in run.counts.items() if kind not in (*NOT_DONE, *UPKEEP_COUNTS))
    if failed:
        status = PassStatus.PARTIAL if done else PassStatus.FAILED
        return PassOutcome(run=run, status=status, detail="; ".join(list(dict.fromkeys(failed))[:5]))
    if done:
        return PassOutcome(run=run, status=PassStatus.SUCCEEDED, detail="")
    if staged := run.counts.get("staged", 0):
        waits = f"{staged} changes are proposed" + ("" if run.dry_run else ": `circadia passes accept` or `refuse`")
        return PassOutcome(run=run, status=PassStatus.NO_CHANGE, detail=waits)
    kept_up = ", ".join(f"{name} {number}" for name in UPKEEP_COUNTS if (number := run.counts.get(name, 0)))
    detail = f" (made anew: {kept_up})" if kept_up else ""
    return PassOutcome(run=run, status=PassStatus.NO_CHANGE, detail=f"there was nothing to change{detail}")


def describe_fault(name: str, error: Exception) -> str:
    """Describe an operation's exception without quoting conversation text."""
    return f"it raised {type(error).__name__}; see the log, or switch {name!r} off"


def describe_step(operation: Operation, step: Step, cause: str) -> str:
    """Describe the failed step by episode numbers: its name may hold conversation text."""
    if not step.episodes:
        return f"{operation.name}: {cause}"
    return f"{operation.name}: episodes {step.episodes[0].number} to {step.episodes[-1].number}: {cause}"
