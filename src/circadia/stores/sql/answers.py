"""Ready answers."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Connection,
    bindparam,
    case,
    delete,
    exists,
    func,
    literal_column,
    or_,
    select,
    update,
)

from circadia.ids import AgentId, AnswerId, BankId
from circadia.records.answer import Answer, AnswerBasis, AnswerScope, DropReason
from circadia.records.episode import SILENT
from circadia.records.index_entry import BankHeads
from circadia.stores.locks import bank_key
from circadia.stores.sql.answer_tables import answer_frames, answer_uses, answer_verdicts, answers
from circadia.stores.sql.answer_uses import delete_verdicts, is_storable, scope_of
from circadia.stores.sql.memory_tables import banks, episodes
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.searchable import fetch_by_ids, select_by_ids
from circadia.stores.sql.statement import Statement

LARGEST: Final = 2**62
"""More than the number of any episode."""
_SCOPE: Final = ("agent_id", "end_user", "frame")
_COLUMNS: Final = tuple(column.name for column in answers.c)


def _dump_basis(basis: AnswerBasis) -> Mapping[str, object]:
    layers = {"layers": dict(basis.layers)} if basis.layers else {}
    return {
        "blocks": dict(basis.blocks),
        "shown": list(basis.shown),
        "notes": {str(number): weight for number, weight in basis.notes.items()},
        "episodes": {str(number): weight for number, weight in basis.episodes.items()},
        "heads": list(basis.heads),
        "generation": basis.generation,
        **layers,
    }


def _load_basis(kept: Mapping[str, Any]) -> AnswerBasis:
    return AnswerBasis(
        blocks=kept["blocks"],
        shown=tuple(kept["shown"]),
        notes={int(number): weight for number, weight in kept["notes"].items()},
        episodes={int(number): weight for number, weight in kept["episodes"].items()},
        heads=BankHeads(*kept["heads"]),
        generation=kept["generation"],
        layers=kept.get("layers", {}),
    )


def _size(phrasings: Sequence[str], text: str, reasoning: str, basis: Mapping[str, object]) -> int:
    return sum(len(part.encode()) for part in (*phrasings, text, reasoning, json.dumps(basis, ensure_ascii=False)))


_read_answer = build_reader(Answer, of_row={"scope": scope_of, "basis": lambda row: _load_basis(row.rests)})
_write_answer = build_writer(
    _COLUMNS,
    rests=lambda answer: _dump_basis(answer.basis),
    touched_at=lambda answer: answer.used_at or answer.made_at,
    size=lambda answer: _size(answer.phrasings, answer.text, answer.reasoning, _dump_basis(answer.basis)),
    agent_id=lambda answer: answer.scope.agent_id,
    end_user=lambda answer: answer.scope.end_user,
    frame=lambda answer: answer.scope.frame,
)
_ADD: Final = Statement(answers.insert(), _COLUMNS)
_OF_BANK: Final = answers.c.bank_id == bindparam("bank")
_LIVE: Final = answers.c.dropped == ""
_SELECT: Final = Statement(select(answers).where(answers.c.id == bindparam("of_id")))
_SELECT_BY_IDS: Final = Statement(select_by_ids(answers))
_SELECT_BANK: Final = Statement(
    select(banks.c.generation, banks.c.answers_purged).where(banks.c.id == bindparam("bank"))
)  # fmt: skip
_BUMP_REVISION: Final = Statement(
    update(banks)
    .where(banks.c.id == bindparam("bank"))
    .values(answers=banks.c.answers + 1)
    .returning(banks.c.answers)
)  # fmt: skip
_ENTRIES: Final = select(
    *(answers.c[name] for name in ("id", *_SCOPE, "phrasings", "confidence", "conversation", "revision", "dropped"))
).where(_OF_BANK)
_SELECT_CHANGED: Final = Statement(
    _ENTRIES.where(answers.c.revision > bindparam("after")).order_by(answers.c.revision, answers.c.id)
)
_SELECT_ALL: Final = Statement(_ENTRIES.where(_LIVE).order_by(answers.c.id))
_PAGE: Final = (
    select(answers)
    .where(_OF_BANK, _LIVE, answers.c.id > bindparam("after"), answers.c.read_upto < bindparam("newest"))
    .order_by(answers.c.id)
    .limit(bindparam("most"))
)
_SELECT_LIVE: Final = Statement(_PAGE, read=_read_answer)
_SELECT_LIVE_OF_AGENT: Final = Statement(_PAGE.where(answers.c.agent_id == bindparam("agent")), read=_read_answer)
_SELECT_EXPIRED: Final = Statement(
    select(answers.c.id)
    .where(_OF_BANK, _LIVE, answers.c.expires_at <= bindparam("now"))
    .order_by(answers.c.id)
    .limit(bindparam("most"))
)
_SELECT_BANKS_WITH_EXPIRED: Final = Statement(
    select(answers.c.bank_id)
    .where(answers.c.dropped == literal_column("''"), answers.c.expires_at <= bindparam("now"))
    .order_by(answers.c.expires_at)
    .limit(bindparam("most"))
)
_live_bank: Final = answers.c.bank_id.concat("")
"""An expression, so that live answers are found by their own index, and not among the dropped ones of the banks."""
_SELECT_BANKS_TO_REVIEW: Final = Statement(
    select(_live_bank.label("bank_id"))
    .where(
        answers.c.dropped == literal_column("''"),
        answers.c.expires_at > bindparam("now"),
        _live_bank > bindparam("after"),
        exists().where(
            episodes.c.bank_id == answers.c.bank_id,
            episodes.c.number > answers.c.read_upto,
            episodes.c.kind.not_in([literal_column(f"'{kind}'") for kind in SILENT]),
        ),
    )
    .distinct()
    .order_by(_live_bank)
    .limit(bindparam("most"))
)
_SELECT_USE_SPAN: Final = Statement(
    select(func.min(answers.c.made_at).label("first"), func.max(answers.c.used_at).label("last")).where(
        _OF_BANK, answers.c.agent_id == bindparam("agent"), answers.c.end_user == bindparam("person")
    )
)
_COUNT_LIVE: Final = Statement(
    select(func.count())
    .select_from(answers)
    .where(_OF_BANK, _LIVE, answers.c.made_at <= bindparam("now"), answers.c.expires_at > bindparam("now"))
)
_SAVE_PHRASINGS: Final = Statement(
    update(answers)
    .where(answers.c.id == bindparam("of_id"))
    .values({name: bindparam(f"new_{name}") for name in ("phrasings", "size", "revision")})
)
_CONFIRM: Final = Statement(
    update(answers)
    .where(_OF_BANK, answers.c.dropped == literal_column("''"), answers.c.id == bindparam("of_id"))
    .values(read_upto=bindparam("upto")),
    ("bank", "of_id", "upto"),
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
        .values(answers=banks.c.answers + 1, answers_purged=banks.c.answers + 1),
        ("bank",),
    ),
    *(
        Statement(delete(table).where(table.c.bank_id == bindparam("bank")), ("bank",))
        for table in (answers, answer_uses, answer_verdicts, answer_frames)
    ),
)


def _select_surplus() -> Statement[Any]:
    """Select answers that exceed the limits, counting from the most recently used.

    An agent's surplus takes no room from other agents.
    """
    limits = ("max_answers", "max_bytes", "max_per_agent")
    most, most_bytes, own = (bindparam(name, type_=BigInteger) for name in limits)
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


_SELECT_SURPLUS: Final = _select_surplus()


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


class Answers(Noun):
    """Ready answers.

    Each change except a use increments the bank's `answers` in the same transaction, and is stored as `revision` of the
    changed rows: by that number a process knows whether its copy is complete. Writers are serialized, so a reader of a
    number sees all changes up to it.

    A dropped answer stays without its text until it is purged, so that other processes see the drop. The bank keeps the
    greatest purged revision; a reader that is behind it gets all answers instead of the changes.

    Batch writes skip texts that no database can store (NUL or a lone surrogate).
    """

    async def put(self, new: Sequence[Answer]) -> Collection[AnswerId]:
        """Store new answers of one bank with its next `revision`; return those that were stored.

        An answer for another `generation` than the bank's is skipped: something was forgotten while it was made.
        """
        await self._hold(*(bank_key(answer.bank_id) for answer in new))
        return await self._run(lambda connection: _put(connection, new)) if new else ()

    async def get(self, bank_id: BankId, answer_id: AnswerId) -> Answer | None:
        """Return the answer, even if dropped."""
        row = await self._first(_SELECT, {"of_id": answer_id}, short=True)
        return _read_answer(row) if row is not None and row.bank_id == bank_id else None

    async def find_changed(self, bank_id: BankId, *, after: int) -> AnswerChanges:
        """Return the bank's answers with a greater `revision`, dropped ones too.

        If `after` is 0, or drops since then were purged, return all live answers instead (`whole`).
        """
        return await self._run(lambda connection: _find_changed(connection, bank_id, after), short=False)

    async def find_live(
        self, bank_id: BankId, *, agent_id: AgentId | None = None, after: AnswerId | None = None, limit: int = 100,
        behind: int | None = None,
    ) -> Sequence[Answer]:  # fmt: skip
        """Return live answers by id; `after` is the last one of the previous page.

        `behind` selects those for which no turn up to this number was read.
        """
        newest = LARGEST if behind is None else behind
        values = {"bank": bank_id, "agent": agent_id, "after": after or "", "most": limit, "newest": newest}
        statement = _SELECT_LIVE if agent_id is None else _SELECT_LIVE_OF_AGENT
        return await self._all(statement, values, short=False)  # it passes over those that no newer turn is behind

    async def fetch_use_span(
        self, bank_id: BankId, agent_id: AgentId, end_user: str
    ) -> tuple[datetime | None, datetime | None]:
        """Return when this person's first answer was made, and when one was used last; dropped ones count."""
        row = await self._first(_SELECT_USE_SPAN, {"bank": bank_id, "agent": agent_id, "person": end_user}, short=False)
        return (None, None) if row is None else (row.first, row.last)

    async def count_live(self, bank_id: BankId, at: datetime) -> int:
        """Return the number of the bank's answers that are live and not expired at that time."""
        return await self._scalar(_COUNT_LIVE, {"bank": bank_id, "now": at}, short=False)

    async def save_phrasings(self, bank_id: BankId, answer_id: AnswerId, phrasings: Sequence[str]) -> None:
        """Write new phrasings with the bank's next `revision`; ignore a dropped answer."""
        await self._hold(bank_key(bank_id))
        await self._run(lambda connection: _save_phrasings(connection, bank_id, answer_id, phrasings))

    async def mark_still_right(self, bank_id: BankId, ids: Collection[AnswerId], upto: int) -> None:
        """Write the number of the newest turn that a judge has read for these answers; ignore dropped ones.

        It does not change `revision`, since each use reads the answer again.
        """
        await self._hold(bank_key(bank_id))
        rows = [(bank_id, answer_id, upto) for answer_id in ids]
        await self._run(lambda connection: _CONFIRM.run_many(connection, rows))

    async def drop(self, bank_id: BankId, ids: Collection[AnswerId], why: DropReason, at: datetime) -> Sequence[Answer]:
        """Drop answers that are live and clear phrasings, text and reasoning; return them as they were."""
        await self._hold(bank_key(bank_id))
        return await self._run(lambda connection: _drop(connection, bank_id, ids, why, at)) if ids else ()

    async def find_surplus(
        self, bank_id: BankId, *, max_answers: int, max_bytes: int, max_per_agent: int
    ) -> Sequence[AnswerId]:
        """Return the live answers that exceed the limits of the bank or of an agent, least recently used first.

        An unused answer counts as used when it was made. `max_bytes` covers phrasings, text, reasoning and basis in
        UTF-8.
        """
        values = {
            "bank": bank_id, "max_answers": max_answers, "max_bytes": max_bytes, "max_per_agent": max_per_agent,
        }  # fmt: skip
        rows = await self._all(_SELECT_SURPLUS, values, short=False)
        return [AnswerId(row.id) for row in rows]

    async def find_expired(self, bank_id: BankId, now: datetime, *, limit: int) -> Sequence[AnswerId]:
        """Return up to `limit` expired answers that are not dropped, by id."""
        values = {"bank": bank_id, "now": now, "most": limit}
        return [AnswerId(row.id) for row in await self._all(_SELECT_EXPIRED, values)]

    async def find_banks_with_expired(self, now: datetime, *, limit: int) -> Collection[BankId]:
        """Return the banks of the `limit` answers that expired first, without dropped ones."""
        rows = await self._all(_SELECT_BANKS_WITH_EXPIRED, {"now": now, "most": limit})
        return {BankId(row.bank_id) for row in rows}

    async def find_banks_to_review(self, now: datetime, *, after: BankId, limit: int) -> Sequence[BankId]:
        """Return the banks with a newer turn than those read for one of its live answers, by id."""
        values = {"now": now, "after": after, "most": limit}
        return [BankId(row.bank_id) for row in await self._all(_SELECT_BANKS_TO_REVIEW, values, short=False)]

    async def clear(self, bank_id: BankId) -> None:
        """Delete the bank's answers, dropped ones too, with their uses, verdicts and frames: something was forgotten.

        Daily counts are kept. Readers of changes then get all live answers as `whole`.
        """
        await self._hold(bank_key(bank_id))
        await self._run(lambda connection: _clear(connection, bank_id), short=False)


