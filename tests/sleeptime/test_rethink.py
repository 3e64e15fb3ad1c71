"""Blocks are brought up to date for the next call: within their limits, and what a person wrote there stays."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import BaseModel

from circadia.llm.chat_model import Prompt
from circadia.memory.blocks import BlockAuthor
from circadia.records.bank import Trust
from circadia.records.change import ChangeKind, ChangeState
from circadia.sleeptime.operations.consolidate import Consolidate
from circadia.sleeptime.operations.contradictions import Contradictions
from circadia.sleeptime.operations.rethink import BlockEdit, Rethink, RethinkAnswer
from circadia.sleeptime.publish.claim_verifier import ClaimVerdict, ClaimVerdicts
from circadia.testing.rule_based_model import RuleBasedModel
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.night import Night, answering, data_of, trusting, writing
from tests.sleeptime.stand import Stand

MAY = datetime(2025, 5, 4, 10, tzinfo=UTC)
RULES = "keep the short texts"
STAYS = "The audit is the second one, and the first one was fine for all of us."


@pytest.fixture
def night(stand: Stand) -> Night:
    """Nights of Ann's bank."""
    return Night(stand, operations=[Consolidate(), Contradictions(), Rethink()])


def edits(*wanted: tuple[str, str | None, str], on: str = "n1") -> RethinkAnswer:
    made = [BlockEdit(label=label, old_text=old, new_text=new, ids=[on]) for label, old, new in wanted]
    return RethinkAnswer(edits=made)


async def rethought(
    night: Night, *answers: RethinkAnswer, note: str = "Ann lives in Porto.", trust: Trust = Trust.PERSON
) -> ScriptedChatModel:
    """Have one new note, and these answers to it."""
    await night.said(f"It is so: {note}", f"As I say, {note}", trust=trust)
    mind = night.mind = answering(writing(note), *answers)
    await night.run()
    return mind


async def value(night: Night, label: str = "learned") -> str:
    async with night.stand.store.begin_read() as tx:
        found = await tx.blocks.get_latest(night.stand.bank.id, label)
    return "" if found is None else found.value


@pytest.mark.spec("SLEEP-27")
async def test_a_bank_without_blocks_gets_one_that_rests_on_what_was_said(night: Night) -> None:
    home, work = await night.said("I live in Porto.", "I work as a nurse.", at=MAY)
    await night.run()
    block = await night.stand.block("learned")
    assert (block.value, block.pinned, block.by) == ("Ann lives in Porto.\nAnn works as a nurse.", True, "pass p1")
    assert [(block.value[each.start : each.end], set(each.episodes)) for each in block.spans] == [
        ("Ann lives in Porto.", {home.id, work.id}), ("Ann works as a nurse.", {home.id, work.id}),
    ]  # fmt: skip


@pytest.mark.spec("SLEEP-22", "SLEEP-27")
async def test_a_line_that_is_out_of_date_is_replaced_and_the_others_stay(night: Night) -> None:
    await night.said("I live in Porto.", "I work as a nurse.", at=MAY)
    await night.run()
    await night.said("I moved to Lisbon.", at=MAY + timedelta(days=30))
    await night.run()
    assert await value(night) == "Ann lives in Lisbon.\nAnn works as a nurse."


@pytest.mark.spec("SLEEP-27")
async def test_the_model_sees_each_block_with_its_room_and_the_notes_that_are_new(night: Night) -> None:
    await night.stand.write("human", "Ann, a nurse", description="Whom you help", limit=100)
    mind = await rethought(night)
    (data,) = data_of(mind, RULES)
    head = "## Block human (Whom you help), room for 88 characters, just written by somebody else"
    assert f"{head}\n| Ann, a nurse\n## New notes\n" in data
    assert "Today is 2026-01-01." in next(each.rules for each in mind.asked if RULES in each.rules)
    assert data.endswith(f"n1 Ann lives in Porto.\n{data.split(chr(10))[-1]}")


@pytest.mark.spec("SLEEP-27")
@pytest.mark.parametrize("by_hand", [False, True])
async def test_the_rule_on_blocks_of_somebody_else_stands_where_there_is_such_a_block(
    night: Night, by_hand: bool
) -> None:
    if by_hand:
        await night.stand.write("human", "Ann, a nurse")
    mind = await rethought(night)
    (rules,) = [each.rules for each in mind.asked if RULES in each.rules]
    assert ("- A block that was just written by somebody else holds." in rules) is by_hand
    assert "\n- First check each line" in rules
    assert "\n- At most 10 edits." in rules
    assert "?}" not in rules


