"""Attribution: find the speaker of a user turn in which a program forwards what a model, tool or the server said.

Multi-agent frameworks put one agent's output into the user turn for the next: an answer, a call argument or a tool
result, often quoted, inside JSON, or after a short introduction. It keeps its first speaker. A prompt that the server
wrote for a pulse has no speaker; only the messages in it are kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from circadia.caches import BoundedDict
from circadia.clock import Clock, TimeSlice
from circadia.ids import MessageId
from circadia.memory.capture.fingerprints import (
    Fingerprints,
    fingerprints,
    pack_hashes,
    remove_known_lines,
    unpack_hashes,
)
from circadia.memory.capture.recorder import Exchange, Utterance
from circadia.records.agent import Agent
from circadia.records.bank import Trust
from circadia.records.episode import Provenance
from circadia.records.message import Message
from circadia.stores.base import Tx

WITHIN: Final = timedelta(days=1)
"""How long a text keeps its first speaker once its conversation has ended."""
RENEWED: Final = WITHIN / 2
"""Least time that a text of a conversation which goes on has left; then it gets `WITHIN` again."""
PROMPT_WITHIN: Final = timedelta(days=1)
"""How long a prompt is recognised as the server's."""
SHORTEST: Final = 24
"""Fewest letters of a text that is recognised; two speakers may say the same shorter one."""
SHARE: Final = 0.5
"""Share of a turn's letters above which others said it."""
PASSAGES: Final = 20
"""Fewest letters that a turn shares with one text; fewer may be common phrases."""
PASSAGES_SHARE: Final = 0.4
"""The same for a short turn, as a share of its letters."""
PROMPT_SHARE: Final = 0.25
"""Share of a prompt's fingerprints in a turn that forwards it; a person may repeat one line of its instructions."""
PROMPTS: Final = 8
"""Most prompts that are looked for in one turn."""
TEXTS: Final = 2_000
"""Most texts remembered for a scope, the newest."""
HASHES: Final = 250_000
"""Most fingerprints of these texts, 8 bytes each."""
LATEST: Final = 4_096
"""Most fingerprints that are not yet merged into the sorted ones."""
SCOPES: Final = 64
"""Scopes kept in memory; others are read from the database."""
OVERLAP: Final = 64
"""Rows before the last one that are read again: PostgreSQL may commit a lower number after a higher one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnAttribution:
    speaker: str
    trust: Trust
    bank: str | None
    """The bank that already keeps this text."""
    whole: bool
    """Whether the text is the whole turn."""


class Renewal(NamedTuple):
    """A conversation that goes on, so that what was said in it is known until then."""

    scope: str
    conversation: str
    until: datetime


class _OwnedHashes(NamedTuple):
    """Sorted fingerprints with the row of the text that owns each; of equal ones the first text's comes first."""

    hashes: NDArray[np.uint32]
    owners: NDArray[np.int32]

    def with_more(self, more: "_OwnedHashes") -> "_OwnedHashes":
        hashes = np.concatenate((self.hashes, more.hashes))
        owners = np.concatenate((self.owners, more.owners))
        order = np.argsort(hashes, kind="stable")
        return _OwnedHashes(hashes[order], owners[order])

    def without_first(self, rows: int) -> "_OwnedHashes":
        mask = self.owners >= rows
        return _OwnedHashes(self.hashes[mask], self.owners[mask] - np.int32(rows))

    def owners_of(self, hashes: NDArray[np.uint32]) -> NDArray[np.int32]:
        if not len(self.hashes):
            return np.full(len(hashes), -1, np.int32)
        at = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return np.where(self.hashes[at] == hashes, self.owners[at], np.int32(-1))


_NONE: Final = _OwnedHashes(np.zeros(0, np.uint32), np.zeros(0, np.int32))


