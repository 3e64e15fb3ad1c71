"""Estimate how much a turn is worth remembering, from its words alone (MEM-18)."""

import re
from typing import Final

from circadia.characters import visible_text

_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_TRIVIAL: Final = frozenset(
    """
    ok okay k kk thanks thank thx ty you so much very many a lot hi hello hey hallo good morning evening
    night day bye goodbye great cool nice perfect awesome fine sure alright right got it i see
    understood please continue go on ahead proceed next welcome you're problem worries lol haha wow hm
    hmm mhm ah oh uh danke bitte gut prima alles klar weiter merci bien oui gracias vale bueno grazie va
    bene ciao hola salut
    """.split()  # noqa: SIM905 - one word a line would fill a page
)
"""Words of turns that only acknowledge or greet; `yes` and `no` are missing because they answer something."""
_LONGEST_TRIVIAL: Final = 6
_SELF: Final = re.compile(
    r"\b(?:i|i'm|i’m|i've|i’ve|my|mine|me|we|we're|we’re|our|us|ich|mein\w*|wir|unser\w*|je|mon|ma|mes)\b", re.I
)
_LASTING: Final = re.compile(
    r"\b(?:remember|remind|don['’]t forget|note that|always|never|prefer\w*|favou?rite|allerg\w+|deadline|important|"
    r"must|birthday|call me|from now on|agreed|decided|decision|promis\w+|merk\w*|immer|nie(?:mals)?|wichtig)\b",
    re.I,
)
_FIGURE: Final = re.compile(r"\d")
_NAME: Final = re.compile(r"[^\W\d_][,;:]? [A-ZÀ-ÖØ-ÞΑ-ΩА-Я][^\W\d_]+")
"""A capitalised word that does not begin a sentence."""
_LOOKED_AT: Final = 4_000
"""Characters that count for the score."""


def is_content(text: str) -> bool:
    """Return whether a turn has words other than greetings and acknowledgements."""
    words = _WORD.findall(visible_text(text[:_LOOKED_AT]))
    if len(words) > _LONGEST_TRIVIAL:
        return True
    return any(word.lower() not in _TRIVIAL for word in words)


def importance(text: str) -> float:
    """Return a score from 0 to 1; 0 for a turn without content.

    Length, figures, names, first-person words and requests to remember raise it; a bare question lowers it.
    """
    if not is_content(text):
        return 0.0
    text = text[:_LOOKED_AT]
    words = len(_WORD.findall(text))
    score = 0.2 + 0.2 * min(words, 40) / 40
    score += 0.15 * (_FIGURE.search(text) is not None)
    score += 0.15 * (_NAME.search(text) is not None)
    score += 0.1 * (_SELF.search(text) is not None)
    score += 0.25 * (_LASTING.search(text) is not None)
    score -= 0.1 * (text.rstrip().endswith("?") and words < 15)
    return round(min(1.0, max(0.0, score)), 3)
