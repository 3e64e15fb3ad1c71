"""Fingerprints of the passages of a text, the same however it is quoted, wrapped or written in capitals.

Winnowing: of each few neighbouring hashes the lowest is kept, so that whoever copies a passage of a certain length
copies a fingerprint (Schleimer, Wilkerson and Aiken: Winnowing, SIGMOD 2003). Only letters and digits count.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

PASSAGE: Final = 10
"""Letters of a passage that has a hash. Of 430 turns in talks none was taken for another text's, with 2 MB of them."""
NEIGHBOURS: Final = 4
"""Hashes of which the lowest is a fingerprint."""
READ: Final = 200_000
"""Characters that are read of a text, from its beginning and its end: 3 ms."""
_ESCAPE: Final = re.compile(r"(?<!\\)\\{1,16}(?:u([\da-fA-F]{4})|([nrtbf]))")
"""How JSON, also within JSON, writes a letter or a line's end."""
_WIDE: Final = 0x2E80
"""From here on a character stands for a syllable or a word, and counts twice: Chinese, Japanese, Korean (Unicode)."""
_EMOJI: Final = (0x1F000, 0x20000)

Units = NDArray[np.uint32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fingerprints:
    """The fingerprints of one text."""

    length: int
    """Its letters and digits."""
    places: NDArray[np.intp]
    """Where the passages begin, in letters, ascending."""
    hashes: Units
    """Their hashes, in the same order."""
    whole: int
    """The hash of all letters."""

    def covered(self, found: Flags) -> NDArray[np.intp]:
        """Return for each of the passages that are `found` how many letters it has before the next one of them."""
        return np.minimum(np.diff(self.places[found], append=self.length), PASSAGE)


def fingerprints(text: str) -> Fingerprints:
    """Return the fingerprints of a text."""
    return _of_letters(_letters(_unescaped(_read(text)))[0])


def stored(hashes: Units) -> bytes:
    """Return hashes, each once and in order, as they are stored."""
    return np.unique(hashes).astype("<u4").tobytes()


def loaded(hashes: bytes) -> Units:
    """Return hashes that were stored."""
    return np.frombuffer(hashes, "<u4").astype(np.uint32)


def without(text: str, known: Units) -> str:
    """Return the lines of a text that do not mostly stand in what has these hashes, which are in order."""
    text = _unescaped(_read(text))
    letters, line_of = _letters(text)
    prints = _of_letters(letters)
    starts = prints.places[np.isin(prints.hashes, known)]
    marks = np.zeros(len(letters) + PASSAGE + 1, np.int32)
    np.add.at(marks, starts, 1)
    np.add.at(marks, starts + PASSAGE, -1)
    covered = marks.cumsum()[: len(letters)] > 0
    lines = text.split("\n")
    sizes, there = (np.bincount(each, minlength=len(lines)) for each in (line_of, line_of[covered]))
    kept: list[str] = []
    gone = False
    for line, size, known_letters in zip(lines, sizes.tolist(), there.tolist(), strict=True):
        gone = known_letters * 2 >= size if size else gone  # a line without letters goes with the one before
        if not gone:
            kept.append(line)
    return "\n".join(kept).strip()


def _read(text: str) -> str:
    return text if len(text) <= READ else f"{text[: READ // 2]}\n{text[-READ // 2 :]}"


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else "\n" if match[2] == "n" else " ", text)
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _letters(text: str) -> tuple[Units, NDArray[np.intp]]:
    """Return the letters and digits of a text as code points in lower case, and the line of each."""
    points = np.frombuffer(text.casefold().encode("utf-32-le", "replace"), "<u4")
    astral = points >= 0x10000
    kept = _alphanumeric()[np.where(astral, 0, points)]
    kept |= astral & ((points < _EMOJI[0]) | (points >= _EMOJI[1]))
    lines = np.cumsum(points == ord("\n"))[kept]
    letters = points[kept].astype(np.uint32)
    wide = letters >= _WIDE
    if wide.any():
        times = np.where(wide, 2, 1)
        letters, lines = np.repeat(letters, times), np.repeat(lines, times)
    return letters, lines


def _of_letters(letters: Units) -> Fingerprints:
    hashes = _hashes(letters)
    if len(hashes) < NEIGHBOURS:
        places = np.zeros(0, np.intp)
    else:
        none = np.zeros(NEIGHBOURS - 1, np.uint32)
        lowest = np.concatenate((none, _over(hashes, np.minimum), none))
        places = np.flatnonzero(_over(lowest, np.maximum) == hashes)
    whole = int.from_bytes(blake2b(letters.tobytes(), digest_size=7).digest(), "little")
    return Fingerprints(length=len(letters), places=places, hashes=hashes[places], whole=whole)


def _hashes(letters: Units) -> Units:
    """Return the hash of the passage that begins at each letter, modulo 2 to the power of 32."""
    number = max(len(letters) - PASSAGE + 1, 0)
    hashes = np.zeros(number, np.uint32)
    spread = letters * np.uint32(0x9E3779B1)
    for at in range(PASSAGE):
        hashes = hashes * np.uint32(0x01000193) + spread[at : at + number]
    hashes ^= hashes >> np.uint32(15)  # the finalizer of MurmurHash3, whose high bits are as good as its low ones
    hashes *= np.uint32(0x85EBCA6B)
    return hashes ^ (hashes >> np.uint32(13))


def _over(values: Units, choose: Any) -> Units:
    """Return the lowest, or highest, of each `NEIGHBOURS` values."""
    return choose(choose(values[:-3], values[1:-2]), choose(values[2:-1], values[3:]))


@lru_cache(maxsize=1)
def _alphanumeric() -> Flags:
    """Return by code point whether it is a letter or a digit; 10 ms, once."""
    return np.fromiter((chr(point).isalnum() for point in range(0x10000)), np.bool_, 0x10000)
