"""Reindex: completes vectors at the end of a pass (SLEEP-26).

Background work makes missing and outdated vectors (MEM-08); here a pass waits for it. Statistics need no work: recency
is computed at the search, importance and weight are written with rows and demotions, and the index counts words as it
takes rows in. It proposes nothing and needs no undo.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from circadia.errors import UpstreamFailed
from circadia.records.bank import Bank
from circadia.records.change import Change
from circadia.sleeptime.budget.model_calls import PassPreempted
from circadia.sleeptime.proposals.operation import ModelQueryFunction, PageContext, PassContext, Step

EMBED_SECONDS: Final = 30.0
"""Maximum wait of a pass for vectors, which may be those of another bank."""
LOOK_SECONDS: Final = 0.5
"""Interval between checks for waiting calls during that wait."""

_logger = logging.getLogger(__name__)


class Reindex:
    name = "reindex"
    asks = False

    def plan(self, view: PageContext) -> Sequence[Step]:
        return []

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        return []

    async def close(self, bank: Bank, context: PassContext) -> Mapping[str, int]:
        """Wait for vectors until a call waits; background work makes the rest."""
        counts: dict[str, int] = {}
        with suppress(PassPreempted):
            await _wait_for_vectors(bank, context, counts)
        return {name: number for name, number in counts.items() if number}


async def _wait_for_vectors(bank: Bank, context: PassContext, counts: dict[str, int]) -> None:
    """Wait until all rows of the bank have vectors."""
    if context.embed is None:
        return
    before = await _count_vectors(bank, context)
    work = asyncio.ensure_future(context.embed())
    try:
        async with asyncio.timeout(EMBED_SECONDS):
            while not work.done():
                await asyncio.wait((work,), timeout=LOOK_SECONDS)
                if not work.done():
                    await context.yield_to_calls()
            await work
    except (TimeoutError, UpstreamFailed) as error:  # the background work reports it, and goes on
        _logger.debug("bank %r waits for vectors: %s", bank.name, error)
    finally:
        work.cancel()
        counts["vectors"] = await _count_vectors(bank, context) - before


async def _count_vectors(bank: Bank, context: PassContext) -> int:
    async with context.store.begin_read() as tx:
        present = await tx.banks.get(bank.id)
    return 0 if present is None else present.vectors
