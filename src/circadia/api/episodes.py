"""Episodes of a bank: remember, read, demote, restore; search with explained scores, and the prompt context."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import Query
from pydantic import Field, StrictBool, StrictFloat

from circadia.agents.access import require_operator
from circadia.api.banks import User
from circadia.api.bodies import Body, Instant
from circadia.api.context import AfterNumber, ApiContext, Context, Limit, Who, fetch_page, noun_router
from circadia.errors import Forbidden
from circadia.ids import EpisodeId
from circadia.memory.banks import BankLayer, BankLayers
from circadia.memory.context import Context as Built
from circadia.memory.context import find_day
from circadia.memory.episodes import NewEpisode
from circadia.memory.layers import build_context_of, find_in_layers
from circadia.memory.search.question import SUPERSEDED, Question
from circadia.memory.search.retrieval import SearchHit, require_past
from circadia.memory.uses import build_uses
from circadia.records.agent import MAX_LAYERS, Name
from circadia.records.bank import Bank, Trust
from circadia.records.episode import Episode, EpisodeKind
from circadia.records.event import EpisodeDemotion, EventType
from circadia.records.index_entry import Layer
from circadia.records.note import Note, NoteKind
from circadia.records.principal import Principal
from circadia.records.value_filter import parse_filter
from circadia.schemas.banks import (
    ContextView,
    EpisodePage,
    EpisodeView,
    ForgottenEpisodeList,
    ForgottenEpisodeView,
    HitList,
    HitView,
    StaleChange,
    StoredEpisodeView,
)
from circadia.stores.base import Tx

router = noun_router("episodes")

MAX_REASON: Final = 2_000
"""Maximum length in characters."""
SHOWN: Final = 200
"""Characters of a forgotten episode in a list."""


class EpisodeBody(Body):
    """A new episode."""

    text: str = Field(description="Text, up to 100,000 characters.", examples=["Ann has moved to Porto."])
    speaker: str | None = Field(None, description="Speaker; by default the caller.", examples=["ann"])
    at: datetime | None = Field(None, description="When it happened, with time zone; by default now.")
    kind: EpisodeKind = Field(EpisodeKind.TURN, description="Kind of episode.")
    conversation: str | None = Field(None, description="Conversation of the episode.")
    trust: Trust | None = Field(
        None,
        description="Source of the text: by default `person` for the operator and `agent` for an agent. An agent may "
        "not send `person`.",
    )
    importance: StrictFloat | None = Field(None, description="Importance, 0 to 1.")
    metadata: dict[str, Any] = Field(default_factory=dict[str, Any], description="Further data, up to 16 KiB as JSON.")
    incomplete: StrictBool = Field(False, description="Whether it is the start of an interrupted answer.")
    key: str | None = Field(None, description="Idempotency key: an identical repeat stores nothing.")
    expires_at: datetime | None = Field(None, description="When to forget it, with time zone; by default never.")


class StaleBody(Body):
    """A demotion of an episode."""

    evidence: Name = Field(min_length=1, description="Evidence; each gives one demotion.", examples=["epi_0cwd…"])
    reason: str = Field("", max_length=MAX_REASON, description="Explanation.")
    weight: StrictFloat = Field(0.3, description="Factor for its score: more than 0, at most 1.")


@router.post("/banks/{bank}/episodes", status_code=201)
async def remember(bank: str, body: EpisodeBody, who: Who, context: Context, user: User = None) -> StoredEpisodeView:
    """Append an episode; the server answers after it is on disk, and calls no model.

    Access: operator, agents with write access to the bank.
    """
    values: dict[str, Any] = dict(body)
    values |= {"speaker": who.name if body.speaker is None else body.speaker, "trust": _trust_label(who, body.trust)}
    new = NewEpisode(**values)
    async with context.store.begin_write() as tx:
        found_bank = await context.memory.banks.open_bank(tx, who, bank, write=True, user=user)
        stored = await context.memory.episodes.remember(tx, found_bank, new)
        episode = await context.memory.episodes.get(tx, found_bank, stored.episode.id)
    return StoredEpisodeView.of(episode, bank=found_bank.name, new=stored.new)


@router.get("/banks/{bank}/episodes")
async def list_episodes(
    bank: str,
    who: Who,
    context: Context,
    user: User = None,
    conversation: Annotated[str | None, Query(description="Only from this conversation.")] = None,
    order: Annotated[Literal["oldest", "newest"], Query(description="`oldest` or `newest` first.")] = "oldest",
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> EpisodePage:
    """List a bank's episodes page by page. Access: operator, agents with access to the bank."""
    async with context.store.begin_read() as tx:
        found_bank = await context.memory.banks.open_bank(tx, who, bank, user=user)
        fetch = partial(tx.episodes.find_all, found_bank.id, conversation=conversation, newest_first=order == "newest")
        episodes, more = await fetch_page(
            lambda last, most: fetch(after=after if last is None else last.number, limit=most), limit
        )
    return EpisodePage(
        episodes=[EpisodeView.of(episode, bank=found_bank.name) for episode in episodes],
        after=episodes[-1].number if more else None,
    )


