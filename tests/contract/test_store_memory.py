"""What each store promises of banks, episodes, notes and blocks."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from circadia.errors import Conflict
from circadia.ids import BankId, EpisodeId, NoteId
from circadia.records.bank import Bank, BankPolicy, CaptureMode, Trust
from circadia.records.block import Block, BlockSpan
from circadia.records.episode import Demotion, Episode, EpisodeKind, Passage, encode_passages
from circadia.records.index_entry import Layer
from circadia.records.note import Note, NoteKind
from circadia.stores.base import Store

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BANK = Bank(
    id=BankId("b1"), name="ann", created_at=NOON, policy=BankPolicy(capture_mode=CaptureMode.ALL, keep_days=1.5)
)
OTHER = Bank(id=BankId("b2"), name="bob", template="support-{user}", end_user="bob", created_at=NOON)


def episode(name: str, *, bank: BankId = BANK.id, seconds: float = 0, **more: object) -> Episode:
    values = {
        "id": EpisodeId(name), "bank_id": bank, "number": 0, "at": NOON, "text": f"text of {name}",
        "trust": Trust.PERSON, "speaker": "Ann", "stored_at": NOON + timedelta(seconds=seconds), "digest": name,
    }  # fmt: skip
    return Episode(**{**values, **more})  # type: ignore[arg-type]


def block(version: int, value: str, **more: object) -> Block:
    values = {
        "bank_id": BANK.id, "label": "human", "version": version, "parent": version - 1 or None, "value": value,
        "limit": 100, "by": "operator", "at": NOON,
    }  # fmt: skip
    return Block(**{**values, **more})  # type: ignore[arg-type]


@pytest.fixture
async def banks(store: Store) -> Store:
    async with store.begin_write() as tx:
        await tx.banks.add(BANK)
        await tx.banks.add(OTHER)
    return store


@pytest.mark.spec("MEM-12", "MEM-18")
async def test_a_bank_is_kept_as_it_was_given_and_counts_what_it_leaves_out(banks: Store) -> None:
    async with banks.begin_write() as tx:
        await tx.banks.count_skipped_turn(BANK.id, "empty")
        await tx.banks.count_skipped_turn(BANK.id, "empty")
        await tx.banks.count_skipped_turn(BANK.id, "short")
        await tx.banks.bump_generation(BANK.id)
        await tx.banks.touch(BANK.id, NOON)
        found = await tx.banks.get(BANK.id)
        assert found == replace(BANK, skipped={"empty": 2, "short": 1}, generation=1, written_at=NOON)
        assert await tx.banks.get_by_name("bob") == OTHER
        assert [each.name for each in await tx.banks.find_all()] == ["ann", "bob"]
        assert [each.name for each in await tx.banks.find_all(template="support-{user}")] == ["bob"]
        assert [each.name for each in await tx.banks.find_all(limit=1)] == ["ann"]
        assert [each.name for each in await tx.banks.find_all(after="ann", limit=5)] == ["bob"]
        assert [each.name for each in await tx.banks.find_all(named=["ann", "support-{user}"])] == ["ann", "bob"]
        assert [each.name for each in await tx.banks.find_all(named=["support-{user}", "eve"], after="a")] == ["bob"]
        assert not await tx.banks.find_all(named=[])
        policy = BankPolicy(hot_edits=True, min_importance=0.2)
        await tx.banks.save(replace(BANK, name="anna", policy=policy))
        changed = await tx.banks.get(BANK.id)
        assert changed is not None
        assert (changed.name, changed.policy) == ("anna", policy)
    with pytest.raises(Conflict):
        async with banks.begin_write() as tx:
            await tx.banks.add(replace(OTHER, id=BankId("b3")))


@pytest.mark.spec("MEM-01", "MEM-03", "MEM-04")
async def test_an_episode_is_kept_as_it_was_given_and_found_by_key_and_by_what_was_said(banks: Store) -> None:
    stale = (Demotion(by="pass", reason="moved", evidence="e9", at=NOON, weight=0.3),)
    one = episode(
        "e1", key="k", importance=0.5, metadata={"a": [1]}, kind=EpisodeKind.FACT, conversation="s", terms=b"\0\1"
    )
    async with banks.begin_write() as tx:
        await tx.episodes.add(one)
        await tx.episodes.add(episode("e2", bank=OTHER.id, key="k", digest="e1"))
        number = (await tx.episodes.find_all(BANK.id))[0].number
        kept = replace(one, number=number)
        assert await tx.episodes.get(BANK.id, one.id) == kept
        assert await tx.episodes.get(OTHER.id, one.id) is None
        assert await tx.episodes.get_by_key(BANK.id, "k") == kept
        assert await tx.episodes.find_repeated(BANK.id, "e1", NOON) == kept
        assert await tx.episodes.find_repeated(BANK.id, "e1", NOON + timedelta(microseconds=1)) is None
        await tx.episodes.count_repetition(one.id)
        await tx.episodes.demote(one.id, stale)
        assert await tx.episodes.get(BANK.id, one.id) == replace(kept, repeats=1, stale=stale)
        assert await tx.episodes.get_by_numbers(BANK.id, [number]) == {number: replace(kept, repeats=1, stale=stale)}
        assert await tx.episodes.get_by_numbers(OTHER.id, [number]) == {}
        many = [one.id, *(EpisodeId(f"e{at}") for at in range(2, 80)), EpisodeId("")]
        assert await tx.episodes.get_by_ids(BANK.id, many) == {one.id: replace(kept, repeats=1, stale=stale)}
        assert list(await tx.episodes.get_by_ids(OTHER.id, many)) == ["e2"]
        assert await tx.episodes.get_by_ids(BANK.id, []) == {}
        assert await tx.episodes.find_changed_weights(BANK.id, after=0) == {number: 0.3}
        evidence = stale[0].evidence
        for wanted in ([evidence], ["another", evidence], [evidence, *map(str, range(20))]):
            assert await tx.episodes.find_demotions(BANK.id, wanted) == {one.id: stale}
            assert await tx.episodes.find_demotions(OTHER.id, wanted) == {}
        assert await tx.episodes.find_demotions(BANK.id, ["another"]) == {}
        await tx.episodes.demote(one.id, ())
        assert await tx.episodes.find_demotions(BANK.id, [evidence]) == {}
        assert await tx.episodes.find_changed_weights(BANK.id, after=1) == {number: 1.0}
        assert (
            await tx.episodes.find_changed_weights(BANK.id, after=2)
            == await tx.episodes.find_changed_weights(OTHER.id, after=0)
            == {}
        )
        assert [each.demotions for each in await tx.banks.find_all()] == [2, 0]
    with pytest.raises(Conflict):
        async with banks.begin_write() as tx:
            await tx.episodes.add(episode("e3", key="k"))


@pytest.mark.spec("MEM-03", "MEM-08")
async def test_episodes_come_in_order_and_those_without_the_present_vector_are_found(banks: Store) -> None:
    async with banks.begin_write() as tx:
        for n in range(5):
            await tx.episodes.add(episode(f"e{n}", conversation="s" if n % 2 else None))
        await tx.episodes.add(episode("x", bank=OTHER.id))
        numbers = [each.number for each in await tx.episodes.find_all(BANK.id)]
        every = await tx.episodes.find_all(BANK.id, after=numbers[1], limit=2)
        assert [each.number for each in every] == numbers[2:4]
        newest = await tx.episodes.find_all(BANK.id, newest_first=True, limit=2)
        assert [each.number for each in newest] == numbers[:2:-1]
        assert [each.id for each in await tx.episodes.find_all(BANK.id, conversation="s")] == ["e1", "e3"]
        assert await tx.episodes.count(BANK.id) == 5
        await tx.episodes.save_vectors({numbers[0]: b"\1\2", numbers[1]: b"\3\4"}, "old")
        await tx.episodes.save_vectors({numbers[2]: b"\5\6"}, "new")
        assert [each.id for each in await tx.episodes.find_lacking_vector("new", limit=9)] == [
            "e0",
            "e1",
            "e3",
            "e4",
            "x",
        ]
        after = await tx.episodes.find_lacking_vector("new", after=numbers[1], limit=2)
        assert [each.id for each in after] == ["e3", "e4"]
        bare = await tx.episodes.find_lacking_vector(None, after=numbers[3], limit=9)
        assert [each.id for each in bare] == ["e4", "x"]
        embedded = await tx.episodes.get(BANK.id, EpisodeId("e2"))
        assert embedded is not None
        assert (embedded.vector, embedded.embedder) == (b"\5\6", "new")


@pytest.mark.spec("MEM-03")
async def test_a_note_names_what_it_rests_on_and_goes_with_it(banks: Store) -> None:
    note = Note(
        id=NoteId("n1"), bank_id=BANK.id, number=0, at=NOON, text="both", trust=Trust.TOOL, kind=NoteKind.BELIEF,
        evidence=(EpisodeId("e1"), EpisodeId("e2")), created_at=NOON,
    )  # fmt: skip
    async with banks.begin_write() as tx:
        for name in ("e1", "e2", "e3"):
            await tx.episodes.add(episode(name))
        number = await tx.notes.add(note)
        assert await tx.notes.get(BANK.id, note.id) == replace(note, number=number)
        assert await tx.notes.get_by_numbers(BANK.id, [number]) == {number: replace(note, number=number)}
        assert await tx.notes.find_citing([EpisodeId("e2")]) == [note.id]
        assert await tx.notes.find_citing([EpisodeId("e3")]) == []
        assert [each.id for each in await tx.notes.find_lacking_vector("new", limit=9)] == [note.id]
        assert [each.id for each in await tx.notes.find_lacking_vector(None, limit=9)] == [note.id]
        await tx.notes.retire(note.id, NOON)
        assert await tx.notes.find_all(BANK.id) == []
        await tx.notes.retire(note.id, None)
        assert [each.id for each in await tx.notes.find_all(BANK.id)] == [note.id]
        await tx.notes.add_all([replace(note, id=NoteId(name)) for name in ("n2", "n3", "n4")])
        await tx.notes.add_all([])
        await tx.notes.retire(NoteId("n4"), NOON)
        newest = await tx.notes.find_newest(BANK.id, 2)
        assert newest == [replace(note, id=NoteId(f"n{at}"), number=each.number) for at, each in enumerate(newest, 2)]
        await tx.notes.remove(list(map(NoteId, ("n2", "n3", "n4"))))
        await tx.notes.remove([note.id])
        await tx.episodes.remove([EpisodeId("e2")])
        assert await tx.notes.get(BANK.id, note.id) is None
        assert [each.id for each in await tx.episodes.find_all(BANK.id)] == ["e1", "e3"]


@pytest.mark.spec("MEM-09", "MEM-11")
async def test_each_write_of_a_block_is_a_version_and_two_writers_cannot_make_the_same(banks: Store) -> None:
    spans = (BlockSpan(start=0, end=3, episodes=(EpisodeId("e1"),)),)
    async with banks.begin_write() as tx:
        assert await tx.blocks.add(block(1, "one", spans=spans, pinned=False, why="first"))
        assert not await tx.blocks.add(block(1, "another"))
        assert await tx.blocks.add(block(2, "two"))
        assert await tx.blocks.get_latest(BANK.id, "human") == block(2, "two")
        assert await tx.blocks.get_latest(BANK.id, "other") is None
        assert [each.value for each in await tx.blocks.history(BANK.id, "human")] == ["one", "two"]
        assert await tx.blocks.find_all(BANK.id) == [block(2, "two")]
        assert [each.version for each in await tx.blocks.versions(BANK.id)] == [1]
        await tx.blocks.rewrite_version(replace(block(1, ""), spans=()))
        assert await tx.blocks.versions(BANK.id) == []
        assert await tx.blocks.add(block(3, "", deleted=True))
        assert await tx.blocks.find_all(BANK.id) == []
        assert await tx.blocks.labels(BANK.id) == ["human"]


@pytest.mark.spec("MEM-12")
async def test_a_bank_goes_with_all_that_it_holds_and_leaves_the_others(banks: Store) -> None:
    async with banks.begin_write() as tx:
        for bank in (BANK, OTHER):
            first = EpisodeId(f"e-{bank.name}")
            await tx.episodes.add(episode(first, bank=bank.id))
            await tx.notes.add(
                Note(
                    id=NoteId(f"n-{bank.name}"),
                    bank_id=bank.id,
                    number=0,
                    at=NOON,
                    text="t",
                    trust=Trust.PERSON,
                    kind=NoteKind.SUMMARY,
                    evidence=(first,),
                    created_at=NOON,
                )
            )
            await tx.blocks.add(block(1, "value", bank_id=bank.id))
        await tx.banks.remove(BANK.id)
        assert await tx.banks.get(BANK.id) is None
        assert await tx.episodes.count(BANK.id) == 0
        assert (await tx.episodes.count(OTHER.id), len(await tx.notes.find_all(OTHER.id))) == (1, 1)
        assert len(await tx.blocks.find_all(OTHER.id)) == 1


@pytest.mark.spec("MEM-02")
async def test_what_an_index_lacks_is_told_with_how_many_vectors_there_ever_were(banks: Store) -> None:
    async with banks.begin_write() as tx:
        for at in range(3):
            await tx.episodes.add(episode(f"e{at}"))
        await tx.blocks.add(block(1, "Ann"))
    async with banks.begin_read() as tx:
        numbers = [each.number for each in await tx.episodes.find_all(BANK.id)]
    waits = {Layer.EPISODES: numbers}
    for read_before in (False, True):  # what the bank's row tells is not asked again
        async with banks.begin_read() as tx:
            if read_before:
                assert await tx.banks.get_by_name("ann") is not None
            first = await tx.banks.fetch_index_delta(
                BANK.id, after={Layer.EPISODES: 0, Layer.NOTES: 0}, waiting={}, limit=2
            )
            rest = await tx.banks.fetch_index_delta(
                BANK.id, after={Layer.EPISODES: numbers[1], Layer.NOTES: 0}, waiting=waits, limit=2, seen=0
            )  # fmt: skip
            other = await tx.banks.fetch_index_delta(OTHER.id, after={Layer.EPISODES: 0}, waiting={}, limit=2)
        assert [each.number for each in first.entries[Layer.EPISODES]] == numbers[:2]
        assert [each.number for each in rest.entries[Layer.EPISODES]] == numbers[2:]
        assert (first.writes, first.embedded, other.writes, other.embedded) == (1, 0, 0, 0)
        assert not any(other.entries.values())
    async with banks.begin_write() as tx:
        await tx.episodes.save_vectors({numbers[1]: b"12"}, "fake")
    for read_before in (False, True):
        async with banks.begin_read() as tx:
            if read_before:
                assert await tx.banks.get(BANK.id) is not None
            late = {Layer.EPISODES: numbers[2]}
            found = await tx.banks.fetch_index_delta(BANK.id, after=late, waiting=waits, limit=2, seen=0)
            again = await tx.banks.fetch_index_delta(BANK.id, after=late, waiting=waits, limit=2, seen=found.embedded)
        assert found.vectors[Layer.EPISODES] == {numbers[1]: (b"12", "fake")}
        assert found.embedded == again.embedded == 1
        assert not any(again.vectors.values()), "nothing was written since"
    async with banks.begin_read() as tx:
        nowhere = await tx.banks.fetch_index_delta(BankId("b3"), after={Layer.EPISODES: 0}, waiting=waits, limit=2)
    assert not any(nowhere.entries.values())


@pytest.mark.spec("MEM-13")
async def test_so_much_of_a_text_is_read_as_is_asked_for_in_whole_characters(banks: Store) -> None:
    async with banks.begin_write() as tx:
        for at in range(40):
            await tx.episodes.add(episode(f"e{at}", text="🐝" * 50 + str(at)))
        note = Note(
            id=NoteId("n1"), bank_id=BANK.id, number=0, at=NOON, text="é" * 9, trust=Trust.TOOL, kind=NoteKind.BELIEF,
            evidence=(EpisodeId("e0"),), created_at=NOON,
        )  # fmt: skip
        number = await tx.notes.add(note)
    async with banks.begin_read() as tx:
        numbers = [each.number for each in await tx.episodes.find_all(BANK.id)]
        whole = await tx.episodes.excerpts(BANK.id, numbers)
        some = await tx.episodes.excerpts(BANK.id, numbers, characters=3)
        (cut,) = (await tx.notes.excerpts(BANK.id, [number], characters=4)).values()
        other = await tx.episodes.excerpts(OTHER.id, numbers, characters=3)
    assert [each.text for each in whole.values()] == ["🐝" * 50 + str(at) for at in range(40)]
    assert {number: each._replace(text="") for number, each in whole.items()} == {
        number: each._replace(text="") for number, each in some.items()
    }
    assert {each.text for each in some.values()} == {"🐝" * 3}
    assert (cut.text, other) == ("é" * 4, {})


@pytest.mark.spec("MEM-30")
async def test_long_texts_without_passages_are_found_and_a_passage_is_read_alone(banks: Store) -> None:
    long_text = "é" * 400 + "🐝" * 400
    async with banks.begin_write() as tx:
        for key, text in (("e0", "x" * 600), ("e1", long_text), ("e2", long_text), ("e3", "short")):
            await tx.episodes.add(episode(key, text=text))
    async with banks.begin_read() as tx:
        first, second = await tx.episodes.find_unsplit(after=0, limit=9)
        assert [first.id, second.id] == ["e1", "e2"]
        assert [row.id for row in await tx.episodes.find_unsplit(after=first.number, limit=9)] == ["e2"]
        assert len(await tx.episodes.find_unsplit(after=0, limit=1)) == 1
    passages = [Passage(0, 400, 1, Trust.PERSON), Passage(400, 800, 2, Trust.EXTERNAL)]
    async with banks.begin_write() as tx:
        await tx.episodes.save_vectors({row.number: b"12" for row in (first, second)}, "new")
        await tx.episodes.save_passages({first.number: (b"abcd" * 3, encode_passages(passages))})
        await tx.episodes.save_passages({})
    async with banks.begin_read() as tx:
        assert [row.id for row in await tx.episodes.find_unsplit(after=0, limit=9)] == ["e2"]
        lacking = await tx.episodes.find_lacking_vector("new", limit=9)
        assert [row.id for row in lacking] == ["e0", "e2", "e3"], "and without vectors those that have none"
        assert not await tx.episodes.has_outdated_vector(BANK.id, "new", after=second.number)
        assert await tx.episodes.has_outdated_vector(BANK.id, "new", after=first.number)
        places = [(first.number, 1), (first.number, 2), (first.number, 3), (second.number, 1), (99_999, 1)]
        found = await tx.episodes.passage_excerpts(BANK.id, places)
        assert {place: (each.text, each.trust, each.start, each.passages) for place, each in found.items()} == {
            (first.number, 1): ("é" * 400, "person", 0, 2),
            (first.number, 2): ("🐝" * 400, "external", 400, 2),
        }
        assert await tx.episodes.passage_excerpts(OTHER.id, places) == {}
        entries = {row.number: row for row in await tx.episodes.index_entries(BANK.id, after=0, limit=9)}
        assert entries[first.number].text == long_text
        assert (entries[first.number].terms, entries[second.number].passages) == (b"abcd" * 3, None)
