"""The in-memory search index of one bank: words, vectors and texts of its episodes' passages and its notes.

It copies what the database holds and can be dropped at any time. Rows are added, reweighted and removed; any other
change, such as another embedder's vectors, makes a new index. Both databases give the same score:

    score = weight * (words + meaning + standout + window + answer + statement + speaker + days + recency + importance)

`words` is BM25 divided by the search's best; `window` is the same of the turn with the `NEIGHBOURS` turns on each side.
`meaning` is where the cosine lies between the mean of all texts and the best, `standout` how many standard deviations
it lies above what unrelated texts reach. `answer` is the mean of both of the turn
before, if that asks a question. `statement` is 1 for a text that asks nothing, `speaker` for one of the only speaker
whom the question names, and `days` for one of the days that it names. Each is multiplied by its weight. A row is a
note, an episode or a passage of one; neighbours are whole turns.
"""

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import merge
from itertools import accumulate, islice, repeat
from typing import Any, Final

import numpy as np

from circadia.memory.search.columns import Array, highest_rows, rank_best
from circadia.memory.search.metadata_filter import MetadataIndex
from circadia.memory.search.passages import split_entry
from circadia.memory.search.postings import LENGTH, SATURATION, Matches, Postings
from circadia.memory.search.question import DEPTH, SUPERSEDED, UNEXPLAINED, Question, ScoredRow
from circadia.memory.search.row_table import NONE, RowTable
from circadia.memory.search.terms import QUESTION
from circadia.memory.search.vectors import Vectors, split_vector
from circadia.records.conversation import display_alias
from circadia.records.episode import SILENT
from circadia.records.index_entry import Excerpt, IndexEntry, Layer

OWN_HITS: Final = 3
"""Hits of a question itself for each hit by `Question.exchange`, whose figures `python -m benchmarks score` prints."""
WEIGHTS: Final = {
    "words": 0.26, "meaning": 0.20, "window": 0.60, "answer": 0.30, "statement": 0.16, "speaker": 0.13,
    "standout": 0.40,
}  # fmt: skip
"""Fitted by `python -m benchmarks score --data TALKS` on three LoCoMo talks and questions in six languages. `meaning`
lies between what fits the bundled embedder (0.15) and a better one (0.29 for multilingual-e5-small). `standout` was
chosen for that one: with 0.2 to 0.6 it finds 43 to 45 of 48 questions in six languages within 5, without it 38; the
bundled one finds 36 with each."""
UNRELATED: Final = 4.0
"""Standard deviations above the mean that unrelated texts reach; 3.5 and 4.5 find as much, 3 and 5 less."""
NEIGHBOURS: Final = 2
"""Turns of a window on each side."""
DAYS: Final = 0.4
"""Weight of a row of the days that the question names: more than half of all words, less than the best match."""
SPREAD: Final = 3
"""Passages of a turn that come before those of other turns."""
WAITING_BYTES: Final = 100
"""Size of a row that waits for its vector."""
MIN_DIVISOR: Final = 1e-9
"""Divisor in place of zero."""


