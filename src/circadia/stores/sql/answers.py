"""Ready answers."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, Connection, Row, bindparam, case, delete, func, literal_column, or_, select, update

from circadia.ids import AgentId, AnswerId, BankId, PassId
from circadia.records.answer import (
    Answer,
    AnswerBasis,
    AnswerDay,
    AnswerFrame,
    AnswerScope,
    AnswerUse,
    DropReason,
    SameQuestionVerdict,
)
from circadia.records.index_entry import BankHeads
from circadia.stores.locks import bank_key
from circadia.stores.sql import answer_frames as frames_of
from circadia.stores.sql import answer_uses as uses_of
from circadia.stores.sql import answer_verdicts as verdicts_of
from circadia.stores.sql.answer_frames import RecentScope
from circadia.stores.sql.answer_tables import answer_frames, answer_uses, answer_verdicts, answers
from circadia.stores.sql.link import Runner
from circadia.stores.sql.memory_tables import banks
from circadia.stores.sql.searchable import fetch_by_ids, select_by_ids
from circadia.stores.sql.statement import Statement

_SCOPE: Final = ("agent_id", "end_user", "frame")
_COLUMNS: Final = tuple(column.name for column in answers.c)
_ADD: Final = Statement(answers.insert(), _COLUMNS)
_OF_BANK: Final = answers.c.bank_id == bindparam("bank")
_LIVE: Final = answers.c.dropped == ""
_GET: Final = Statement(select(answers).where(answers.c.id == bindparam("of_id")))
_IDENTIFIED: Final = select_by_ids(answers)
_STATE: Final = Statement(
    select(banks.c.generation, banks.c.answers_purged).where(banks.c.id == bindparam("bank"))
)  # fmt: skip
_NEXT: Final = Statement(
    update(banks)
    .where(banks.c.id == bindparam("bank"))
    .values(answers=banks.c.answers + 1)
    .returning(banks.c.answers)
)  # fmt: skip
_ENTRIES: Final = select(
    *(answers.c[name] for name in ("id", *_SCOPE, "phrasings", "confidence", "conversation", "revision", "dropped"))
).where(_OF_BANK)
_CHANGED: Final = Statement(
    _ENTRIES.where(answers.c.revision > bindparam("after")).order_by(answers.c.revision, answers.c.id)
)
_ALL: Final = Statement(_ENTRIES.where(_LIVE).order_by(answers.c.id))
_PAGE: Final = (
    select(answers)
    .where(_OF_BANK, _LIVE, answers.c.id > bindparam("after"))
    .order_by(answers.c.id)
    .limit(bindparam("most"))
)
_LIVE_OF_BANK: Final = Statement(_PAGE)
_LIVE_OF_AGENT: Final = Statement(_PAGE.where(answers.c.agent_id == bindparam("agent")))
_EXPIRED: Final = Statement(
    select(answers.c.id)
    .where(_OF_BANK, _LIVE, answers.c.expires_at <= bindparam("now"))
    .order_by(answers.c.id)
    .limit(bindparam("most"))
)
_EXPIRED_FIRST: Final = Statement(
    select(answers.c.bank_id)
    .where(answers.c.dropped == literal_column("''"), answers.c.expires_at <= bindparam("now"))
    .order_by(answers.c.expires_at)
    .limit(bindparam("most"))
)
_COUNT_LIVE: Final = Statement(
    select(func.count())
    .select_from(answers)
    .where(_OF_BANK, _LIVE, answers.c.made_at <= bindparam("now"), answers.c.expires_at > bindparam("now"))
)
_PHRASE: Final = Statement(
    update(answers)
    .where(answers.c.id == bindparam("of_id"))
    .values({name: bindparam(f"new_{name}") for name in ("phrasings", "size", "revision")})
)
_SETTLE: Final = Statement(
    update(answers)
    .where(_OF_BANK, answers.c.dropped == literal_column("''"), answers.c.id == bindparam("of_id"))
    .values(settled=bindparam("heads")),
    ("bank", "of_id", "heads"),
)
_DROP: Final = Statement(
    update(answers)
    .where(answers.c.id == bindparam("of_id"))
    .values(
        dropped=bindparam("why"), dropped_at=bindparam("now"), revision=bindparam("new_revision"),
        phrasings=literal_column("'[]'"), text=literal_column("''"), reasoning=literal_column("''"),
        size=literal_column("0"),
    ),
    ("of_id", "why", "now", "new_revision"),
)  # fmt: skip
_CLEAR: Final = (
    Statement(
        update(banks)
        .where(banks.c.id == bindparam("bank"), banks.c.answers > 0)
        .values(answers=banks.c.answers + 1, answers_purged=banks.c.answers + 1)
    ),
    *(
        Statement(delete(table).where(table.c.bank_id == bindparam("bank")))
        for table in (answers, answer_uses, answer_verdicts, answer_frames)
    ),
)


def _select_surplus() -> Statement:
    """Select answers that exceed the limits, counting from the most recently used.

    An agent's surplus takes no room from other agents.
    """
    most, most_bytes, own = (bindparam(name, type_=BigInteger) for name in ("most", "most_bytes", "most_an_agent"))
    order = (answers.c.touched_at.desc(), answers.c.id.desc())
    place = func.row_number().over(partition_by=answers.c.agent_id, order_by=order).label("place")
    live = select(answers.c.id, answers.c.touched_at, answers.c.size, place).where(_OF_BANK, _LIVE).subquery()
    newest = (live.c.touched_at.desc(), live.c.id.desc())
    fits = live.c.place <= own
    ranked = select(
        live.c.id,
        live.c.touched_at,
        live.c.place,
        func.sum(case((fits, 1), else_=0)).over(order_by=newest).label("before"),
        func.sum(case((fits, live.c.size), else_=0)).over(order_by=newest).label("bytes"),
    ).subquery()
    surplus = or_(ranked.c.place > own, ranked.c.before > most, ranked.c.bytes > most_bytes)
    return Statement(select(ranked.c.id).where(surplus).order_by(ranked.c.touched_at, ranked.c.id))


_CROWDED: Final = _select_surplus()


SEEN: Final = 1_000
"""Scopes of a bank that are read, about 300 bytes each."""


class AnswerEntry(NamedTuple):
    """An answer as the lookup holds it."""

    id: AnswerId
    scope: AnswerScope
    phrasings: Sequence[str]
    confidence: float
    conversation: str | None
    """The only conversation that may use it; none allows all."""
    revision: int
    dropped: str


class AnswerChanges(NamedTuple):
    """Changes to a bank's answers since a revision."""

    answers: Sequence[AnswerEntry]
    """By revision and id; if `whole`, by id."""
    whole: bool
    """Whether these are all answers: the reader then discards any others of the bank."""


