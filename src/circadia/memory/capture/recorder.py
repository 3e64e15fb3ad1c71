"""Decide which parts of a conversation become episodes, and write each once (MEM-14, MEM-18)."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from circadia.caches import BoundedDict
from circadia.characters import fold_text
from circadia.clock import Clock, TimeSlice
from circadia.ids import BankId, EpisodeId
from circadia.memory.banks import BankService, needs_user
from circadia.memory.capture.harness import SILENCE
from circadia.memory.capture.importance import importance, is_content
from circadia.memory.context import strip_fences
from circadia.memory.episodes import MAX_CHARACTERS, MAX_NAME, EpisodeService, NewEpisode
from circadia.memory.redaction import redact
from circadia.records.agent import AgentPolicy
from circadia.records.bank import Bank, CaptureMode, Trust
from circadia.records.episode import CHARACTERS, EpisodeKind
from circadia.stores.base import Tx
from circadia.stores.locks import LockKey, bank_key

RETRY: Final = timedelta(hours=1)
"""A conversation that starts with the same words within this time is a retry, unless the speaker has said something
else since: then it is a repetition, and becomes a new episode."""
REMEMBERED_BANKS: Final = 10_000
"""Banks whose ids are kept, about 300 bytes each."""
ECHO: Final = "repeats_memory"
"""Why an answer is skipped that says nothing but what memory has shown."""
SHORTEST_ECHO: Final = 24
"""Fewest bytes of a line's letters that may repeat memory; anybody says a shorter one."""
_NO_LETTERS: Final = re.compile(r"[^\w\n]|_")
_BETWEEN: Final = 50
"""Newest episodes that are searched for what was said since."""
_LEFT_OUT: Final = "\n[…]\n"
"""Replaces the middle of a text that is too long."""
_HALF: Final = (MAX_CHARACTERS - len(_LEFT_OUT)) // 2
_MARGIN: Final = 10_000
"""Characters read beyond those that are kept, to make up for removed ones."""
_WORD_END: Final = re.compile(r"\A\S*")
_NOTICE: Final = re.compile(r"(?<!\s)\s*<circadia-notice>[^<>]{0,500}</circadia-notice>")


@dataclass(frozen=True, kw_only=True, slots=True)
class Utterance:
    text: str
    speaker: str
    trust: Trust
    key: str
    """Identifies it in its bank; the same for each retry of its call."""
    unique: bool
    """Whether the key is unique permanently, or only within `RETRY`."""
    at: datetime
    tool: bool = False
    """Whether it is a tool call or a tool result."""
    incomplete: bool = False
    turn: bool = False
    """Whether it is a user turn, in which a program may forward what others said."""
    vouched: bool = False
    """Whether its caller states its origin."""
    ready: bool = False
    """Whether it is the question of a ready answer, or that answer."""
    characters: int = 0
    """Length of the text before it was shortened."""
    importance: float = 0.0
    is_echo: bool = False
    """Whether it is an answer that repeats nothing but shown memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """What one call added to a conversation."""

    policy: AgentPolicy
    user: str | None
    conversation: str
    agent_session: str = "default"
    said: Sequence[Utterance]
    chore_reason: str = ""
    """Why a program asked for itself; then nothing is stored, and this is counted."""
    kept: bool = True
    """Whether the agent stores anything; else only the attribution of texts is remembered."""
    shown: Sequence[str] = ()
    """The texts of memory that the gateway showed with the call; what the answer repeats of them is no news."""


@dataclass(kw_only=True, slots=True)
class _ExchangeProgress:
    conversation: str
    written: list[EpisodeId] = field(default_factory=list[EpisodeId])
    again: str = ""
    """Key suffix of a repetition; empty for a first occurrence and for a retry."""


class _EpisodeCandidate(NamedTuple):
    """An utterance that the bank's policy accepts."""

    said: Utterance
    under: _ExchangeProgress
    keys: Sequence[str]
    """The key to write it under, then others under which it may be stored."""


_Whose = tuple[str | None, bool, str | None]
"""What selects the bank of an exchange: name or template, whether users are told apart, and the end user."""


