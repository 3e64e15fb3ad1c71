"""Writes about a valid answer without validating it inside the writing transaction.

Validation may take as long as loading an index, and all other writers would wait; and uncommitted rows must not get
into an index.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from circadia.answers.freshness import fetch_bank_state
from circadia.answers.services import AnswerValidator
from circadia.ids import BankId
from circadia.records.answer import Answer
from circadia.records.bank import Bank
from circadia.stores.base import Store, Tx

TRIES: Final = 5
"""Attempts while the bank keeps changing in between; then nothing is written."""


async def write_if_unchanged(
    store: Store,
    bank_id: BankId,
    validator: AnswerValidator,
    found: Callable[[Tx, Bank], Awaitable[Answer | None]],
    write: Callable[[Tx, Bank, Answer], Awaitable[bool]],
    *,
    in_doubt: bool = False,
) -> bool:
    """Write about the answer that `found` returns if it is valid at the write; return the result of `write`.

    With `in_doubt`, an answer in doubt counts as valid.
    """
    for _ in range(TRIES):
        async with store.begin_read() as tx:
            bank = await tx.banks.get(bank_id)
            answer = None if bank is None else await found(tx, bank)
            if bank is None or answer is None:
                return False
            validity = await validator.validity(tx, bank, answer)
            if validity.void or (validity.doubt and not in_doubt):
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
