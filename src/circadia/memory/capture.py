"""Decides what of a conversation becomes an episode, and writes it once (MEM-14, MEM-18)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from circadia.clock import Clock
from circadia.ids import EpisodeId
from circadia.memory.banks import Banks
from circadia.memory.context import unfenced
from circadia.memory.episodes import MAX_CHARACTERS, MAX_NAME, Episodes, NewEpisode
from circadia.memory.importance import importance, is_content
from circadia.memory.redaction import redacted
from circadia.records.agent import AgentPolicy
from circadia.records.bank import Bank, Capture, Trust
from circadia.records.episode import EpisodeKind
from circadia.stores.base import Tx

RETRY: Final = timedelta(hours=1)
"""A conversation that begins with the same words again within this time is a call that was sent again, unless who spoke
has said something else meanwhile: then it is said again, and is the newest of both."""
_BETWEEN: Final = 50
"""Episodes, the newest, in which what was said meanwhile is looked for."""
_MARGIN: Final = 10_000
"""Characters that are read beyond those that are kept, for what is taken out of them."""
_NOTICE: Final = re.compile(r"\s*<circadia-notice>[^<>]{0,500}</circadia-notice>")


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
    ready: bool = False
    """Whether it is the very question of a ready answer, or that answer, served."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """What one call added to a conversation."""

    policy: AgentPolicy
    """The agent's, which binds the bank."""
    user: str | None
    """The end user, if known."""
    session: str
    """The conversation."""
    said: Sequence[Utterance]
    """In order."""


class Capturing:
    """Writes exchanges."""

    def __init__(self, clock: Clock, banks: Banks, episodes: Episodes) -> None:
        self._clock = clock
        self._banks = banks
        self._episodes = episodes

    async def keep(self, tx: Tx, exchange: Exchange) -> None:
        """Write what the bank's policy lets become an episode and is not there yet; count what it leaves out."""
        bank = await self._banks.bound(tx, exchange.policy, exchange.user, make=True)
        if bank is None:
            return
        wanted = [each for each in exchange.said if not each.tool or bank.policy.capture_tools]
        under = _UnderWay(session=exchange.session)
        for each in wanted:
            await self._keep(tx, bank, each, under)
        if under.written:
            await self._episodes.touch(tx, bank)

    async def _keep(self, tx: Tx, bank: Bank, said: Utterance, under: "_UnderWay") -> None:
        """Write it, if it is to be and is not there yet."""
        whole = len(said.text)
        text = _clean(said.text[: MAX_CHARACTERS + _MARGIN])
        score = importance(text)
        skipped = _why_not(bank, text, score)
        if skipped is not None:
            await tx.banks.skip(bank.id, skipped)
            return
        key = await self._new_key(tx, bank, said, under)
        if key is None:
            return
        # What is taken out moves up what follows; at the end of it may stand half of a secret, which no pattern finds.
        cut = text[: min(MAX_CHARACTERS, len(text) - _MARGIN // 2)] if whole > MAX_CHARACTERS + _MARGIN else text
        cut = cut[:MAX_CHARACTERS]
        new = NewEpisode(
            text=cut, speaker=_name(said.speaker) or "user", trust=said.trust, at=min(said.at, self._clock.now()),
            kind=_kind(said), session=_name(under.session) or None,
            importance=score, metadata={} if cut == text else {"characters": whole},
            incomplete=said.incomplete, key=key,
        )  # fmt: skip
        under.written.append((await self._episodes.bring(tx, bank, new)).id)

    async def _new_key(self, tx: Tx, bank: Bank, said: Utterance, under: "_UnderWay") -> str | None:
        """Return the key to write under; none if the same was written before."""
        if said.unique:
            return None if await tx.episodes.by_key(bank.id, said.key) else said.key
        now = self._clock.now()
        span = int(now.timestamp() // RETRY.total_seconds())
        key = f"{said.key}@{span}"
        before = await tx.episodes.by_key(bank.id, key) or await tx.episodes.by_key(bank.id, f"{said.key}@{span - 1}")
        if before is None or before.stored_at <= now - RETRY:
            return key
        if not under.again:
            newest = await tx.episodes.every(bank.id, newest_first=True, limit=_BETWEEN)
            others = (
                each.number
                for each in newest
                if each.speaker == before.speaker and each.text != before.text and each.id not in under.written
            )
            other = next(others, 0)
            under.again = f"#{other}" if other > before.number else ""
        key = f"{said.key}{under.again}"
        return key if under.again and await tx.episodes.by_key(bank.id, key) is None else None


@dataclass(kw_only=True, slots=True)
class _UnderWay:
    """An exchange that is being written."""

    session: str
    """Its conversation."""
    written: list[EpisodeId] = field(default_factory=list[EpisodeId])
    """What is new of it."""
    again: str = ""
    """What tells it from the same that was said before; empty if it is not said again, or is sent again."""


def _why_not(bank: Bank, text: str, score: float) -> str | None:
    """Return why the bank's policy leaves a text out; none if it takes it."""
    if bank.policy.capture is Capture.EXPLICIT:
        return "explicit"
    if not text or (bank.policy.capture is Capture.CONTENT and not is_content(text)):
        return "no_content"
    if score < bank.policy.min_importance:
        return "importance"
    return None


def _kind(said: Utterance) -> EpisodeKind:
    if said.tool:
        return EpisodeKind.TOOL
    return EpisodeKind.READY if said.ready else EpisodeKind.TURN


def _clean(text: str) -> str:
    """Return what may be written: no secrets, nothing that Circadia itself put there, only what databases can hold."""
    text = text.replace("\0", "").encode("utf-8", "replace").decode()
    return redacted(_NOTICE.sub("", unfenced(text))).strip()


def _name(name: str) -> str:
    return name.replace("\0", "").encode("utf-8", "replace").decode().strip()[:MAX_NAME]
