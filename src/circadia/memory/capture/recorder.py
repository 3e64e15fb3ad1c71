"""Decides what of a conversation becomes an episode, and writes it once (MEM-14, MEM-18)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from circadia.clock import Clock
from circadia.ids import BankId, EpisodeId
from circadia.memory.banks import BankService
from circadia.memory.capture.importance import importance, is_content
from circadia.memory.context import strip_fences
from circadia.memory.episodes import MAX_CHARACTERS, MAX_NAME, EpisodeService, NewEpisode
from circadia.memory.redaction import redact
from circadia.records.agent import AgentPolicy
from circadia.records.bank import Bank, Capture, Trust
from circadia.records.episode import EpisodeKind
from circadia.stores.base import Tx
from circadia.time_slice import TimeSlice

RETRY: Final = timedelta(hours=1)
"""A conversation that begins with the same words again within this time is a call that was sent again, unless who spoke
has said something else meanwhile: then it is said again, and is the newest of both."""
_BETWEEN: Final = 50
"""Episodes, the newest, in which what was said meanwhile is looked for."""
_LEFT_OUT: Final = "\n[…]\n"
"""Stands for the middle of a text that is too long."""
_HALF: Final = (MAX_CHARACTERS - len(_LEFT_OUT)) // 2
_MARGIN: Final = 10_000
"""Characters that are read beyond those that are kept, for what is taken out of them."""
_WORD_END: Final = re.compile(r"\A\S*")
_NOTICE: Final = re.compile(r"(?<!\s)\s*<circadia-notice>[^<>]{0,500}</circadia-notice>")


@dataclass(frozen=True, kw_only=True, slots=True)
class Utterance:
    """One thing that was said in a conversation."""

    text: str
    """What was said, as it came."""
    speaker: str
    """Who said it."""
    trust: Trust
    """Where it came from."""
    key: str
    """What tells it from all others of its bank, the same however often its call is sent."""
    unique: bool
    """Whether the key can stand for nothing else ever; else it does for the time of `RETRY`."""
    at: datetime
    """When."""
    tool: bool = False
    """Whether it is a call of a tool, or its result."""
    incomplete: bool = False
    """Whether it broke off."""
    turn: bool = False
    """Whether it is a user's turn, in which a program may hand on what others have said."""
    vouched: bool = False
    """Whether its caller says where it comes from."""
    ready: bool = False
    """Whether it is the very question of a ready answer, or that answer, served."""
    characters: int = 0
    """Of the text as it came, once it is clean."""
    importance: float = 0.0
    """Of the text, once it is clean."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """What one call added to a conversation."""

    policy: AgentPolicy
    """The agent's, which binds the bank."""
    user: str | None
    """The end user, if known."""
    session: str
    """The conversation."""
    agent_session: str = "default"
    """The session of the agent."""
    said: Sequence[Utterance]
    """In order."""
    chore: bool = False
    """Whether a program asked it about the conversation: none of it is kept."""
    kept: bool = True
    """Whether its agent keeps anything; else it is only known whose word it is."""


@dataclass(kw_only=True, slots=True)
class _ExchangeProgress:
    """An exchange that is being written."""

    session: str
    """Its conversation."""
    written: list[EpisodeId] = field(default_factory=list[EpisodeId])
    """What is new of it."""
    again: str = ""
    """What tells it from the same that was said before; empty if it is not said again, or is sent again."""


class _EpisodeCandidate(NamedTuple):
    """Something that a bank takes, if it has not got it."""

    said: Utterance
    under: _ExchangeProgress
    keys: Sequence[str]
    """The key to write it under, and others that it may be there under."""


