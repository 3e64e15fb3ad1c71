"""Plain statements such as `I live in Porto`, found by patterns: what the rule-based model understands."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """Something with one value at a time."""

    subject: str
    """The owner's name, or `The`."""
    about: str
    """The property, such as `home`."""
    value: str
    history: str = ""
    """A note's clauses with past values and their ends, the latest first."""

    @property
    def present_sentence(self) -> str:
        return _FORMS.get(self.about, "{subject} {about} is {value}").format(
            subject=self._possessive if self.about not in _FORMS else self.subject, about=self.about, value=self.value
        )

    @property
    def past_sentence(self) -> str:
        return _PAST.get(self.about, "{subject} {about} was {value}").format(
            subject=self._possessive if self.about not in _PAST else self.subject, about=self.about, value=self.value
        )

    @property
    def _possessive(self) -> str:
        return self.subject if self.subject == NO_OWNER else f"{self.subject}'s"


NO_OWNER: Final = "The"
"""Subject of facts without an owner."""
_FORMS: Final = {
    "home": "{subject} lives in {value}", "work": "{subject} works {value}",
    "allergy": "{subject} is allergic to {value}", "preference": "{subject} prefers {value}",
}  # fmt: skip
_PAST: Final = {
    "home": "{subject} lived in {value}", "work": "{subject} worked {value}",
    "allergy": "{subject} was allergic to {value}", "preference": "{subject} preferred {value}",
}  # fmt: skip
_BEFORE: Final = re.compile(r"(?: \(… – [^:()]*: [^()]*\))+")
_VALUE: Final = r"(?P<value>[^.,;!?()\n]{2,60}?)"
_STOP: Final = r"now|today|any more|anymore|since|until|last|this|next|again|yesterday|because|but|and|so|with"
_END: Final = rf"(?=\s(?:{_STOP})\b|\s\(|[.,;!?\n]|$)"
_PATTERNS: Final = tuple(
    (about, re.compile(rf"\b(?P<who>I|[A-Z][\w-]+)\s{form}\s{_VALUE}{_END}"))
    for about, form in (
        ("home", r"(?:now\s)?(?:lives?|am\sliving|is\sliving)(?:\snow)?\sin"),
        ("home", r"(?:have\s|has\s)?(?:just\s)?(?:moved|relocated)\sto"),
        ("work", r"(?:now\s)?works?(?=\s(?:as|at|for)\b)"),
        ("allergy", r"(?:am|is)\sallergic\sto"),
        ("preference", r"(?:now\s)?prefers?"),
    )
)
_OWNED: Final = re.compile(
    rf"\b(?:(?P<my>[Mm]y)|(?P<who>[A-Z][\w-]+)'s|[Tt]he)\s(?P<about>[a-z][a-z' ]{{2,30}}?)\s"
    rf"(?:is|was moved to|has moved to|has changed to|are)(?:\snow)?\s{_VALUE}{_END}"
)
_WORDS: Final = frozenset({"What", "That", "This", "It", "He", "She", "They", "We", "You", "There", "Who"})


def find_facts(speaker: str, text: str) -> Iterator[Fact]:
    """Yield the facts in a text; `speaker` is the one who says `I`."""
    clauses = {clause.start(): clause[0] for clause in _BEFORE.finditer(text)}
    # Past values are not stated facts, but remain as history.
    plain = _BEFORE.sub(lambda past: ";" + " " * (len(past[0]) - 1), text)
    for about, who, match in _match_facts(plain):
        name = capitalize(speaker) if who in ("I", "My", "my") else who
        if name and name not in _WORDS:
            yield Fact(
                subject=name, about=about, value=match["value"].strip(), history=clauses.get(match.end("value"), "")
            )


def _match_facts(text: str) -> Iterator[tuple[str, str, re.Match[str]]]:
    for about, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            yield about, match["who"], match
    for match in _OWNED.finditer(text):
        yield match["about"], match["my"] or match["who"] or NO_OWNER, match


def capitalize(speaker: str) -> str:
    return speaker[:1].upper() + speaker[1:]
