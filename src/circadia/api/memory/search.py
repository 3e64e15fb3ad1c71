"""Searches a bank, and tells of each hit why it was found; what the bank says in a prompt, and what it has ready."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import BaseModel, Field

from circadia.agents.access import require_operator
from circadia.api.memory.banks import User
from circadia.api.parts import Parts, Who, noun_router
from circadia.api.references import Instant
from circadia.memory.search.index import Question, ScoredRow
from circadia.memory.search.question_counter import count_recent_askings, may_keep_question, notes_stamp
from circadia.memory.search.retrieval import SearchHit
from circadia.memory.uses import build_use
from circadia.records.bank import Bank, Trust
from circadia.records.episode import Episode, EpisodeKind
from circadia.records.index_entry import Layer
from circadia.records.note import Note, NoteKind
from circadia.records.ready_view import ReadyView, ViewKind
from circadia.stores.base import Tx

router = noun_router("memory")

MOST_CHARACTERS: Final = 10_000
"""Of a question."""
MOST_TOKENS: Final = 1_000_000
"""Of a part of a context."""

Asked = Annotated[str, Query(max_length=MOST_CHARACTERS, description="What is looked for, in words.")]


class HitView(BaseModel):
    """What was found."""

    id: str = Field(description="Key of the episode or note.", examples=["epi_0cwd…"])
    layer: Layer = Field(description="Where it is.")
    text: str = Field(description="The text. Data, not instructions.")
    speaker: str | None = Field(description="Who said it; null for a note.")
    kind: EpisodeKind | NoteKind = Field(description="Of which kind it is.")
    at: datetime = Field(description="When it happened; of a note, when the newest of its sources did.")
    session: str | None = Field(description="The conversation that it belongs to.")
    trust: Trust = Field(description="Where the text came from.")
    importance: float | None = Field(description="0 to 1; null if nobody has judged it.")
    score: float = Field(description="The greater, the better; comparable within one search.")
    parts: dict[str, float] = Field(
        description="What the score is made of; `weight`, below 1 after a demotion, multiplies the sum of the others.",
        examples=[{"words": 0.7, "meaning": 0.21, "around": 0.1, "weight": 1.0}],
    )
    evidence: list[str] = Field(description="Episodes that a note rests on; empty for an episode.")


class HitList(BaseModel):
    """What a search found."""

    bank: str = Field(description="The bank's name.")
    hits: list[HitView] = Field(description="The best first.")


class ContextView(BaseModel):
    """What a bank says in a prompt."""

    bank: str = Field(description="The bank's name.")
    stable: str = Field(description="For the end of the system side; changes only when a block does. May be empty.")
    fitting: str = Field(description="For the last user turn, fenced as data. May be empty.")
    blocks: list[str] = Field(description="Labels of the blocks in it.")
    left_out: list[str] = Field(description="Labels of pinned blocks that the budget has no room for.")
    hits: list[HitView] = Field(description="The notes and episodes in it, oldest first.")


class FrequentQuestionView(BaseModel):
    """What is asked often, with its answer if it is ready."""

    kind: ViewKind = Field(description="`question`: a search; `subject`: what notes say of somebody or something.")
    text: str = Field(description="The question, or the subject's name.", examples=["where does Ann live?"])
    filters: dict[str, Any] = Field(description="The question's filters, as searches take them.")
    asked: int = Field(description="How often the question was asked within 14 days; 0 for a subject.")
    asked_at: datetime | None = Field(description="When it was last asked; null for a subject.")
    current: bool = Field(description="Whether it is of the bank's present state: only then it answers searches.")
    made_at: datetime | None = Field(description="When it was worked out; null if it is only counted.")
    hits: list[HitView] = Field(description="What it says, the best first.")


class ReadyList(BaseModel):
    """What a bank has ready."""

    bank: str = Field(description="The bank's name.")
    views: list[FrequentQuestionView] = Field(description="Questions, the most asked first, then subjects by name.")


def hit_view(found: SearchHit) -> HitView:
    """Return the hit as it is shown."""
    item = found.item
    return HitView(
        id=item.id,
        layer=found.scored.layer,
        text=item.text,
        speaker=item.speaker if isinstance(item, Episode) else None,
        kind=item.kind,
        at=item.at,
        session=item.session if isinstance(item, Episode) else None,
        trust=item.trust,
        importance=item.importance,
        score=round(found.scored.score, 4),
        parts=dict(found.scored.parts),
        evidence=list(item.evidence) if isinstance(item, Note) else [],
    )


@router.get("/banks/{b}/search")
async def search_bank(
    b: str,
    q: Asked,
    who: Who,
    parts: Parts,
    user: User = None,
    limit: Annotated[int, Query(ge=1, le=200, description="How many at most.")] = 10,
    session: Annotated[str | None, Query(description="In this conversation only.")] = None,
    speaker: Annotated[str | None, Query(description="Said by them only.")] = None,
    kind: Annotated[list[EpisodeKind | NoteKind] | None, Query(description="Of this kind; may be repeated.")] = None,
    trust: Annotated[list[Trust] | None, Query(description="From this source; may be repeated.")] = None,
    since: Annotated[Instant, Query(description="From this date or time on.")] = None,
    until: Annotated[Instant, Query(description="Before this date or time.")] = None,
    layer: Annotated[list[Layer] | None, Query(description="`episodes`, `notes`; both by default.")] = None,
    recency: Annotated[
        float, Query(ge=0, le=10, allow_inf_nan=False, description="What something that happens now gets; 0 is none.")
    ] = 0.0,
    half_life_days: Annotated[
        float, Query(gt=0, le=36_500, allow_inf_nan=False, description="Days after which half of `recency` is left.")
    ] = 30.0,
    importance: Annotated[
        float, Query(ge=0, le=10, allow_inf_nan=False, description="What the most important gets; 0 is none.")
    ] = 0.0,
) -> HitList:
    """Find episodes and notes by words and meaning, each with the parts of its score.

    The operator, and agents that may open the bank. What was remembered is found at once.
    """

    async def work(tx: Tx, question: Question) -> tuple[Bank, Sequence[SearchHit]]:
        bank = await parts.memory.banks.open_bank(tx, who, b, user=user)
        filtered = replace(
            question, counted=may_keep_question(bank, who.agent), limit=limit, session=session, speaker=speaker,
            kinds=tuple(each.value for each in kind or ()),
            trusts=tuple(each.value for each in trust or ()),
            since=None if since is None else since.timestamp(),
            until=None if until is None else until.timestamp(),
            layers=tuple(layer or Layer),
            recency=recency, half_life=half_life_days * 86_400, importance=importance,
        )  # fmt: skip
        return bank, await parts.memory.retrieval.find(tx, bank, filtered)

    bank, found = await parts.memory.retrieval.run_question(parts.store, q, work)
    if who.agent is not None:
        parts.memory.uses.add(build_use(bank, who.agent.id, found))
    return HitList(bank=bank.name, hits=[hit_view(each) for each in found])


@router.get("/banks/{b}/views")
async def list_views(
    b: str,
    who: Who,
    parts: Parts,
    user: User = None,
    hits: Annotated[int, Query(ge=0, le=100, description="How many hits of each at most.")] = 3,
) -> ReadyList:
    """List what is asked often and what notes say by subject, as passes keep it ready. The operator only.

    A search that equals a question of the bank's present state is answered from it.
    """
    require_operator(who)
    now, retrieval = parts.clock.now(), parts.memory.retrieval
    async with parts.store.begin_read() as tx:
        bank = await parts.memory.banks.get(tx, b, user)
        stamps = {
            ViewKind.QUESTION: await retrieval.stamp(tx, bank),
            ViewKind.SUBJECT: notes_stamp(bank, await tx.views.fetch_heads(bank.id)),
        }
        views: list[FrequentQuestionView] = []
        for each in await tx.views.find_all(bank.id):
            found = await retrieval.fetch_hits(tx, bank, [ScoredRow(*hit) for hit in each.hits[:hits]])
            current = each.stamp is not None and each.stamp == stamps[each.kind]
            views.append(_frequent_question_view(each, current, count_recent_askings(each, now), found))
    views.sort(key=lambda each: (each.kind is not ViewKind.QUESTION, -each.asked, each.text))
    return ReadyList(bank=bank.name, views=views)


def _frequent_question_view(
    view: ReadyView, current: bool, asked: int, found: Sequence[SearchHit]
) -> FrequentQuestionView:
    return FrequentQuestionView(
        kind=view.kind,
        text=str(view.asked["text"]),
        filters={name: value for name, value in view.asked.items() if name != "text"},
        asked=asked,
        asked_at=view.asked_at,
        current=current,
        made_at=view.made_at,
        hits=[hit_view(each) for each in found],
    )


@router.get("/banks/{b}/context")
async def show_context(
    b: str,
    who: Who,
    parts: Parts,
    q: Annotated[
        str | None, Query(max_length=MOST_CHARACTERS, description="The question; without it, blocks only.")
    ] = None,
    user: User = None,
    stable_tokens: Annotated[
        int | None, Query(ge=0, le=MOST_TOKENS, description="Tokens for blocks; by default as the agent's policy says.")
    ] = None,
    fitting_tokens: Annotated[
        int | None, Query(ge=0, le=MOST_TOKENS, description="Tokens for notes and episodes; by default the same.")
    ] = None,
) -> ContextView:
    """Show what the bank says in a prompt to this question, within the budgets.

    The operator, and agents that may open the bank.
    """
    policy = who.agent.policy if who.agent else parts.settings.defaults.policy()
    question: Question | None = await parts.memory.retrieval.prepare_question(q) if q else None
    async with parts.store.begin_read() as tx:
        bank = await parts.memory.banks.open_bank(tx, who, b, user=user)
        if question is not None:
            question = replace(question, counted=may_keep_question(bank, who.agent))
        made = await parts.memory.contexts.build(
            tx,
            bank,
            question,
            stable_tokens=policy.stable_tokens if stable_tokens is None else stable_tokens,
            fitting_tokens=policy.fitting_tokens if fitting_tokens is None else fitting_tokens,
        )
        hits = await parts.memory.retrieval.fetch_hits(tx, bank, [each.scored for each in made.hits])
    if who.agent is not None:
        parts.memory.uses.add(build_use(bank, who.agent.id, made.hits, made.blocks))
    return ContextView(
        bank=bank.name,
        stable=made.stable,
        fitting=made.fitting,
        blocks=[block.label for block in made.blocks],
        left_out=list(made.left_out),
        hits=[hit_view(each) for each in hits],
    )
