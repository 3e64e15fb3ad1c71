"""One search over names and ids of all kinds, and over the texts of one bank (UI-20)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final

from fastapi import Query

from circadia.agents.access import require_operator
from circadia.api.context import Context, Who, noun_router
from circadia.api.episodes import hit_view
from circadia.memory.banks import BankLayers
from circadia.memory.layers import find_in_layers
from circadia.memory.search.question import Question
from circadia.memory.search.retrieval import SearchHit
from circadia.schemas.search import SearchMatchView, SearchResult
from circadia.stores.base import Tx

router = noun_router("search")

_MAX_HITS: Final = 20


@router.get("/search")
async def search(
    q: Annotated[
        str, Query(min_length=1, max_length=200, description="The beginning of a name or id, or a part of a name.")
    ],
    who: Who,
    context: Context,
    bank: Annotated[str | None, Query(description="Also search the episodes and notes of this bank.")] = None,
    limit: Annotated[int, Query(ge=1, le=50, description="Maximum number of matches of each kind.")] = 5,
) -> SearchResult:
    """Find agents, sessions, threads, banks, messages, wakes, passes and calls by name or id. Operator only.

    A part of a name is sought among the first 2,000 names of a kind. With `bank`, the answer has its best episodes and
    notes too.
    """
    require_operator(who)
    async with context.store.begin_read() as tx:
        matches = await tx.names.find(q, limit=limit)

    async def work(tx: Tx, question: Question) -> tuple[BankLayers, Sequence[SearchHit]]:
        banks = BankLayers(first=await context.memory.banks.open_bank(tx, who, bank or ""))
        wanted = replace(question, limit=min(limit, _MAX_HITS))
        return banks, await find_in_layers(context.memory.retrieval, tx, banks.banks, wanted)

    hits: list[SearchHit] = []
    banks = BankLayers(first=None)
    if bank is not None:
        banks, found = await context.memory.retrieval.run_question(context.store, q, work)
        hits += found
    return SearchResult(
        matches=[SearchMatchView.of(match) for match in matches], hits=[hit_view(banks, hit) for hit in hits]
    )
