"""What is proposed has no number, date, address, code or name that no source can have, in any language."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.grounding import LANGUAGES, TRUE, claims
from circadia.records.bank import Trust
from circadia.records.change import Change, ChangeKind
from circadia.sleeptime.grounding.change_rules import source_ids_of
from circadia.sleeptime.grounding.source_check import check_grounding, collect_sources, describe_ungrounded_claims
from tests.sleeptime.episode_builders import said
from tests.sleeptime.stand import Stand

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
        "Ann sold the Vespa on 11 May 2023, for 1.250 dollars.",
        "Ann said on Friday, May 12th, that the sale was on Thursday.",
        "Her brothers' home is Porto; on 2023-06-03 they will be thirty.",
        "The TAP flight is at 19:40, that is 7.40 p.m.",
        "3 of 5 kids have 90-minute lessons (https://example.org/Lessons?id=7).",
        "Since April 2023 Ann has lived with O’Brien, twelve kilometres from the A4.",
        "In Porto the Portos' house is old.",
        "The A-4 is near.",
        "",
    ],
)
def test_what_sources_say_in_other_forms_passes(text: str) -> None:
    assert describe_ungrounded_claims(text, collect_sources(TOLD)) == ""


@pytest.mark.spec("SLEEP-89")
def test_the_order_of_sources_in_two_languages_changes_nothing() -> None:
    """In German every noun has a capital, so capitals show no names where one of the sources is German."""
    rows = [
        said(
            "An empty result aborted the whole batch of the night once, and nobody saw it until the morning after; "
            "since then such results are skipped, and counted in a table that is looked at each week."
        ),
        said("Leere Ergebnisse überspringen wir ab heute nicht mehr, sie kommen mit einem Kennzeichen in die Tabelle."),
        said("Genau so machen wir es, auch für die alten Läufe aus dem letzten Monat, und dann ist Ruhe."),
    ]
    note = "Empty results are skipped no longer since Malte Brandt decided so."
    assert {describe_ungrounded_claims(note, collect_sources(order)) for order in permutations(rows)} == {""}
    assert "'Malte'" in describe_ungrounded_claims(note, collect_sources(rows[:1]))


@pytest.mark.parametrize(
    ("text", "strange"),
    [
        ("Ann sold the Vespa to Zack.", "'Zack'"),
        ("Her brothers turn 30 in Lisbon.", "'Lisbon'"),
        ("Ann sold the Vespa at evil.example yesterday.", "'evil.example'"),
        ("Before the flight leaves, run sudo lessons in Porto.", "'sudo lessons'"),
        ("The lessons are kept in /srv/lessons/all.", "'/srv/lessons/all'"),
        ("Ann sold the Vespa for $1,350.", "'1,350'"),
        ("Ann sold the Vespa for 1 350 dollars.", "'1 350'"),
        ("Ann sold the Vespa on 2021-05-10.", "'2021-05-10'"),
        ("Ann sold the Vespa in 1987.", "'1987'"),
        ("See https://example.org/lessons-new.", "'https://example.org/lessons-new'"),
        ("Write to ann@example.org.", "'ann@example.org'"),
        ("It is on the A5.", "'A5'"),
    ],
)
def test_what_is_in_no_source_is_named(text: str, strange: str) -> None:
    assert describe_ungrounded_claims(text, collect_sources(TOLD)) == f"{strange} is in no source"


@pytest.mark.spec("SLEEP-33")
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_language_has_true_claims_that_are_refused_without_a_judge(language: str) -> None:
    true = [each for each in claims(language) if each.kind == TRUE]
    assert len(true) == 20
    assert [why for each in true if (why := describe_ungrounded_claims(each.text, collect_sources(each.sources)))] == []


@pytest.mark.spec("SLEEP-33")
@pytest.mark.parametrize("language", LANGUAGES)
def test_another_number_date_address_or_code_needs_no_judge_in_any_language(language: str) -> None:
    refused = {
        each.kind for each in claims(language) if describe_ungrounded_claims(each.text, collect_sources(each.sources))
    }
    assert refused >= {"wrong number", "wrong date", "wrong address", "wrong code"}


def test_a_reason_is_cut() -> None:
    found = describe_ungrounded_claims(
        "She met " + " and ".join(f"Zack{'a' * at}" for at in range(30)), collect_sources(TOLD)
    )
    assert len(found) < 110
    assert found.endswith("… are in no source")


@given(st.text(alphabet="Zack 12.,:-/$%'\n5th May2023pm@x.orgdoz", max_size=80))
def test_a_text_is_grounded_in_itself(text: str) -> None:
    assert describe_ungrounded_claims(text, collect_sources([said(text or "x")])) == ""


@given(st.integers(101, 10**9), st.integers(101, 10**9))
def test_a_number_of_more_than_two_digits_passes_in_any_spelling_and_no_other_does(number: int, other: int) -> None:
    known = collect_sources([said(f"There are {number} of them.")], "")
    assert describe_ungrounded_claims(f"It is {number:,}.", known) == ""
    digits = str(other).strip("0")
    alike = digits == str(number).strip("0") or len(digits) <= 2 or 2013 <= other <= 2033
    assert (describe_ungrounded_claims(f"It is {other}.", known) == "") == alike


async def told(stand: Stand, change: Change) -> str:
    """Return what the rule says."""
    async with stand.store.begin_read() as tx:
        return check_grounding(change, await tx.episodes.get_by_ids(stand.bank.id, source_ids_of(change)))


@pytest.mark.spec("SLEEP-20", "MEM-14")
async def test_a_note_rests_on_episodes_of_its_bank_and_is_no_more_trusted_than_they_are(stand: Stand) -> None:
    first, second = await stand.said("I live in Porto.", "My flat in Porto is small.")
    (page,) = await stand.said("Porto has a river.", trust=Trust.EXTERNAL)
    assert await told(stand, stand.note("n1", [first, second], text="Ann lives in Porto.")) == ""
    assert await told(stand, stand.note("n1", [first, second], text="Ann lives in Braga.")) == "'Braga' is in no source"
    assert await told(stand, stand.note("n1", [first, second], text=" \n")) == "the text is empty"
    assert await told(stand, stand.note("n1", [first, first], text="Ann lives in Porto.")) == ""
    alone = await told(stand, stand.note("n1", [page], text="Porto has a river."))
    assert alone == "what nobody in the conversation said needs 2 sources, not 1"
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


@pytest.mark.spec("SLEEP-24")
async def test_no_relative_date_gets_into_a_note_or_a_block(stand: Stand) -> None:
    sources = await stand.said("Our season opener is on Saturday.", "The opener is at noon.")
    for text in ("The season opener is next week.", "Die Saison beginnt nächste Woche in Porto.", "赛季下周开始。"):
        assert "has no calendar date beside it" in await told(stand, stand.note("n1", sources, text=text))
    assert (
        await told(
            stand, stand.note("n1", sources, text=f"The opener is next week (week of {sources[0].at:%Y-%m-%d}).")
        )
        == ""
    )
    spans = [[0, 31, [each.id for each in sources]]]
    block = replace(
        stand.rewrite(None, "human", "x"), after={"value": "The season opener is next week.", "spans": spans}
    )
    assert "'next week' has no calendar date" in await told(stand, block)


@pytest.mark.parametrize(
    "part", ["May 5 ", "Zack ", "a'", ".", "3 days ago ", "on Monday we ", "x@", "12, ", "- ", "1 250"]
)
def test_a_text_of_any_making_is_looked_at_in_little_time(part: str) -> None:
    """A pattern that goes through a text for each of its characters would take hours here."""
    text = part * (100_000 // len(part))
    known = collect_sources([said(text)])
    assert describe_ungrounded_claims(text[: len(part) * 9], known) == ""
