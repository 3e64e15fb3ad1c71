"""What is forgotten is also gone from the records of passes: changes, and answers of the model."""

from datetime import timedelta

import pytest

from circadia.ids import CallId
from circadia.memory.forgetting import forget
from circadia.records.change import ChangeState
from circadia.records.sleep_call import SleepCall
from circadia.sleeptime.operations.consolidate import Consolidate, ConsolidationAnswer
from tests.sleeptime.night import Night, answering
from tests.sleeptime.stand import Stand


@pytest.mark.spec("MEM-03", "SLEEP-32")
async def test_no_record_of_a_pass_holds_what_was_forgotten(stand: Stand) -> None:
    porto, flat, cat, dog = await stand.said("I live in Porto.", "My flat in Porto.", "I have a cat.", "And a dog.")
    run = await stand.begun()
    block = stand.rewrite(None, "learned", "Ann lives in Porto.\nShe has pets.")
    assert block.after is not None
    after = {**block.after, "spans": [[0, 19, [porto.id, flat.id]], [20, 33, [cat.id, dog.id]]]}
    await stand.publish(
        run, stand.note("n1", [porto, flat]), stand.note("n2", [cat, dog], "Ann has pets."),
        stand.change(block.kind, "learned", after=after),
    )  # fmt: skip
    call = SleepCall(
        id=CallId("c1"), pass_id=run.id, bank_id=stand.bank.id, operation="o", key="k", answer='"Porto"',
        at=stand.clock.now(),
    )  # fmt: skip
    async with stand.store.begin_write() as tx:
        await tx.sleep_calls.add(call)
    await stand.ended(run)
    async with stand.store.begin_write() as tx:
        await forget(tx, stand.bank, [porto.id])
    async with stand.store.begin_read() as tx:
        changes = await tx.passes.find_changes(run.id)
        assert [each.state for each in changes] == [ChangeState.PUBLISHED] * 3
        assert "Porto" not in str(changes)
        assert "Ann has pets." in str(changes)
        assert [each.answer for each in await tx.sleep_calls.find_by_pass(run.id)] == [None]
        present = await tx.passes.get(run.id)
    assert present is not None
    async with stand.store.begin_write() as tx:
        undone = await stand.publisher.undo(tx, present, stand.bank, by="ann")
    assert [(each.state.value, each.why) for each in undone] == [
        ("published", "not undone: what it rests on was forgotten"),
        ("undone", "undone by ann"),
        ("published", "not undone: what it rests on was forgotten"),
    ]
    assert (await stand.block("learned")).value.strip() == "She has pets."


@pytest.mark.spec("MEM-40")
async def test_a_pass_reads_nothing_that_has_expired(stand: Stand) -> None:
    model = answering(lambda _: ConsolidationAnswer(notes=[]))
    night = Night(stand, model, operations=[Consolidate()])
    soon = stand.clock.now() + timedelta(seconds=150)
    await night.said("The door code is 4711.", "The gate code is 4712.", expires_at=soon)
    await night.said("The door is green.")
    await night.run()
    (asked,) = (prompt.data for prompt in model.asked)
    assert [text in asked for text in ("4711", "4712", "The door is green.")] == [False, False, True]
