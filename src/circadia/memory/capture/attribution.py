"""Attribution: whose word a user's turn is, where a program hands on what a model, a tool or the server has said.

Frameworks with several agents put what one of them said into a user's turn for the next: an answer, an argument of a
call, a tool's result, often quoted, within JSON, or after a few words of their own. It stays the word of who said it
first. What the server itself wrote, the prompt of a pulse, is nobody's: what is left are the messages in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from circadia.bounded_dict import BoundedDict
from circadia.clock import Clock
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
from circadia.records.message import Message
from circadia.records.provenance import Provenance
from circadia.stores.base import Tx
from circadia.time_slice import TimeSlice

WITHIN: Final = timedelta(hours=1)
"""How long a text is the word of who said it first."""
PROMPT_WITHIN: Final = timedelta(days=1)
"""How long a prompt is known as the server's."""
SHORTEST: Final = 24
"""Letters of a text that is recognised; a shorter one, two may say."""
SHARE: Final = 0.5
"""Of a turn's letters that make it the word of others."""
PASSAGES: Final = 20
"""Letters that a turn has in common with one text at least, or the texts have phrases in common that all use."""
PASSAGES_SHARE: Final = 0.4
"""The same in a short turn, of its letters."""
PROMPT_SHARE: Final = 0.25
"""Of a prompt's fingerprints that a turn has which hands it on; a person may repeat a line of its instructions."""
PROMPTS: Final = 8
"""Prompts that one turn is searched for."""
TEXTS: Final = 2_000
"""Texts of one scope that are remembered, the newest."""
HASHES: Final = 250_000
"""Their fingerprints, 8 bytes each."""
LATEST: Final = 4_096
"""Of these, those that are not put in order with the rest yet."""
SCOPES: Final = 64
"""Scopes that are remembered in the process; others are read from the database."""
OVERLAP: Final = 64
"""Numbers before the last one that are read again: PostgreSQL may commit a lower one after a higher."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnAttribution:
    """Whose word a turn is."""

    speaker: str
    trust: Trust
    bank: str | None
    """Where it is kept already."""
    whole: bool
    """Whether it is all that the turn says."""


class _OwnedHashes(NamedTuple):
    """Fingerprints in order, of equal ones the first text's first, and the row of the text that owns each."""

    hashes: NDArray[np.uint32]
    owners: NDArray[np.int32]

    def with_more(self, more: "_OwnedHashes") -> "_OwnedHashes":
        hashes = np.concatenate((self.hashes, more.hashes))
        owners = np.concatenate((self.owners, more.owners))
        order = np.argsort(hashes, kind="stable")
        return _OwnedHashes(hashes[order], owners[order])

    def without_first(self, rows: int) -> "_OwnedHashes":
        kept = self.owners >= rows
        return _OwnedHashes(self.hashes[kept], self.owners[kept] - np.int32(rows))

    def owners_of(self, hashes: NDArray[np.uint32]) -> NDArray[np.int32]:
        """Return the owner of each of these, -1 of those that have none."""
        if not len(self.hashes):
            return np.full(len(hashes), -1, np.int32)
        at = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return np.where(self.hashes[at] == hashes, self.owners[at], np.int32(-1))


_NONE: Final = _OwnedHashes(np.zeros(0, np.uint32), np.zeros(0, np.int32))


