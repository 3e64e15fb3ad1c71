"""Checks proposed texts against their sources by what can be compared in any language (SLEEP-31, SLEEP-20).

It is a rule of publications that uses no model and no grammar. It finds what is certainly in no source: ids, numbers of
several digits, implausible dates, addresses, commands, codes, and names in scripts with capitals. The tier's model
judges whether a text says what its sources say (`ClaimVerifier`).
"""

import calendar
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import cached_property, lru_cache
from itertools import chain, islice
from typing import Final, cast

from circadia.answers.question_text import CAPITALIZED_NOUNS
from circadia.characters import to_ascii_digits
from circadia.ids import EpisodeId
from circadia.memory.languages import languages
from circadia.memory.relative_dates import first_open_date, local_time
from circadia.memory.search.terms import question_terms, words
from circadia.records.bank import Trust
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode, least_trust
from circadia.records.note import Note
from circadia.sleeptime.grounding.change_rules import FinalRefusal, source_ids_of
from circadia.sleeptime.grounding.figures import find_all_numbers, find_calendar_dates, find_numbers
from circadia.sleeptime.grounding.quotations import is_extract
from circadia.sleeptime.grounding.wording import COMMAND, find_addresses, refang

MIN_SOURCES: Final = 2
"""Episodes that support a note which nobody in the conversation has said."""
COPIED_WORDS: Final = 3
"""Words in a row from which on a text is taken from another."""
SAID_SHARE: Final = 0.75
"""Share of a copied text's words that are its speaker's own from which on the judge decides whether it is said."""
MAX_RARE_WORDS: Final = 2
"""Words of a text for which another line is shown where capitals mark no names."""
MAX_REASON_CHARACTERS: Final = 80
"""Maximum characters of unsupported text in a reason."""
CACHED_EPISODES: Final = 1_000
"""Episodes whose contents are cached: each supports several notes of a page."""
LANGUAGE_CHARACTERS: Final = 500
"""Characters of a source to detect its language from."""
LONG_CHARACTERS: Final = 60
"""Characters from which on a source tells its language: of 1,300 English turns of 20 and more, none seemed German."""
REACH: Final = timedelta(days=400)
"""Maximum distance of a plausible day from its message: `on 3 March` is within a year."""
REACH_YEARS: Final = 10
"""The same in years, for months and years."""
STEM: Final = 3
"""Letters that two forms of a name must share, beside half of the longer one."""

_WORD: Final = re.compile(r"(?<!\w)[^\W\d_]+(?:['’.-][^\W\d_]+)*(?!\w)")
_CODE: Final = re.compile(
    r"(?<![A-Za-z\d])[A-Za-z]+[-_]?\d[A-Za-z\d_-]*(?![A-Za-z\d])|(?<![\w.])\d+(?:\.\d+){2,}(?![\w.])"
)
"""Letters followed by digits, or a version."""
_BEGINS: Final = re.compile(r"(?:^|[.!?…:;]['\"”’)]*\s|\n)[\s>*•\"'“„‘«¿¡(\[-]*$")
_QUOTES: Final = dict.fromkeys(map(ord, "`'\"‘’‚‛“”„‟«»‹›「」『』"))
_NEAR: Final = 60
"""Characters before a word that show whether it begins a sentence."""
_CALENDAR: Final = frozenset(name.casefold() for name in (*calendar.month_name, *calendar.day_name) if name)
"""Month and weekday names, which some languages capitalize, and which a date in digits supports."""


class SourceText:
    """The comparable contents of one text, each computed on first use: most claims need few."""

    def __init__(self, text: str, speaker: str = "", days: Sequence[date] = ()) -> None:
        """For an episode, `days` are its days by the speaker's clock and by UTC."""
        self.text = to_ascii_digits(text)
        self._speaker = speaker
        self._days = days

    @cached_property
    def words(self) -> frozenset[str]:
        """Return the words of the text and its speaker, without case and accents."""
        return frozenset((*words(self.text), *words(self._speaker)))

    @cached_property
    def days(self) -> frozenset[date]:
        """Return the days of the message and those in digits; for a month its first day."""
        return frozenset((*self._days, *(date(y, m, d or 1) for y, m, d in self.dates)))

    @cached_property
    def dates(self) -> frozenset[tuple[int, int, int | None]]:
        return frozenset(reading for day in find_calendar_dates(self.text) for reading in day.readings)

    @cached_property
    def integers(self) -> frozenset[int]:
        return frozenset(int(digits) for digits in re.findall(r"\d{1,9}", self.text))

    @cached_property
    def numbers(self) -> frozenset[str]:
        return find_all_numbers(self.text)

    @cached_property
    def plain(self) -> str:
        return _normalize(self.text)


