"""Drops ready answers that have expired, are void, or exceed the limits, and writes about valid ones (ANS-05).

An answer is never validated inside the writing transaction. Validation may take as long as loading an index, and all
other writers would wait; and uncommitted rows must not get into an index.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import Final

from circadia.answers.freshness import fetch_bank_state
from circadia.answers.question_drafts import AnswerServices
from circadia.answers.services import AnswerValidator, Validity
from circadia.ids import AnswerId, BankId
from circadia.records.answer import Answer, AnswerDay, DropReason
from circadia.records.bank import Bank
from circadia.settings.answers import AnswersSettings
from circadia.stores.base import Store, Tx

PAGE: Final = 100
"""Answers checked in one transaction."""
_BYTES: Final = 1_000_000
TRIES: Final = 5
"""Attempts while the bank keeps changing in between; then nothing is written."""


async def clean_up(
    bank: Bank, store: Store, answer_services: AnswerServices, yield_to_calls: Callable[[], Awaitable[None]]
) -> int:
    """Drop expired and void answers page by page, then those over the limits, and return how many.

    It calls `yield_to_calls` before each page.
    """
    dropped = 0
    after: AnswerId | None = None
    while True:
        await yield_to_calls()
        now = answer_services.clock.now()
        async with store.begin_read() as tx:
            present = await tx.banks.get(bank.id)
            page = [] if present is None else list(await tx.answers.find_live(bank.id, after=after, limit=PAGE))
            expired = [answer.id for answer in page if answer.expires_at <= now]
            live = [] if present is None else [answer for answer in page if answer.id not in expired]
            checked = [(answer, await _check_validity(tx, bank, answer, answer_services)) for answer in live]
        void = [answer.id for answer, validity in checked if validity.void]
        if expired or void:
            async with store.begin_write() as tx:
                dropped += len(await drop_ready_answers(tx, bank.id, expired, DropReason.EXPIRED, now))
                dropped += len(await drop_ready_answers(tx, bank.id, void, DropReason.VOID, now))
        if len(page) < PAGE:
            break
        after = page[-1].id
    async with store.begin_write() as tx:
        dropped += len(await drop_excess_answers(tx, bank.id, answer_services.settings, answer_services.clock.now()))
    return dropped


async def forget_expired(store: Store, now: datetime) -> None:
    """Drop expired answers in all banks, in batches, whether passes run there or not."""
    while True:
        async with store.begin_read() as tx:
            found = {
                bank_id: await tx.answers.find_expired(bank_id, now, limit=PAGE)
                for bank_id in await tx.answers.find_banks_with_expired(now, limit=PAGE)
            }
        if not found:
            return
        for bank_id, expired in found.items():
            async with store.begin_write() as tx:
                await drop_ready_answers(tx, bank_id, expired, DropReason.EXPIRED, now)


async def drop_excess_answers(tx: Tx, bank_id: BankId, settings: AnswersSettings, at: datetime) -> Sequence[Answer]:
    """Drop answers over the limits of the bank or of one agent, the least recently used first."""
    crowded = await tx.answers.find_surplus(
        bank_id, max_answers=settings.max_entries, max_bytes=int(settings.max_megabytes * _BYTES),
        max_per_agent=settings.max_per_agent,
    )  # fmt: skip
    return await drop_ready_answers(tx, bank_id, crowded, DropReason.CROWDED, at)


async def drop_ready_answers(
    tx: Tx, bank_id: BankId, ids: Collection[AnswerId], why: DropReason, at: datetime
) -> Sequence[Answer]:
    """Drop answers, count unused ones as waste (ANS-08), and return them as they were."""
    if not ids:
        return ()
    dropped_answers = await tx.answers.drop(bank_id, ids, why, at)
    wasted = [answer for answer in dropped_answers if not answer.uses]
    if wasted:
        tokens = sum(answer.tokens for answer in wasted)
        await tx.answer_uses.add_counts(
            [AnswerDay(bank_id=bank_id, day=at.date(), wasted=len(wasted), wasted_tokens=tokens)]
        )
    return dropped_answers


async def _check_validity(tx: Tx, bank: Bank, answer: Answer, answer_services: AnswerServices) -> Validity:
    agent = await tx.agents.get(answer.scope.agent_id)
    if agent is None or agent.deleted_at is not None:
        return Validity("its agent is gone")
    return await answer_services.validator.validity(tx, bank, answer)


async def write_if_unchanged(
    store: Store,
    bank_id: BankId,
    validator: AnswerValidator,
    found: Callable[[Tx, Bank], Awaitable[Answer | None]],
    write: Callable[[Tx, Bank, Answer], Awaitable[bool]],
    *,
    uncertain: bool = False,
) -> bool:
    """Write about the answer that `found` returns if it is valid at the write; return the result of `write`.

    With `uncertain`, an answer counts as valid although a newer turn is not read for it.
    """
    for _ in range(TRIES):
        async with store.begin_read() as tx:
            bank = await tx.banks.get(bank_id)
            answer = None if bank is None else await found(tx, bank)
            if bank is None or answer is None:
                return False
            validity = await validator.validity(tx, bank, answer)
            if validity.void or (validity.newer and not uncertain):
                return False
            before = await fetch_bank_state(tx, bank)
        async with store.begin_write() as tx:
            bank = await tx.banks.get(bank_id)
            answer = None if bank is None else await found(tx, bank)
            if bank is None or answer is None:
                return False
            if await fetch_bank_state(tx, bank) == before:
                return await write(tx, bank, answer)
    return False
