"""What each store promises of a judge's verdicts about ready answers."""

from dataclasses import replace

import pytest

from circadia.ids import BankId
from circadia.records.answer import Answer, DropReason, SameQuestionVerdict
from circadia.records.retention import RetentionKind
from circadia.stores.base import Store
from tests.contract.rows import at, expire
from tests.contract.sleep_rows import banks_of
from tests.contract.test_store_answers import answer, put


def verdict(key: str, of: Answer, *, seconds: float = 0, same: bool = True) -> SameQuestionVerdict:
    return SameQuestionVerdict(id=key, bank_id=of.bank_id, answer_id=of.id, same=same, at=at(seconds))


async def verdicts(store: Store, bank: BankId, *keys: str) -> list[SameQuestionVerdict]:
    async with store.begin_read() as tx:
        return sorted(await tx.answer_uses.find_verdicts(bank, keys), key=lambda each: each.id)


@pytest.mark.spec("ANS-06", "ANS-13")
async def test_a_verdict_is_found_in_its_bank_while_its_answer_is_live(store: Store) -> None:
    team, other = await banks_of(store, "team", "other")
    one, two, theirs = answer("a1", team), answer("a2", team), answer("b1", other)
    await put(store, one, two, theirs)
    async with store.begin_write() as tx:
        await tx.answers.drop(team, [two.id], DropReason.VOID, at(1))
        await tx.answer_uses.save_verdicts([])
        await tx.answer_uses.save_verdicts([
            verdict("v1", one, same=False), verdict("v1", one, seconds=9), verdict("v2", two), verdict("v3", theirs),
            verdict("v4", answer("none", team)), verdict("v5", replace(theirs, bank_id=team)),
        ])  # fmt: skip
    every = ("v1", "v2", "v3", "v4", "v5", "none")
    assert await verdicts(store, team, *every) == [verdict("v1", one, seconds=9)], "not of dropped or others' answers"
    assert await verdicts(store, other, *every) == [verdict("v3", theirs)]
    async with store.begin_write() as tx:
        await tx.answer_uses.save_verdicts([verdict("v1", one, seconds=10, same=False)])
    assert await verdicts(store, team, *every) == [verdict("v1", one, seconds=10, same=False)]


@pytest.mark.spec("ANS-13")
async def test_a_verdict_is_gone_with_its_answer_with_its_phrasing_and_with_what_is_forgotten(store: Store) -> None:
    team, other = await banks_of(store, "team", "other")
    made = [answer(f"a{number}", team) for number in range(4)]
    await put(store, *made, answer("b1", other))
    kept = [verdict(f"v{each.id}", each, seconds=number) for number, each in enumerate(made)]
    keys = [each.id for each in kept]
    async with store.begin_write() as tx:
        await tx.answer_uses.save_verdicts([*kept, verdict("w", answer("b1", other))])
        await tx.answers.drop(team, [made[0].id], DropReason.WRONG, at(1))
        await tx.answers.save_phrasings(team, made[1].id, made[1].phrasings[:1])
    assert await verdicts(store, team, *keys) == kept[2:]
    async with store.begin_write() as tx:
        await expire(tx, at(3), RetentionKind.ANSWER_VERDICTS)
    assert await verdicts(store, team, *keys) == kept[3:]
    async with store.begin_write() as tx:
        await tx.answers.clear(team)
    assert await verdicts(store, team, *keys) == []
    assert await verdicts(store, other, "w") == []  # it is older than the purge
    async with store.begin_write() as tx:
        await tx.answer_uses.save_verdicts([verdict("w", answer("b1", other))])
        await tx.banks.remove(other)


@pytest.mark.spec("ANS-13")
async def test_the_newest_20_000_verdicts_of_a_bank_are_kept(store: Store) -> None:
    team, other = await banks_of(store, "team", "other")
    one = answer("a1", team)
    await put(store, one, answer("b1", other))
    many = [verdict(f"v{number}", one, seconds=number) for number in range(20_005)]
    async with store.begin_write() as tx:
        await tx.answer_uses.save_verdicts([verdict("w", answer("b1", other))])
        for start in range(0, len(many), 5_000):
            await tx.answer_uses.save_verdicts(many[start : start + 5_000])
    assert await verdicts(store, team, "v3", "v4", "v5", "v20004") == [many[20_004], many[5]]
    assert len(await verdicts(store, other, "w")) == 1
