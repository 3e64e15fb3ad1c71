"""What is about the same: the same rows are found however the look was put together."""

import random

import pytest

from circadia.ids import BankId, EpisodeId, NoteId
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.search.terms import stored_terms
from circadia.records.bank import Trust
from circadia.records.episode import Episode
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.proposals import similarity
from circadia.sleeptime.proposals.similarity import RelatedIndex
from circadia.testing.clock import ManualClock

TEXT = "harbour kettle violin garden tunnel pepper ladder marble quartz saddle lantern anchor basket copper"
WORDS = TEXT.split()
NOW = ManualClock().now()


def note(number: int, text: str) -> Note:
    return Note(
        id=NoteId(f"not_{number}"), number=number, bank_id=BankId("b"), kind=NoteKind.CONSOLIDATION, text=text, at=NOW,
        created_at=NOW, trust=Trust.PERSON, terms=stored_terms(text), evidence=(),
    )  # fmt: skip


def said(number: int, text: str) -> Episode:
    return Episode(
        id=EpisodeId(f"epi_{number}"), number=number, bank_id=BankId("b"), text=text, at=NOW, stored_at=NOW,
        trust=Trust.PERSON, terms=stored_terms(text), speaker="", digest="",
    )  # fmt: skip


def some(seed: int, count: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 6))) for _ in range(count)]


@pytest.mark.parametrize("most_cells", [1, 70, 500_000])
@pytest.mark.parametrize("many", [0, 5, 60])
def test_what_is_near_to_several_is_what_is_near_to_any_of_them(
    monkeypatch: pytest.MonkeyPatch, many: int, most_cells: int
) -> None:
    monkeypatch.setattr(similarity, "CELLS", most_cells)
    there = RelatedIndex([note(at, text) for at, text in enumerate(some(1, many))])
    asked = [said(at, text) for at, text in enumerate([*some(2, 4), "", "nobody knows zebras"])]
    for least in (0.0, 0.2, 0.5):
        alone = {row.id for each in asked for row in there.find_nearest([each], many, min_similarity=least)}
        assert {row.id for row in there.find_nearest(asked, many, min_similarity=least)} == alone


def test_rows_that_came_since_are_found_as_if_all_were_looked_at_anew() -> None:
    notes = [note(at, text) for at, text in enumerate(some(3, 60))]
    asked = [said(at, text) for at, text in enumerate(some(4, 5))]
    grown = None
    for there in (notes[:0], notes[:20], notes[:20], notes[:45], [*notes[:10], *notes[12:50]], notes):
        grown = RelatedIndex(there, grown)
        assert [row.id for row in grown.find_nearest(asked, 10)] == [
            row.id for row in RelatedIndex(there).find_nearest(asked, 10)
        ]


@pytest.mark.parametrize("most_cells", [1, 70, 500_000])
def test_many_are_looked_for_at_once_as_each_alone(most_cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "CELLS", most_cells)
    rows = [note(number, text) for number, text in enumerate(some(5, 40), 1)]
    strangers = [note(100, "nobody else says zeppelin"), note(101, "the of and"), note(102, "")]
    asked = [*rows[:15], *strangers, *(said(number, text) for number, text in enumerate(some(6, 12), 1))]
    near = RelatedIndex(rows)
    for least in (0.0, 0.3):
        assert near.find_nearest_each(asked, 3, min_similarity=least) == [
            near.find_nearest([one], 3, min_similarity=least) for one in asked
        ]
    assert any(near.find_nearest_each(asked, 3))
    assert list(RelatedIndex[Note]([]).find_nearest_each(asked, 3)) == [()] * len(asked)
    assert list(near.find_nearest_each([], 3)) == []


@pytest.mark.spec("SLEEP-84")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Ben bought an automobile in Porto.", "His car is in the garage."),
        ("Ben hat in Porto ein Auto gekauft.", "His car is in the garage."),
        ("Ann's physician is Dr. Weber.", "The doctor has called."),
    ],
)
async def test_a_note_that_shares_no_word_is_found_by_its_meaning_among_500(text: str, told: str) -> None:
    others = [note(number, f"{each} sold") for number, each in enumerate(some(7, 500), 2)]
    rows, asked = [*others[:250], note(1, text), *others[250:]], [said(1, told)]
    vector_of = await BundledEmbedder().word_vectors()
    by_words, by_both = RelatedIndex(rows), RelatedIndex(rows, vector_of=vector_of)
    assert NoteId("not_1") not in {row.id for row in by_words.find_nearest(asked, 3)}
    assert NoteId("not_1") in {row.id for row in by_both.find_nearest(asked, 3)}
    assert NoteId("not_1") in {row.id for row in by_both.find_nearest_each(asked, 3)[0]}
