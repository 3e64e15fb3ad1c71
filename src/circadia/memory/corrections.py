"""An agent corrects or forgets what its end user said, a few times a day, and a person can undo it (MEM-39)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Final

from circadia.clock import Clock
from circadia.errors import Forbidden, InvalidRequest, LimitReached, NotFound
from circadia.ids import ConversationId, EpisodeId, NoteId
from circadia.memory.episodes import EpisodeService, NewEpisode
from circadia.memory.forgetting import forget
from circadia.records.agent import Agent
from circadia.records.bank import Bank, Trust
from circadia.records.conversation import display_alias
from circadia.records.episode import RESTORABLE, Episode, EpisodeKind, ForgottenEpisode
from circadia.records.event import EpisodeCorrection, EpisodeDeletion, EpisodeRestoration, EventType
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog

MAX_PER_DAY: Final = 20
"""Corrections by agents that a bank takes in a UTC day."""
MAX_REASON: Final = 200
"""Characters of a correction that its demotion repeats."""
UNNAMED: Final = "user"
"""Speaker of the turns of a person whom no call names."""
CORRECTS: Final = "corrects"
"""Key of the metadata of a correction: the id of the episode that is wrong."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Correction:
    episode: Episode
    """The wrong one."""
    correction: EpisodeId
    """What is right: an episode that the next pass reads."""
    new: bool
    """False for a repeat."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Forgetting:
    forgotten: ForgottenEpisode
    new: bool
    """False for a repeat."""


class CorrectionService:
    def __init__(self, clock: Clock, episodes: EpisodeService, events: EventLog) -> None:
        self._clock = clock
        self._episodes = episodes
        self._events = events

    async def correct(self, tx: Tx, bank: Bank, agent: Agent, episode_id: EpisodeId, text: str) -> Correction:
        """Demote an episode of the end user, and store what is right; the next pass reads both.

        Raises:
            Forbidden, NotFound, InvalidRequest: as `_get_own`, or there is no text. LimitReached: it is too much for a
                day.
        """
        _require_grant(agent)
        episode = await _get_own(tx, bank, agent, episode_id)
        stored = await self._episodes.remember(
            tx, bank,
            NewEpisode(
                text=text, speaker=agent.name, trust=Trust.AGENT, kind=EpisodeKind.FACT,
                conversation=episode.conversation, metadata={CORRECTS: episode.id},
            ),
        )  # fmt: skip
        correction = stored.episode.id
        is_new = await self._episodes.demote(
            tx, bank, episode.id, by=agent.reference, reason=stored.episode.text[:MAX_REASON], evidence=correction
        )
        if is_new:
            await self._count(tx, bank)
            data = EpisodeCorrection(bank=bank.name, by=agent.reference, episode=episode.id, correction=correction)
            await self._events.record(tx, EventType.CORRECTED, data)
        return Correction(episode=episode, correction=correction, new=is_new)

    async def forget(self, tx: Tx, bank: Bank, agent: Agent, episode_id: EpisodeId) -> Forgetting:
        """Delete what rests on an episode of the end user, and keep the episode apart until `RESTORABLE` is over.

        Raises:
            Forbidden, NotFound, InvalidRequest: as `_get_own`. LimitReached: it is too much for a day.
        """
        _require_grant(agent)
        before = await tx.forgotten_episodes.get(bank.id, episode_id)
        if before is not None:
            await _require_own(tx, bank, agent, before.episode)
            return Forgetting(forgotten=before, new=False)
        episode = await _get_own(tx, bank, agent, episode_id)
        await self._count(tx, bank)
        counts = await forget(tx, bank, [episode.id])
        forgotten = ForgottenEpisode(episode=episode, by=agent.reference, forgotten_at=self._clock.now())
        await tx.forgotten_episodes.save(forgotten)
        data = EpisodeDeletion(
            bank=bank.name, by=agent.reference, episodes=counts.episodes, notes=counts.notes, versions=counts.versions,
            episode=episode.id, restorable_until=forgotten.restorable_until,
        )  # fmt: skip
        await self._events.record(tx, EventType.FORGOTTEN, data)
        return Forgetting(forgotten=forgotten, new=True)

    async def list_restorable(self, tx: Tx, bank: Bank) -> Sequence[ForgottenEpisode]:
        """Return what agents have forgotten, the newest first."""
        rows = await tx.forgotten_episodes.find_all(bank.id)
        return [row for row in rows if self._clock.now() < row.restorable_until]

    async def restore(self, tx: Tx, bank: Bank, episode_id: EpisodeId, *, by: str) -> Episode:
        """Put an episode back that an agent has forgotten; the next pass reads it again. Raises NotFound."""
        forgotten = await tx.forgotten_episodes.get(bank.id, episode_id)
        if forgotten is None or self._clock.now() >= forgotten.restorable_until:
            raise NotFound(
                f"bank {bank.name!r} keeps no forgotten episode {episode_id!r}; what an agent forgets can be restored "
                f"for {RESTORABLE.days} days"
            )
        await tx.forgotten_episodes.remove([episode_id])
        episode = await self._episodes.put_back(tx, bank, forgotten.episode)
        data = EpisodeRestoration(bank=bank.name, by=by, episode=episode_id)
        await self._events.record(tx, EventType.RESTORED, data)
        return episode

    async def _count(self, tx: Tx, bank: Bank) -> None:
        now = self._clock.now()
        if await tx.banks.count_correction(bank.id, now.date(), limit=MAX_PER_DAY):
            return
        tomorrow = datetime.combine(now.date() + timedelta(days=1), time(), now.tzinfo)
        raise LimitReached(
            f"agents have corrected and forgotten {MAX_PER_DAY} episodes of bank {bank.name!r} today, which is the "
            "limit; go on after midnight (UTC), or ask a person to do it (`circadia banks forget`)",
            retry_after_seconds=(tomorrow - now).total_seconds(),
        )


async def _get_own(tx: Tx, bank: Bank, agent: Agent, episode_id: EpisodeId) -> Episode:
    """Return an episode that the agent's end user said.

    Raises:
        Forbidden: as `_require_own`. NotFound: there is none. InvalidRequest: the id is that of a note.
    """
    episode = await tx.episodes.get(bank.id, episode_id)
    if episode is None:
        note = await tx.notes.get(bank.id, NoteId(episode_id))
        if note is None:
            raise NotFound(f"no episode {episode_id!r} in bank {bank.name!r}; `recall` shows the ids")
        sources = ", ".join(map(repr, note.evidence))
        raise InvalidRequest(f"{episode_id!r} is a note; name an episode that it rests on: {sources}")
    await _require_own(tx, bank, agent, episode)
    return episode


async def _require_own(tx: Tx, bank: Bank, agent: Agent, episode: Episode) -> None:
    """Raise Forbidden unless the agent's end user said it: the owner of the bank; without one, the agent's only person.

    The agent itself does not say who that is. It may be wrong, or told so by a text.
    """
    names = [bank.end_user]
    if bank.end_user is None:
        if agent.policy.multi_user:
            raise Forbidden(
                f"bank {bank.name!r} is shared by the people whom {agent.reference!r} serves, so none of them owns an "
                "episode of it; ask a person to do it (`circadia banks forget`)"
            )
        conversation = await tx.conversations.get(agent.id, ConversationId(episode.conversation or ""))
        names = [UNNAMED, None if conversation is None else conversation.end_user]
    if episode.speaker not in {alias for name in names if name for alias in (name, display_alias(name))}:
        raise Forbidden(
            f"{episode.speaker!r} said episode {episode.id!r}, and not the end user of {agent.reference!r}; ask a "
            "person to do it (`circadia banks forget`)"
        )


def _require_grant(agent: Agent) -> None:
    if not agent.policy.may_correct_memory:
        raise Forbidden(
            f"{agent.reference!r} may not correct memories; the operator can grant it with `correct_memory: true`, or "
            "with `preset: personal`"
        )
