"""The rows of an index by column: what a score uses besides words and vectors, and what a context shows."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from heapq import heappop, heappush
from math import inf
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from circadia.memory.search.columns import Array, Column, Columns, Layout
from circadia.memory.search.terms import words
from circadia.records.index_entry import Excerpt, IndexEntry, Layer

NONE: Final = -1
"""No row, or no conversation."""
REMOVED: Final = -1
TEXT_BYTES: Final = 41
"""Size of a text without its characters."""
NAME_BYTES: Final = 130
"""Size of the name of a conversation, speaker, kind or trust."""
EMPTY_BYTES: Final = 5_000
"""Size of an empty table and its index, by `tracemalloc`."""
_COLUMNS: Final = Layout({
    "number": np.int64, "conversation": np.int32, "speaker": np.int32, "kind": np.int32, "trust": np.int32,
    "layer": np.int32, "before": np.int32, "after": np.int32, "length": np.int32, "first": np.int32,
    "start": np.int32, "total": np.int32, "hash": np.uint32, "at": np.float64, "importance": np.float64,
    "weight": np.float64, "question": np.bool_,
})  # fmt: skip
"""`first` is the row of a turn's first passage. It has the turn's neighbours in its conversation, `before` and `after`,
and whether the turn ends with a question. `start` is the place of the text in that of the turn; `NONE` if the turn is
not split. `total` are the words of the turn, in the row of its first passage. `hash` is one of the text."""
_ORDER: Final = Layout({"number": np.int64, "row": np.int64})


class RowTable:
    """Rows of both layers of a bank in the order of arrival, those of a turn's passages one after the other.

    A removed row keeps its place, without content.
    """

    def __init__(self) -> None:
        self.removed = 0
        self.words = 0
        """Words of the remaining rows."""
        self._texts: Final[list[bytes]] = []
        """UTF-8 beginnings of texts, by row."""
        self._text_bytes = 0
        self._codes: Final[dict[str, dict[str, int]]] = {}
        self._latest: Final[dict[int, int]] = {}
        self._ordered: Final = {layer: Columns(_ORDER) for layer in Layer}
        """Ascending numbers of each layer with their rows."""
        self._called: Final[dict[str, list[int]]] = {}
        self._columns: Final = Columns(_COLUMNS)
        self._expiring: Final[list[tuple[float, int]]] = []
        """Heap of times and numbers of episodes that expire, one for each passage."""
        self.later_passages: Final = Column(np.int32)
        """Rows of passages but the first of each turn."""

    def __len__(self) -> int:
        """Return the number of rows, including removed ones."""
        return len(self._texts)

    @property
    def nbytes(self) -> int:
        tables = (self._columns, self.later_passages, *self._ordered.values())
        columns = sum(table.nbytes for table in tables)
        names = sum(len(codes) for codes in self._codes.values())
        return EMPTY_BYTES + columns + self._text_bytes + NAME_BYTES * (names + len(self._expiring))

    def __getitem__(self, name: str) -> Array:
        """Return a column, readable and writable in place, until rows are added."""
        return self._columns[name]

    def add(self, layer: Layer, rows: Sequence[IndexEntry], lengths: Array, questions: Array) -> None:
        """Append rows with their lengths in words and whether each is a question."""
        first = len(self)
        conversations = [
            NONE if row.conversation is None else self._code("conversation", row.conversation) for row in rows
        ]
        numbers = np.array([row.number for row in rows], np.int64)
        firsts = numbers.searchsorted(numbers)
        added: dict[str, ArrayLike] = {
            "number": numbers,
            "conversation": conversations,
            "speaker": [self._code("speaker", row.speaker) for row in rows],
            "kind": [self._code("kind", row.kind) for row in rows],
            "trust": [self._code("trust", row.trust) for row in rows],
            "layer": self._code("layer", layer),
            "before": NONE,
            "after": NONE,
            "length": lengths,
            "first": first + firsts,
            "start": [row.start for row in rows],
            "total": np.bincount(firsts, lengths, len(rows)),
            "at": [row.at for row in rows],
            "importance": [row.importance or 0.0 for row in rows],
            "weight": [row.weight for row in rows],
            "question": questions,
        }
        texts = [row.text.encode(errors="surrogatepass") for row in rows]
        added["hash"] = list(map(crc32, texts))
        self._columns.extend(added, len(rows))
        self.words += int(lengths.sum())
        self._texts.extend(texts)
        self._text_bytes += sum(map(len, texts)) + TEXT_BYTES * len(texts)
        begins = firsts == np.arange(len(rows))
        later: Array = first + np.flatnonzero(~begins)
        if len(later):
            self.later_passages.extend(later)
            self["question"][self["first"][later]] = self["question"][later]  # of several the last is assigned
        for row in rows:
            if row.expires is not None:
                heappush(self._expiring, (row.expires, row.number))
        turns: list[int] = np.flatnonzero(begins).tolist()
        self._chain({first + at: conversations[at] for at in turns})
        self._ordered[layer].extend({"number": numbers, "row": range(first, len(self))}, len(rows))

    def remove(self, layer: Layer, rows: Array) -> None:
        """Remove rows of a layer with their content, and close the gaps in their conversations."""
        for row in map(int, rows):
            if self["first"][row] == row:
                self._unchain(row)
            self._text_bytes -= len(self._texts[row])
            self._texts[row] = b""
        self.words -= int(self["length"][rows].sum())
        for name, nothing in (("weight", 0), ("length", REMOVED), ("speaker", NONE), ("conversation", NONE)):
            self[name][rows] = nothing
        self._ordered[layer].remove(self.numbers_and_rows(layer)[1].searchsorted(rows))
        self.removed += len(rows)

    @property
    def expires_at(self) -> float:
        """Return when the next episode expires, in seconds since 1970; infinity if none does."""
        return self._expiring[0][0] if self._expiring else inf

    def take_expired(self, now: float) -> set[int]:
        """Return the numbers of episodes whose time has passed, and know them no more."""
        numbers = set[int]()
        while self.expires_at <= now:
            numbers.add(heappop(self._expiring)[1])
        return numbers

    def numbers_and_rows(self, layer: Layer) -> tuple[Array, Array]:
        return self._ordered[layer]["number"], self._ordered[layer]["row"]

    def find_rows(self, layer: Layer, numbers: Collection[int]) -> tuple[Array, Sequence[int]]:
        """Return the rows of those of these numbers that are present, all passages, and their numbers."""
        wanted_numbers = np.fromiter(numbers, np.int64)
        known, rows = self.numbers_and_rows(layer)
        begins = known.searchsorted(wanted_numbers)
        counts = known.searchsorted(wanted_numbers, "right") - begins
        shifts = np.repeat(begins - np.cumsum(counts) + counts, counts)
        at = shifts + np.arange(len(shifts))
        return rows[at], known[at].tolist()

    def said(self, rows: Array) -> Iterator[tuple[int, bytes]]:
        """Yield the code of each row's speaker, and the stored beginning of its text."""
        speakers: list[int] = self["speaker"][rows].tolist()
        places: list[int] = rows.tolist()
        return zip(speakers, (self._texts[place] for place in places), strict=True)

    def find_copies(self, row: int) -> Array:
        """Return all rows of this one's layer in which its speaker says the same, oldest first."""
        rows: Array = np.flatnonzero(self["hash"] == self["hash"][row])
        for name in ("speaker", "layer"):
            rows = rows[self[name][rows] == self[name][row]]
        text = self._texts[row]
        return rows[[self._texts[each] == text for each in rows.tolist()]]

    def count_passages(self, row: int) -> int:
        """Return the number of rows of the turn whose first row is this."""
        return int(self["first"].searchsorted(row, "right")) - row

    def names(self, column: str) -> Sequence[str]:
        """Return the names behind the codes of a column."""
        return list(self._codes.get(column, ()))

    def rows_having(self, column: str, names: Collection[str]) -> Array:
        """Return by row whether its column has one of these names."""
        codes = [self._codes.get(column, {}).get(name, NONE - 1) for name in names]
        return self[column] == codes[0] if len(codes) == 1 else np.isin(self[column], codes)

    def find_speakers(self, names: Collection[str]) -> Sequence[int]:
        """Return the codes of the speakers whose names begin with one of these words."""
        called = [code for name in names for code in self._called.get(name, ())]
        if len(called) > 1 and self.removed:  # all rows of a speaker may be removed
            called = [code for code in called if (self["speaker"] == code).any()]
        return called

    def excerpts(self, layer: Layer, places: Collection[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], Excerpt]]:
        """Yield what a context shows of the present rows among these, by number and passage."""
        known, rows = self.numbers_and_rows(layer)
        numbers, passages = np.array(list(places), np.int64).reshape(-1, 2).T
        begins = known.searchsorted(numbers)
        counts, later = known.searchsorted(numbers, "right") - begins, np.maximum(passages - 1, 0)
        here = np.flatnonzero(later < counts)
        here = here[(self["start"][rows[begins[here] + later[here]]] != NONE) == (passages[here] > 0)]
        rows = rows[begins[here] + later[here]]
        labels = [map(self.names(name).__getitem__, self[name][rows]) for name in ("trust", "speaker", "kind")]
        values: list[list[Any]] = [
            column.tolist()
            for column in (numbers[here], passages[here], counts[here], self["at"][rows], self["start"][rows])
        ]
        for row, number, passage, count, at, start, trust, speaker, kind in zip(rows, *values, *labels, strict=True):
            text, who = self._texts[int(row)].decode(errors="surrogatepass"), None if layer is Layer.NOTES else speaker
            when, place = datetime.fromtimestamp(at, UTC), (passage, count, start) if passage else ()
            yield (number, passage), Excerpt(layer, number, when, text, trust, who, kind, *place)

    def _chain(self, conversations: Mapping[int, int]) -> None:
        """Link turns, by their first rows, with their neighbours in their conversations."""
        before, after = self["before"], self["after"]
        for row, conversation in conversations.items():
            if conversation != NONE:
                previous = self._latest.get(conversation, NONE)
                before[row] = previous
                if previous != NONE:
                    after[previous] = row
                self._latest[conversation] = row

    def _unchain(self, row: int) -> None:
        befores, afters, conversation = self["before"], self["after"], int(self["conversation"][row])
        before, after = int(befores[row]), int(afters[row])
        befores[row] = afters[row] = NONE
        if before != NONE:
            afters[before] = after
        if after != NONE:
            befores[after] = before
        elif before != NONE:
            self._latest[conversation] = before
        else:
            self._latest.pop(conversation, None)

    def _code(self, name: str, value: str) -> int:
        codes = self._codes.setdefault(name, {})
        code = codes.get(value)
        if code is None:
            code = codes[value] = len(codes)
            if name == "speaker":
                self._called.setdefault(next(words(value), ""), []).append(code)
        return code
