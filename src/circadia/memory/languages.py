"""Detect the languages that a text may be in, and stem its words in them.

A short text may look like several languages. Stored texts and questions use the same function, so that they meet in
one of them; `python -m pytest tests/memory/test_languages.py` shows what that finds.
"""

import asyncio
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, lru_cache
from operator import itemgetter
from typing import Any, Final, cast

import numpy as np
import Stemmer
from py3langid import langid

from circadia.characters import fold_text

LIKELY: Final = 0.05
"""Least probability of a language."""
MAX_LANGUAGES: Final = 3
"""Most languages of a text."""
UNSURE: Final = 0.5
"""Probability of the best language below which a short question is stemmed in all languages."""
SHORT_WORDS: Final = 8
"""Number of words from which a question is not short; stemming it in thirty languages would take milliseconds."""
READ: Final = 200
"""Characters used to detect the language; 750 texts of five languages had the same languages by 200 as by 500."""
CACHED_TEXTS: Final = 4_000
"""Texts whose languages are cached, 2 MB: a pass asks for those of each text again with every check of its dates."""
ASKED: Final = 20_000
"""Characters of a question that are stemmed."""
LONGEST: Final = 64
"""Characters of a word that are stemmed."""
_WORD: Final = re.compile(r"[^\W\d_]+")


async def ensure_loaded() -> None:
    """Load the language model in a thread, before the first text needs it: 7 MB, 65 ms."""
    if not _identifier.cache_info().currsize:
        await asyncio.to_thread(load)


def load() -> None:
    _identifier()


def stems(text: str, *, asked: bool = False) -> Iterator[tuple[str, str]]:
    """Yield each word with its stem in each language that the text may be in but English, both folded.

    The terms of every text are its English stems already.
    """
    text = unicodedata.normalize("NFKC", text).lower()
    words: Collection[str] = dict.fromkeys(_WORD.findall(text[:ASKED])) if asked else _WORD.findall(text)
    found = languages(text, asked=asked and len(words) < SHORT_WORDS)
    likely = [_stemmer(language) for language in found if language != "en"]
    for word in words if likely else ():
        folded = fold_text(word)
        for stem in likely:
            yield folded, stem(word[:LONGEST])


def languages(text: str, *, asked: bool = False) -> Sequence[str]:
    """Return the codes (ISO 639-1) of a text's possible languages that have a stemmer, likeliest first."""
    return _detect_languages(text[:READ], asked)


@lru_cache(maxsize=CACHED_TEXTS)
def _detect_languages(text: str, asked: bool) -> Sequence[str]:
    ranked = _rank_languages(text)
    if asked and ranked[0][1] < UNSURE:
        return tuple(language for language, _ in ranked)
    return tuple(language for language, probability in ranked[:MAX_LANGUAGES] if probability >= LIKELY)


def _rank_languages(text: str) -> list[tuple[str, float]]:
    """Return the languages with their probabilities, likeliest first, as `LanguageIdentifier.rank` does.

    That one multiplies all 7,480 features, of which a text has a few, and takes twice the time (`remember` benchmark).
    """
    identifier = _identifier()
    next_states, outputs = identifier.tk_nextmove, identifier.tk_output
    features: list[int] = []
    state = 0
    for byte in text.encode("utf-8", "surrogatepass"):
        state = next_states[(state << 8) + byte]
        if state in outputs:
            features += outputs[state]
    scores = identifier.nb_pc + identifier.nb_ptc[features].sum(axis=0)
    weights = np.exp(scores - scores.max())
    probabilities = (weights / weights.sum()).tolist()
    return sorted(zip(identifier.nb_classes, probabilities, strict=True), key=itemgetter(1), reverse=True)


@cache
def _identifier() -> Any:
    identifier: Any = cast("Any", langid).LanguageIdentifier.from_pickled_model(langid.MODEL_FILE, norm_probs=True)
    identifier.set_languages([language for language in identifier.nb_classes if _has_stemmer(language)])
    identifier._LanguageIdentifier__full_model = None  # 3 MB, for a change to other languages
    return identifier


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