class Sources:
    def __init__(self, texts: Sequence[SourceText]) -> None:
        self._texts = texts

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset[str]().union(*(text.words for text in self._texts))

    @cached_property
    def word_stems(self) -> frozenset[str]:
        return frozenset(word[:STEM] for word in self.words)

    @cached_property
    def days(self) -> frozenset[date]:
        return frozenset[date]().union(*(text.days for text in self._texts))

    @cached_property
    def dates(self) -> frozenset[tuple[int, int, int | None]]:
        return frozenset[tuple[int, int, int | None]]().union(*(text.dates for text in self._texts))

    @cached_property
    def integers(self) -> frozenset[int]:
        return frozenset[int]().union(*(text.integers for text in self._texts))

    @cached_property
    def numbers(self) -> frozenset[str]:
        return frozenset[str]().union(*(text.numbers for text in self._texts))

    @cached_property
    def plain(self) -> str:
        return "\n".join(text.plain for text in self._texts)

    @cached_property
    def has_capitalized_names(self) -> bool:
        """Return whether capitals mark names in these texts, in whatever order: in each long one, and in all others."""
        texts = [text.text for text in self._texts]
        short = " ".join(sorted(text for text in texts if len(text) < LONG_CHARACTERS))
        parts = [text for text in (*texts, short) if len(text) >= LONG_CHARACTERS] or [short]
        return all(_has_capitalized_names(text[:LANGUAGE_CHARACTERS]) for text in parts)

    def is_date_in_reach(self, year: int, month: int = 0, day: int | None = None) -> bool:
        """Return whether a day, a month or a year is plausible from the days of these texts."""
        if day is None or not month:
            return any(abs(year - source_day.year) <= REACH_YEARS for source_day in self.days)
        return any(abs(date(year, month, day) - source_day) <= REACH for source_day in self.days)


def check_grounding(change: Change, rows: Mapping[EpisodeId, Episode]) -> str:
    """Return what is wrong with the sources of a note or a block, empty if nothing is."""
    after = change.after or {}
    if change.kind is ChangeKind.ADD_NOTE:
        return _check_note(str(after.get("text", "")), change, rows)
    if change.kind is ChangeKind.WRITE_BLOCK:
        return _check_block(str(after.get("value", "")), change, rows)
    return ""


def has_enough_sources(sources: Collection[Episode]) -> bool:
    """Return whether a note may rest on these: one is enough where a person or an agent said it (SLEEP-82)."""
    return len(sources) >= MIN_SOURCES or any(source.trust.rank <= Trust.AGENT.rank for source in sources)


def find_context(
    text: str, cited: Sequence[Episode], shown: Iterable[Episode | Note]
) -> tuple[Sequence[Episode | Note], Mapping[str, str]]:
    """Return where the names, numbers, dates and codes of a text stand that its cited sources lack (SLEEP-89).

    What a person or an agent has said or noted is context: a mapping of each such part to the row's id. What only a
    tool or an outside text says makes that row a source, and so does a text that is copied from it: the first part of
    the answer. Where capitals mark no names, the rarest words that the cited sources lack stand for them.
    """
    shown = list(shown)
    missing = set(_find_unknown_claims(text, collect_sources(cited)))
    sources: list[Episode | Note] = []
    context: dict[str, str] = {}
    for row in sorted(shown, key=lambda row: least_trust(row).rank):
        is_said = least_trust(row).rank <= Trust.AGENT.rank
        if not is_said and _is_copy(text, row.text):
            sources.append(row)
        if not missing:
            continue
        texts = _episode_texts([row]) if isinstance(row, Episode) else [SourceText(row.text)]
        found = missing.difference(_find_unknown_claims(text, Sources([*_episode_texts(cited), *texts])))
        if found and is_said:
            context |= dict.fromkeys(sorted(found), row.id)
        elif found and row not in sources:
            sources.append(row)
        missing -= found
    known = collect_sources(cited)
    if not known.has_capitalized_names:
        context = {**_find_rare_words(text, known, shown), **context}
    return sources, context