class RecentTexts:
    """Recent texts of one scope; where two have the same fingerprint, the first one owns it."""

    def __init__(self) -> None:
        self.rows: list[Provenance] = []
        self._most = _NONE
        self._latest = _NONE
        """What was added since all was put in order: to add a text takes as long as this is large."""
        self._wholes: dict[int, Provenance] = {}
        self.last = 0
        """Number of the last row that was stored."""

    def add(self, rows: Sequence[Provenance]) -> None:
        """Add texts, but those that say the same as one that is there; the oldest go where there are too many."""
        self.last = max(self.last, *(row.number for row in rows), 0)
        added = [row for row in rows if self._wholes.setdefault(row.whole, row) is row]
        if not added:
            return
        parts = [unpack_hashes(row.fingerprints) for row in added]
        owners = np.repeat(np.arange(len(parts), dtype=np.int32) + len(self.rows), list(map(len, parts)))
        self._latest = self._latest.with_more(_OwnedHashes(np.concatenate(parts), owners))
        self.rows += added
        if len(self._latest.hashes) > LATEST:
            self._most, self._latest = self._most.with_more(self._latest), _NONE
        if len(self.rows) > TEXTS or len(self._most.hashes) > HASHES:
            gone = len(self.rows) // 2
            self._most, self._latest = self._most.without_first(gone), self._latest.without_first(gone)
            del self.rows[:gone]
            self._wholes = {row.whole: row for row in self.rows}

    def find_whole(self, prints: Fingerprints, now: datetime) -> Provenance | None:
        """Return the text that says just this."""
        row = self._wholes.get(prints.whole)
        return None if row is None or row.expires_at <= now else row

    def owners(self, prints: Fingerprints) -> NDArray[np.int32]:
        """Return the row of the text that owns each of the fingerprints, -1 if none does."""
        found = self._most.owners_of(prints.hashes)
        return np.where(found < 0, self._latest.owners_of(prints.hashes), found)

    def find_best(self, prints: Fingerprints, now: datetime) -> Provenance | None:
        """Return the text of which the most stands in this, the newest of equals; none if too little does."""
        if not (self.owners(prints) >= 0).any():
            return None
        hashes, owners = self._most.with_more(self._latest)
        there = np.bincount(owners[np.isin(hashes, prints.hashes)], minlength=len(self.rows))
        shares = there / np.maximum(np.bincount(owners, minlength=len(self.rows)), 1)
        row = len(shares) - 1 - int(np.argmax(shares[::-1]))
        return self.rows[row] if shares[row] >= PROMPT_SHARE and self.rows[row].expires_at > now else None


class ShortTurns:
    """Turns of one speaker that are too short to be recognised alone, and follow each other in one request."""

    def __init__(self, said: Sequence[Utterance]) -> None:
        self._texts: dict[str, list[str]] = {}
        for each in said:
            if each.turn and not each.vouched:
                self._texts.setdefault(each.speaker, []).append(each.text)

    def attribute(self, said: Utterance, prints: Fingerprints, texts: RecentTexts, now: datetime) -> Utterance:
        """Return a short turn as the word of whose all of them are together, if it is a part of that."""
        pieces = self._texts.get(said.speaker, ())
        if prints.length >= SHORTEST or len(pieces) < 2 or not said.turn or said.vouched:
            return said
        whole = fingerprints("\n".join(pieces))
        origin = _find_origin(whole, texts, now)
        if origin is None:
            return said
        start = fingerprints("\n".join(pieces[: pieces.index(said.text)])).length
        there = whole.letters_inside(texts.owners(whole) >= 0)[start : start + prints.length]
        if there.sum() < SHARE * prints.length:
            return said
        return replace(said, speaker=origin.speaker, trust=origin.trust)


