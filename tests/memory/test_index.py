"""The index gives what the formula says, however its rows came in."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circadia.memory.search import postings
from circadia.memory.search.index import BankIndex
from circadia.memory.search.question import Question, ScoredRow
from circadia.memory.search.terms import question_terms, stored_terms, words
from circadia.memory.search.vectors import stored_vector
from circadia.records.bank import Trust
from circadia.records.episode import Passage, encode_passages
from circadia.records.index_entry import IndexEntry, Layer
from tests.memory.interrupted import Interrupted
from tests.memory.world import EMBEDDER, vector

WEIGHTS = {"words": 0.26, "meaning": 0.2, "window": 0.6, "answer": 0.3, "statement": 0.16, "speaker": 0.13}
UNKNOWN = 10
LENGTH = 0.75
SATURATION = 1.2
DIMENSIONS = 8
"""Of the vectors of these tests."""
ROUNDING = 1e-3
"""By which a score may be off: the index keeps a vector's values in steps of 1/32,767, and meaning is a ratio of two
differences of cosines."""

WORDS = ("ant", "bee", "cow", "dog", "elk", "fox")
SPEAKERS = ("Ann Lee", "bob", "José")
texts = st.lists(st.sampled_from(WORDS), min_size=0, max_size=6).map(" ".join)


@dataclass(frozen=True, kw_only=True)
class Row:
    """What a row is made of."""

    text: str
    speaker: str
    conversation: str | None
    kind: str
    trust: str
    at: float
    importance: float | None
    weight: float
    meaning: str | None
    layer: Layer = Layer.EPISODES

    def entry(self, number: int) -> IndexEntry:
        return IndexEntry(
            number=number, at=self.at, conversation=self.conversation, speaker=self.speaker, kind=self.kind,
            trust=self.trust, importance=self.importance, weight=self.weight, terms=stored_terms(self.text),
            vector=None if self.meaning is None else stored_vector(vector(self.meaning)),
            embedder=None if self.meaning is None else EMBEDDER, text=self.text,
        )  # fmt: skip


rows_of = st.builds(
    Row,
    text=st.tuples(texts, st.sampled_from(["", "?"])).map("".join),
    speaker=st.sampled_from(SPEAKERS),
    conversation=st.sampled_from([None, "s1", "s2"]),
    kind=st.sampled_from(["turn", "fact", "ready"]),
    trust=st.sampled_from(["person", "tool"]),
    at=st.integers(0, 1000).map(float),
    importance=st.sampled_from([None, 0.0, 0.5, 1.0]),
    weight=st.sampled_from([1.0, 0.3]),
    meaning=st.none() | texts,
    layer=st.sampled_from(list(Layer)),
)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    text = draw(texts)
    return Question(
        terms=question_terms(text),
        names=frozenset(words(text + draw(st.sampled_from(["", " Ann", " bob and jose", " José"])))),
        vectors=draw(st.sampled_from([{}, {EMBEDDER: vector(text)}, {"other/8": vector(text)}])),
        layers=draw(st.sampled_from([tuple(Layer), (Layer.NOTES,), (Layer.EPISODES,)])),
        since=draw(st.none() | st.just(300.0)),
        until=draw(st.none() | st.just(700.0)),
        conversation=draw(st.sampled_from([None, None, "s1", "unknown"])),
        speaker=draw(st.sampled_from([None, None, "bob", "unknown"])),
        kinds=draw(st.sampled_from([(), (), ("fact",), ("unknown",)])),
        trusts=draw(st.sampled_from([(), (), ("person",)])),
        recency=draw(st.sampled_from([0.0, 0.4])),
        half_life=100.0,
        importance=draw(st.sampled_from([0.0, 0.2])),
        now=500.0,
        limit=draw(st.sampled_from([1, 5, 1000])),
    )


def filled(rows: Sequence[Row], sizes: Sequence[int] = ()) -> BankIndex:
    """Return an index with the rows in their order, given to it in pages of these sizes."""
    index = BankIndex()
    at = 0
    for size in [*sizes, len(rows)]:
        page = list(enumerate(rows[at : at + size], at + 1))
        at += size
        for layer in Layer:
            index.add(layer, [row.entry(number) for number, row in page if row.layer is layer])
    return index


def in_order_of(rows: Sequence[Row]) -> list[Row]:
    """Return the rows as one page of them lies in an index: episodes first."""
    return [row for layer in Layer for row in rows if row.layer is layer]


def allowed(row: Row, question: Question) -> bool:
    return (
        row.layer in question.layers
        and (question.since is None or row.at >= question.since)
        and (question.until is None or row.at < question.until)
        and (question.conversation is None or row.conversation == question.conversation)
        and (question.speaker is None or row.speaker == question.speaker)
        and (not question.kinds or row.kind in question.kinds)
        and (not question.trusts or row.trust in question.trusts)
    )


def slowly(rows: Sequence[Row], question: Question) -> dict[int, float]:
    """Return the scores by place, by the formula as `index.py` tells it, one row after the other."""

    before, after = _beside(rows)
    alone, around = ([[at] for at in range(len(rows))], [_window(at, before, after) for at in range(len(rows))])
    by_words = _bm25(rows, question, alone, 1)
    asked = question.vectors.get(EMBEDDER)
    stored = {
        at: np.frombuffer(stored_vector(vector(row.meaning)), np.float16).astype(np.float32)
        for at, row in enumerate(rows)
        if asked is not None and row.meaning is not None
    }
    cosines = {at: float(values @ asked) for at, values in stored.items() if asked is not None}
    typical = sum(cosines.values()) / (len(cosines) + UNKNOWN)
    above = {at: cosine - typical for at, cosine in cosines.items() if allowed(rows[at], question)}
    best = max(above.values(), default=0)
    meaning = [max(above.get(at, 0.0), 0) / max(best, 1e-9) for at in range(len(rows))]
    deviation = float(np.std(list(cosines.values()) or [0]))
    unrelated = max(4 * deviation, min(above.values(), default=0))
    named = {row.speaker for row in rows if next(words(row.speaker)) in question.names}
    close = [at for at in sorted(_close(by_words, meaning, before, after)) if allowed(rows[at], question)]
    windows = _bm25(rows, question, around, 5, of=close)
    scored: dict[int, float] = {}
    for at in close:
        row, age = rows[at], max(question.now - rows[at].at, 0)
        answers = at in before and rows[before[at]].text.endswith("?")
        found = (
            WEIGHTS["words"] * by_words[at]
            + WEIGHTS["meaning"] * meaning[at]
            + WEIGHTS["window"] * windows[at]
            + (WEIGHTS["answer"] * (by_words[before[at]] + meaning[before[at]]) / 2 if answers else 0)
        )
        scored[at] = row.weight * (
            found
            + (WEIGHTS["statement"] if found > 0 and not row.text.endswith("?") else 0)
            + (WEIGHTS["speaker"] if named == {row.speaker} else 0)
            + 0.4 * max(above.get(at, unrelated) - unrelated, 0) / max(deviation, 1e-9)
            + question.recency * 2 ** (-age / question.half_life)
            + question.importance * (row.importance or 0)
        )
    return {at: score for at, score in scored.items() if score > 0}


def _bm25(
    rows: Sequence[Row],
    question: Question,
    windows: Sequence[Sequence[int]],
    turns: int,
    of: Sequence[int] | None = None,
) -> list[float]:
    """Return the scores by words of these rows together, 1 for the best that is allowed, or the best `of` these."""
    held = [Counter(_all_terms(row.text)) for row in rows]
    average = turns * max(sum(each.total() for each in held) / len(rows), 1.0)
    shown = [each if allowed(row, question) else Counter[int]() for each, row in zip(held, rows, strict=True)]
    scores = [0.0] * len(rows)
    for term in question.terms:
        having = sum(term in each for each in held)
        rarity = math.log(1 + (len(rows) - having + 0.5) / (having + 0.5))
        for at, window in enumerate(windows):
            times, length = sum(shown[each][term] for each in window), sum(held[each].total() for each in window)
            norm = SATURATION * (1 - LENGTH + LENGTH / average * length)
            scores[at] += rarity * (SATURATION + 1) * times / (times + norm)
    best = max((scores[at] for at in (range(len(rows)) if of is None else of)), default=0)
    return [score / (best or 1) for score in scores]


def _window(at: int, before: Mapping[int, int], after: Mapping[int, int]) -> list[int]:
    """Return the places of a turn and of the two on each side of it."""
    found = [at]
    for beside in (before, after):
        place = at
        for _ in range(2):
            if place in beside:
                place = beside[place]
                found.append(place)
    return found


def _all_terms(text: str) -> list[int]:
    return np.frombuffer(stored_terms(text.rstrip("?")), np.uint32).tolist()


def _beside(rows: Sequence[Row]) -> tuple[dict[int, int], dict[int, int]]:
    before: dict[int, int] = {}
    latest: dict[str, int] = {}
    for at, row in enumerate(rows):
        if row.conversation is not None:
            if row.conversation in latest:
                before[at] = latest[row.conversation]
            latest[row.conversation] = at
    return before, {previous: at for at, previous in before.items()}


def _close(
    by_words: Sequence[float], meaning: Sequence[float], before: Mapping[int, int], after: Mapping[int, int]
) -> set[int]:
    seeds = {at for at in range(len(by_words)) if by_words[at] or meaning[at]}
    return {place for at in seeds for place in _window(at, before, after)}


def by_place(found: Sequence[ScoredRow]) -> dict[tuple[Layer, int], float]:
    return {(each.layer, each.number): each.score for each in found}


@pytest.mark.spec("MEM-05")
@given(rows=st.lists(rows_of, max_size=25), question=questions())
@settings(max_examples=100, deadline=None)
def test_a_search_gives_the_scores_of_the_formula(rows: list[Row], question: Question) -> None:
    placed = in_order_of(rows)
    numbers = {id(row): number for number, row in enumerate(rows, 1)}
    truth = slowly(placed, replace(question, limit=1000)) if rows else {}
    found = filled(rows).find(question)
    best = sorted(truth.values(), reverse=True)[: question.limit]
    assert [each.score for each in found] == pytest.approx(best, abs=ROUNDING)
    scores = {(placed[at].layer, numbers[id(placed[at])]): score for at, score in truth.items()}
    for each in found:
        assert each.score == pytest.approx(scores[each.layer, each.number], abs=ROUNDING)
        total = sum(part for name, part in each.parts.items() if name != "weight")
        assert each.score == pytest.approx(total * each.parts["weight"], abs=1e-3), "the parts explain the score"


@pytest.mark.spec("MEM-02")
@given(rows=st.lists(rows_of, max_size=25), sizes=st.lists(st.integers(0, 4), max_size=12), question=questions())
@settings(max_examples=60, deadline=None)
def test_rows_that_come_one_by_one_make_the_same_index_as_all_at_once(
    rows: list[Row], sizes: list[int], question: Question
) -> None:
    rows = in_order_of(rows) if len({row.layer for row in rows}) > 1 and not sizes else [
        replace(row, layer=Layer.EPISODES) for row in rows
    ]  # fmt: skip
    one, all_ = filled(rows, sizes).find(question), filled(rows).find(question)
    assert [each.number for each in one] == [each.number for each in all_]
    assert [each.score for each in one] == pytest.approx([each.score for each in all_], abs=1e-6)


@given(rows=st.lists(rows_of, max_size=20), question=questions())
@settings(max_examples=60, deadline=None)
def test_vectors_that_come_later_find_the_same(rows: list[Row], question: Question) -> None:
    late = filled([replace(row, meaning=None) for row in rows])
    for layer in Layer:
        late.add_vectors(layer, {
            number: (stored_vector(vector(row.meaning)), EMBEDDER)
            for number, row in enumerate(rows, 1) if row.meaning is not None and row.layer is layer
        })  # fmt: skip
        waiting = [at for at, row in enumerate(rows, 1) if row.meaning is None and row.layer is layer]
        assert list(late.unembedded[layer]) == waiting
    assert by_place(late.find(question)) == pytest.approx(by_place(filled(rows).find(question)), abs=1e-6)


@pytest.mark.spec("MEM-21")
@given(
    rows=st.lists(rows_of, max_size=20), gone=st.sets(st.integers(1, 20)), later=st.lists(rows_of, max_size=6),
    asked=st.lists(questions(), min_size=1, max_size=3), series=st.booleans(),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_what_was_removed_is_as_if_it_had_never_been_there(
    rows: list[Row], gone: set[int], later: list[Row], asked: list[Question], series: bool
) -> None:
    index, without, gone = filled(rows), BankIndex(), {each for each in gone if each <= len(rows)}
    index.find(asked[0], series=series)
    for layer in Layer:
        index.remove(layer, sorted(gone))
    for page in (list(enumerate(rows, 1)), list(enumerate(later, len(rows) + 1))):
        for layer in Layer:
            entries = [row.entry(number) for number, row in page if row.layer is layer]
            without.add(layer, [each for each in entries if each.number not in gone])
            index.add(layer, [each for each in entries if each.number > len(rows)])
    for question in asked:
        found = index.find(question, series=series)
        assert by_place(found) == pytest.approx(by_place(without.find(question)), abs=1e-6)
    assert index.newest_turn == without.newest_turn
    here = [ScoredRow(layer, number, 1.0, {}) for layer in Layer for number in range(1, len(rows) + 1)]
    assert index.excerpts(here) == without.excerpts(here)


def split_at_words(row: Row, number: int) -> IndexEntry:
    """Return a row with a passage for each word; every second one has another trust."""
    entry, terms, passages = row.entry(number), b"", list[Passage]()
    for match in re.finditer(r"\S+", row.text):
        trust = Trust.EXTERNAL if len(passages) % 2 else Trust(row.trust)
        passages.append(Passage(match.start(), match.end(), len(terms) // 4, trust))
        terms += stored_terms(match[0])
    if not passages or row.layer is Layer.NOTES:
        return entry
    vectors = b"".join(stored_vector(vector(row.text[start:end])) for start, end, _, _ in passages)
    vectors = entry.vector and vectors
    return entry._replace(terms=terms, vector=vectors, passages=encode_passages(passages))


@pytest.mark.spec("MEM-30", "MEM-21")
@given(
    rows=st.lists(rows_of, min_size=1, max_size=12),
    later=st.lists(rows_of, max_size=6),
    gone=st.sets(st.integers(1, 12), max_size=8),
    asked=st.lists(questions(), min_size=1, max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_passages_of_removed_turns_leave_nothing_behind_and_late_vectors_find_the_same(
    rows: list[Row], later: list[Row], gone: set[int], asked: list[Question]
) -> None:
    index, without, gone = BankIndex(), BankIndex(), {number for number in gone if number <= len(rows)}
    for layer in Layer:
        every = [split_at_words(row, at) for at, row in enumerate([*rows, *later], 1) if row.layer is layer]
        index.add(layer, [each._replace(vector=None, embedder=None) for each in every if each.number <= len(rows)])
        vectors = {each.number: (each.vector, EMBEDDER) for each in every if each.vector is not None}
        index.add_vectors(layer, vectors)
        index.remove(layer, sorted(gone))
        index.add(layer, [each for each in every if each.number > len(rows)])
        without.add(layer, [each for each in every if each.number not in gone])
    for question in asked:
        found, expected = index.find(question), without.find(question)
        scores = {(each.layer, each.number, each.passage): each.score for each in expected}
        assert {(each.layer, each.number, each.passage): each.score for each in found} == pytest.approx(
            scores, abs=1e-6
        )
        assert index.excerpts(expected) == without.excerpts(expected)
        assert all(item is not None and item.passage == row.passage for item, row in zip(
            index.excerpts(found), found, strict=True
        ))  # fmt: skip
        counts = Counter((each.layer, each.number) for each in found[: min(question.limit, 3)])
        assert not counts or max(counts.values()) <= 3


@pytest.mark.spec("MEM-30")
def test_a_window_is_of_whole_turns_and_the_answer_to_a_question_has_the_words_of_its_best_passage() -> None:
    turns = [replace(ROW, text=text) for text in ("elk", "ant bee cow?", "dog", "fox", "elk")]
    index = BankIndex()
    index.add(Layer.EPISODES, [split_at_words(row, at) for at, row in enumerate(turns, 1)])
    for asked in ("ant", "bee", "cow"):
        question = Question(terms=question_terms(asked))
        parts = {(row.number, row.passage): row.parts for row in index.find(question)}
        passage = ["ant", "bee", "cow"].index(asked) + 1
        assert set(parts) == {(1, 1), (2, passage), (3, 1), (4, 1)}
        assert parts[3, 1]["answer"] == pytest.approx(WEIGHTS["answer"] / 2), "of the words, and without a meaning"
        windows = [parts[place]["window"] for place in ((1, 1), (2, passage), (3, 1))]
        assert windows[0] == pytest.approx(WEIGHTS["window"])
        assert windows == sorted(windows, reverse=True), "the words are the same, in windows of 5, 6 and 7"


ROW = Row(
    text="cow",
    speaker="bob",
    conversation="s",
    kind="turn",
    trust="person",
    at=0,
    importance=None,
    weight=1,
    meaning=None,
)


@given(st.lists(rows_of, max_size=12), st.lists(rows_of, max_size=12), st.lists(questions(), min_size=1, max_size=6))
def test_a_series_of_searches_finds_what_each_finds_alone_also_once_rows_have_come(
    first: list[Row], later: list[Row], asked: list[Question]
) -> None:
    index = filled(first)
    for rows in (first, [*first, *later]):
        if len(rows) > len(first):
            for layer in Layer:
                new = enumerate(later, len(first) + 1)
                index.add(layer, [row.entry(number) for number, row in new if row.layer is layer])
        alone = [index.find(each) for each in asked]
        assert [index.find(each, series=True) for each in (*asked, *asked)] == [*alone, *alone]


def test_what_a_series_of_searches_keeps_is_let_go_when_it_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "MAX_CACHED_ROWS", 2)
    index = filled([replace(ROW, text=text) for text in ("ant bee", "bee cow", "cow dog", "dog ant cow")])
    for asked in ("ant bee", "cow", "bee dog", "ant cow", "elk", "cow cow dog"):
        question = Question(terms=question_terms(asked))
        assert index.find(question, series=True) == index.find(question)


def test_an_index_without_rows_or_a_question_without_words_finds_nothing() -> None:
    cow = Question(terms=question_terms("cow"), vectors={EMBEDDER: vector("cow")}, recency=1.0, importance=1.0)
    assert BankIndex().find(cow) == BankIndex().find(cow, series=True) == []
    empty = BankIndex()
    empty.add(Layer.EPISODES, [])
    assert (len(empty), empty.find(cow)) == (0, [])
    one = filled([ROW])
    assert one.find(Question()) == one.find(replace(cow, terms=(), vectors={})) == []
    assert [each.number for each in one.find(replace(cow, limit=50))] == [1]
    assert one.find(replace(cow, limit=0)) == one.find(replace(cow, layers=())) == []


def test_a_text_without_words_takes_a_row_and_is_never_found() -> None:
    index = filled([replace(ROW, text=text) for text in ("", "🎉", "?", "cow")])
    assert next(each.number for each in index.find(Question(terms=question_terms("cow")))) == 4


@pytest.mark.spec("MEM-08")
def test_rows_of_two_embedders_are_found_each_by_its_own_and_other_dimensions_are_passed_over() -> None:
    index = BankIndex()
    entries = [replace(ROW, text=f"{number}", conversation=None).entry(number) for number in (1, 2, 3)]
    vectors = [("old/8", vector("cow")), ("new/8", vector("cow")), ("odd/8", vector("cow", 4))]
    index.add(Layer.EPISODES, [
        entry._replace(vector=stored_vector(values), embedder=name)
        for entry, (name, values) in zip(entries, vectors, strict=True)
    ])  # fmt: skip
    asked = {name: vector("cow") for name, _ in vectors}
    assert {each.number for each in index.find(Question(vectors=asked))} == {1, 2}
    assert [each.number for each in index.find(Question(vectors={"old/8": asked["old/8"]}))] == [1]


@pytest.mark.spec("MEM-02")
def test_rows_that_come_while_a_search_runs_in_a_thread_wait_for_its_end() -> None:
    index = filled([ROW])
    terms = Interrupted(question_terms("cow"))
    with ThreadPoolExecutor(2) as threads:
        search = threads.submit(index.find, Question(terms=terms))
        assert terms.reached.wait(60)
        add = threads.submit(index.add, Layer.EPISODES, [ROW.entry(number) for number in range(2, 300)])
        wait_for([add], timeout=0.1)  # long enough to be done if nothing held it back
        terms.go_on.set()
        assert [each.number for each in search.result()] == [1]
        add.result()
    assert len(index) == 299
    assert len(index.find(Question(terms=terms, limit=1000))) == 299