def _find_rare_words(text: str, known: Sources, shown: Sequence[Episode | Note]) -> Mapping[str, str]:
    """Return the rarest words of a text that are in no known source, with the newest row of persons that has each."""
    missing = [word for word in dict.fromkeys(words(text)) if word not in known.words]
    said = [row for row in shown if least_trust(row).rank <= Trust.AGENT.rank] if missing else []
    said_words = [_row_words(row) for row in said]
    rows = {word: [row.id for row, has in zip(said, said_words, strict=True) if word in has] for word in missing}
    rarest = sorted((word for word in missing if rows[word]), key=lambda word: len(rows[word]))
    return {word: rows[word][-1] for word in rarest[:MAX_RARE_WORDS]}


def _row_words(row: Episode | Note) -> frozenset[str]:
    return collect_sources([row]).words if isinstance(row, Episode) else SourceText(row.text).words


def may_rest_on(
    text: str, said: Sequence[Episode], others: Iterable[Episode | Note], context: Collection[str] = ()
) -> bool:
    """Return whether these lines may say all of a text, of which other lines say something, too.

    They need each name, number, date and code, and most words if the text is copied from one of the others.
    """
    if describe_ungrounded_claims(text, collect_sources(said), context):
        return False
    terms = set(question_terms(text))
    own = terms.intersection(question_terms(" ".join(f"{row.speaker} {row.text}" for row in said)))
    return len(own) >= SAID_SHARE * len(terms) or not any(_is_copy(text, other.text) for other in others)


def _is_copy(text: str, other: str) -> bool:
    """Return whether one of two texts stands in the other word for word, or they are the same."""
    one, two = sorted((" ".join(words(text)), " ".join(words(other))), key=len)
    return one == two or (one.count(" ") >= COPIED_WORDS - 1 and f" {one} " in f" {two} ")


def _check_note(text: str, change: Change, rows: Mapping[EpisodeId, Episode]) -> str:
    if not text.strip():
        return "the text is empty"
    sources, missing = _split_sources(change, rows)
    if missing:
        return _shorten(f"{len(missing)} of its sources are not in this bank: {', '.join(missing)}")
    is_quoted = (change.after or {}).get("trust") in (Trust.TOOL, Trust.EXTERNAL) and len(sources) < MIN_SOURCES
    if not has_enough_sources(sources) or is_quoted:  # a quotation in a turn of a person is not their word
        return FinalRefusal(f"what nobody in the conversation said needs {MIN_SOURCES} sources, not {len(sources)}")
    least = max((source.trust for source in sources), key=lambda trust: trust.rank)
    if (change.after or {}).get("trust") not in [trust.value for trust in Trust if trust.rank >= least.rank]:
        return FinalRefusal(f"it is trusted more than the least trusted of its sources ({least})")
    if (open_date := first_open_date(text)) and not is_extract(text, sources):
        return f"{open_date!r} has no calendar date beside it"
    return describe_ungrounded_claims(text, collect_sources(sources), _context_of(change))


def _check_block(value: str, change: Change, rows: Mapping[EpisodeId, Episode]) -> str:
    after, before = change.after or {}, str((change.before or {}).get("value", ""))
    spans = cast("Sequence[tuple[int, int, Sequence[str]]]", after.get("spans") or ())
    sources, missing = _split_sources(change, rows)
    if missing:
        return _shorten(f"{len(missing)} of its sources are not in this bank: {', '.join(missing)}")
    for start, line in _split_lines(value):
        resting = any(first < start + len(line) and start < last and named for first, last, named in spans)
        if line.strip() and not resting and line not in before:
            return _shorten(f"a new line rests on no episode: {line.strip()!r}")
        if line not in before and (open_date := first_open_date(line)):
            return f"{open_date!r} has no calendar date beside it"
    return describe_ungrounded_claims(value, collect_sources(sources, before), _context_of(change))


def _context_of(change: Change) -> Collection[str]:
    return cast("Mapping[str, str]", (change.after or {}).get("context") or {}).keys()


def collect_sources(rows: Iterable[Episode], *texts: str) -> Sources:
    return Sources([*_episode_texts(rows), *map(SourceText, texts)])


def _episode_texts(rows: Iterable[Episode]) -> Sequence[SourceText]:
    return [_of_episode(row.text, row.speaker, (local_time(row).date(), row.at.date())) for row in rows]


_of_episode = lru_cache(maxsize=CACHED_EPISODES)(SourceText)


def describe_ungrounded_claims(text: str, known: Sources, context: Collection[str] = ()) -> str:
    """Return the claims of a text that are neither known nor in its context, in words; empty without any."""
    claims = (claim for claim in _find_unknown_claims(text, known) if claim not in context)
    unknown = list(dict.fromkeys(islice(claims, MAX_REASON_CHARACTERS)))
    if not unknown:
        return ""
    return (
        _shorten(", ".join(repr(fact) for fact in unknown)) + (" is" if len(unknown) == 1 else " are") + " in no source"
    )