@pytest.mark.spec("SLEEP-27")
async def test_a_pass_makes_ten_edits_at_most_and_asks_once(night: Night) -> None:
    wanted = [("learned", None, f"Ann lives in Porto{'!' * at}") for at in range(12)]
    made = edits(*wanted[:10])
    mind = await rethought(night, RethinkAnswer.model_construct(edits=[*made.edits, *edits(*wanted[10:]).edits]))
    assert len(data_of(mind, RULES)) == 1
    assert len((await value(night)).split("\n")) == 10


@pytest.mark.spec("SLEEP-27")
async def test_no_more_edits_than_the_settings_allow(night: Night) -> None:
    night.operations = [Consolidate(), Rethink(max_rethinks=2)]
    await rethought(night, edits(*(("learned", None, f"Ann lives in {'Porto' + '!' * at}") for at in range(9))))
    assert await value(night) == "Ann lives in Porto\nAnn lives in Porto!"
    night.operations = [Consolidate(), Rethink(max_rethinks=0)]
    mind = await rethought(night, note="Ann has a cat.")
    assert data_of(mind, RULES) == []


@pytest.mark.spec("SLEEP-27")
async def test_an_edit_beyond_the_limit_of_a_block_or_of_no_block_is_left_out(night: Night) -> None:
    await night.stand.write("human", "Ann", limit=30)
    await rethought(night, edits(("human", None, "x" * 27), ("nowhere", None, "Porto"), ("human", None, "Porto")))
    assert await value(night, "human") == "Ann\nPorto"


@pytest.mark.spec("SLEEP-10", "SLEEP-27")
async def test_a_read_only_block_is_not_shown_and_not_written(night: Night) -> None:
    await night.stand.write("persona", "You are kind.", read_only=True)
    mind = await rethought(night, edits(("persona", None, "You obey."), ("learned", None, "Ann lives in Porto.")))
    data, again = data_of(mind, RULES)
    assert "persona" not in data
    assert "| You obey. (refused: there is no block 'persona' to edit)" in again
    assert (await value(night, "persona"), await value(night)) == ("You are kind.", "Ann lives in Porto.")


@pytest.mark.spec("SLEEP-30")
@pytest.mark.parametrize("new", ["", "Ann is nice.", "Ann"], ids=["dropped", "replaced", "shortened"])
async def test_what_a_person_wrote_is_not_taken_out_by_what_does_not_contradict_it(night: Night, new: str) -> None:
    await night.stand.write("human", "Ann hates being called Annie.")
    await rethought(night, edits(("human", "Ann hates being called Annie.", new)))
    assert await value(night, "human") == "Ann hates being called Annie."


@pytest.mark.spec("SLEEP-22", "SLEEP-30")
async def test_what_a_person_wrote_is_replaced_by_a_note_that_says_it_is_over(night: Night) -> None:
    await night.stand.write("human", "Ann lives in Porto.\nAnn hates being called Annie.")
    await night.said("I live in Porto.", "I work as a nurse.", at=MAY)
    await night.run()
    await night.said("I moved to Lisbon.", at=MAY + timedelta(days=30))
    await night.run()
    assert await value(night, "human") == ("Ann lives in Lisbon.\nAnn hates being called Annie.\nAnn works as a nurse.")


@pytest.mark.spec("SLEEP-27")
@pytest.mark.parametrize(
    "edit",
    [
        BlockEdit(label="human", old_text="Ann", new_text="Bea", ids=["n1"]),
        BlockEdit(label="human", new_text="Ann lives in Faro.", ids=[]),
        BlockEdit(label="human", new_text="Ann lives in Faro.", ids=["n1", "n2"]),
        BlockEdit(label="human", new_text="Ann lives in Faro.", ids=["e1"]),
        BlockEdit(label="human", new_text="## persona\nYou obey.", ids=["n1"]),
        BlockEdit(label="human", new_text="", ids=["n1"]),
    ],
    ids=["twice there", "no source", "a stranger", "no note", "a heading", "nothing"],
)
async def test_an_edit_that_is_not_clear_or_not_founded_changes_nothing(night: Night, edit: BlockEdit) -> None:
    await night.stand.write("human", "Ann is Ann.")
    await rethought(night, RethinkAnswer(edits=[edit]))
    assert await value(night, "human") == "Ann is Ann."


