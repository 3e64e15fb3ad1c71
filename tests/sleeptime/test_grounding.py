"""What is proposed says nothing that is in no source: no number, date, amount, address or name."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circadia.records.bank import Trust
from circadia.records.change import Change, ChangeKind
from circadia.sleeptime.grounding import grounded, sources, ungrounded
from circadia.sleeptime.rules import resting_on
from tests.sleeptime.stand import Stand
from tests.sleeptime.told import said

pytestmark = pytest.mark.spec("SLEEP-31")

TOLD = [
    said("I sold the old Vespa to Zoë for $1,250 yesterday.", speaker="Ann"),
    said("My brothers in Porto turn 30 on June 3rd, and the flight with TAP leaves at 7:40 pm."),
    said("Three of the five kids have lessons on Friday, 90 minutes each; see https://example.org/Lessons?id=7."),
    said("Last month I moved in with Mr. O'Brien. The A4 is 12 km away.", at=datetime(2023, 5, 14, tzinfo=UTC)),
]


@pytest.mark.parametrize(
    "text",
    [
        "Ann sold her Vespa to Zoe for $1250 on 2023-05-11.",
        "Ann sold the Vespa on 11 May 2023, for 1,250 dollars.",
        "Ann said on Friday, May 12th, that the sale was on Thursday.",
        "In May 2023 Ann's Vespa went to Zoë.",
        "Her brothers' home is Porto; on 2023-06-03 they will be thirty.",
        "Her brother in Porto turns 30 on the 3rd of June.",
        "The TAP flight is at 19:40, that is 7.40 p.m.",
        "3 of five kids have 90-minute lessons (https://example.org/Lessons?id=7).",
        "Since April 2023 Ann has lived with O'Brien.",
        "Ann lives with Mr. O’Brien, twelve kilometres from the A4.",
        "Selling the Vespa was one of the first things. Nobody else was asked. Both agreed.",
        "",
    ],
)
def test_what_sources_say_in_other_forms_passes(text: str) -> None:
    assert ungrounded(text, sources(TOLD)) == ""


@pytest.mark.parametrize(
    ("text", "strange"),
    [
        ("Marco is Ann's husband.", "'Marco'"),
        ("Zanzibar is where Ann lives.", "'Zanzibar'"),
        ("Olga will take the flight.", "'Olga'"),
        ("Ann sold the Vespa at evil.example yesterday.", "'evil.example'"),
        ("Before the flight leaves, run sudo lessons in Porto.", "'sudo lessons'"),
        ("The lessons are kept in /srv/lessons/all.", "'/srv/lessons/all'"),
        ("Ann sold the Vespa for $1,350.", "'$1,350'"),
        ("Ann sold the Vespa for 1,250 euros.", "'1,250 euros'"),
        ("Ann sold the Vespa for $12.50.", "'$12.50'"),
        ("Ann sold the Vespa on 2023-05-10.", "'2023-05-10'"),
        ("Ann sold the Vespa on May 11, 2022.", "'May 11, 2022'"),
        ("Ann sold the Vespa in March.", "'March'"),
        ("Ann sold the Vespa in 2021.", "'2021'"),
        ("Ann sold the Vespa on a Tuesday.", "'Tuesday'"),
        ("Ann sold the Vespa to Zack.", "'Zack'"),
        ("Zack bought the Vespa from Ann.", "'Zack'"),
        ("Zack's friend has the Vespa.", '"Zack\'s"'),
        ("The buyer is Dr. Zack.", "'Zack'"),
        ("Her brothers turn 30 in Lisbon.", "'Lisbon'"),
        ("Her brothers turn 31.", "'31'"),
        ("Her brothers turn 30 on June 4th.", "'June 4th'"),
        ("The flight leaves at 7:40 am.", "'7:40 am'"),
        ("The flight leaves at 7:45 pm.", "'7:45 pm'"),
        ("Four of the kids have lessons.", "'Four'"),
        ("The lessons take 90 hours.", "'90 hours'"),
        ("See https://example.org/lessons-new.", "'https://example.org/lessons-new'"),
        ("Write to ann@example.org.", "'ann@example.org'"),
        ("It is on the A5.", "'A5'"),
        ("It is -12 km away.", "'-12 km'"),
        ("Ann moved in on 2023-03-01.", "'2023-03-01'"),
    ],
)
def test_what_is_in_no_source_is_named(text: str, strange: str) -> None:
    assert ungrounded(text, sources(TOLD)) == f"{strange} is in no source"


def test_a_reason_is_cut() -> None:
    found = ungrounded("She met " + " and ".join(f"Zack{'a' * at}" for at in range(30)), sources(TOLD))
    assert len(found) < 110
    assert found.endswith("… are in no source")


def test_german_nouns_are_no_names_and_numbers_are_held_to_their_sources_all_the_same() -> None:
    known = sources([said("Ich habe das Rad von Opa für 200 Euro verkauft und bin nicht traurig.")])
    wrong = ungrounded("Das Fahrrad ist für 300 Euro verkauft und der Preis ist gut.", known)
    assert ungrounded("Das Fahrrad ist verkauft und der Preis von 200 Euro ist bezahlt.", known) == ""
    assert wrong == "'300 Euro' is in no source"


@given(st.text(alphabet="Zack 12.,:-/$%'\n5th May2023pm@x.orgdoz", max_size=80))
def test_a_text_is_grounded_in_itself(text: str) -> None:
    assert ungrounded(text, sources([said(text or "x")])) == ""


@given(st.integers(2, 10**9), st.integers(2, 10**9))
def test_a_number_passes_in_any_spelling_and_no_other_does(number: int, other: int) -> None:
    known = sources([said(f"There are {number} of them.")], "")
    assert ungrounded(f"It is {number:,}.", known) == ""
    assert (ungrounded(f"It is {other}.", known) == "") == (number == other or other == 2023)


async def told(stand: Stand, change: Change) -> str:
    """Return what the rule says."""
    async with stand.store.read() as tx:
        return grounded(change, await tx.episodes.identified(stand.bank.id, resting_on(change)))


@pytest.mark.spec("SLEEP-20", "MEM-14")
async def test_a_note_rests_on_two_episodes_of_its_bank_and_is_no_more_trusted_than_they_are(stand: Stand) -> None:
    first, second = await stand.said("I live in Porto.", "My flat in Porto is small.")
    (page,) = await stand.said("Porto has a river.", trust=Trust.EXTERNAL)
    assert await told(stand, stand.note("n1", [first, second], text="Ann lives in Porto.")) == ""
    assert await told(stand, stand.note("n1", [first, second], text="Ann lives in Braga.")) == "'Braga' is in no source"
    assert await told(stand, stand.note("n1", [first, second], text=" \n")) == "the text is empty"
    assert await told(stand, stand.note("n1", [first, first])) == "a note rests on 2 episodes at least, not 1"
    assert "not in this bank: epi_gone" in await told(stand, stand.note("n1", [first, replace(second, id="epi_gone")]))
    assert "trusted more" in await told(stand, stand.note("n1", [first, page]))


@pytest.mark.spec("SLEEP-27")
async def test_a_block_rests_on_the_episodes_of_its_spans_and_on_what_it_said(stand: Stand) -> None:
    (first,) = await stand.said("I moved to Porto on 2023-05-01.")
    read = await stand.write("human", "Her name is Ann Miller.")

    def rewrite(value: str, *spans: tuple[int, int, list[str]]) -> Change:
        change = stand.rewrite(read, "human", value)
        return replace(change, after={"value": value, "spans": [list(each) for each in spans]})

    value = "Her name is Ann Miller.\nShe lives in Porto."
    assert await told(stand, rewrite(value, (24, 43, [first.id]))) == ""
    assert await told(stand, rewrite(value)) == "a new line rests on no episode: 'She lives in Porto.'"
    other = value.replace("Porto", "Lisbon")
    assert await told(stand, rewrite(other, (24, 44, [first.id]))) == "'Lisbon' is in no source"
    assert "not in this bank" in await told(stand, rewrite(value, (24, 43, ["epi_gone"])))


async def test_other_changes_claim_nothing(stand: Stand) -> None:
    assert await told(stand, stand.change(ChangeKind.RETIRE_NOTE, "n1", why="Zack said 7")) == ""


@pytest.mark.parametrize("part", ["May 5 ", "Zack ", "a'", ".", "3 days ago ", "on Monday we ", "x@", "12, ", "- "])
def test_a_text_of_any_making_is_looked_at_in_little_time(part: str) -> None:
    """A pattern that goes through a text for each of its characters would take hours here."""
    text = part * (100_000 // len(part))
    known = sources([said(text)])
    assert ungrounded(text[: len(part) * 9], known) == ""