def _find_unknown_claims(text: str, known: Sources) -> Iterator[str]:
    """Yield the unsupported claims of a text: each kind is searched in what the earlier kinds leave."""
    rest = text = to_ascii_digits(refang(text))
    for start, end in chain(find_addresses(text), map(re.Match[str].span, COMMAND.finditer(text))):
        rest = _mask(rest, start, end)
        if _normalize(text[start:end]).rstrip(".,;:!?/") not in known.plain:
            yield text[start:end].rstrip(".,;:!?")
    for match in _CODE.finditer(rest):
        rest = _mask(rest, *match.span())
        if _normalize(match[0]) not in known.plain and not _has_code_parts(match[0], known):
            yield match[0]
    for calendar_date in find_calendar_dates(rest):
        if not any(_is_known_date(*reading, known) for reading in calendar_date.readings):
            yield rest[calendar_date.start : calendar_date.end]
        rest = _mask(rest, calendar_date.start, calendar_date.end)
    for start, end, digits in find_numbers(rest):
        year = rest[start:end]
        if digits not in known.numbers and not (
            len(year) == 4 and year.isdecimal() and known.is_date_in_reach(int(year))
        ):
            yield year
    for name in _find_names(rest):  # the languages last: to detect them takes longer than all else here
        if not _is_known(name, known) and known.has_capitalized_names and _has_capitalized_names(text):
            yield name


def _has_code_parts(code: str, known: Sources) -> bool:
    """Return whether a source has a code in another spelling: `GT12` or `GT 12` for `GT-12`."""
    parts = list(words(code))
    return "".join(parts) in known.words or known.words.issuperset(parts)


def _is_known_date(year: int, month: int, day: int | None, known: Sources) -> bool:
    """Return whether a source has a date or its numbers, or makes it plausible."""
    if (year, month, day) in known.dates or known.is_date_in_reach(year, month, day):
        return True
    return year in known.integers and (day is None or day in known.integers)


def _find_names(text: str) -> Iterator[str]:
    """Yield the capitalized words that do not begin a sentence."""
    for match in _WORD.finditer(text):
        word = match[0]
        if word[0].isupper() and len(word) > 1 and not _begins_sentence(text, match.start()):
            yield word


def _begins_sentence(text: str, start: int) -> bool:
    first = max(start - _NEAR, 0)
    return _BEGINS.search(text[first:start] if first else text[:start]) is not None


def _is_known(name: str, known: Sources) -> bool:
    """Return whether a source has each word of a name in some form, such as `Portugal` for `Portuguese`."""
    return all(
        part in known.words or part in _CALENDAR or (part[:STEM] in known.word_stems and _has_form(part, known.words))
        for part in words(name)
        if len(part) > 1
    )


def _has_form(part: str, there: Iterable[str]) -> bool:
    return any(
        word[:STEM] == part[:STEM] and 2 * _shared_prefix_length(word, part) >= max(len(word), len(part))
        for word in there
    )


def _shared_prefix_length(one: str, other: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@lru_cache(maxsize=CACHED_EPISODES)
def _has_capitalized_names(text: str) -> bool:
    """Return whether capitals mark names: not in a script without case, nor where every noun has one."""
    letters = [letter for letter in text if letter.isalpha()]
    cased = sum(letter.lower() != letter.upper() for letter in letters)
    return cased * 2 > len(letters) and CAPITALIZED_NOUNS.isdisjoint(languages(text)[:1])


def _normalize(text: str) -> str:
    """Return a text in the form in which it is compared: without case, wide letters, quotes and backticks."""
    return unicodedata.normalize("NFKC", refang(text)).casefold().translate(_QUOTES)


def _mask(text: str, start: int, end: int) -> str:
    """Return a text with a part replaced by marks, so that all positions stay the same."""
    return text[:start] + "¤" * (end - start) + text[end:]


def _split_lines(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for line in text.split("\n"):
        yield start, line
        start += len(line) + 1


def _split_sources(change: Change, rows: Mapping[EpisodeId, Episode]) -> tuple[list[Episode], list[str]]:
    ids = source_ids_of(change)
    return [rows[key] for key in ids if key in rows], [key for key in ids if key not in rows]


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_REASON_CHARACTERS else f"{text[:MAX_REASON_CHARACTERS]}…"