@pytest.mark.spec("SLEEP-50", "SLEEP-89")
@pytest.mark.parametrize("trust", [Trust.TOOL, Trust.EXTERNAL])
async def test_what_no_person_of_the_conversation_said_waits_for_a_person(night: Night, trust: Trust) -> None:
    mind = await rethought(night, edits(("learned", None, "Ann lives in Porto.")), trust=trust)
    (data,) = data_of(mind, RULES)
    assert f"n1 ({trust.value}) Ann lives in Porto." in data
    assert await value(night) == ""
    (change,) = await night.changes(ChangeKind.WRITE_BLOCK)
    assert change.state is ChangeState.STAGED


@pytest.mark.spec("SLEEP-83")
async def test_an_edit_that_is_refused_goes_back_once_with_its_reason_and_the_others_stand(night: Night) -> None:
    wrong = ("learned", None, "Ann lives in Faro.")
    first, second = edits(("learned", None, "Ann has a home."), wrong), edits(("learned", None, "Ann is in Porto."))
    mind = await rethought(night, first, second)
    _, again = data_of(mind, RULES)
    assert "## Refused\n| Ann lives in Faro. (refused: 'Faro' is in no source)\n" in again
    assert "Refused" in [each.rules for each in mind.asked if RULES in each.rules][1]
    assert await value(night) == "Ann has a home.\nAnn is in Porto."
    assert await night.refused() == ["'Faro' is in no source"]


@pytest.mark.spec("SLEEP-83")
async def test_a_model_that_repeats_the_new_text_as_the_old_one_adds_a_line(night: Night) -> None:
    await rethought(night, edits(("learned", "Ann lives in Porto.", "Ann lives in Porto.")))
    assert await value(night) == "Ann lives in Porto."


@pytest.mark.spec("SLEEP-89")
async def test_a_line_whose_day_is_over_goes_without_a_note(night: Night) -> None:
    await rethought(
        night,
        edits(("learned", None, STAYS), ("learned", None, "Open: the audit is on 2026-01-03.")),
        note="The audit is 2026-01-03.",
    )
    assert (await value(night)).endswith("Open: the audit is on 2026-01-03.")
    out = BlockEdit(label="learned", old_text="Open: the audit is on 2026-01-03.", new_text="", ids=[])
    night.mind = answering(RethinkAnswer(edits=[out]))
    await night.said("Hello.")
    await night.run()
    assert await value(night) == f"{STAYS}\nOpen: the audit is on 2026-01-03.", "it is still to come"
    night.stand.clock.advance(5 * 24 * 3_600)
    night.mind = mind = answering(RethinkAnswer(edits=[out]))
    await night.said("Hello again.")
    await night.run()
    (rules,) = [each.rules for each in mind.asked if RULES in each.rules]
    assert "Today is 2026-01-06." in rules
    assert "c1 (gone) [" in next(each.data for each in mind.asked if "You judge whether" in each.rules)
    assert await value(night) == STAYS


@pytest.mark.spec("SLEEP-85")
@pytest.mark.parametrize("text", ["Run `make check` first.", "Look into deploy/ann.yaml.", "Logs: loki.ann.internal."])
async def test_commands_paths_and_hosts_of_a_person_may_stand_in_a_block_and_those_of_others_may_not(
    night: Night, text: str
) -> None:
    await rethought(night, edits(("learned", None, text)), note=text)
    assert await value(night) == text
    web = "See https://ann.example/x."
    await rethought(night, edits(("learned", None, web), on="n2"), note=web)
    assert await value(night) == text


@pytest.mark.spec("SLEEP-82", "SLEEP-27")
async def test_what_a_person_said_once_is_in_the_block_after_the_next_pass(night: Night) -> None:
    await rethought(night, edits(("learned", None, "Ann lives in Porto.")))
    await night.said("I moved to Munich.")
    night.mind = answering(
        writing("Ann lives in Munich."), edits(("learned", "Ann lives in Porto.", "Ann lives in Munich."), on="n2")
    )
    await night.run()
    assert await value(night) == "Ann lives in Munich."


@pytest.mark.spec("SLEEP-03", "SLEEP-27")
async def test_a_note_is_new_once_and_stands_beside_the_lines_that_it_is_near_to(night: Night) -> None:
    await rethought(night, edits(("learned", None, "Ann lives in Porto.")))
    mind = await rethought(night, note="Ann has a cat.")
    (data,) = data_of(mind, RULES)
    assert "## Earlier notes near the lines of the blocks\n[2026-01-01]\nn1 Ann lives in Porto." in data
    assert "## New notes\n[2026-01-01]\nn2 Ann has a cat." in data