class RecentTexts:
    """Recent texts of one scope; a fingerprint that two texts share belongs to the first."""

    def __init__(self) -> None:
        self.rows: list[Provenance] = []
        self._most = _NONE
        self._latest = _NONE
        """Added since the last merge; adding a text takes time proportional to this."""
        self._wholes: dict[int, Provenance] = {}
        self._expiries: dict[str, datetime] = {}
        """When the first text of each conversation expires."""
        self.last = 0
        """Number of the last stored row."""

    def add(self, rows: Sequence[Provenance]) -> None:
        """Add texts that are not there yet, and drop the oldest when there are too many."""
        self.last = max(self.last, *(row.number for row in rows), 0)
        added = [row for row in rows if self._wholes.setdefault(row.whole, row) is row]
        if not added:
            return
        parts = [unpack_hashes(row.fingerprints) for row in added]
        owners = np.repeat(np.arange(len(parts), dtype=np.int32) + len(self.rows), list(map(len, parts)))
        self._latest = self._latest.with_more(_OwnedHashes(np.concatenate(parts), owners))
        self.rows += added
        for row in added:
            if row.conversation:
                first = self._expiries.get(row.conversation, row.expires_at)
                self._expiries[row.conversation] = min(first, row.expires_at)
        if len(self._latest.hashes) > LATEST:
            self._most, self._latest = self._most.with_more(self._latest), _NONE
        if len(self.rows) > TEXTS or len(self._most.hashes) > HASHES:
            count = len(self.rows) // 2
            self._most, self._latest = self._most.without_first(count), self._latest.without_first(count)
            del self.rows[:count]
            self._wholes = {row.whole: row for row in self.rows}
            left = {row.conversation for row in self.rows}
            self._expiries = {name: first for name, first in self._expiries.items() if name in left}

    def renew(self, conversation: str, now: datetime) -> bool:
        """Let what was said in a conversation expire later, if that is near; return whether it was."""
        first = self._expiries.get(conversation)
        if first is None or first - now > RENEWED:
            return False
        until = now + WITHIN
        self.rows = [
            replace(row, expires_at=until) if row.conversation == conversation and row.expires_at > now else row
            for row in self.rows
        ]
        self._wholes = {row.whole: row for row in self.rows}
        self._expiries[conversation] = until
        return True

    def find_whole(self, prints: Fingerprints, now: datetime) -> Provenance | None:
        row = self._wholes.get(prints.whole)
        return None if row is None or row.expires_at <= now else row

    def owners(self, prints: Fingerprints) -> NDArray[np.int32]:
        owners = self._most.owners_of(prints.hashes)
        return np.where(owners < 0, self._latest.owners_of(prints.hashes), owners)

    def find_best(self, prints: Fingerprints, now: datetime) -> Provenance | None:
        """Return the text with the largest share in these prints, the newest of equals; None below `PROMPT_SHARE`."""
        if not (self.owners(prints) >= 0).any():
            return None
        hashes, owners = self._most.with_more(self._latest)
        counts = np.bincount(owners[np.isin(hashes, prints.hashes)], minlength=len(self.rows))
        shares = counts / np.maximum(np.bincount(owners, minlength=len(self.rows)), 1)
        row = len(shares) - 1 - int(np.argmax(shares[::-1]))
        return self.rows[row] if shares[row] >= PROMPT_SHARE and self.rows[row].expires_at > now else None


class ShortTurns:
    """Short turns of one speaker in one request, which are recognised only together."""

    def __init__(self, said: Sequence[Utterance]) -> None:
        self._texts: dict[str, list[str]] = {}
        for utterance in said:
            if utterance.turn and not utterance.vouched:
                self._texts.setdefault(utterance.speaker, []).append(utterance.text)

    def attribute(self, said: Utterance, prints: Fingerprints, texts: RecentTexts, now: datetime) -> Utterance:
        """Return a short turn with the speaker of all short turns together, if it is part of that text."""
        pieces = self._texts.get(said.speaker, ())
        if prints.length >= SHORTEST or len(pieces) < 2 or not said.turn or said.vouched:
            return said
        whole = fingerprints("\n".join(pieces))
        origin = find_origin(whole, texts, now)
        if origin is None:
            return said
        start = fingerprints("\n".join(pieces[: pieces.index(said.text)])).length
        inside = whole.letters_inside(texts.owners(whole) >= 0)[start : start + prints.length]
        if inside.sum() < SHARE * prints.length:
            return said
        return replace(said, speaker=origin.speaker, trust=origin.trust)