class ExchangeRecorder:
    def __init__(self, clock: Clock, banks: BankService, episodes: EpisodeService) -> None:
        self._clock = clock
        self._banks = banks
        self._episodes = episodes
        self._bank_ids: BoundedDict[_Whose, BankId] = BoundedDict(REMEMBERED_BANKS)
        self._slice = TimeSlice()

    async def clean(self, exchanges: Sequence[Exchange]) -> Sequence[Exchange]:
        """Return the exchanges redacted and shortened; done before the write transaction, which blocks others.

        An answer loses the lines of memory that it repeats: they would be evidence for themselves.
        """
        cleaned: list[Exchange] = []
        for exchange in exchanges:
            turns: list[Utterance] = []
            shown = "\n".join(exchange.shown)
            for utterance in exchange.said:
                text = clean_and_shorten(utterance.text)
                is_answer = shown and not (utterance.turn or utterance.tool or utterance.ready)
                news = remove_echoes(text, shown) if is_answer else text
                turns.append(
                    replace(
                        utterance, text=news, characters=len(utterance.text), importance=importance(news),
                        is_echo=bool(text) and not news,
                    )
                )  # fmt: skip
                await self._slice.yield_at_end()
            cleaned.append(replace(exchange, said=turns))
        return cleaned

    async def find_bank_keys(self, tx: Tx, exchanges: Sequence[Exchange]) -> Collection[LockKey]:
        """Return the keys of the banks that these exchanges belong to, as far as the banks exist.

        A bank is looked up here only the first time: `keep` reads it again under its key.
        """
        keys: set[LockKey] = set()
        for whose, exchange in {_whose(exchange): exchange for exchange in exchanges}.items():
            bank_id = self._bank_ids.get(whose)
            if bank_id is None:
                bank = await self._banks.resolve_bound_bank(tx, exchange.policy, exchange.user)
                bank_id = None if bank is None else bank.id
            if bank_id is not None:
                keys.add(bank_key(bank_id))
        return keys

    async def keep(self, tx: Tx, exchanges: Sequence[Exchange]) -> None:
        """Write new, accepted utterances, count skipped ones; batched, as a look-up costs as much as a write."""
        bound: dict[_Whose, Bank | None] = {}
        candidates_by_bank: dict[BankId, tuple[Bank, list[_EpisodeCandidate]]] = {}
        for exchange in exchanges:
            whose = _whose(exchange)
            if whose not in bound:
                self._bank_ids.pop(whose, None)  # if this fails, the next try looks it up
                bound[whose] = await self._banks.resolve_bound_bank(tx, exchange.policy, exchange.user, make=True)
            bank = bound[whose]
            if bank is not None:
                self._bank_ids[whose] = bank.id
                takes = candidates_by_bank.setdefault(bank.id, (bank, []))[1]
                under = _ExchangeProgress(conversation=exchange.conversation)
                for turn in exchange.said:
                    if exchange.chore_reason:
                        await tx.banks.count_skipped_turn(bank.id, exchange.chore_reason)
                    elif not turn.tool or bank.policy.capture_tools:
                        await self._add_candidate(tx, bank, turn, under, takes)
            await self._slice.yield_at_end()  # all of this runs on the event loop, which calls need too
        for bank, takes in candidates_by_bank.values():
            await self._write(tx, bank, takes)

    async def _add_candidate(
        self, tx: Tx, bank: Bank, said: Utterance, under: _ExchangeProgress, takes: list[_EpisodeCandidate]
    ) -> None:
        skipped = _skip_reason(bank, said)
        if skipped is not None:
            await tx.banks.count_skipped_turn(bank.id, skipped)
            if skipped in ("no_content", ECHO) and _completes_turn(said):
                await tx.sleep_states.count_unstored_turn(bank.id)
            return
        keys = [said.key]
        if not said.unique:
            span = int(self._clock.now().timestamp() // RETRY.total_seconds())
            keys = [f"{said.key}@{span}", f"{said.key}@{span - 1}"]
        takes.append(_EpisodeCandidate(said, under, keys))

    async def _write(self, tx: Tx, bank: Bank, takes: Sequence[_EpisodeCandidate]) -> None:
        stored = dict(
            await tx.episodes.find_stored_times(bank.id, [key for candidate in takes for key in candidate.keys])
        )
        new = False
        for candidate in takes:
            turn, under = candidate.said, candidate.under
            key = await self._new_key(tx, bank, candidate, stored)
            if key is None:
                continue
            now = self._clock.now()
            episode = NewEpisode(
                text=turn.text, speaker=_clean_name(turn.speaker) or "user", trust=turn.trust, at=min(turn.at, now),
                kind=_episode_kind(turn), conversation=_clean_name(under.conversation) or None,
                importance=turn.importance,
                metadata={CHARACTERS: turn.characters} if turn.characters > MAX_CHARACTERS else {},
                incomplete=turn.incomplete, key=key,
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
        """Return the key to write under, None if it is stored already. `stored` maps keys to their times."""
        key, under = wanted.keys[0], wanted.under
        stored_key = next((key for key in wanted.keys if key in stored), None)
        if stored_key is None:
            return key
        if wanted.said.unique:
            return None
        if stored[stored_key] <= self._clock.now() - RETRY:
            return key
        before = await tx.episodes.get_by_key(bank.id, stored_key)
        if before is None:
            return None
        if not under.again:
            newest = await tx.episodes.find_all(bank.id, newest_first=True, limit=_BETWEEN)
            others = (
                episode.number
                for episode in newest
                if episode.speaker == before.speaker and episode.text != before.text and episode.id not in under.written
            )
            other = next(others, 0)
            under.again = f"#{other}" if other > before.number else ""
        key = f"{wanted.said.key}{under.again}"
        return key if under.again and await tx.episodes.get_by_key(bank.id, key) is None else None


def _whose(exchange: Exchange) -> _Whose:
    return exchange.policy.bank, needs_user(exchange.policy), exchange.user


def _skip_reason(bank: Bank, said: Utterance) -> str | None:
    if bank.policy.capture_mode is CaptureMode.EXPLICIT:
        return "explicit"
    if said.is_echo:
        return ECHO
    if said.text in SILENCE and not said.turn:
        return "silence"
    if not said.text or (bank.policy.capture_mode is CaptureMode.CONTENT and not is_content(said.text)):
        return "no_content"
    if said.importance < bank.policy.min_importance:
        return "importance"
    return None


def _completes_turn(said: Utterance) -> bool:
    """Return whether it is an answer, as "Fine." is; the call of a tool has no text."""
    return bool(said.text or said.is_echo) and said.trust is Trust.AGENT and not (said.tool or said.incomplete)


def _episode_kind(said: Utterance) -> EpisodeKind:
    if said.tool:
        return EpisodeKind.TOOL
    return EpisodeKind.READY if said.ready else EpisodeKind.TURN


def remove_echoes(answer: str, shown: str) -> str:
    """Return an answer without the lines that repeat a part of what was shown, letter by letter; else as it is."""
    lines = [(line, _letters(line)) for line in answer.split("\n")]
    if all(len(letters.encode()) < SHORTEST_ECHO for _, letters in lines):
        return answer
    known, kept = _letters(shown), list[str]()
    is_echo = False
    for line, letters in lines:  # a line without letters goes with the one before
        is_echo = letters in known and len(letters.encode()) >= SHORTEST_ECHO if letters else is_echo
        if not is_echo:
            kept.append(line)
    return answer if len(kept) == len(lines) else "\n".join(kept).strip()


def _letters(text: str) -> str:
    """Return the folded letters and digits of a text, with its line ends."""
    return _NO_LETTERS.sub("", fold_text(text))


def clean_and_shorten(said: str) -> str:
    """Return a clean text; a long one keeps both ends, as people ask behind a pasted file as often as before it."""
    if len(said) > MAX_CHARACTERS + _MARGIN:
        # Removals shift the text, and a secret that is cut in half matches no pattern: so drop text next to the cut.
        begins = _clean(said[: _HALF + _MARGIN])[: -_MARGIN // 2]
        ends = _clean(said[-_HALF - _MARGIN :])[_MARGIN // 2 :]
        ends = _WORD_END.sub("", ends, count=1)  # the tail of a very long secret matches no pattern
    else:
        begins = ends = _clean(said)
        if len(begins) <= MAX_CHARACTERS:
            return begins
    return _LEFT_OUT.join(filter(None, (begins[:_HALF].rstrip(), ends[-_HALF:].lstrip())))


def _clean(text: str) -> str:
    """Return a text without secrets, Circadia's own additions and characters that databases cannot store."""
    text = text.replace("\0", "").encode("utf-8", "replace").decode()
    return redact(_NOTICE.sub("", strip_fences(text))).strip()


def _clean_name(name: str) -> str:
    return name.replace("\0", "").encode("utf-8", "replace").decode().strip()[:MAX_NAME]
