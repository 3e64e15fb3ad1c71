"""Precompute: expected questions are answered ahead, as the agents themselves would (ANS-01, SLEEP-28).

At the end of a pass, once all that it derived is published: what is ready and holds no more goes, what is in doubt is
settled, some uses are judged, and for each agent that was asked lately the likeliest questions are answered. It
proposes nothing, and there is nothing to undo: an answer is valid for one state of its bank only, and is never found in
another.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress

from circadia.errors import UpstreamFailed
from circadia.llm.mind import Unusable
from circadia.records.answer import AnswerDay
from circadia.records.bank import Bank
from circadia.records.change import Change
from circadia.records.sleep_pass import Trigger
from circadia.sleeptime.answers.backoff import WINDOW, affordable
from circadia.sleeptime.answers.bench import Bench
from circadia.sleeptime.answers.frames import Asked, asked_lately
from circadia.sleeptime.answers.hygiene import clean_up
from circadia.sleeptime.answers.making import Making
from circadia.sleeptime.answers.sampling import Sampling
from circadia.sleeptime.answers.settling import settle_doubts
from circadia.sleeptime.ask import OverBudget, Yielded
from circadia.sleeptime.operation import Ask, Ground, Step, View

_logger = logging.getLogger(__name__)


class Precompute:
    """Ready answers."""

    name = "precompute"
    asks = True

    def plan(self, view: View) -> Sequence[Step]:
        """Return none: it has nothing to propose."""
        return []

    async def propose(self, step: Step, view: View, ask: Ask) -> Sequence[Change]:
        """Return none."""
        return []

    async def close(self, bank: Bank, ground: Ground) -> Mapping[str, int]:
        """Do it as far as nobody waits and the budget goes; what is left waits for a pass."""
        readying, run = ground.readying, ground.run
        if readying is None or run is None:
            return {}
        if run.trigger is Trigger.NEEDED and self.name not in run.operations:
            return {}  # the next answer waits for this pass, and not for those after it
        counts: Counter[str] = Counter()
        with suppress(Yielded):
            try:
                found = await clean_up(bank, ground, readying)
                counts["answers_dropped"] = found.dropped
                if ground.ask is not None:
                    bench = Bench(bank=bank, ground=ground, readying=readying, ask=ground.ask, run=run)
                    await settle_doubts(bench, found.uncertain, counts)
                    await _made(bench, counts)
            except (OverBudget, Unusable, UpstreamFailed) as error:
                _logger.info("no more answers are made ready in bank %r for now: %s", bank.name, error)
        return {name: number for name, number in counts.items() if number}


async def _made(bench: Bench, counts: Counter[str]) -> None:
    """Judge some uses and answer what is expected, and count both, also where it ends too soon."""
    sampling, making = Sampling(bench), Making(bench)
    try:
        agents = await _agents(bench)
        await sampling.judge()
        most = affordable(bench.readying.settings, await _days(bench)) if agents else 0
        for agent in agents:
            await making.of(agent, most)
    finally:
        counts.update(answers=making.made, answers_judged=sampling.done)


async def _agents(bench: Bench) -> Sequence[Asked]:
    """Return for whom answers may be made."""
    async with bench.ground.store.read() as tx:
        bank = await tx.banks.get(bench.bank.id)
        now = bench.readying.clock.now()
        return () if bank is None else await asked_lately(tx, bank, bench.readying.ahead, now)


async def _days(bench: Bench) -> Sequence[AnswerDay]:
    """Return the counts by which it is told how many are made."""
    since = (bench.readying.clock.now() - WINDOW).date()
    async with bench.ground.store.read() as tx:
        return await tx.answers.days(bench.bank.id, since=since)
