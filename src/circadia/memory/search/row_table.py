"""The rows of an index by column: what a score uses besides words and vectors, and what a context shows."""

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from circadia.memory.search.columns import Array, Columns, Layout
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
    "layer": np.int32, "before": np.int32, "after": np.int32, "length": np.int32, "at": np.float64,
    "importance": np.float64, "weight": np.float64, "question": np.bool_,
})  # fmt: skip
"""`before` and `after` are the neighbours in the same conversation."""
_ORDER: Final = Layout({"number": np.int64, "row": np.int64})


class RowTable:
    """Rows of both layers of a bank in the order of arrival. A removed row keeps its place, without content."""

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

    def __len__(self) -> int:
        """Return the number of rows, including removed ones."""
        return len(self._texts)

    @property
    def nbytes(self) -> int:
        columns = self._columns.nbytes + sum(column.nbytes for column in self._ordered.values())
        names = sum(len(codes) for codes in self._codes.values())
        return EMPTY_BYTES + columns + self._text_bytes + NAME_BYTES * names

    def __getitem__(self, name: str) -> Array:
        """Return a column, readable and writable in place, until rows are added."""
        return self._columns[name]

    def add(self, layer: Layer, rows: Sequence[IndexEntry], lengths: Array, questions: Array) -> None:
        """Append rows with their lengths in words and whether each is a question."""
        first = len(self)
        conversations = [
            NONE if row.conversation is None else self._code("conversation", row.conversation) for row in rows
        ]
        numbers = [row.number for row in rows]
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
        self._chain(first, conversations)
        self._ordered[layer].extend({"number": numbers, "row": range(first, len(self))}, len(rows))

    def remove(self, layer: Layer, rows: Array) -> None:
        """Remove rows of a layer with their content, and close the gaps in their conversations."""
        for row in map(int, rows):
            self._unchain(row)
            self._text_bytes -= len(self._texts[row])
            self._texts[row] = b""
        self.words -= int(self["length"][rows].sum())
        for name, nothing in (("weight", 0), ("length", REMOVED), ("speaker", NONE), ("conversation", NONE)):
            self[name][rows] = nothing
        self._ordered[layer].remove(self.numbers_and_rows(layer)[1].searchsorted(rows))
        self.removed += len(rows)

    def numbers_and_rows(self, layer: Layer) -> tuple[Array, Array]:
        return self._ordered[layer]["number"], self._ordered[layer]["row"]

    def find_rows(self, layer: Layer, numbers: Collection[int]) -> tuple[Array, Sequence[int]]:
        """Return the rows and numbers of those of these numbers that are present."""
        wanted_numbers = np.fromiter(numbers, np.int64)
        known, rows = self.numbers_and_rows(layer)
        at = known.searchsorted(wanted_numbers)
        here = np.flatnonzero(at < len(known))
        here = here[known[at[here]] == wanted_numbers[here]]
        return rows[at[here]], wanted_numbers[here].tolist()

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

    def excerpts(self, layer: Layer, numbers: Collection[int]) -> Iterator[tuple[int, Excerpt]]:
        """Yield what a context shows of the present rows among these, by number."""
        rows, here = self.find_rows(layer, numbers)
        labels = [map(self.names(name).__getitem__, self[name][rows]) for name in ("trust", "speaker", "kind")]
        times: list[float] = self["at"][rows].tolist()
        for row, number, at, trust, speaker, kind in zip(rows, here, times, *labels, strict=True):
            text, who = self._texts[int(row)].decode(errors="surrogatepass"), None if layer is Layer.NOTES else speaker
            yield number, Excerpt(layer, number, datetime.fromtimestamp(at, UTC), text, trust, who, kind)

    def _chain(self, first: int, conversations: Sequence[int]) -> None:
        before, after = self["before"], self["after"]
        for row, conversation in enumerate(conversations, first):
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
