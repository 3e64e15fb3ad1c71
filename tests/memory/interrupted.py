"""A search that a test stops in its middle."""

import threading
from collections.abc import Iterator, Sequence


class Interrupted(Sequence[int]):
    """Terms that a search waits for in its middle."""

    def __init__(self, terms: Sequence[int]) -> None:
        self.terms = terms
        self.reached, self.go_on = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[int]:
        self.reached.set()
        assert self.go_on.wait(60)
        return iter(self.terms)

    def __len__(self) -> int:
        return len(self.terms)

    def __getitem__(self, at: int | slice) -> "int | Sequence[int]":  # type: ignore[override]
        return self.terms[at]
