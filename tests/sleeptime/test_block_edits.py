"""An edit of a block is made whatever else the block has, also one that waited for a person (SLEEP-27, SLEEP-32)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import pytest

from circadia.llm.chat_model import Prompt
from circadia.records.bank import Trust
from circadia.records.change import ChangeKind, ChangeState
from circadia.sleeptime.operations.consolidate import Consolidate, ConsolidationAnswer, NoteDraft
from circadia.sleeptime.operations.contradictions import ComparisonAnswer, Contradiction, Contradictions
from circadia.sleeptime.operations.rethink import BlockEdit, Rethink, RethinkAnswer
from circadia.sleeptime.publish.claim_verifier import ClaimVerdict, ClaimVerdicts
from circadia.testing.rule_based_model import parse_rows
from tests.sleeptime.night import Night, answering, writing
from tests.sleeptime.stand import Stand
from tests.sleeptime.test_rethink import RULES, STAYS, edits, rethought, value


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


@pytest.mark.spec("SLEEP-27", "SLEEP-83")
async def test_an_edit_that_is_refused_takes_no_later_one_with_it(night: Night) -> None:
    await rethought(night, edits(("learned", None, "Ann lives in Faro."), ("learned", None, "Ann lives in Porto.")))
    assert await value(night) == "Ann lives in Porto."
    assert await night.refused() == ["'Faro' is in no source"]


@pytest.mark.spec("SLEEP-27", "SLEEP-83")
async def test_no_line_goes_for_a_text_that_another_edit_was_to_write_and_that_is_refused(night: Night) -> None:
    await rethought(night, edits(("learned", None, "Ann lives in Porto."), ("learned", None, "Ann has a home.")))
    faro = "Ann lives in Faro."
    wrong = edits(("learned", "Ann lives in Porto.", faro), ("learned", "Ann has a home.", faro))
    await rethought(night, wrong, note="Ann has a cat.")
    assert await value(night) == "Ann lives in Porto.\nAnn has a home."


@pytest.mark.spec("SLEEP-30")
@pytest.mark.parametrize("also", [(), ("Ann: room 2.",)])
async def test_what_replaces_a_person_s_own_words_waits_for_a_person_as_one_edit_of_the_block_of_then(
    night: Night, also: tuple[str, ...]
) -> None:
    await night.stand.write("human", "Ann: phone 4455.\nAnn: room 2.\nCall her Dr. Ann.")
    edit = BlockEdit(
        label="human", old_text="Ann: phone 4455.", new_text="Ann: phone 4460, room 2.", ids=["n1"], also=[*also]
    )
    mine = edits(("human", None, "Ann has a home."))
    await night.said("It is so: phone 4460, room 2, a home.")
    night.mind = answering(writing("Ann: phone 4460, room 2, has a home."), RethinkAnswer(edits=[*mine.edits, edit]))
    run = (await night.run()).run
    assert await value(night, "human") == "Ann: phone 4455.\nAnn: room 2.\nCall her Dr. Ann.\nAnn has a home."
    (waiting,) = await night.changes(ChangeKind.WRITE_BLOCK, ChangeState.STAGED)
    rest = "Call her Dr. Ann." if also else "Ann: room 2.\nCall her Dr. Ann."
    assert (waiting.after or {})["value"] == f"Ann: phone 4460, room 2.\n{rest}"
    async with night.stand.store.begin_write() as tx:
        await night.stand.publisher.accept(tx, run, night.stand.bank, [waiting.number], by="ann")
    assert await value(night, "human") == f"Ann: phone 4460, room 2.\n{rest}\nAnn has a home."


@pytest.mark.spec("SLEEP-22", "SLEEP-27")
@pytest.mark.parametrize("trust", [Trust.PERSON, Trust.TOOL])
async def test_what_contradicts_each_other_undecided_is_kept_open_in_the_block(night: Night, trust: Trust) -> None:
    await rethought(night, edits(("learned", None, "Ann lives in Porto.")))
    both = "Ann lives in Porto or in Lisbon, which is open."

    def compared(prompt: Prompt) -> ComparisonAnswer:
        now, before = "Ann lives in Lisbon", "Ann lives in Porto"
        keys = {row.text.rstrip("."): row.key for row in parse_rows(prompt.data)}
        if not keys.keys() >= {now, before}:
            return ComparisonAnswer(found=[])
        one = Contradiction(now=now, before=before, holds=[keys[now]], ended=[keys[before]], verdict="unclear")
        return ComparisonAnswer(found=[one])

    def rethink(prompt: Prompt) -> RethinkAnswer:
        keys = [row.key for row in parse_rows(prompt.data) if row.text.startswith("Ann lives in")]
        edit = BlockEdit(label="learned", old_text="Ann lives in Porto.", new_text=both, ids=keys)
        return RethinkAnswer(edits=[edit] if len(keys) == 2 else [])

    night.mind = mind = answering(writing("Ann lives in Lisbon."), compared, rethink)
    told = await night.said("Ann lives in Lisbon, I read.", "Ann lives in Lisbon.", trust=trust)
    await night.run()
    assert len(await night.changes(ChangeKind.FLAG, ChangeState.PUBLISHED)) == 1
    (asked,) = [each for each in mind.asked if RULES in each.rules]
    flag = "Ann lives in Lisbon ↔ Ann lives in Porto"
    assert f"\n## Undecided\n| {flag}\n" in asked.data
    assert '- "Undecided" has statements' in asked.rules
    if trust is Trust.PERSON:
        assert await value(night) == both
    else:  # it rests on the tool, too, and waits for a person
        assert await value(night) == "Ann lives in Porto."
        (waiting,) = await night.changes(ChangeKind.WRITE_BLOCK, ChangeState.STAGED)
        edit = cast("Mapping[str, Sequence[str]]", (waiting.after or {})["edit"])
        assert {each.id for each in told} <= set(edit["ids"])


@pytest.mark.spec("SLEEP-22", "SLEEP-27", "SLEEP-83")
@pytest.mark.parametrize("review", [False, True])
async def test_an_undecided_contradiction_names_only_notes_that_exist_and_a_second_try_shows_no_other(
    night: Night, review: bool
) -> None:
    await rethought(night, edits(("learned", None, "Ann lives in Porto.")))
    refused = "Ann lives in Lisbon, at last."

    def compared(prompt: Prompt) -> ComparisonAnswer:
        keys = {row.text: row.key for row in parse_rows(prompt.data)}
        if not keys.keys() >= {refused, "Ann lives in Porto."}:
            return ComparisonAnswer(found=[])
        one = Contradiction(
            now="Ann lives in Lisbon", before="Ann lives in Porto", holds=[keys["Ann lives in Porto."]],
            ended=[keys[refused]], verdict="unclear",
        )  # fmt: skip
        return ComparisonAnswer(found=[one])

    def judged(prompt: Prompt) -> ClaimVerdicts:
        claims = re.findall(r"(?m)^(c\d+) .*\] (.*)$", prompt.data)
        wrong = {refused: "not_said", "Ann lives in Faro.": "not_said"}
        return ClaimVerdicts(
            verdicts=[ClaimVerdict.model_validate({"id": k, "verdict": wrong.get(text, "said")}) for k, text in claims]
        )

    def consolidated(prompt: Prompt) -> ConsolidationAnswer:
        new = [row.key for row in parse_rows(prompt.data) if row.part == "Said now"]
        return ConsolidationAnswer(notes=[] if "Refused" in prompt.data else [NoteDraft(text=refused, ids=new)])

    night.mind = mind = answering(consolidated, compared, judged, edits(("learned", None, "Ann lives in Faro.")))
    await night.said("Ann lives in Lisbon, I read.", "Faro is fine, too.")
    await night.run(review=review)
    (flag,) = await night.changes(ChangeKind.FLAG)
    assert flag.state is (ChangeState.STAGED if review else ChangeState.PUBLISHED)
    named = {flag.target, *cast("Sequence[str]", (flag.after or {})["evidence"])}
    assert {each for each in named if each.startswith("not_")} == {each.id for each in await night.notes()}
    assert flag.target in named
    first, again = [each.data for each in mind.asked if RULES in each.rules]
    assert refused in first
    assert refused not in again
    assert "## Undecided\n| Ann lives in Lisbon ↔ Ann lives in Porto\n" in again


@pytest.mark.spec("SLEEP-22", "SLEEP-31")
async def test_a_note_that_names_what_was_not_shown_is_compared_with_nothing(night: Night) -> None:
    await rethought(night, edits(("learned", None, "Ann lives in Porto.")))
    night.mind = mind = answering(
        ConsolidationAnswer(notes=[NoteDraft(text="Ann lives in Lisbon.", ids=["e1", "e99"])])
    )
    await night.said("Ann lives in Lisbon, I read.")
    await night.run()
    assert not [each for each in mind.asked if "compare statements" in each.rules]


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
