"""Holds what is proposed to its sources: no number, date, address, command or name is in none (SLEEP-31, SLEEP-20).

A rule of publications. It asks no model, so it cannot tell whether a text
denies what its sources affirm, or puts their words together in a way that nobody meant: `Ann does not eat fish` passes
where Ann said that she eats fish. Names are told by their capitals: those that begin a sentence only where what follows
is a person's doing, and in German, where all nouns have them, only with a digit.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import cached_property, lru_cache
from itertools import chain, islice
from typing import Final, cast

from circadia.ids import EpisodeId
from circadia.memory.terms import STOP_WORDS, words
from circadia.records.bank import Trust
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode
from circadia.sleeptime.dates import MONTHS, WEEKDAYS, local
from circadia.sleeptime.days import Day, day_of, meant, written
from circadia.sleeptime.figures import Figure, figures, is_number, times
from circadia.sleeptime.rules import resting_on
from circadia.sleeptime.wording import COMMAND, addresses, refanged

FEWEST: Final = 2
"""Episodes that a note rests on at least."""
TOLD: Final = 80
"""Characters of what is in no source that a reason names."""
REMEMBERED: Final = 1_000
"""Episodes of which is remembered what they say: several notes of a page rest on each."""

_TOKEN: Final = re.compile(r"[^\W_]+(?:['’.&-][^\W_]+)*['’]?")
_BEGINS: Final = re.compile(r"(?:[.!?…]['\"”’)]*\s|\n)[\s>*•\"'“‘(\[-]*$")
_NOTHING: Final = re.compile(r"[\s>*•\"'“‘(\[-]*")
_NEAR: Final = 60
"""Characters before a word that show whether it begins a sentence."""
_ABBREVIATED: Final = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|St|Prof|vs|no|e\.g|i\.e|[A-Z])\.\s*$")
_DOING: Final = re.compile(
    r"(?:['’]s)?(?: and [A-Z]\w+)? (?:also |now |usually |often |really |still |never |always )?"
    r"(?:(?:is|was) (?:an? |the |her |his |their |where |from |in |at |married|single|allergic|\d|[A-Z])|"
    r"(?:has|had|will) |"
    r"(?:says|said|told|asked|lives|lived|works|worked|likes|liked|loves|loved|hates|hated|wants|wanted|plans|planned|"
    r"prefers|preferred|moved|went|goes|thinks|thought|believes|believed|feels|felt|bought|met|married|owns|owned|"
    r"studies|studied|enjoys|enjoyed|hopes|hoped|wishes|decided|agreed|promised|knows|knew|owes|owed|lost|won|got)\b)"
)
"""What follows the name of a person that begins a sentence."""
_DIGIT: Final = re.compile(r"\d")
_TITLES: Final = frozenset(("dr", "mr", "mrs", "ms", "prof"))
_GERMAN: Final = frozenset(("das", "den", "der", "ein", "eine", "ich", "ist", "mit", "nicht", "sie", "und", "von"))
_ENGLISH: Final = frozenset(("a", "and", "has", "her", "his", "is", "of", "she", "that", "the", "to", "was", "with"))


class Said:
    """What one text says, each form of it when it is first asked for: most claims need few."""

    def __init__(self, text: str, speaker: str = "", at: datetime | None = None, day: date | None = None) -> None:
        """Of an episode with who said it, when by their own clock, and the day of UTC."""
        self._text = text
        self._speaker = speaker
        self._at = at
        self._day = day

    @cached_property
    def words(self) -> frozenset[str]:
        """Return its words, without case and accents, and those of who said it."""
        return frozenset((*words(self._text), *words(self._speaker)))

    @cached_property
    def days(self) -> frozenset[Day]:
        """Return the days that it was said on, or means."""
        told = frozenset(reading for each in written(self._text) for reading in each.readings)
        if self._at is None or self._day is None:
            return told
        return told.union(meant(self._text, self._at), [day_of(self._day)])

    @cached_property
    def figures(self) -> frozenset[tuple[str, str | None]]:
        """Return its numbers with their units."""
        return frozenset((value, each.unit) for each in figures(self._rest) for value in each.values)

    @cached_property
    def minutes(self) -> frozenset[int]:
        """Return its times of day."""
        return frozenset(minute for _, _, readings in times(self._rest) for minute in readings)

    @cached_property
    def plain(self) -> str:
        """Return all of it, lower case."""
        return _plain(self._text)

    @cached_property
    def _rest(self) -> str:
        rest = self._text
        for each in written(rest):
            rest = _without(rest, each.start, each.end)
        return rest


class Sources:
    """What sources say, in the forms that claims are compared in."""

    def __init__(self, said: Sequence[Said]) -> None:
        self._said = said

    @cached_property
    def words(self) -> frozenset[str]:
        """Return all words."""
        return frozenset[str]().union(*(each.words for each in self._said))

    @cached_property
    def days(self) -> frozenset[Day]:
        """Return all days."""
        return frozenset[Day]().union(*(each.days for each in self._said))

    @cached_property
    def figures(self) -> frozenset[tuple[str, str | None]]:
        """Return all numbers."""
        return frozenset[tuple[str, str | None]]().union(*(each.figures for each in self._said))

    @cached_property
    def minutes(self) -> frozenset[int]:
        """Return all times of day."""
        return frozenset[int]().union(*(each.minutes for each in self._said))

    @cached_property
    def plain(self) -> str:
        """Return all texts."""
        return "\n".join(each.plain for each in self._said)


def grounded(change: Change, rows: Mapping[EpisodeId, Episode]) -> str:
    """Return what is wrong with the sources of a note or of a block, empty if nothing is: a rule of publications."""
    after = change.after or {}
    if change.kind is ChangeKind.ADD_NOTE:
        return _note(str(after.get("text", "")), change, rows)
    if change.kind is ChangeKind.WRITE_BLOCK:
        return _block(str(after.get("value", "")), change, rows)
    return ""


def _note(text: str, change: Change, rows: Mapping[EpisodeId, Episode]) -> str:
    if not text.strip():
        return "the text is empty"
    found, missing = _read(change, rows)
    if missing:
        return _cut(f"{len(missing)} of its sources are not in this bank: {', '.join(missing)}")
    if len(found) < FEWEST:
        return f"a note rests on {FEWEST} episodes at least, not {len(found)}"
    least = max((each.trust for each in found), key=lambda trust: trust.rank)
    if (change.after or {}).get("trust") not in [trust.value for trust in Trust if trust.rank >= least.rank]:
        return f"it is trusted more than the least trusted of its sources ({least})"
    return ungrounded(text, sources(found))


def _block(value: str, change: Change, rows: Mapping[EpisodeId, Episode]) -> str:
    after, before = change.after or {}, str((change.before or {}).get("value", ""))
    spans = cast("Sequence[tuple[int, int, Sequence[str]]]", after.get("spans") or ())
    found, missing = _read(change, rows)
    if missing:
        return _cut(f"{len(missing)} of its sources are not in this bank: {', '.join(missing)}")
    for start, line in _lines(value):
        resting = any(first < start + len(line) and start < last and named for first, last, named in spans)
        if line.strip() and not resting and line not in before:
            return _cut(f"a new line rests on no episode: {line.strip()!r}")
    return ungrounded(value, sources(found, before))


def sources(rows: Iterable[Episode], *texts: str) -> Sources:
    """Return what these episodes and texts say."""
    found = [_of_episode(each.text, each.speaker, local(each).replace(tzinfo=None), each.at.date()) for each in rows]
    return Sources([*found, *map(Said, texts)])


_of_episode = lru_cache(maxsize=REMEMBERED)(Said)


def names(text: str) -> Iterator[str]:
    """Return what a text calls by name, word by word."""
    return _names(text, _NO_SOURCES)


def ungrounded(text: str, known: Sources) -> str:
    """Return which claims of a text are in no source, in words; empty if none is."""
    strange = list(dict.fromkeys(islice(_strange(text, known), TOLD)))
    if not strange:
        return ""
    return _cut(", ".join(repr(each) for each in strange)) + (" is" if len(strange) == 1 else " are") + " in no source"


def _strange(text: str, known: Sources) -> Iterator[str]:
    """Return the claims of a text that are in no source: each kind is looked for in what the ones before leave."""
    rest = text = refanged(text)
    for start, end in chain(addresses(text), map(re.Match[str].span, COMMAND.finditer(text))):
        rest = _without(rest, start, end)
        if _plain(text[start:end]).rstrip(".,;:!?/") not in known.plain:
            yield text[start:end].rstrip(".,;:!?")
    for each in written(rest):
        if not any(reading.within(day) for reading in each.readings for day in known.days):
            yield rest[each.start : each.end]
        rest = _without(rest, each.start, each.end)
    for start, end, minutes in times(rest):
        if not minutes & known.minutes:
            yield rest[start:end].strip(" .")
        rest = _without(rest, start, end)
    for figure in figures(rest):
        if figure.telling and not _counted(figure, known):
            yield rest[figure.start : figure.end].strip()
    yield from _names(rest, known)


def _counted(figure: Figure, known: Sources) -> bool:
    """Return whether a source has the number: of the same thing, or of a thing that one of both leaves open."""
    for value in figure.values:
        units = {unit for number, unit in known.figures if number == value}
        if units and (figure.unit is None or not units.isdisjoint((None, figure.unit))):
            return True
        if figure.unit is None and any(str(day.year) == value for day in known.days):
            return True
        if figure.ordinal and any(str(day.day) == value for day in known.days):
            return True
    return False


def _names(text: str, known: Sources) -> Iterator[str]:
    """Return the names that are in no source."""
    german = _german(text)
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token.isalpha() and token.islower() and not german:
            continue  # as the two below, but at once: most words are no names
        mixed = _DIGIT.search(token, 1) is not None and not token[0].isdigit()
        if not mixed and (german or token.lower() == token):
            continue
        parts = _parts(token)
        if all(is_number(part) or _known(part, known) for part in parts) or "".join(parts) in known.words:
            continue
        if mixed or not _begins(text, match) or _DOING.match(text, match.end()) or _possessive(text, match):
            yield token


@lru_cache(maxsize=REMEMBERED)
def _parts(token: str) -> Sequence[str]:
    """Return the words of what may be a name; the same few stand in all texts."""
    return [each for each in words(re.sub(r"['’]s?$", "", token)) if not each.isdigit()]


def _known(word: str, known: Sources) -> bool:
    """Return whether a source has a word, in the singular or the plural; days and months by their dates, too."""
    if word in STOP_WORDS or word in _TITLES or word in known.words or f"{word}s" in known.words:
        return True
    if word.endswith("s") and word[:-1] in known.words:
        return True
    named = word.capitalize()
    if named in MONTHS:
        return any(day.month == MONTHS.index(named) + 1 for day in known.days)
    return named in WEEKDAYS and any(day.weekday == named for day in known.days)


def _begins(text: str, match: re.Match[str]) -> bool:
    first = max(match.start() - _NEAR, 0)
    before = text[first : match.start()]
    if _ABBREVIATED.search(before):
        return False
    return _BEGINS.search(before) is not None or (not first and _NOTHING.fullmatch(before) is not None)


def _possessive(text: str, match: re.Match[str]) -> bool:
    return re.search(r"['’]s?$", match[0]) is not None and text[match.end() : match.end() + 2].strip()[:1].islower()


def _german(text: str) -> bool:
    said = text.lower().split()
    german = sum(each in _GERMAN for each in said)
    return german > 1 and german > sum(each in _ENGLISH for each in said)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", refanged(text)).casefold()


def _without(text: str, start: int, end: int) -> str:
    """Return a text with marks in place of a part, so that the rest stays where it is."""
    return text[:start] + "¤" * (end - start) + text[end:]


def _lines(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for line in text.split("\n"):
        yield start, line
        start += len(line) + 1


def _read(change: Change, rows: Mapping[EpisodeId, Episode]) -> tuple[list[Episode], list[str]]:
    """Return what a change rests on, and the ids of what the bank has not."""
    ids = resting_on(change)
    return [rows[each] for each in ids if each in rows], [each for each in ids if each not in rows]


def _cut(text: str) -> str:
    return text if len(text) <= TOLD else f"{text[:TOLD]}…"


_NO_SOURCES: Final = sources(())
