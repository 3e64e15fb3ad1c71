"""The rows of an index by column: what a search weighs beside words and vectors, and what a context shows of them."""

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from circadia.memory.search.columns import Array, Columns, Layout
from circadia.memory.search.terms import words
from circadia.records.excerpt import Excerpt
from circadia.records.index_entry import IndexEntry, Layer

NONE: Final = -1
"""Stands for no row, and for no session."""
REMOVED: Final = -1
"""Stands for the length of a row that was removed."""
TEXT_BYTES: Final = 41
"""What a text takes beside its characters."""
NAME_BYTES: Final = 130
"""What the name of a session, a speaker, a kind or a trust takes."""
EMPTY_BYTES: Final = 5_000
"""What a table takes before anything is in it, by `tracemalloc`, with the index that it is part of."""
_COLUMNS: Final = Layout({
    "number": np.int64, "session": np.int32, "speaker": np.int32, "kind": np.int32, "trust": np.int32,
    "layer": np.int32, "before": np.int32, "after": np.int32, "length": np.int32, "at": np.float64,
    "importance": np.float64, "weight": np.float64, "question": np.bool_,
})  # fmt: skip
"""What is kept of each row; `before` and `after` are the rows beside it in its conversation."""
_ORDER: Final = Layout({"number": np.int64, "row": np.int64})