class Attribution:
    """Finds whose word the turns of exchanges are. What is known is in rows, so that all servers on them know it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: BoundedDict[str, RecentTexts] = BoundedDict(SCOPES)
        self._slice = TimeSlice()

    async def attribute(self, tx: Tx, exchanges: Sequence[Exchange]) -> tuple[list[Exchange], list[Provenance]]:
        """Return the exchanges with the speakers and the trust that their turns have, and the rows that are new."""
        now = self._clock.now()
        found: list[Exchange] = []
        new: list[Provenance] = []
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
            said: list[Utterance] = []
            pieces = ShortTurns(exchange.said)
            for each in exchange.said:
                prints = fingerprints(each.text)
                rest = await _split_prompts(tx, each, prints, prompts, now) if each.turn else None
                parts = [(each, prints)] if rest is None else [(part, fingerprints(part.text)) for part in rest]
                for part, part_prints in parts:
                    part = pieces.attribute(part, part_prints, texts, now)
                    kept, row = _attribute(part, part_prints, exchange, texts, now)
                    said += () if kept is None else (kept,)
                    new += () if row is None else (row,)
                await self._slice.yield_at_end()  # a long text takes milliseconds of the event loop
            found.append(replace(exchange, said=said))
        return found, new

    def forget(self) -> None:
        """Forget what is known, since not all of it may be stored."""
        self._known.clear()

    async def _load_texts(self, tx: Tx, scope: str, now: datetime) -> RecentTexts:
        """Return the texts of a scope, with those that other servers have committed."""
        texts = self._known.get(scope) or RecentTexts()
        texts.add(await tx.provenances.find_recent(scope, after=texts.last - OVERLAP, now=now, limit=TEXTS))
        self._known[scope] = texts
        return texts


def scope_of(session: str, user: str | None) -> str:
    """Return the scope of what is said to the agents of a session for an end user."""
    return blake2b(repr((session, user)).encode("utf-8", "replace"), digest_size=16).hexdigest()


def scope_of_prompts(session: str) -> str:
    """Return the scope of the prompts that the server writes for the agents of a session."""
    return blake2b(repr((session,)).encode("utf-8", "replace"), digest_size=16).hexdigest()


def prompt_provenance(agent: Agent, text: str, messages: Sequence[MessageId], now: datetime) -> Provenance:
    """Return the provenance of a prompt that the server writes for an agent, with the messages that stand in it."""
    prints = fingerprints(text)
    return Provenance(
        scope=scope_of_prompts(agent.session), speaker=agent.name, trust=None, messages=messages,
        fingerprints=pack_hashes(prints.hashes), whole=prints.whole, expires_at=now + PROMPT_WITHIN,
    )  # fmt: skip


async def _split_prompts(
    tx: Tx, turn: Utterance, prints: Fingerprints, prompts: RecentTexts, now: datetime
) -> Sequence[Utterance] | None:
    """Return the messages that stood in what the server wrote of a turn, and the rest; none if it wrote nothing."""
    messages: dict[MessageId, None] = {}
    text = turn.text
    prompt = None
    for _ in range(PROMPTS):
        found = prompts.find_best(prints, now)
        if found is None:
            break
        prompt = found
        messages |= dict.fromkeys(prompt.messages)
        text = remove_known_lines(text, unpack_hashes(prompt.fingerprints))
        prints = fingerprints(text)
    if prompt is None:
        return None
    sent = [each for key in messages if (each := await tx.messages.get(key)) is not None]
    parts = [_to_utterance(each) for each in sent if each.sender_id is not None or each.sender != "circadia"]
    if prints.length >= SHORTEST:  # whoever hands a prompt on is a program, and so the rest is a program's
        trust = max(turn.trust, Trust.AGENT, key=lambda each: each.rank)
        parts.append(replace(turn, text=text, speaker=prompt.speaker, trust=trust))
    return parts


def _to_utterance(message: Message) -> Utterance:
    """Return a message as what it is; an agent may hand on in it what others have said."""
    person = message.sender_id is None
    return Utterance(
        text=message.content, speaker=message.sender, trust=Trust.PERSON if person else Trust.AGENT,
        key=f"message:{message.id}", unique=True, at=message.at, turn=True, vouched=person,
    )  # fmt: skip


def _attribute(
    said: Utterance, prints: Fingerprints, exchange: Exchange, texts: RecentTexts, now: datetime
) -> tuple[Utterance | None, Provenance | None]:
    """Return it as the word of whose it is, none if that is kept already; with its row if it is new."""
    if prints.length < SHORTEST:
        return said, None
    bank = exchange.policy.bank if exchange.kept and not exchange.chore else None
    origin = _find_origin(prints, texts, now) if said.turn and not said.vouched else None
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
            expires_at=now + WITHIN,
        )
        texts.add([row])
    kept = origin is not None and origin.whole and bank is not None and origin.bank == bank
    return None if kept else said, row


def _find_origin(prints: Fingerprints, texts: RecentTexts, now: datetime) -> TurnAttribution | None:
    """Return whose word a text is that mostly consists of others' texts; none if it is its speaker's own."""
    if prints.length < SHORTEST:
        return None
    whole = texts.find_whole(prints, now)
    if whole is not None:
        if whole.trust is None or whole.trust is Trust.PERSON:
            return None
        return TurnAttribution(speaker=whole.speaker, trust=whole.trust, bank=whole.bank, whole=True)
    owners = texts.owners(prints)
    found = owners >= 0
    letters = np.bincount(owners[found], weights=prints.covered_letters(found), minlength=1)
    least = min(PASSAGES, PASSAGES_SHARE * prints.length)
    sources = [
        (texts.rows[row], letters[row])
        for row in np.flatnonzero(letters >= least).tolist()
        if texts.rows[row].trust is not Trust.PERSON and texts.rows[row].expires_at > now
    ]
    own = prints.length - sum(letters[row] for row in np.flatnonzero(letters) if texts.rows[row].trust is Trust.PERSON)
    if (
        not sources or sum(number for _, number in sources) < SHARE * own
    ):  # what is repeated of a person counts for none
        return None
    most = max(sources, key=lambda each: each[1])[0]
    least_trusted = max((row.trust or Trust.PERSON for row, _ in sources), key=lambda each: each.rank)
    return TurnAttribution(speaker=most.speaker, trust=least_trusted, bank=most.bank, whole=False)