@router.get("/banks/{bank}/episodes/{episode}")
async def show_episode(bank: str, episode: str, who: Who, context: Context, user: User = None) -> EpisodeView:
    """Show an episode. Access: operator, agents with access to the bank."""
    async with context.store.begin_read() as tx:
        found_bank = await context.memory.banks.open_bank(tx, who, bank, user=user)
        return EpisodeView.of(
            await context.memory.episodes.get(tx, found_bank, EpisodeId(episode)), bank=found_bank.name
        )


@router.post("/banks/{bank}/episodes/{episode}/stale")
async def demote_episode(
    bank: str, episode: str, body: StaleBody, who: Who, context: Context, user: User = None
) -> StaleChange:
    """Rank an episode lower in searches, once per evidence; its text stays unchanged. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        found_bank = await context.memory.banks.get(tx, bank, user)
        changed = await context.memory.episodes.demote(
            tx,
            found_bank,
            EpisodeId(episode),
            by=who.name,
            reason=body.reason,
            evidence=body.evidence,
            weight=body.weight,
        )
        if changed:
            await _record_demotion(tx, context, found_bank, episode, body.evidence, who, demoted=True)
        row = await context.memory.episodes.get(tx, found_bank, EpisodeId(episode))
    return StaleChange.of(row, changed=changed)


@router.delete("/banks/{bank}/episodes/{episode}/stale/{evidence}")
async def restore_episode(
    bank: str, episode: str, evidence: str, who: Who, context: Context, user: User = None
) -> StaleChange:
    """Remove the demotion with this evidence. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        found_bank = await context.memory.banks.get(tx, bank, user)
        changed = await context.memory.episodes.restore(tx, found_bank, EpisodeId(episode), evidence=evidence)
        if changed:
            await _record_demotion(tx, context, found_bank, episode, evidence, who, demoted=False)
        row = await context.memory.episodes.get(tx, found_bank, EpisodeId(episode))
    return StaleChange.of(row, changed=changed)


async def _record_demotion(
    tx: Tx, context: ApiContext, bank: Bank, episode: str, evidence: str, who: Principal, *, demoted: bool
) -> None:
    data = EpisodeDemotion(bank=bank.name, by=who.name, episode=episode, evidence=evidence, demoted=demoted)
    await context.memory.events.record(tx, EventType.DEMOTED, data)


@router.get("/banks/{bank}/forgotten")
async def list_forgotten(bank: str, who: Who, context: Context, user: User = None) -> ForgottenEpisodeList:
    """List what agents have forgotten for their end users and a person can restore, within 7 days. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        found_bank = await context.memory.banks.get(tx, bank, user)
        rows = await context.memory.corrections.list_restorable(tx, found_bank)
    views = [
        ForgottenEpisodeView(
            id=row.episode.id, text=row.episode.text[:SHOWN], speaker=row.episode.speaker, at=row.episode.at,
            conversation=row.episode.conversation, by=row.by, forgotten_at=row.forgotten_at,
            restorable_until=row.restorable_until,
        )
        for row in rows
    ]  # fmt: skip
    return ForgottenEpisodeList(bank=found_bank.name, episodes=views)


@router.post("/banks/{bank}/forgotten/{episode}/restore")
async def restore_forgotten(bank: str, episode: str, who: Who, context: Context, user: User = None) -> EpisodeView:
    """Restore an episode that an agent has forgotten. The next pass reads it again. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        found_bank = await context.memory.banks.get(tx, bank, user)
        row = await context.memory.corrections.restore(tx, found_bank, EpisodeId(episode), by=who.name)
    return EpisodeView.of(row, bank=found_bank.name)