class Answers:
    """Ready answers with their frames, uses and daily counts.

    Each change except a use increments the bank's `answers` in the same transaction, and is stored as `revision` of the
    changed rows: by that number a process knows whether its copy is complete. Writers are serialized, so a reader of a
    number sees all changes up to it.

    A dropped answer stays without its text until it is purged, so that other processes see the drop. The bank keeps the
    greatest purged revision; a reader that is behind it gets all answers instead of the changes.

    Batch writes skip texts that no database can store (NUL or a lone surrogate).
    """

    def __init__(self, runner: Runner) -> None:
        self._run = runner.run
        self._hold = runner.hold

    async def put(self, new: Sequence[Answer]) -> Collection[AnswerId]:
        """Store new answers of one bank with its next `revision`; return those that were stored.

        An answer for another `generation` than the bank's is skipped: something was forgotten while it was made.
        """
        await self._hold(*(bank_key(answer.bank_id) for answer in new))
        return await self._run(lambda connection: _put(connection, new)) if new else ()

    async def get(self, bank_id: BankId, answer_id: AnswerId) -> Answer | None:
        """Return the answer, even if dropped."""
        row = await self._run(lambda connection: _GET.first(connection, {"of_id": answer_id}), short=True)
        return _answer(row) if row is not None and row.bank_id == bank_id else None

    async def find_changed(self, bank_id: BankId, *, after: int) -> AnswerChanges:
        """Return the bank's answers with a greater `revision`, dropped ones too.

        If `after` is 0, or drops since then were purged, return all live answers instead (`whole`).
        """
        return await self._run(lambda connection: _find_changed(connection, bank_id, after), short=False)

    async def find_live(
        self, bank_id: BankId, *, agent_id: AgentId | None = None, after: AnswerId | None = None, limit: int = 100
    ) -> Sequence[Answer]:
        """Return live answers by id; `after` is the last one of the previous page."""
        values = {"bank": bank_id, "agent": agent_id, "after": after or "", "most": limit}
        statement = _LIVE_OF_BANK if agent_id is None else _LIVE_OF_AGENT
        return await self._run(lambda connection: [_answer(row) for row in statement.all(connection, values)])

    async def count_live(self, bank_id: BankId, at: datetime) -> int:
        """Return the number of the bank's answers that are live and not expired at that time."""
        return await self._run(
            lambda connection: _COUNT_LIVE.scalar(connection, {"bank": bank_id, "now": at}), short=False
        )

    async def save_phrasings(self, bank_id: BankId, answer_id: AnswerId, phrasings: Sequence[str]) -> None:
        """Write new phrasings with the bank's next `revision`; ignore a dropped answer."""
        await self._hold(bank_key(bank_id))
        await self._run(lambda connection: _save_phrasings(connection, bank_id, answer_id, phrasings))

    async def mark_still_right(self, bank_id: BankId, settled: Mapping[AnswerId, BankHeads]) -> None:
        """Write the row numbers up to which a judge confirmed these answers; ignore dropped ones.

        It does not change `revision`, since each use reads the answer again.
        """
        await self._hold(bank_key(bank_id))
        rows = [(bank_id, answer_id, list(heads)) for answer_id, heads in settled.items()]
        await self._run(lambda connection: _SETTLE.run_many(connection, rows))

    async def drop(self, bank_id: BankId, ids: Collection[AnswerId], why: DropReason, at: datetime) -> Sequence[Answer]:
        """Drop answers that are live and clear phrasings, text and reasoning; return them as they were."""
        await self._hold(bank_key(bank_id))
        return await self._run(lambda connection: _drop(connection, bank_id, ids, why, at)) if ids else ()

    async def find_surplus(
        self, bank_id: BankId, *, most: int, most_bytes: int, most_an_agent: int
    ) -> Sequence[AnswerId]:
        """Return the live answers that exceed the limits of the bank or of an agent, least recently used first.

        An unused answer counts as used when it was made. `most_bytes` covers phrasings, text, reasoning and basis in
        UTF-8.
        """
        values = {"bank": bank_id, "most": most, "most_bytes": most_bytes, "most_an_agent": most_an_agent}
        rows = await self._run(lambda connection: _CROWDED.all(connection, values), short=False)
        return [AnswerId(row.id) for row in rows]

    async def find_expired(self, bank_id: BankId, now: datetime, *, limit: int) -> Sequence[AnswerId]:
        """Return up to `limit` expired answers that are not dropped, by id."""
        values = {"bank": bank_id, "now": now, "most": limit}
        return [AnswerId(row.id) for row in await self._run(lambda connection: _EXPIRED.all(connection, values))]

    async def find_banks_with_expired(self, now: datetime, *, limit: int) -> Collection[BankId]:
        """Return the banks of the `limit` answers that expired first, without dropped ones."""
        values = {"now": now, "most": limit}
        rows = await self._run(lambda connection: _EXPIRED_FIRST.all(connection, values))
        return {BankId(row.bank_id) for row in rows}

    async def record_uses(self, uses: Sequence[AnswerUse]) -> Collection[AnswerId]:
        """Store uses and count them in their answers; return the live answers used for the first time.

        Uses that are stored already, and those of deleted answers, are skipped.
        """
        await self._hold(*(bank_key(use.bank_id) for use in uses))
        return await self._run(lambda connection: uses_of.record_uses(connection, uses)) if uses else ()

    async def find_uses(
        self, bank_id: BankId, *, agent_id: AgentId | None = None, judged: bool | None = None,
        upto: datetime | None = None, limit: int = 100,
    ) -> Sequence[AnswerUse]:  # fmt: skip
        """Return uses, newest first; `judged` selects those with, or without, a judgment.

        `upto` excludes later ones: after the clock was set back they would count as the newest for long.
        """
        return await self._run(
            lambda connection: uses_of.find_uses(connection, bank_id, agent_id, judged, upto, limit), short=False
        )

    async def save_judgment(self, bank_id: BankId, use_id: str, *, right: bool | None, at: datetime) -> None:
        """Write the judgment of a use; none means undecided."""
        await self._hold(bank_key(bank_id))
        await self._run(lambda connection: uses_of.save_judgment(connection, bank_id, use_id, right, at))

    async def save_verdicts(self, verdicts: Sequence[SameQuestionVerdict]) -> None:
        """Insert or overwrite verdicts by id, except those about answers that are not live.

        They are deleted when their answer is dropped or gets new phrasings. The last `VERDICTS` per bank are kept.
        """
        await self._hold(*(bank_key(verdict.bank_id) for verdict in verdicts))
        if verdicts:
            await self._run(lambda connection: verdicts_of.save_verdicts(connection, verdicts))

    async def find_verdicts(self, bank_id: BankId, ids: Collection[str]) -> Sequence[SameQuestionVerdict]:
        return await self._run(lambda connection: verdicts_of.find_verdicts(connection, bank_id, ids), short=True)

    async def save_frames(self, frames: Sequence[AnswerFrame]) -> None:
        """Insert or overwrite frames by bank and scope, adding up `asked`.

        Frames of deleted banks are skipped. The last `FRAMES` per agent and end user are kept.
        """
        await self._hold(*(bank_key(frame.bank_id) for frame in frames))
        if frames:
            await self._run(lambda connection: frames_of.save_frames(connection, frames))

    async def find_recent_scopes(self, bank_id: BankId, *, limit: int = SEEN) -> Sequence[RecentScope]:
        """Return the bank's scopes, most recently called first."""
        return await self._run(lambda connection: frames_of.find_recent_scopes(connection, bank_id, limit))

    async def find_scopes(self, bank_id: BankId, agent_id: AgentId, end_user: str) -> Sequence[AnswerScope]:
        """Return the scopes in which this person asked this agent."""
        return await self._run(lambda connection: frames_of.find_scopes(connection, bank_id, agent_id, end_user))

    async def get_frame(self, bank_id: BankId, scope: AnswerScope) -> AnswerFrame | None:
        return await self._run(lambda connection: frames_of.get_frame(connection, bank_id, scope))

    async def add_counts(self, days: Sequence[AnswerDay]) -> None:
        """Add these counts to the stored ones, skipping deleted banks."""
        await self._hold(*(bank_key(day.bank_id) for day in days))
        if days:
            await self._run(lambda connection: uses_of.add_counts(connection, days))

    async def find_days(self, bank_id: BankId, *, since: date) -> Sequence[AnswerDay]:
        """Return the bank's counts from this day on, by day."""
        return await self._run(lambda connection: uses_of.find_days(connection, bank_id, since))

    async def clear(self, bank_id: BankId) -> None:
        """Delete the bank's answers, dropped ones too, with their uses, verdicts and frames: something was forgotten.

        Daily counts are kept. Readers of changes then get all live answers as `whole`.
        """
        await self._hold(bank_key(bank_id))
        await self._run(lambda connection: _clear(connection, bank_id), short=False)