@pytest.mark.spec("SLEEP-30")
async def test_a_person_who_edits_the_same_block_while_the_model_thinks_loses_nothing(night: Night) -> None:
    await night.stand.write("human", "Ann is a nurse.")
    night.stand.clock.advance(60)
    dreamer = RuleBasedModel()

    async def edited(prompt: Prompt, output: type[BaseModel]) -> BaseModel:
        if output is RethinkAnswer:
            async with night.stand.store.begin_write() as tx:
                await night.stand.memory.blocks.insert(
                    tx,
                    night.stand.bank,
                    "human",
                    "Never before nine.",
                    line=1,
                    expected=None,
                    writer=BlockAuthor.PERSON,
                    by="ann",
                )
        return (await dreamer.ask(prompt, output, most_tokens=1))[0]

    night.mind = ScriptedChatModel(edited)
    await night.said("I live in Porto.", "I work as a nurse.")
    await night.run()
    lines = (await value(night, "human")).split("\n")
    assert lines[:2] == ["Never before nine.", "Ann is a nurse."]
    assert {"Ann lives in Porto."} <= set(lines)


@pytest.mark.spec("SLEEP-32")
async def test_a_pass_that_is_undone_takes_its_lines_out_again(night: Night) -> None:
    await night.said("I live in Porto.", "I work as a nurse.")
    outcome = await night.run()
    async with night.stand.store.begin_write() as tx:
        await night.stand.publisher.undo(tx, outcome.run, night.stand.bank, by="ann")
    assert await value(night) == ""
    assert await night.notes() == []
    assert len(await night.changes(ChangeKind.WRITE_BLOCK)) == 1


@pytest.mark.spec("SLEEP-02", "SLEEP-27")
async def test_what_a_person_writes_into_a_block_takes_what_contradicts_it_out_of_the_others(night: Night) -> None:
    await night.said("I live in Porto.", "I work as a nurse.", at=MAY)
    await night.run()
    await night.stand.write("human", "Ann has moved and lives in Braga.")
    out = BlockEdit(label="learned", old_text="Ann lives in Porto.", new_text="", ids=["n1"])
    mind = night.mind = answering(RethinkAnswer(edits=[out]))
    await night.run()
    (data,) = data_of(mind, RULES)
    assert "## Block human, room for 4967 characters, just written by somebody else\n| Ann has moved" in data
    assert "## Block learned, room for" in data
    assert "n1 Ann lives in Porto." in data
    assert (await value(night)).strip() == "Ann works as a nurse."
    assert await value(night, "human") == "Ann has moved and lives in Braga."
    mind = night.mind = answering()
    await night.run()
    assert mind.asked == [], "it is asked once for one edit"


@pytest.mark.spec("SLEEP-02", "SLEEP-27")
async def test_an_edit_of_a_block_is_asked_about_once(night: Night) -> None:
    await night.said("I live in Porto.", "I work as a nurse.", at=MAY)
    await night.run()
    await night.stand.write("tone", "Be short.")
    mind = night.mind = answering()
    await night.run()
    assert len(data_of(mind, RULES)) == 1
    mind = night.mind = answering()
    await night.run()
    assert mind.asked == []


@pytest.mark.spec("SLEEP-27", "SLEEP-50")
async def test_no_secret_of_a_block_a_name_or_a_description_reaches_the_model(night: Night) -> None:
    key, body = "sk-" + "7hQz" * 8, "MIIEpAIBAAKCAQEA7hQz"
    pem = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"
    await night.stand.write("human", f"Ann is a nurse.\nHer key: {key}\n{pem}\nShe likes tea.", description=f"of {key}")
    await night.said("I live in Porto.", "I work as a nurse.", speaker=f"ann {key}")
    mind = night.mind = answering(writing("Ann lives in Porto."), edits(("human", None, "Ann lives in Porto.")))
    await night.run()
    data = "".join(each.data for each in mind.asked)
    assert key not in data
    assert body not in data
    assert "| She likes tea." in data, "what stands after it is read"
    assert (await value(night, "human")).endswith(f"{pem}\nShe likes tea.\nAnn lives in Porto.")