class Attribution:
    """Finds the speakers of turns. Known texts are database rows, so all servers share them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: BoundedDict[str, RecentTexts] = BoundedDict(SCOPES)
        self._slice = TimeSlice()

    async def attribute(
        self, tx: Tx, exchanges: Sequence[Exchange]
    ) -> tuple[list[Exchange], list[Provenance], list[Renewal]]:
        """Return the exchanges with the speaker and trust of each turn, the new rows, and what expires later."""
        now = self._clock.now()
        attributed: list[Exchange] = []
        new: list[Provenance] = []
        renewals: list[Renewal] = []
        read: dict[str, RecentTexts] = {}
        for exchange in exchanges:
            own, prompts_scope = (
                scope_of(exchange.agent_session, exchange.user),
                scope_of_prompts(exchange.agent_session),
            )
            for scope in (own, prompts_scope):
                if scope not in read:
                    read[scope] = await self._load_texts(tx, scope, now)
            texts, prompts = read[own], read[prompts_scope]
            if texts.renew(exchange.conversation, now):
                renewals.append(Renewal(own, exchange.conversation, now + WITHIN))
            utterances: list[Utterance] = []
            pieces = ShortTurns(exchange.said)
            for utterance in exchange.said:
                prints = fingerprints(utterance.text)
                rest = await _split_prompts(tx, utterance, prints, prompts, now) if utterance.turn else None
                parts = [(utterance, prints)] if rest is None else [(part, fingerprints(part.text)) for part in rest]
                for part, part_prints in parts:
                    part = pieces.attribute(part, part_prints, texts, now)
                    kept_part, row = _attribute(part, part_prints, exchange, texts, now)
                    utterances += () if kept_part is None else (kept_part,)
                    new += () if row is None else (row,)
                await self._slice.yield_at_end()  # a long text takes milliseconds of the event loop
            attributed.append(replace(exchange, said=utterances))
        return attributed, new, renewals

    def forget(self) -> None:
        """Clear the cache, since a transaction that stored part of it may have failed."""
        self._known.clear()

    async def _load_texts(self, tx: Tx, scope: str, now: datetime) -> RecentTexts:
        texts = self._known.get(scope) or RecentTexts()
        texts.add(await tx.provenances.find_recent(scope, after=texts.last - OVERLAP, now=now, limit=TEXTS))
        self._known[scope] = texts
        return texts


def scope_of(session: str, user: str | None) -> str:
    """Return the scope of what is said to a session's agents on behalf of an end user."""
    return blake2b(repr((session, user)).encode("utf-8", "replace"), digest_size=16).hexdigest()


def scope_of_prompts(session: str) -> str:
    """Return the scope of the prompts that the server writes for a session's agents."""
    return blake2b(repr((session,)).encode("utf-8", "replace"), digest_size=16).hexdigest()


def prompt_provenance(agent: Agent, text: str, messages: Sequence[MessageId], now: datetime) -> Provenance:
    """Return the provenance of a prompt that the server writes for an agent, with the messages it contains."""
    prints = fingerprints(text)
    return Provenance(
        scope=scope_of_prompts(agent.session), speaker=agent.name, trust=None, messages=messages,
        fingerprints=pack_hashes(prints.hashes), whole=prints.whole, expires_at=now + PROMPT_WITHIN,
    )  # fmt: skip


