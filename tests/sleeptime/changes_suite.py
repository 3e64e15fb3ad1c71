"""Statements after an answer, in seven languages: some change it, some are about something else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeCase:
    """A question with its answer, and what may be said next."""

    question: str
    answer: str
    same_words: str
    """Changes the answer in its own words."""
    other_words: str
    """Changes it in other words."""
    besides: str
    """Says another thing about the same person or thing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeLanguage:
    """What is asked and said in one language."""

    cases: Sequence[ChangeCase]
    names: Sequence[str]
    """Who is asked about."""
    unrelated: Sequence[str]
    """Statements about something else; the first two are those of the findings."""


def changes_suite() -> Mapping[str, ChangeLanguage]:
    """Return it, by the languages' codes."""
    lines = Path(__file__).with_suffix(".tsv").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    found: dict[str, ChangeLanguage] = {}
    for code in dict.fromkeys(row[0] for row in rows):
        own = [row[1:] for row in rows if row[0] == code]
        found[code] = ChangeLanguage(
            cases=[
                ChangeCase(question=each[0], answer=each[1], same_words=each[2], other_words=each[3], besides=each[4])
                for each in own if each[0] and each[0] != "-"
            ],
            unrelated=next(each[1:] for each in own if not each[0]),
            names=next(each[1:] for each in own if each[0] == "-"),
        )  # fmt: skip
    return found