def _clear(connection: Connection, bank_id: BankId) -> None:
    for statement in _CLEAR:
        statement.execute(connection, {"bank": bank_id})


def _put(connection: Connection, new: Sequence[Answer]) -> Collection[AnswerId]:
    bank = _STATE.first(connection, {"bank": new[0].bank_id})
    fresh = [
        answer
        for answer in new
        if bank is not None
        and answer.rests.generation == bank.generation
        and uses_of.is_storable(answer.text, answer.reasoning, *answer.phrasings)
    ]
    if not fresh:
        return ()
    revision = _NEXT.scalar(connection, {"bank": new[0].bank_id})
    _ADD.run_many(connection, [_values(replace(answer, revision=revision)) for answer in fresh])
    return [answer.id for answer in fresh]


def _find_changed(connection: Connection, bank_id: BankId, after: int) -> AnswerChanges:
    bank = _STATE.first(connection, {"bank": bank_id})
    whole = not after or bank is None or after < bank.answers_purged
    rows = (_ALL if whole else _CHANGED).all(connection, {"bank": bank_id, "after": after})
    scopes: dict[Any, AnswerScope] = {}  # there are few scopes, and many answers share one
    entries: list[AnswerEntry] = []
    for row in rows:
        key = (row.agent_id, row.end_user, row.frame)
        scope = scopes.get(key) or scopes.setdefault(key, uses_of.scope_of(row))
        values = (tuple(row.phrasings), row.confidence, row.conversation, row.revision, row.dropped)
        entries.append(AnswerEntry(row.id, scope, *values))
    return AnswerChanges(entries, whole)


