"""Rows of sleep-time work for the tests of stores."""

from dataclasses import replace
from typing import Any

from circadia.ids import BankId, CallId, PassId
from circadia.records.bank import Bank
from circadia.records.change import Change, ChangeKind
from circadia.records.sleep_call import SleepCall
from circadia.records.sleep_pass import Pass, Trigger
from circadia.stores.base import Store
from tests.contract.rows import at


async def banks_of(store: Store, *names: str) -> list[BankId]:
    """Make banks and return their ids."""
    made = [Bank(id=BankId(f"bnk_{name}"), name=name, created_at=at(0)) for name in names]
    async with store.begin_write() as tx:
        for bank in made:
            await tx.banks.add(bank)
    return [bank.id for bank in made]


def sleep_pass(key: str, bank: BankId, *, seconds: float = 0, **more: Any) -> Pass:
    """Return a pass."""
    return replace(Pass(id=PassId(key), bank_id=bank, trigger=Trigger.IDLE, created_at=at(seconds)), **more)


def change(pass_id: str, number: int, **more: Any) -> Change:
    """Return a change."""
    made = Change(
        pass_id=PassId(pass_id), number=number, operation="consolidate", kind=ChangeKind.ADD_NOTE,
        target=f"note_{number}", at=at(number),
    )  # fmt: skip
    return replace(made, **more)


def asked(key: str, bank: BankId, **more: Any) -> SleepCall:
    """Return a call."""
    made = SleepCall(
        id=CallId(key), pass_id=PassId("p1"), bank_id=bank, operation="consolidate", key="k", at=at(0)
    )  # fmt: skip
    return replace(made, **more)