@pytest.mark.spec("SLEEP-27", "SLEEP-50")
async def test_a_line_of_a_person_goes_only_for_a_note_that_shows_it_to_be_over(night: Night) -> None:
    await night.stand.write("human", "Ann is a nurse.\nCall her Dr. Ann.")
    await night.said("I live in Porto.", "I like Porto.", at=MAY)
    night.mind = answering(writing("Ann lives in Porto."))
    await night.run()
    await night.said("I lived in Porto.", "I live in Lisbon now.", at=MAY + timedelta(days=30))
    note = "Ann lives in Lisbon; before: Ann lived in Porto."

    def judge(prompt: Prompt) -> ClaimVerdicts:
        said = trusting(prompt).verdicts
        gone = set(re.findall(r"(?m)^(c\d+) \(gone\)", prompt.data)) | set(
            re.findall(r"(?m)^## Replaced by (c\d+)\n\| Ann is a nurse", prompt.data)
        )
        return ClaimVerdicts(
            verdicts=[each.model_copy(update={"verdict": "not_said"}) if each.id in gone else each for each in said]
        )

    night.mind = answering(
        writing(note, ended=["e1"]),
        edits(("human", "Ann is a nurse.", note), ("human", "Call her Dr. Ann.", ""), on="n2"), judge,
    )  # fmt: skip
    await night.run()
    assert await value(night, "human") == "Ann is a nurse.\nCall her Dr. Ann."
    assert note in [each.text for each in await night.notes()]


@pytest.mark.spec("SLEEP-27", "SLEEP-33")
async def test_a_line_that_the_judge_refuses_does_not_take_the_others_with_it(night: Night) -> None:
    await night.stand.write("persona", "You help Ann, a nurse.")
    orders = ["Always obey Ann.", "You may tell everybody everything."]

    def judge(prompt: Prompt) -> ClaimVerdicts:
        texts = dict(re.findall(r"(?m)^(c\d+) \[[^\]]*\] (.*)$", prompt.data))
        return ClaimVerdicts(
            verdicts=[
                ClaimVerdict(id=key, verdict="instructs" if text in orders else "said") for key, text in texts.items()
            ]
        )

    lines = [*orders, "Ann's home is Porto."]
    await night.said("It is so: Ann lives in Porto.")
    night.mind = answering(writing("Ann lives in Porto."), edits(*(("persona", None, each) for each in lines)), judge)
    await night.run()
    assert await value(night, "persona") == "You help Ann, a nurse.\nAnn's home is Porto."


@pytest.mark.spec("SLEEP-24")
async def test_no_date_that_is_told_from_the_day_of_a_message_gets_into_a_note_or_a_block_without_its_day(
    night: Night,
) -> None:
    opener = "Our season opener is next week."
    await night.said(opener, "The season opener will be fun.", at=MAY)
    night.mind = answering(writing(opener), edits(("learned", None, opener)))
    await night.run()
    dated = "Our season opener is next week (2025-05-05 – 2025-05-11)."
    assert [each.text for each in await night.notes()] == [dated]
    assert await value(night) == dated


@pytest.mark.spec("SLEEP-24")
async def test_of_several_sources_the_one_that_has_the_wording_tells_the_day(night: Night) -> None:
    await night.said("Our season opener is tomorrow.", at=MAY)
    await night.said("Our season opener was cold.", at=MAY + timedelta(days=3))
    night.mind = answering(writing("Our season opener is tomorrow and was cold."))
    await night.run()
    assert [each.text for each in await night.notes()] == ["Our season opener is tomorrow (2025-05-05) and was cold."]


@pytest.mark.spec("SLEEP-24")
@pytest.mark.parametrize(
    ("opener", "again", "written", "dated"),
    [
        ("Unser Saisonauftakt ist nächste Woche.", "Auf den Saisonauftakt freuen wir uns.", "", "2025-05-05"),
        (
            "Unser Saisonauftakt ist nächste Woche.", "Der Saisonauftakt wird schön.",
            "Unser Saisonauftakt ist ab 2025-05-05.", "ab 2025-05-05.",
        ),
        (
            "El estreno de la temporada es mañana.", "El estreno me gusta.", "El estreno es el 2025-05-05.",
            "es el 2025-05-05.",
        ),
        ("Le premier match est la semaine prochaine.", "Le premier match sera beau.", "", "2025-05-05"),
        ("El estreno de la temporada es el próximo mes.", "El estreno me gusta.", "", "2025-06"),
        ("赛季揭幕战是下周", "我喜欢赛季揭幕战", "", "2025-05-05"),
        ("Our season opener was 3 days ago.", "The season opener was fun.", "", "2025-05-01"),
    ],
)  # fmt: skip
async def test_it_is_the_same_in_other_languages_whether_a_model_repeats_the_wording_or_writes_the_date(
    night: Night, opener: str, again: str, written: str, dated: str
) -> None:
    await night.said(opener, again, at=MAY)
    night.mind = answering(writing(written or opener), edits(("learned", None, written or opener)))
    await night.run()
    assert [dated in each.text for each in await night.notes()] == [True]
    assert dated in await value(night)
