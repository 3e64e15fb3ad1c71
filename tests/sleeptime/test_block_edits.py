"""An edit of a block is made whatever else the block has, also one that waited for a person (SLEEP-27, SLEEP-32)."""

from dataclasses import replace

import pytest

from circadia.records.bank import Trust
from circadia.records.change import ChangeKind, ChangeState
from circadia.sleeptime.operations.consolidate import Consolidate
from circadia.sleeptime.operations.contradictions import Contradictions
from circadia.sleeptime.operations.rethink import Rethink, RethinkAnswer
from tests.sleeptime.night import Night, answering, writing
from tests.sleeptime.stand import Stand
from tests.sleeptime.test_rethink import STAYS, edits, rethought, value


@pytest.fixture
def night(stand: Stand) -> Night:
    """Nights of Ann's bank."""
    return Night(stand, operations=[Consolidate(), Contradictions(), Rethink()])


@pytest.mark.spec("SLEEP-27")
@pytest.mark.parametrize(
    ("block", "old", "new", "left"),
    [
        ("Key: Tom Hale.\nRoom: Jo Lind.", "Tom Hale.", "Jo Lind.", "Key: Jo Lind.\nRoom: Jo Lind."),
        (f"Route 3, soon 5.\n{STAYS}", "Route 3, soon 5.", "Route 3", f"Route 3\n{STAYS}"),
        (
            "Ann:  phone 4455;  room 2.",
            "Ann: phone 4455; room 2.",
            "Ann: phone 4460; room 2.",
            "Ann: phone 4460; room 2.",
        ),
        ("Ann lives in Faro.\nAnn lives in Porto.", "Ann lives in Faro.", "Ann lives in Porto.", "Ann lives in Porto."),
    ],
    ids=["the new words stand elsewhere", "in the old ones", "as it is shown", "as a line of its own"],
)
async def test_an_edit_is_made_whatever_else_the_block_has(
    night: Night, block: str, old: str, new: str, left: str
) -> None:
    await rethought(night, edits(("learned", None, "Ann.")), note=f"Ann: {block}")
    written = await night.stand.block("learned")
    async with night.stand.store.begin_write() as tx:
        await tx.blocks.add(
            replace(written, version=2, parent=1, value=block, spans=[replace(written.spans[0], end=len(block))])
        )
    night.mind = answering(writing(f"Now: {new}"), edits(("learned", old, new), on="n2"))
    await night.said(f"It is so now: {new}")
    await night.run()
    assert await value(night) == left


@pytest.mark.spec("SLEEP-32", "SLEEP-83")
async def test_what_waits_for_a_person_is_made_in_the_block_as_the_same_pass_has_left_it(night: Night) -> None:
    await night.stand.write("learned", "Ann likes tea.\nThe cart is red.")
    people = [("learned", None, "Ann lives in Porto."), ("learned", None, "Ann has a home.")]
    tool = edits(("learned", None, "The cart is at 8 %."), on="n2")
    await night.said("It is so: Ann lives in Porto. Ann has a home.")
    await night.said("The cart is at 8 %.", "Again: the cart is at 8 %.", trust=Trust.TOOL)
    mine = edits(*people)
    night.mind = answering(
        writing("Ann lives in Porto, in a home.", "The cart is at 8 %.", each=1),
        RethinkAnswer(edits=[*mine.edits[:1], *tool.edits, *mine.edits[1:]]),
    )
    run = (await night.run()).run
    now = "Ann likes tea.\nThe cart is red.\nAnn lives in Porto.\nAnn has a home."
    assert await value(night) == now
    (waiting,) = await night.changes(ChangeKind.WRITE_BLOCK, ChangeState.STAGED)
    async with night.stand.store.begin_write() as tx:
        await night.stand.publisher.accept(tx, run, night.stand.bank, [waiting.number], by="ann")
    assert await value(night) == f"{now}\nThe cart is at 8 %."