def _save_phrasings(connection: Connection, bank_id: BankId, answer_id: AnswerId, phrasings: Sequence[str]) -> None:
    row = _GET.first(connection, {"of_id": answer_id})
    if row is None or row.bank_id != bank_id or row.dropped:
        return
    storable = [phrasing for phrasing in phrasings if uses_of.is_storable(phrasing)]
    size = _size(storable, row.text, row.reasoning, row.rests)
    revision = _NEXT.scalar(connection, {"bank": bank_id})
    values = {"of_id": answer_id, "new_phrasings": storable, "new_size": size, "new_revision": revision}
    _PHRASE.execute(connection, values)
    verdicts_of.delete_verdicts(connection, [answer_id])


def _drop(
    connection: Connection, bank_id: BankId, ids: Collection[AnswerId], why: DropReason, at: datetime
) -> Sequence[Answer]:
    candidates = fetch_by_ids(connection, _IDENTIFIED, list(dict.fromkeys(ids)))
    rows = [row for row in candidates if row.bank_id == bank_id and not row.dropped]
    if rows:
        revision = _NEXT.scalar(connection, {"bank": bank_id})
        _DROP.run_many(connection, [(row.id, why.value, at, revision) for row in rows])
        verdicts_of.delete_verdicts(connection, [row.id for row in rows])
    return [_answer(row) for row in rows]