def _trust_label(who: Principal, stated: Trust | None) -> Trust:
    """Return the trust label of a text from this principal.

    Raises:
        Forbidden: an agent claims `person`; only the gateway and the operator know that.
    """
    if who.is_operator:
        return stated or Trust.PERSON
    if stated is Trust.PERSON:
        raise Forbidden("an agent may not say that a text came from a person; use `agent`, `tool` or `external`")
    return stated or Trust.AGENT


search_router = noun_router("memory")

MAX_CHARACTERS: Final = 10_000
"""Maximum length of a question."""
MAX_TOKENS: Final = 1_000_000
"""Maximum budget for a part of a context."""

Also = Annotated[
    list[Name] | None,
    Query(
        max_length=MAX_LAYERS - 1,
        description="Further banks to read with it, in order; may be repeated. One that does not exist, or that the "
        "caller may not open, is left out and named.",
    ),
]

Asked = Annotated[str, Query(max_length=MAX_CHARACTERS, description="Search text.")]

Where = Annotated[
    str | None,
    Query(
        max_length=MAX_CHARACTERS,
        description="Only episodes whose metadata match this filter, a JSON object.",
        examples=['{"tags": ["work", "home"], "score": {"gte": 3}, "state": {"not": "paused"}}'],
    ),
]

Recency = Annotated[
    float,
    Query(ge=0, le=10, allow_inf_nan=False, description="Score bonus of something that happens now; 0 means none."),
]
HalfLife = Annotated[
    float, Query(gt=0, le=36_500, allow_inf_nan=False, description="Days after which the `recency` bonus is halved.")
]
Importance = Annotated[
    float, Query(ge=0, le=10, allow_inf_nan=False, description="Score bonus of the most important; 0 means none.")
]
AsOf = Annotated[
    Instant, Query(description="Only what had happened and what was valid at this date or time; by default now.")
]


def hit_view(banks: BankLayers, found: SearchHit) -> HitView:
    item, passage = found.item, found.passage
    return HitView.of(
        item,
        bank=banks.name_of(found.bank),
        layer=found.scored.layer,
        text=found.text,
        trust=found.trust,
        passage=found.scored.passage or None,
        passages=found.passages or None,
        start=None if passage is None else passage.start,
        speaker=item.speaker if isinstance(item, Episode) else None,
        conversation=item.conversation if isinstance(item, Episode) else None,
        score=round(found.scored.score, 4),
        parts=found.scored.parts,
        evidence=item.evidence if isinstance(item, Note) else [],
        times=max(found.scored.times, 1),
        superseded=found.scored.times == SUPERSEDED,
        valid_to=item.valid_to if isinstance(item, Note) else None,
    )


async def _open_banks(
    context: ApiContext, tx: Tx, who: Principal, bank: str, also: Sequence[str] | None, user: str | None
) -> BankLayers:
    """Return the bank, with others if there are any to read with it."""
    first = await context.memory.banks.open_bank(tx, who, bank, user=user)
    if not also:
        return BankLayers(first=first)
    others = await context.memory.banks.open_layers(tx, who, also, user=user)
    layers = [layer for layer in others.layers if layer.bank.id != first.id]
    return replace(others, first=first, layers=[BankLayer(name=bank, bank=first), *layers])


async def _fetch_hits(context: ApiContext, tx: Tx, banks: BankLayers, built: Built) -> Sequence[SearchHit]:
    """Return the hits of a context with their whole rows."""
    hits: list[SearchHit] = []
    for bank in banks.banks:
        scored = [hit.scored for hit in built.hits if hit.bank == bank.id]
        hits += await context.memory.retrieval.fetch_hits(tx, bank, scored)
    return hits


