"""Languages of texts: which ones a text may be in, and the stems of its words in these.

A short text may look like several languages. What is stored and what is asked go through the same function, so that
they meet in one of them; `python -m pytest tests/memory/test_languages.py` shows what that finds.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, Final, cast

import Stemmer
from py3langid import langid

from circadia.folding import fold_text

LIKELY: Final = 0.05
"""Probability from which on a text may be in a language."""
MOST: Final = 3
"""Languages of a text."""
UNSURE: Final = 0.5
"""Probability of the likeliest language below which a question of few words, maybe of one, is asked in each."""
FEW: Final = 8
"""Words from which on a question tells its language; in each of thirty it would take milliseconds."""
READ: Final = 500
"""Characters that tell the language."""
ASKED: Final = 20_000
"""Characters of a question whose words are stemmed."""
LONGEST: Final = 64
"""Characters of a word that is stemmed."""
_WORD: Final = re.compile(r"[^\W\d_]+")


def load() -> None:
    """Load what tells languages, so that no text waits for it: 10 MB, 65 ms."""
    _identifier()


def stems(text: str, *, asked: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the words of a text, each with a stem in each language that the text may be in, both folded."""
    text = unicodedata.normalize("NFKC", text).lower()
    words: Collection[str] = dict.fromkeys(_WORD.findall(text[:ASKED])) if asked else _WORD.findall(text)
    likely = [_stemmer(language) for language in languages(text, asked=asked and len(words) < FEW)]
    for word in words if likely else ():
        same = fold_text(word)
        for stem in likely:
            yield same, stem(word[:LONGEST])


def languages(text: str, *, asked: bool = False) -> Sequence[str]:
    """Return the codes (ISO 639-1) of the languages that a text may be in and that have a stemmer, likely first."""
    ranked = cast("list[tuple[str, float]]", _identifier().rank(text[:READ]))
    if asked and ranked[0][1] < UNSURE:
        return [language for language, _ in ranked]
    return [language for language, probability in ranked[:MOST] if probability >= LIKELY]


@cache
def _identifier() -> Any:
    made: Any = cast("Any", langid).LanguageIdentifier.from_pickled_model(langid.MODEL_FILE, norm_probs=True)
    made.set_languages([language for language in made.nb_classes if _has_stemmer(language)])
    return made


def _has_stemmer(language: str) -> bool:
    try:
        Stemmer.Stemmer(language)  # pyright: ignore[reportUnknownMemberType]
    except KeyError:
        return False
    return True


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    stem = cast("Callable[[str], str]", Stemmer.Stemmer(language).stemWord)  # pyright: ignore[reportUnknownMemberType]

    @lru_cache(maxsize=50_000)
    def folded_stem(word: str) -> str:
        return fold_text(stem(word))

    return folded_stem