class RowTable:
    """Rows of both layers of a bank, in the order in which they came. A row that was removed keeps its place, empty."""

    def __init__(self) -> None:
        self.removed = 0
        """Rows that were removed."""
        self.words = 0
        """Words of the others, all together."""
        self._texts: Final[list[bytes]] = []
        """Beginnings of texts by row, in UTF-8."""
        self._text_bytes = 0
        self._codes: Final[dict[str, dict[str, int]]] = {}
        self._latest: Final[dict[int, int]] = {}
        self._ordered: Final = {layer: Columns(_ORDER) for layer in Layer}
        """Numbers of each layer, which ascend, and the rows of them."""
        self._called: Final[dict[str, list[int]]] = {}
        self._columns: Final = Columns(_COLUMNS)

    def __len__(self) -> int:
        """Return the number of rows, those that were removed too."""
        return len(self._texts)

    @property
    def nbytes(self) -> int:
        """Return about how much memory it takes, in bytes."""
        columns = self._columns.nbytes + sum(each.nbytes for each in self._ordered.values())
        names = sum(len(codes) for codes in self._codes.values())
        return EMPTY_BYTES + columns + self._text_bytes + NAME_BYTES * names

    def __getitem__(self, name: str) -> Array:
        """Return a column, to read and to write in place; valid until rows are added."""
        return self._columns[name]

    def add(self, layer: Layer, rows: Sequence[IndexEntry], lengths: Array, questions: Array) -> None:
        """Append rows of so many words each, and whether each is a question."""
        first = len(self)
        sessions = [NONE if row.session is None else self._code("session", row.session) for row in rows]
        numbers = [row.number for row in rows]
        added: dict[str, ArrayLike] = {
            "number": numbers,
            "session": sessions,
            "speaker": [self._code("speaker", row.speaker) for row in rows],
            "kind": [self._code("kind", row.kind) for row in rows],
            "trust": [self._code("trust", row.trust) for row in rows],
            "layer": self._code("layer", layer),
            "before": NONE,
            "after": NONE,
            "length": lengths,
            "at": [row.at for row in rows],
            "importance": [row.importance or 0.0 for row in rows],
            "weight": [row.weight for row in rows],
            "question": questions,
        }
        self._columns.extend(added, len(rows))
        self.words += int(lengths.sum())
        texts = [row.text.encode(errors="surrogatepass") for row in rows]
        self._texts.extend(texts)
        self._text_bytes += sum(map(len, texts)) + TEXT_BYTES * len(texts)
        self._chain(first, sessions)
        self._ordered[layer].extend({"number": numbers, "row": range(first, len(self))}, len(rows))

    def remove(self, layer: Layer, rows: Array) -> None:
        """Remove rows of a layer: their conversations close up, and nothing is left of what they said."""
        for row in map(int, rows):
            self._unchain(row)
            self._text_bytes -= len(self._texts[row])
            self._texts[row] = b""
        self.words -= int(self["length"][rows].sum())
        for name, nothing in (("weight", 0), ("length", REMOVED), ("speaker", NONE), ("session", NONE)):
            self[name][rows] = nothing
        self._ordered[layer].remove(self.numbers_and_rows(layer)[1].searchsorted(rows))
        self.removed += len(rows)

    def numbers_and_rows(self, layer: Layer) -> tuple[Array, Array]:
        """Return the numbers of a layer, which ascend, and the rows of them."""
        return self._ordered[layer]["number"], self._ordered[layer]["row"]

    def find_rows(self, layer: Layer, numbers: Collection[int]) -> tuple[Array, Sequence[int]]:
        """Return the rows of these numbers, and the numbers, of those that are here."""
        asked = np.fromiter(numbers, np.int64)
        known, rows = self.numbers_and_rows(layer)
        at = known.searchsorted(asked)
        here = np.flatnonzero(at < len(known))
        here = here[known[at[here]] == asked[here]]
        return rows[at[here]], asked[here].tolist()

    def names(self, column: str) -> Sequence[str]:
        """Return what the numbers of a column stand for."""
        return list(self._codes.get(column, ()))

    def rows_having(self, column: str, names: Collection[str]) -> Array:
        """Return by row whether a column has one of these names."""
        codes = [self._codes.get(column, {}).get(name, NONE - 1) for name in names]
        return self[column] == codes[0] if len(codes) == 1 else np.isin(self[column], codes)

    def find_speakers(self, names: Collection[str]) -> Sequence[int]:
        """Return the numbers of the speakers whose names begin with one of these words."""
        called = [code for name in names for code in self._called.get(name, ())]
        if len(called) > 1 and self.removed:  # all that one of them said may be gone
            called = [code for code in called if (self["speaker"] == code).any()]
        return called

    def excerpts(self, layer: Layer, numbers: Collection[int]) -> Iterator[tuple[int, Excerpt]]:
        """Yield what a context shows of these rows, by number, of those that are here."""
        rows, here = self.find_rows(layer, numbers)
        told = [map(self.names(name).__getitem__, self[name][rows]) for name in ("trust", "speaker", "kind")]
        times: list[float] = self["at"][rows].tolist()
        for row, number, at, trust, speaker, kind in zip(rows, here, times, *told, strict=True):
            text, who = self._texts[int(row)].decode(errors="surrogatepass"), None if layer is Layer.NOTES else speaker
            yield number, Excerpt(layer, number, datetime.fromtimestamp(at, UTC), text, trust, who, kind)

    def _chain(self, first: int, sessions: Sequence[int]) -> None:
        before, after = self["before"], self["after"]
        for row, session in enumerate(sessions, first):
            if session != NONE:
                previous = self._latest.get(session, NONE)
                before[row] = previous
                if previous != NONE:
                    after[previous] = row
                self._latest[session] = row

    def _unchain(self, row: int) -> None:
        """Take a row out of its conversation."""
        befores, afters, session = self["before"], self["after"], int(self["session"][row])
        before, after = int(befores[row]), int(afters[row])
        befores[row] = afters[row] = NONE
        if before != NONE:
            afters[before] = after
        if after != NONE:
            befores[after] = before
        elif before != NONE:
            self._latest[session] = before
        else:
            self._latest.pop(session, None)

    def _code(self, name: str, value: str) -> int:
        codes = self._codes.setdefault(name, {})
        code = codes.get(value)
        if code is None:
            code = codes[value] = len(codes)
            if name == "speaker":
                self._called.setdefault(next(words(value), ""), []).append(code)
        return code