@search_router.get("/banks/{bank}/search")
async def search_bank(
    bank: str,
    q: Asked,
    who: Who,
    context: Context,
    user: User = None,
    also: Also = None,
    limit: Annotated[int, Query(ge=1, le=200, description="Maximum number of rows.")] = 10,
    conversation: Annotated[str | None, Query(description="Only from this conversation.")] = None,
    speaker: Annotated[str | None, Query(description="Only from this speaker.")] = None,
    kind: Annotated[
        list[EpisodeKind | NoteKind] | None, Query(description="Only of this kind; may be repeated.")
    ] = None,
    trust: Annotated[list[Trust] | None, Query(description="Only from this source; may be repeated.")] = None,
    where: Where = None,
    since: Annotated[Instant, Query(description="At or after this date or time.")] = None,
    until: Annotated[Instant, Query(description="Before this date or time.")] = None,
    as_of: AsOf = None,
    layer: Annotated[list[Layer] | None, Query(description="`episodes` or `notes`; by default both.")] = None,
    recency: Recency = 0.0,
    half_life_days: HalfLife = 30.0,
    importance: Importance = 0.0,
) -> HitList:
    """Find episodes and notes by words and meaning, each with the parts of its score.

    Access: operator, agents with access to the bank. New episodes are found immediately.
    """

    async def work(tx: Tx, question: Question) -> tuple[BankLayers, Sequence[SearchHit]]:
        banks = await _open_banks(context, tx, who, bank, also, user)
        filtered = replace(
            question, limit=limit, conversation=conversation, speaker=speaker, where=parse_filter(where),
            kinds=tuple(row_kind.value for row_kind in kind or ()),
            trusts=tuple(trust_level.value for trust_level in trust or ()),
            since=None if since is None else since.timestamp(), until=None if until is None else until.timestamp(),
            layers=tuple(layer or Layer), recency=recency, half_life=half_life_days * 86_400, importance=importance,
        )  # fmt: skip
        return banks, await find_in_layers(context.memory.retrieval, tx, banks.banks, filtered)

    banks, results = await context.memory.retrieval.run_question(context.store, q, work, zone=who.zone, as_of=as_of)
    if who.agent is not None:
        context.memory.uses.add(*build_uses(banks.banks, who.agent.id, results))
    hits = [hit_view(banks, hit) for hit in results]
    return HitList(bank=banks.banks[0].name, hits=hits, left_out_banks=list(banks.left_out))


@search_router.get("/banks/{bank}/context")
async def show_context(
    bank: str,
    who: Who,
    context: Context,
    q: Annotated[
        str | None, Query(max_length=MAX_CHARACTERS, description="Question; without it, only blocks are included.")
    ] = None,
    user: User = None,
    also: Also = None,
    stable_tokens: Annotated[
        int | None, Query(ge=0, le=MAX_TOKENS, description="Maximum tokens for blocks; by default from the policy.")
    ] = None,
    fitting_tokens: Annotated[
        int | None,
        Query(ge=0, le=MAX_TOKENS, description="Maximum tokens for notes and episodes; by default from the policy."),
    ] = None,
    where: Where = None,
    as_of: AsOf = None,
) -> ContextView:
    """Show the context that the bank adds to a prompt for this question, within the budgets.

    Access: operator, agents with access to the bank.
    """
    policy = who.agent.policy if who.agent else context.settings.defaults.policy()
    if as_of is not None:
        require_past(as_of, context.clock.now())
    question: Question | None = None
    if q:
        prepared = await context.memory.retrieval.prepare_question(q, zone=who.zone, as_of=as_of)
        question = replace(prepared, where=parse_filter(where))
    async with context.store.begin_read() as tx:
        banks = await _open_banks(context, tx, who, bank, also, user)
        built = await build_context_of(
            context.memory.contexts, tx, banks, question, as_of=as_of,
            stable_tokens=policy.stable_tokens if stable_tokens is None else stable_tokens,
            fitting_tokens=policy.fitting_tokens if fitting_tokens is None else fitting_tokens,
            today=find_day(question),
        )  # fmt: skip
        hits = await _fetch_hits(context, tx, banks, built)
    if who.agent is not None:
        context.memory.uses.add(*build_uses(banks.banks, who.agent.id, built.hits, built.blocks))
    return ContextView.of(
        built,
        bank=banks.banks[0].name,
        blocks=[block.label for block in built.blocks],
        hits=[hit_view(banks, hit) for hit in hits],
        left_out_banks=list(banks.left_out),
    )