class BankIndex:
    """Rows of one bank from both layers; threads may use it, one at a time."""

    def __init__(self) -> None:
        self.last: Final = dict.fromkeys(Layer, 0)
        """Greatest indexed number of each layer."""
        self.newest_turn = 0
        """Greatest number of an episode that says something; 0 without one (ANS-20)."""
        self.unembedded: Final[dict[Layer, dict[int, int]]] = {layer: {} for layer in Layer}
        """First passages of rows without a vector, by number."""
        self._rows: Final = RowTable()
        self._postings: Final = Postings()
        self._vectors: Final[dict[str, Vectors]] = {}
        self._metadata: MetadataIndex | None = None
        """None until a search has filtered by it."""
        # Keeps rows from being added during a search in a thread, which outlives a cancelled caller.
        self._busy: Final = threading.Lock()

    def __len__(self) -> int:
        """Return the number of rows, including removed ones."""
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        vectors = sum(table.nbytes for table in self._vectors.values())
        waiting = WAITING_BYTES * sum(map(len, self.unembedded.values()))
        metadata = 0 if self._metadata is None else self._metadata.nbytes
        return self._rows.nbytes + self._postings.nbytes + vectors + waiting + metadata

    @property
    def is_sparse(self) -> bool:
        """Return whether most rows are removed, so that a new index would be much smaller."""
        return 2 * self._rows.removed > len(self)

    def add(self, layer: Layer, rows: Sequence[IndexEntry]) -> None:
        with self._busy:
            fresh = [row for row in rows if row.number > self.last[layer]]
            if fresh:
                self._add(layer, fresh)

    def skip_to(self, layer: Layer, number: int) -> None:
        """Know that all rows up to this number are added, or retired: none of them is asked for again."""
        with self._busy:
            self.last[layer] = max(self.last[layer], number)

    def unembedded_numbers(self, layer: Layer, count: int) -> Collection[int]:
        """Return numbers of rows without a vector: `count` of the oldest and of the newest."""
        with self._busy:
            known = self.unembedded[layer]
            return {*islice(known, count), *islice(reversed(known), count)}

    def add_vectors(self, layer: Layer, vectors: Mapping[int, tuple[bytes, str]]) -> None:
        known = self.unembedded[layer]
        with self._busy:
            self._add_vectors([(known.pop(number), *vector) for number, vector in vectors.items() if number in known])

    def set_weights(self, layer: Layer, weights: Mapping[int, float]) -> None:
        with self._busy:
            rows, numbers = self._rows.find_rows(layer, weights)
            self._rows["weight"][rows] = [weights[number] for number in numbers]

    def remove(self, layer: Layer, numbers: Collection[int]) -> None:
        """Remove rows; a search finds the same as if they had never been added."""
        with self._busy:
            rows, found_numbers = self._rows.find_rows(layer, numbers)
            if not len(rows):
                return
            self._postings.drop_cache()
            for vectors in self._vectors.values():
                vectors.remove(rows)
            if self._metadata is not None and layer is Layer.EPISODES:
                self._metadata.remove(rows)
            self._rows.remove(layer, rows)
            if layer is Layer.EPISODES:
                self.newest_turn = self._find_newest_turn()
            for number in found_numbers:
                self.unembedded[layer].pop(number, None)

    @property
    def last_metadata(self) -> int:
        """Return the greatest number of an episode whose metadata are here."""
        return 0 if self._metadata is None else self._metadata.last

    def add_metadata(self, metadata: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        """Add the metadata of episodes, by ascending number, of which some may have been removed."""
        with self._busy:
            self._metadata = self._metadata or MetadataIndex()
            self._metadata.add(metadata, *self._rows.numbers_and_rows(Layer.EPISODES))

    def has_expired(self, now: float) -> bool:
        return self._rows.expires_at <= now

    def remove_expired(self, now: float) -> None:
        """Remove the episodes whose time has passed."""
        self.remove(Layer.EPISODES, self._rows.take_expired(now))

    def weights(self, layer: Layer, numbers: Collection[int]) -> Mapping[int, float]:
        with self._busy:
            rows, found_numbers = self._rows.find_rows(layer, numbers)
            values: list[float] = self._rows["weight"][rows].tolist()
        return dict(zip(found_numbers, values, strict=True))

    def excerpts(self, scored: Sequence[ScoredRow]) -> Sequence[Excerpt | None]:
        """Return the stored beginnings of rows, None for rows that are missing; all None while a thread is adding."""
        excerpts: list[Excerpt | None] = [None] * len(scored)
        if self._busy.acquire(blocking=False):
            try:
                for layer in Layer:
                    places = {(row.number, row.passage): at for at, row in enumerate(scored) if row.layer is layer}
                    for place, item in self._rows.excerpts(layer, places) if places else ():
                        excerpts[places[place]] = item
            finally:
                self._busy.release()
        return excerpts

    def find(self, question: Question, *, series: bool = False) -> Sequence[ScoredRow]:
        """Return the best rows, best first; `series` caches word scores for the next question."""
        with self._busy:
            found = self._find(question, series)
            if not question.exchange:
                return found
            wider = replace(question, terms=question.exchange, names=question.exchange_names, vectors={}, exchange=())
            return _mix(found, self._find(wider, series), question.limit)

    def _find_newest_turn(self) -> int:
        numbers, rows = self._rows.numbers_and_rows(Layer.EPISODES)
        silent = self._rows.rows_having("kind", SILENT)[rows]
        return int(numbers[~silent].max(initial=0))

    def _add(self, layer: Layer, rows: Sequence[IndexEntry]) -> None:
        first = len(self)
        split_rows = [split_entry(row) for row in rows]
        entries = [entry for split_row in split_rows for entry in split_row]
        terms = [np.frombuffer(entry.terms, np.uint32) for entry in entries]
        questions = np.array([len(row_terms) > 0 and row_terms[-1] == QUESTION for row_terms in terms])
        lengths = np.array([len(row_terms) for row_terms in terms], np.int32) - questions
        self._postings.extend(first, terms)
        self._rows.add(layer, entries, lengths, questions)
        self.last[layer] = rows[-1].number
        if layer is Layer.EPISODES:
            turns = (row.number for row in reversed(rows) if row.kind not in SILENT)
            self.newest_turn = next(turns, self.newest_turn)
        placed_rows = list(zip(accumulate(map(len, split_rows), initial=first), rows, strict=False))
        self.unembedded[layer].update({row.number: at for at, row in placed_rows if row.vector is None})
        self._add_vectors([(at, row.vector, row.embedder) for at, row in placed_rows])

    def _find(self, question: Question, series: bool) -> Sequence[ScoredRow]:
        allowed = self._allowed_rows(question)
        matches = self._postings.match_terms(
            question.terms, self._rows["length"], self._rows.words, len(self) - self._rows.removed, keep=series
        )
        words = self._word_scores(matches, allowed)
        depth = max(DEPTH, question.limit)
        meaning, standout = self._meaning_scores(question.vectors, allowed, depth)
        close = self._candidate_rows(words, meaning, allowed, depth, question.days)
        weights = self._row_weights(question)
        close = close[weights[close] > 0]  # 0 is a note that was retired since
        if not len(close):
            return []
        parts = self._score_parts(close, words, meaning, matches, allowed, question)
        if standout.any():
            parts["standout"] = WEIGHTS["standout"] * standout.take(close)
        weight = weights[close]
        score = sum(parts.values()) * weight
        places, repeated = self._rank_turns(close, score, question.limit)
        best = np.array(places, np.intp)
        rows = close[best]
        times = np.where(weight[best] < 1, SUPERSEDED, 1)
        for at in repeated:
            copies = self._rows.find_copies(rows[at])
            copies = copies if allowed is None else copies[allowed[copies]]
            if times[at] != SUPERSEDED:
                times[at] = len(copies)
                rows[rows == copies[-1]] = rows[at]
                rows[at] = copies[-1]
        layers = [Layer(layer_name) for layer_name in self._rows.names("layer")]
        # As lists at once: reading array items one by one takes longer than the search.
        chosen: list[list[int]] = [self._rows[name][rows].tolist() for name in ("layer", "number", "start", "first")]
        scores: list[float] = score[best].tolist()
        why = _explain({**parts, "weight": weight}, best) if question.explained else repeat(UNEXPLAINED)
        starts = zip(rows.tolist(), *chosen[2:], strict=True)
        passages = [0 if start == NONE else row - first + 1 for row, start, first in starts]
        values = (chosen[1], scores, why, passages, times.tolist())
        return list(map(ScoredRow, [layers[code] for code in chosen[0]], *values))

    def _row_weights(self, question: Question) -> Array:
        weights = self._rows["weight"]
        if question.weights:
            rows, numbers = self._rows.find_rows(Layer.EPISODES, question.weights)
            weights = weights.copy()
            weights[rows] = [question.weights[number] for number in numbers]
        return weights

    def _rank_turns(self, close: Array, score: Array, limit: int) -> tuple[Sequence[int], Collection[int]]:
        """Return the places of the best rows, of equal ones the newest first, and which of these somebody says again.

        What is said again, and more than `SPREAD` passages of a turn, come after all others.
        """
        places = rank_best(score, len(close))
        rows = close[places]
        turns: list[int] = self._rows["first"][rows].tolist()
        counts, first, later = Counter[int](), list[int](), list[int]()
        said: dict[tuple[int, bytes], int] = {}
        repeated: set[int] = set()
        for place, turn, text in zip(places.tolist(), turns, self._rows.said(rows), strict=True):
            if len(first) >= limit:
                break
            if text in said:
                repeated.add(said[text])
            elif counts[turn] < SPREAD:
                said[text] = len(first)
                first.append(place)
                counts[turn] += 1
                continue
            later.append(place)
        return [*first, *later][:limit], repeated

    def _score_parts(
        self, rows: Array, words: Array, meaning: Array, matches: Matches, allowed: Array | None, question: Question
    ) -> dict[str, Array]:
        """Return the parts of these rows' scores before the weight, without those that are always 0."""
        parts: dict[str, Array] = {
            "words": WEIGHTS["words"] * words.take(rows),
            "meaning": WEIGHTS["meaning"] * meaning.take(rows),
            "window": WEIGHTS["window"] * self._window_scores(rows, matches, allowed),
            "answer": WEIGHTS["answer"] * self._answer_scores(rows, (words + meaning) / 2),
        }
        if question.days is not None:
            at = self._rows["at"][rows]
            parts["days"] = DAYS * ((at >= question.days[0]) & (at < question.days[1]))
        parts["statement"] = WEIGHTS["statement"] * ((sum(parts.values()) > 0) & ~self._rows["question"].take(rows))
        named = self._rows.find_speakers(question.names)
        if len(named) == 1:  # the question names exactly one speaker
            parts["speaker"] = WEIGHTS["speaker"] * (self._rows["speaker"][rows] == named[0])
        if question.recency:
            age = np.maximum(question.now - self._rows["at"][rows], 0)
            parts["recency"] = question.recency * np.exp2(-age / question.half_life)
        if question.importance:
            parts["importance"] = question.importance * self._rows["importance"][rows]
        return parts

    def _add_vectors(self, rows: Sequence[tuple[int, bytes | None, str | None]]) -> None:
        by_embedder: dict[str, tuple[list[int], list[bytes]]] = {}
        for row, vector, embedder in rows:
            if vector is not None and embedder is not None:
                at, vectors = by_embedder.setdefault(embedder, ([], []))
                parts = split_vector(vector, embedder, self._rows.count_passages(row))
                at.extend(range(row, row + len(parts)))
                vectors.extend(parts)
        for embedder, (at, vectors) in by_embedder.items():
            held = self._vectors.get(embedder)
            if held is None:
                held = self._vectors[embedder] = Vectors(len(vectors[0]) // 2)
            held.extend(at, vectors)

    def _allowed_rows(self, question: Question) -> Array | None:
        tests: list[Array] = []
        if len(set(question.layers)) < len(Layer):
            tests.append(self._rows.rows_having("layer", question.layers))
        if question.since is not None:
            tests.append(self._rows["at"] >= question.since)
        if question.until is not None:
            tests.append(self._rows["at"] < question.until)
        if question.as_of is not None:
            tests.append(self._rows["at"] <= question.as_of)
        if question.conversation is not None:
            tests.append(self._rows.rows_having("conversation", (question.conversation,)))
        if question.speaker is not None:
            tests.append(self._rows.rows_having("speaker", (question.speaker, display_alias(question.speaker))))
        if question.kinds:
            tests.append(self._rows.rows_having("kind", question.kinds))
        if question.trusts:
            tests.append(self._rows.rows_having("trust", question.trusts))
        if question.where:
            turns = (self._metadata or MetadataIndex()).match_all(question.where, len(self))
            tests.append(turns[self._rows["first"]])
            tests.append(self._rows.rows_having("layer", (Layer.EPISODES,)))
        return np.logical_and.reduce(tests) if tests else None

    def _word_scores(self, matches: Matches, allowed: Array | None) -> Array:
        """Return BM25 by row, divided by the best; the extra row is for `NONE`."""
        scores = np.bincount(matches.rows, matches.shares, len(self) + 1).astype(np.float32)
        if allowed is not None:
            scores[:-1] *= allowed
        return scores / max(scores.max(), MIN_DIVISOR)

    def _meaning_scores(self, vectors: Mapping[str, Array], allowed: Array | None, depth: int) -> tuple[Array, Array]:
        """Return two scores by row, 0 beyond the `depth` nearest.

        The first is where a cosine lies between that of all texts, 0, and the best, 1. The second is how many standard
        deviations it lies above `UNRELATED`, or above the worst if that lies higher: of few texts little is known.
        """
        scores, standout = np.zeros((2, len(self) + 1), np.float32)
        for embedder, vector in vectors.items():
            held = self._vectors.get(embedder)
            if held is not None and held.dimensions == len(vector):
                rows, cosines = held.nearest(vector, depth, allowed)
                if len(rows):
                    above, deviation = cosines - held.typical_cosine(vector), held.cosine_deviation(vector)
                    scores[rows] = np.maximum(above, 0) / max(above.max(), MIN_DIVISOR)
                    unrelated = max(UNRELATED * deviation, above.min())
                    standout[rows] = np.maximum(above - unrelated, 0) / max(deviation, MIN_DIVISOR)
        return scores, standout

    def _candidate_rows(
        self, words: Array, meaning: Array, allowed: Array | None, depth: int, days: tuple[float, float] | None
    ) -> Array:
        seeds = np.concatenate([highest_rows(words[:-1], depth), highest_rows(meaning[:-1], depth)])
        if days is not None:  # the newest of these days, too: "What did we do last week?"
            at = self._rows["at"]
            seeds = np.concatenate([seeds, np.flatnonzero((at >= days[0]) & (at < days[1]))[-depth:]])
        close = np.zeros(len(self) + 1, np.bool_)
        close[seeds] = True
        for turns in self._windows(seeds)[1:]:
            close[turns] = True  # `NONE` is -1, the extra row
        return np.flatnonzero(close[:-1] if allowed is None else close[:-1] & allowed)

    def _windows(self, rows: Array) -> Sequence[Array]:
        """Return the turns of these rows and those on each side of them, as first rows or `NONE`."""
        turns = [self._rows["first"].take(rows)]
        for side in ("before", "after"):
            column, beside = self._rows[side], turns[0]
            for _ in range(NEIGHBOURS):
                beside = np.where(beside == NONE, NONE, column.take(beside))
                turns.append(beside)
        return turns

    def _window_scores(self, rows: Array, matches: Matches, allowed: Array | None) -> Array:
        """Return BM25 of the windows of these rows, divided by the best."""
        windows = self._windows(rows)
        places = np.full(len(self) + 1, NONE)
        for turns in windows:
            places[turns] = 0
        places[NONE] = NONE
        wanted = np.flatnonzero(places == 0)
        places[wanted] = np.arange(len(wanted))
        entries = places.take(self._rows["first"].take(matches.rows))
        here = (entries >= 0) & (matches.shares > 0)
        if allowed is not None:
            here &= allowed.take(matches.rows)
        many = len(matches.rarity)
        cells = entries[here] * many + matches.words[here]
        times = np.bincount(cells, matches.times[here], (len(wanted) + 1) * many)
        times = times.reshape(len(wanted) + 1, many)  # the last row is that of `NONE`
        lengths = np.append(self._rows["total"].take(wanted), 0)
        of_windows = [places.take(turns) for turns in windows]
        sums: Array = np.add.reduce([times.take(turns, axis=0) for turns in of_windows])
        length: Array = np.add.reduce([lengths.take(turns) for turns in of_windows])
        average = max(self._rows.words / max(len(self) - self._rows.removed, 1), 1.0) * len(windows)
        norm = SATURATION * (1 - LENGTH + LENGTH / average * length)
        scores: Array = np.vecdot(sums / (sums + norm[:, None]), matches.rarity)  # `@` starts threads
        return scores / max(scores.max(initial=0), MIN_DIVISOR)

    def _answer_scores(self, rows: Array, scores: Array) -> Array:
        """Return the score of the turn before each of these rows, that of its best passage, if it is a question."""
        later = self._rows.later_passages.values
        np.maximum.at(scores, self._rows["first"][later], scores[later])
        before = self._rows["before"].take(self._rows["first"].take(rows))
        return scores.take(before) * self._rows["question"].take(before)  # `NONE` is -1, whose score is 0


def merge_scored(hits: Sequence[ScoredRow], others: Sequence[ScoredRow], limit: int) -> Sequence[ScoredRow]:
    """Return both, each in its order, the better score first."""
    return list(islice(merge(hits, others, key=lambda row: -row.score), limit))


def _mix(own: Sequence[ScoredRow], others: Sequence[ScoredRow], limit: int) -> Sequence[ScoredRow]:
    """Return both, best first, without what stands twice: one of the others behind every `OWN_HITS`."""
    mixed: dict[tuple[Layer, int, int], ScoredRow] = {}
    rest = iter(others)
    for at, row in enumerate(own, 1):
        mixed.setdefault((row.layer, row.number, row.passage), row)
        if at % OWN_HITS == 0:
            other = next((each for each in rest if (each.layer, each.number, each.passage) not in mixed), None)
            if other is not None:
                mixed[other.layer, other.number, other.passage] = other
    for row in rest:
        mixed.setdefault((row.layer, row.number, row.passage), row)
    return list(mixed.values())[:limit]


def _explain(parts: Mapping[str, Array], rows: Array) -> Iterator[Mapping[str, float]]:
    table: list[list[float]] = np.round(np.array([part[rows] for part in parts.values()]).T, 4).tolist()
    for values in table:
        yield {name: value for name, value in zip(parts, values, strict=True) if value}
