"""Episodes of a bank: remember, read, demote and restore."""

from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import Query
from pydantic import Field, StrictBool, StrictFloat

from circadia.agents.access import require_operator
from circadia.api.bodies import Body
from circadia.api.context import Context, Who, noun_router
from circadia.api.memory.banks import User
from circadia.api.pages import fetch_page
from circadia.errors import Forbidden
from circadia.ids import EpisodeId
from circadia.memory.episodes import NewEpisode
from circadia.records.agent import MOST_COUNTED, Name
from circadia.records.bank import Trust
from circadia.records.episode import EpisodeKind
from circadia.records.principal import Principal
from circadia.schemas.episodes import EpisodePage, EpisodeView, StaleChange, StoredEpisodeView

router = noun_router("episodes")

MAX_REASON: Final = 2_000
"""Maximum length in characters."""


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
    speaker = who.name if body.speaker is None else body.speaker
    new = NewEpisode(**{**dict(body), "speaker": speaker, "trust": _trust_label(who, body.trust)})
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
    after: Annotated[int, Query(ge=0, le=MOST_COUNTED, description="Number of the last row on the previous page.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of rows.")] = 100,
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
        row = await context.memory.episodes.get(tx, found_bank, EpisodeId(episode))
    return StaleChange.of(row, changed=changed)


def _trust_label(who: Principal, given: Trust | None) -> Trust:
    """Return the trust label of a text from this principal.

    Raises:
        Forbidden: an agent claims `person`; only the gateway and the operator know that.
    """
    if who.is_operator:
        return given or Trust.PERSON
    if given is Trust.PERSON:
        raise Forbidden("an agent may not say that a text came from a person; use `agent`, `tool` or `external`")
    return given or Trust.AGENT