def _clear(connection: Connection, bank_id: BankId) -> None:
    Statement.run_batch(connection, {statement: [(bank_id,)] for statement in _CLEAR})


def _put(connection: Connection, new: Sequence[Answer]) -> Collection[AnswerId]:
    bank = _SELECT_BANK.first(connection, {"bank": new[0].bank_id})
    fresh = [
        answer
        for answer in new
        if bank is not None
        and answer.basis.generation == bank.generation
        and is_storable(answer.text, answer.reasoning, *answer.phrasings)
    ]
    if not fresh:
        return ()
    revision = _BUMP_REVISION.scalar(connection, {"bank": new[0].bank_id})
    _ADD.run_many(connection, [_write_answer(replace(answer, revision=revision)) for answer in fresh])
    return [answer.id for answer in fresh]


def _find_changed(connection: Connection, bank_id: BankId, after: int) -> AnswerChanges:
    bank = _SELECT_BANK.first(connection, {"bank": bank_id})
    whole = not after or bank is None or after < bank.answers_purged
    rows = (_SELECT_ALL if whole else _SELECT_CHANGED).all(connection, {"bank": bank_id, "after": after})
    scopes: dict[Any, AnswerScope] = {}  # there are few scopes, and many answers share one
    entries: list[AnswerEntry] = []
    for row in rows:
        key = (row.agent_id, row.end_user, row.frame)
        scope = scopes.get(key) or scopes.setdefault(key, scope_of(row))
        values = (tuple(row.phrasings), row.confidence, row.conversation, row.revision, row.dropped)
        entries.append(AnswerEntry(row.id, scope, *values))
    return AnswerChanges(entries, whole)


