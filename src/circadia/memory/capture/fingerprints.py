"""Fingerprints of a text's passages, independent of quoting, wrapping, encoding and case.

Winnowing keeps the lowest of each few neighbouring hashes, so that a copied passage of sufficient length shares a
fingerprint (Schleimer, Wilkerson and Aiken: Winnowing, SIGMOD 2003). Only letters and digits count.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from html import unescape
from importlib import import_module
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from circadia.characters import fold_text

PASSAGE: Final = 10
"""Letters of a hashed passage. Of 430 turns of talks, none was taken for another text in 2 MB of them."""
NEIGHBOURS: Final = 4
"""Window of hashes whose lowest is a fingerprint."""
READ: Final = 200_000
"""Characters read of a text, half from each end: 3 ms."""
_ESCAPE: Final = re.compile(r"(?<!\\)\\{1,16}(?:(?:u([\da-fA-F]{4})|x([\da-fA-F]{2}))|([nrtbf]))")
"""Escapes of letters and line ends in JSON, also nested, and in source code."""
_PERCENT: Final = re.compile(r"%[\da-fA-F]{2}")
_WIDE: Final = 0x2E80
"""First character that stands for a syllable or word and counts twice: Chinese, Japanese, Korean (Unicode)."""
_EMOJI: Final = (0x1F000, 0x20000)

NUMPY_MA: Final = import_module("numpy.ma")
"""What np.unique imports at its first use: here, since that would be in a call, on the loop, for up to 50 ms."""
Units = NDArray[np.uint32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fingerprints:
    length: int
    """Number of letters and digits."""
    places: NDArray[np.intp]
    """Where the passages begin, in letters, ascending."""
    hashes: Units
    whole: int
    """Hash of all letters."""

    def covered_letters(self, found: Flags) -> NDArray[np.intp]:
        """Return how many letters each found passage covers before the next found one."""
        return np.minimum(np.diff(self.places[found], append=self.length), PASSAGE)

    def letters_inside(self, found: Flags) -> Flags:
        """Return for each letter whether it lies in a found passage."""
        marks = np.zeros(self.length + PASSAGE + 1, np.int32)
        np.add.at(marks, self.places[found], 1)
        np.add.at(marks, self.places[found] + PASSAGE, -1)
        return marks.cumsum()[: self.length] > 0


def fingerprints(text: str) -> Fingerprints:
    return _build_fingerprints(_letters(_unescape(_shorten(text)))[0])


def pack_hashes(hashes: Units) -> bytes:
    """Return the distinct hashes, sorted, in their stored form."""
    return np.unique(hashes).astype("<u4").tobytes()


def unpack_hashes(hashes: bytes) -> Units:
    return np.frombuffer(hashes, "<u4").astype(np.uint32)


def remove_known_lines(text: str, known: Units) -> str:
    """Return a text without lines that mostly consist of passages with these sorted hashes."""
    text = _unescape(_shorten(text))
    letters, line_of = _letters(text)
    prints = _build_fingerprints(letters)
    covered = prints.letters_inside(np.isin(prints.hashes, known))
    lines = text.split("\n")
    sizes, known_sizes = (np.bincount(places, minlength=len(lines)) for places in (line_of, line_of[covered]))
    kept_lines: list[str] = []
    is_known = False
    for line, size, known_letters in zip(lines, sizes.tolist(), known_sizes.tolist(), strict=True):
        is_known = known_letters * 2 >= size if size else is_known  # a line without letters goes with the one before
        if not is_known:
            kept_lines.append(line)
    return "\n".join(kept_lines).strip()


def _shorten(text: str) -> str:
    return text if len(text) <= READ else f"{text[: READ // 2]}\n{text[-READ // 2 :]}"


def _unescape(text: str) -> str:
    """Undo JSON, HTML and URL escapes."""
    if _PERCENT.search(text):
        text = unquote(text)
    if "&" in text:
        text = unescape(text)
    if "\\" not in text:
        return text
    text = _ESCAPE.sub(_decode_escape, text)
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _decode_escape(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    if code:
        return chr(int(code, 16))
    return "\n" if escape[3] == "n" else " "


def _letters(text: str) -> tuple[Units, NDArray[np.intp]]:
    """Return a text's folded letters and digits as code points, and the line of each."""
    points = np.frombuffer(fold_text(text).encode("utf-32-le", "replace"), "<u4")
    astral = points >= 0x10000
    letter_mask = _alphanumeric()[np.where(astral, 0, points)]
    letter_mask |= astral & ((points < _EMOJI[0]) | (points >= _EMOJI[1]))
    lines = np.cumsum(points == ord("\n"))[letter_mask]
    letters = points[letter_mask].astype(np.uint32)
    wide = letters >= _WIDE
    if wide.any():
        times = np.where(wide, 2, 1)
        letters, lines = np.repeat(letters, times), np.repeat(lines, times)
    return letters, lines


def _build_fingerprints(letters: Units) -> Fingerprints:
    hashes = _hashes(letters)
    if len(hashes) < NEIGHBOURS:
        places = np.zeros(0, np.intp)
    else:
        none = np.zeros(NEIGHBOURS - 1, np.uint32)
        lowest = np.concatenate((none, _reduce_neighbours(hashes, np.minimum), none))
        places = np.flatnonzero(_reduce_neighbours(lowest, np.maximum) == hashes)
    whole = int.from_bytes(blake2b(letters.tobytes(), digest_size=7).digest(), "little")
    return Fingerprints(length=len(letters), places=places, hashes=hashes[places], whole=whole)


def _hashes(letters: Units) -> Units:
    """Return the hash of the passage at each letter, modulo 2**32."""
    number = max(len(letters) - PASSAGE + 1, 0)
    hashes = np.zeros(number, np.uint32)
    spread = letters * np.uint32(0x9E3779B1)
    for at in range(PASSAGE):
        hashes = hashes * np.uint32(0x01000193) + spread[at : at + number]
    hashes ^= hashes >> np.uint32(15)  # finalizer of MurmurHash3: mixes high bits into low ones
    hashes *= np.uint32(0x85EBCA6B)
    return hashes ^ (hashes >> np.uint32(13))


def _reduce_neighbours(values: Units, choose: Any) -> Units:
    """Return the lowest, or highest, of each window of `NEIGHBOURS` values."""
    return choose(choose(values[:-3], values[1:-2]), choose(values[2:-1], values[3:]))


@lru_cache(maxsize=1)
def _alphanumeric() -> Flags:
    """Return whether each code point is a letter or digit; takes 10 ms, once."""
    return np.fromiter((chr(point).isalnum() for point in range(0x10000)), np.bool_, 0x10000)