class ExchangeRecorder:
    """Writes exchanges."""

    def __init__(self, clock: Clock, banks: BankService, episodes: EpisodeService) -> None:
        self._clock = clock
        self._banks = banks
        self._episodes = episodes
        self._slice = TimeSlice()

    async def clean(self, exchanges: Sequence[Exchange]) -> Sequence[Exchange]:
        """Return the exchanges as they may be written; others wait for a write block, so this comes before it."""
        cleaned: list[Exchange] = []
        for exchange in exchanges:
            said: list[Utterance] = []
            for each in exchange.said:
                text = _clean_and_shorten(each.text)
                said.append(replace(each, text=text, characters=len(each.text), importance=importance(text)))
                await self._slice.yield_at_end()
            cleaned.append(replace(exchange, said=said))
        return cleaned

    async def keep(self, tx: Tx, exchanges: Sequence[Exchange]) -> None:
        """Write what the banks' policies let become an episode and is not there yet; count what they leave out.

        The exchanges are clean.

        Banks and keys are looked up for all together: a look-up costs as much as what it is for.
        """
        bound: dict[tuple[str | None, bool, str | None], Bank | None] = {}
        wanted: dict[BankId, tuple[Bank, list[_EpisodeCandidate]]] = {}
        for exchange in exchanges:
            policy, user = exchange.policy, exchange.user
            whose = (policy.bank, policy.multi_user, user)
            if whose not in bound:
                bound[whose] = await self._banks.resolve_bound_bank(tx, policy, user, make=True)
            bank = bound[whose]
            if bank is not None:
                takes = wanted.setdefault(bank.id, (bank, []))[1]
                under = _ExchangeProgress(session=exchange.session)
                for said in exchange.said:
                    if exchange.chore:
                        await tx.banks.count_skipped_turn(bank.id, "chore")
                    elif not said.tool or bank.policy.capture_tools:
                        await self._add_candidate(tx, bank, said, under, takes)
            await self._slice.yield_at_end()  # all of it is work of the event loop, and calls want it too
        for bank, takes in wanted.values():
            await self._write(tx, bank, takes)

    async def _add_candidate(
        self, tx: Tx, bank: Bank, said: Utterance, under: _ExchangeProgress, takes: list[_EpisodeCandidate]
    ) -> None:
        """Add it to what the bank takes, or count why not."""
        skipped = _skip_reason(bank, said)
        if skipped is not None:
            await tx.banks.count_skipped_turn(bank.id, skipped)
            return
        keys = [said.key]
        if not said.unique:
            span = int(self._clock.now().timestamp() // RETRY.total_seconds())
            keys = [f"{said.key}@{span}", f"{said.key}@{span - 1}"]
        takes.append(_EpisodeCandidate(said, under, keys))

    async def _write(self, tx: Tx, bank: Bank, takes: Sequence[_EpisodeCandidate]) -> None:
        """Write what the bank has not got."""
        stored = dict(await tx.episodes.find_stored_times(bank.id, [key for each in takes for key in each.keys]))
        new = False
        for each in takes:
            said, under = each.said, each.under
            key = await self._new_key(tx, bank, each, stored)
            if key is None:
                continue
            now = self._clock.now()
            episode = NewEpisode(
                text=said.text, speaker=_clean_name(said.speaker) or "user", trust=said.trust, at=min(said.at, now),
                kind=_episode_kind(said), session=_clean_name(under.session) or None,
                importance=said.importance,
                metadata={"characters": said.characters} if said.characters > MAX_CHARACTERS else {},
                incomplete=said.incomplete, key=key,
            )  # fmt: skip
            under.written.append((await self._episodes.append(tx, bank, episode)).id)
            await self._slice.yield_at_end()
            stored[key] = now
            new = True
        if new:
            await self._episodes.touch(tx, bank)

    async def _new_key(
        self, tx: Tx, bank: Bank, wanted: _EpisodeCandidate, stored: Mapping[str, datetime]
    ) -> str | None:
        """Return the key to write under; none if the same was written before. `stored` tells when keys were."""
        key, under = wanted.keys[0], wanted.under
        found = next((each for each in wanted.keys if each in stored), None)
        if found is None:
            return key
        if wanted.said.unique:
            return None
        if stored[found] <= self._clock.now() - RETRY:
            return key
        before = await tx.episodes.get_by_key(bank.id, found)
        if before is None:
            return None
        if not under.again:
            newest = await tx.episodes.find_all(bank.id, newest_first=True, limit=_BETWEEN)
            others = (
                each.number
                for each in newest
                if each.speaker == before.speaker and each.text != before.text and each.id not in under.written
            )
            other = next(others, 0)
            under.again = f"#{other}" if other > before.number else ""
        key = f"{wanted.said.key}{under.again}"
        return key if under.again and await tx.episodes.get_by_key(bank.id, key) is None else None


def _skip_reason(bank: Bank, said: Utterance) -> str | None:
    """Return why the bank's policy leaves it out; none if it takes it."""
    if bank.policy.capture is Capture.EXPLICIT:
        return "explicit"
    if not said.text or (bank.policy.capture is Capture.CONTENT and not is_content(said.text)):
        return "no_content"
    if said.importance < bank.policy.least_importance:
        return "importance"
    return None


def _episode_kind(said: Utterance) -> EpisodeKind:
    if said.tool:
        return EpisodeKind.TOOL
    return EpisodeKind.READY if said.ready else EpisodeKind.TURN


def _clean_and_shorten(said: str) -> str:
    """Return what may be written of a text; of one that is too long for an episode, how it begins and how it ends.

    Who pastes a file asks behind it as often as before it.
    """
    if len(said) > MAX_CHARACTERS + _MARGIN:
        # What is taken out moves what is beside it; at a cut may stand half of a secret, which no pattern finds.
        begins = _clean(said[: _HALF + _MARGIN])[: -_MARGIN // 2]
        ends = _clean(said[-_HALF - _MARGIN :])[_MARGIN // 2 :]
        ends = _WORD_END.sub("", ends, count=1)  # the end of a very long secret would be no secret by itself
    else:
        begins = ends = _clean(said)
        if len(begins) <= MAX_CHARACTERS:
            return begins
    return _LEFT_OUT.join(filter(None, (begins[:_HALF].rstrip(), ends[-_HALF:].lstrip())))


def _clean(text: str) -> str:
    """Return what may be written: no secrets, nothing that Circadia itself put there, only what databases can hold."""
    text = text.replace("\0", "").encode("utf-8", "replace").decode()
    return redact(_NOTICE.sub("", strip_fences(text))).strip()


def _clean_name(name: str) -> str:
    return name.replace("\0", "").encode("utf-8", "replace").decode().strip()[:MAX_NAME]