def _save_phrasings(connection: Connection, bank_id: BankId, answer_id: AnswerId, phrasings: Sequence[str]) -> None:
    row = _SELECT.first(connection, {"of_id": answer_id})
    if row is None or row.bank_id != bank_id or row.dropped:
        return
    storable = [phrasing for phrasing in phrasings if is_storable(phrasing)]
    size = _size(storable, row.text, row.reasoning, row.rests)
    revision = _BUMP_REVISION.scalar(connection, {"bank": bank_id})
    values = {"of_id": answer_id, "new_phrasings": storable, "new_size": size, "new_revision": revision}
    _SAVE_PHRASINGS.execute(connection, values)
    delete_verdicts(connection, [answer_id])


def _drop(
    connection: Connection, bank_id: BankId, ids: Collection[AnswerId], why: DropReason, at: datetime
) -> Sequence[Answer]:
    candidates = fetch_by_ids(connection, _SELECT_BY_IDS, list(dict.fromkeys(ids)))
    rows = [row for row in candidates if row.bank_id == bank_id and not row.dropped]
    if rows:
        revision = _BUMP_REVISION.scalar(connection, {"bank": bank_id})
        _DROP.run_many(connection, [(row.id, why.value, at, revision) for row in rows])
        delete_verdicts(connection, [row.id for row in rows])
    return [_read_answer(row) for row in rows]
