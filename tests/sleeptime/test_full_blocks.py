"""A block that is nearly full learns on: lines are joined, or leave it for their notes (SLEEP-85)."""

import pytest

from circadia.sleeptime.operations.consolidate import Consolidate
from circadia.sleeptime.operations.contradictions import Contradictions
from circadia.sleeptime.operations.rethink import BlockEdit, Rethink, RethinkAnswer
from tests.sleeptime.night import Night, data_of
from tests.sleeptime.stand import Stand
from tests.sleeptime.test_rethink import RULES, edits, rethought, value


@pytest.fixture
def night(stand: Stand) -> Night:
    """Nights of Ann's bank."""
    return Night(stand, operations=[Consolidate(), Contradictions(), Rethink()])


async def filled(night: Night, *lines: str, limit: int) -> None:
    """Let a block get these lines from notes, one a night, under a limit."""
    await night.stand.write("learned", "Ann asks for short answers.", limit=limit)
    for number, line in enumerate(lines, 1):
        await rethought(night, edits(("learned", None, line), on=f"n{number}"), note=line)


@pytest.mark.spec("SLEEP-85")
async def test_a_block_that_is_nearly_full_joins_lines_moves_others_to_their_notes_and_learns_on(night: Night) -> None:
    await filled(night, "Ann has a cat.", "Ann has a dog.", "Ann has a red bike.", limit=90)
    mind = await rethought(
        night,
        RethinkAnswer(
            edits=[
                BlockEdit(
                    label="learned", old_text="Ann has a cat.", also=["Ann has a dog."],
                    new_text="Ann has a cat, a dog.", ids=[],
                ),
                BlockEdit(label="learned", old_text="Ann has a red bike.", new_text="", moved=True, ids=[]),
                BlockEdit(label="learned", new_text="Ann lives in Porto.", ids=["n4"]),
            ]
        ),
    )  # fmt: skip
    assert await night.refused() == []
    (rules,) = [each.rules for each in mind.asked if RULES in each.rules]
    assert "- A block is nearly full: make room before you add." in rules
    assert await value(night) == "Ann asks for short answers.\nAnn has a cat, a dog.\nAnn lives in Porto."
    assert "Ann has a red bike." in {note.text for note in await night.notes()}
    judged = next(each.data for each in mind.asked if "You judge whether" in each.rules)
    assert "Ann has a cat, a dog." in judged
    assert "red bike" not in judged.partition("## Claims")[2]
    block = await night.stand.block("learned")
    joined = next(span for span in block.spans if block.value[span.start : span.end] == "Ann has a cat, a dog.")
    assert len(joined.episodes) == 4, "what was said of each"


@pytest.mark.spec("SLEEP-85")
@pytest.mark.parametrize(
    ("limit", "line", "reason"),
    [
        (200, "Ann has a red bike.", "the block has room: a line that holds stays"),
        (90, "Ann asks for short answers.", "no note says it, so it would be lost"),
    ],
    ids=["room", "a person's"],
)
async def test_a_line_leaves_a_block_only_for_want_of_room_and_only_if_a_note_says_it(
    night: Night, limit: int, line: str, reason: str
) -> None:
    await filled(night, "Ann has a cat.", "Ann has a dog.", "Ann has a red bike.", limit=limit)
    before = await value(night)
    out = BlockEdit(label="learned", old_text=line, new_text="", moved=True, ids=[])
    mind = await rethought(night, RethinkAnswer(edits=[out]))
    assert await value(night) == before
    assert reason in await night.refused()
    assert len(data_of(mind, RULES)) == 1, "the model can do nothing about it"


@pytest.mark.spec("SLEEP-85")
async def test_a_model_that_moves_everything_out_leaves_half_of_the_block(night: Night) -> None:
    lines = [f"Ann has {animal}." for animal in ("a cat", "a dog", "a bird", "a fish", "a horse")]
    await filled(night, *lines, limit=110)
    out = [BlockEdit(label="learned", old_text=line, new_text="", moved=True, ids=[]) for line in lines]
    await rethought(night, RethinkAnswer(edits=out))
    left = await value(night)
    assert 55 <= len(left) < 80
    assert left.startswith("Ann asks for short answers.")