async def _split_prompts(
    tx: Tx, turn: Utterance, prints: Fingerprints, prompts: RecentTexts, now: datetime
) -> Sequence[Utterance] | None:
    """Return the messages in the server's part of a turn, and the rest; None if the server wrote nothing."""
    messages: dict[MessageId, None] = {}
    text = turn.text
    prompt = None
    for _ in range(PROMPTS):
        match = prompts.find_best(prints, now)
        if match is None:
            break
        prompt = match
        messages |= dict.fromkeys(prompt.messages)
        text = remove_known_lines(text, unpack_hashes(prompt.fingerprints))
        prints = fingerprints(text)
    if prompt is None:
        return None
    sent = [message for key in messages if (message := await tx.messages.get(key)) is not None]
    parts = [
        _to_utterance(message) for message in sent if message.sender_id is not None or message.sender != "circadia"
    ]
    if prints.length >= SHORTEST:  # only a program forwards a prompt, so the rest is its own
        trust = max(turn.trust, Trust.AGENT, key=lambda level: level.rank)
        parts.append(replace(turn, text=text, speaker=prompt.speaker, trust=trust))
    return parts


def _to_utterance(message: Message) -> Utterance:
    person = message.sender_id is None and not message.is_external
    trust = Trust.PERSON if person else Trust.EXTERNAL if message.is_external else Trust.AGENT
    return Utterance(
        text=message.content, speaker=message.sender, trust=trust,
        key=f"message:{message.id}", unique=True, at=message.at, turn=True, vouched=person,
    )  # fmt: skip


def _attribute(
    said: Utterance, prints: Fingerprints, exchange: Exchange, texts: RecentTexts, now: datetime
) -> tuple[Utterance | None, Provenance | None]:
    """Return a text with its speaker, None if it is stored already, and its provenance row if it is new."""
    if prints.length < SHORTEST:
        return said, None
    bank = exchange.policy.bank if exchange.kept and not exchange.chore_reason else None
    origin = find_origin(prints, texts, now) if said.turn and not said.vouched else None
    if origin is not None:
        tool = origin.whole and origin.trust is Trust.TOOL
        said = replace(said, speaker=origin.speaker, trust=origin.trust, tool=tool)
    row = None
    if texts.find_whole(prints, now) is None:
        row = Provenance(
            scope=scope_of(exchange.agent_session, exchange.user),
            speaker=said.speaker,
            trust=said.trust,
            bank=bank if said.trust is Trust.AGENT and not said.tool and not said.turn else None,
            fingerprints=pack_hashes(prints.hashes[texts.owners(prints) < 0]),
            whole=prints.whole,
            conversation=exchange.conversation,
            expires_at=now + WITHIN,
        )
        texts.add([row])
    stored = origin is not None and origin.whole and bank is not None and origin.bank == bank
    return None if stored else said, row


def find_origin(prints: Fingerprints, texts: RecentTexts, now: datetime) -> TurnAttribution | None:
    """Return the speaker of a text that mostly repeats others; None if it is its speaker's own."""
    if prints.length < SHORTEST:
        return None
    whole = texts.find_whole(prints, now)
    if whole is not None:
        if whole.trust is None or whole.trust is Trust.PERSON:
            return None
        return TurnAttribution(speaker=whole.speaker, trust=whole.trust, bank=whole.bank, whole=True)
    owners = texts.owners(prints)
    known = owners >= 0
    letters = np.bincount(owners[known], weights=prints.covered_letters(known), minlength=1)
    least = min(PASSAGES, PASSAGES_SHARE * prints.length)
    sources = [
        (texts.rows[row], letters[row])
        for row in np.flatnonzero(letters >= least).tolist()
        if texts.rows[row].trust is not Trust.PERSON and texts.rows[row].expires_at > now
    ]
    own = prints.length - sum(letters[row] for row in np.flatnonzero(letters) if texts.rows[row].trust is Trust.PERSON)
    # Repeating a person's text does not count.
    if not sources or sum(number for _, number in sources) < SHARE * own:
        return None
    most = max(sources, key=lambda source: source[1])[0]
    least_trusted = max((row.trust or Trust.PERSON for row, _ in sources), key=lambda level: level.rank)
    return TurnAttribution(speaker=most.speaker, trust=least_trusted, bank=most.bank, whole=False)