def _values(answer: Answer) -> Sequence[object]:
    rests = _dump_basis(answer.rests)
    converted = {
        "phrasings": list(answer.phrasings),
        "rests": rests,
        "settled": None if answer.settled is None else list(answer.settled),
        "touched_at": answer.used_at or answer.made_at,
        "size": _size(answer.phrasings, answer.text, answer.reasoning, rests),
        **{name: getattr(answer.scope, name) for name in _SCOPE},
    }
    return [converted[name] if name in converted else getattr(answer, name) for name in _COLUMNS]


def _dump_basis(rests: AnswerBasis) -> Mapping[str, object]:
    return {
        "blocks": dict(rests.blocks),
        "shown": list(rests.shown),
        "notes": {str(number): weight for number, weight in rests.notes.items()},
        "episodes": {str(number): weight for number, weight in rests.episodes.items()},
        "heads": list(rests.heads),
        "generation": rests.generation,
    }


def _size(phrasings: Sequence[str], text: str, reasoning: str, rests: Mapping[str, object]) -> int:
    return sum(len(part.encode()) for part in (*phrasings, text, reasoning, json.dumps(rests, ensure_ascii=False)))


def _answer(row: Row[Any]) -> Answer:
    return Answer(
        id=AnswerId(row.id),
        bank_id=BankId(row.bank_id),
        scope=uses_of.scope_of(row),
        phrasings=tuple(row.phrasings),
        confidence=row.confidence,
        conversation=row.conversation,
        text=row.text,
        reasoning=row.reasoning,
        rests=_load_basis(row.rests),
        settled=None if row.settled is None else BankHeads(*row.settled),
        pass_id=None if row.pass_id is None else PassId(row.pass_id),
        made_at=row.made_at,
        expires_at=row.expires_at,
        tokens=row.tokens,
        nanousd=row.nanousd,
        seconds=row.seconds,
        uses=row.uses,
        used_at=row.used_at,
        revision=row.revision,
        dropped=row.dropped,
        dropped_at=row.dropped_at,
    )


def _load_basis(kept: Mapping[str, Any]) -> AnswerBasis:
    return AnswerBasis(
        blocks=kept["blocks"],
        shown=tuple(kept["shown"]),
        notes={int(number): weight for number, weight in kept["notes"].items()},
        episodes={int(number): weight for number, weight in kept["episodes"].items()},
        heads=BankHeads(*kept["heads"]),
        generation=kept["generation"],
    )
