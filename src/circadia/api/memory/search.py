"""Search a bank with explained scores, and show its prompt context."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final

from fastapi import Query

from circadia.api.context import Context, Who, noun_router
from circadia.api.memory.banks import User
from circadia.api.references import Instant
from circadia.memory.search.index import Question
from circadia.memory.search.retrieval import SearchHit
from circadia.memory.uses import build_use
from circadia.records.bank import Bank, Trust
from circadia.records.episode import Episode, EpisodeKind
from circadia.records.index_entry import Layer
from circadia.records.note import Note, NoteKind
from circadia.schemas.search import ContextView, HitList, HitView
from circadia.stores.base import Tx

router = noun_router("memory")

MAX_CHARACTERS: Final = 10_000
"""Maximum length of a question."""
MAX_TOKENS: Final = 1_000_000
"""Maximum budget for a part of a context."""

Asked = Annotated[str, Query(max_length=MAX_CHARACTERS, description="Search text.")]


def hit_view(found: SearchHit) -> HitView:
    item = found.item
    return HitView.of(
        item,
        layer=found.scored.layer,
        speaker=item.speaker if isinstance(item, Episode) else None,
        conversation=item.conversation if isinstance(item, Episode) else None,
        score=round(found.scored.score, 4),
        parts=found.scored.parts,
        evidence=item.evidence if isinstance(item, Note) else [],
    )


@router.get("/banks/{bank}/search")
async def search_bank(
    bank: str,
    q: Asked,
    who: Who,
    context: Context,
    user: User = None,
    limit: Annotated[int, Query(ge=1, le=200, description="Maximum number of rows.")] = 10,
    conversation: Annotated[str | None, Query(description="Only from this conversation.")] = None,
    speaker: Annotated[str | None, Query(description="Only from this speaker.")] = None,
    kind: Annotated[
        list[EpisodeKind | NoteKind] | None, Query(description="Only of this kind; may be repeated.")
    ] = None,
    trust: Annotated[list[Trust] | None, Query(description="Only from this source; may be repeated.")] = None,
    since: Annotated[Instant, Query(description="At or after this date or time.")] = None,
    until: Annotated[Instant, Query(description="Before this date or time.")] = None,
    layer: Annotated[list[Layer] | None, Query(description="`episodes` or `notes`; by default both.")] = None,
    recency: Annotated[
        float,
        Query(ge=0, le=10, allow_inf_nan=False, description="Score bonus of something that happens now; 0 means none."),
    ] = 0.0,
    half_life_days: Annotated[
        float,
        Query(gt=0, le=36_500, allow_inf_nan=False, description="Days after which the `recency` bonus is halved."),
    ] = 30.0,
    importance: Annotated[
        float, Query(ge=0, le=10, allow_inf_nan=False, description="Score bonus of the most important; 0 means none.")
    ] = 0.0,
) -> HitList:
    """Find episodes and notes by words and meaning, each with the parts of its score.

    Access: operator, agents with access to the bank. New episodes are found immediately.
    """

    async def work(tx: Tx, question: Question) -> tuple[Bank, Sequence[SearchHit]]:
        found_bank = await context.memory.banks.open_bank(tx, who, bank, user=user)
        filtered = replace(
            question, limit=limit, conversation=conversation, speaker=speaker,
            kinds=tuple(row_kind.value for row_kind in kind or ()),
            trusts=tuple(trust_level.value for trust_level in trust or ()),
            since=None if since is None else since.timestamp(),
            until=None if until is None else until.timestamp(),
            layers=tuple(layer or Layer),
            recency=recency, half_life=half_life_days * 86_400, importance=importance,
        )  # fmt: skip
        return found_bank, await context.memory.retrieval.find(tx, found_bank, filtered)

    found_bank, results = await context.memory.retrieval.run_question(context.store, q, work)
    if who.agent is not None:
        context.memory.uses.add(build_use(found_bank, who.agent.id, results))
    return HitList(bank=found_bank.name, hits=[hit_view(hit) for hit in results])


@router.get("/banks/{bank}/context")
async def show_context(
    bank: str,
    who: Who,
    context: Context,
    q: Annotated[
        str | None, Query(max_length=MAX_CHARACTERS, description="Question; without it, only blocks are included.")
    ] = None,
    user: User = None,
    stable_tokens: Annotated[
        int | None, Query(ge=0, le=MAX_TOKENS, description="Maximum tokens for blocks; by default from the policy.")
    ] = None,
    fitting_tokens: Annotated[
        int | None,
        Query(ge=0, le=MAX_TOKENS, description="Maximum tokens for notes and episodes; by default from the policy."),
    ] = None,
) -> ContextView:
    """Show the context that the bank adds to a prompt for this question, within the budgets.

    Access: operator, agents with access to the bank.
    """
    policy = who.agent.policy if who.agent else context.settings.defaults.policy()
    question: Question | None = await context.memory.retrieval.prepare_question(q) if q else None
    async with context.store.begin_read() as tx:
        found_bank = await context.memory.banks.open_bank(tx, who, bank, user=user)
        built = await context.memory.contexts.build(
            tx,
            found_bank,
            question,
            stable_tokens=policy.stable_tokens if stable_tokens is None else stable_tokens,
            fitting_tokens=policy.fitting_tokens if fitting_tokens is None else fitting_tokens,
        )
        hits = await context.memory.retrieval.fetch_hits(tx, found_bank, [hit.scored for hit in built.hits])
    if who.agent is not None:
        context.memory.uses.add(build_use(found_bank, who.agent.id, built.hits, built.blocks))
    return ContextView.of(
        built,
        bank=found_bank.name,
        blocks=[block.label for block in built.blocks],
        hits=[hit_view(hit) for hit in hits],
    )
