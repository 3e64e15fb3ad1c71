"""Change one small thing in a question by rule so that its answer changes: hard near misses for a ready answer."""

import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_PLACES: Final = ("Oslo", "Nairobi", "Lima", "Hanoi", "Quito", "Tallinn", "Perth", "Kyoto", "Bogota", "Zagreb")
_PEOPLE: Final = ("Ingrid", "Tomasz", "Yusuf", "Chiara", "Dmitri", "Aiko", "Kwame", "Leila", "Rohan", "Sofia")
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_RELATIVE: Final = ("today", "tomorrow", "yesterday", "tonight", "next week", "last week", "next year", "last month")
_UNITS: Final = (
    ("kilometers", "miles"), ("km", "miles"), ("kg", "pounds"), ("dollars", "euros"), ("hours", "minutes"),
    ("days", "weeks"), ("months", "years"), ("GB", "MB"), ("meters", "feet"), ("celsius", "fahrenheit"),
    ("rupees", "dollars"), ("liters", "gallons"), ("year", "month"), ("week", "day"),
)  # fmt: skip
_COMPARISONS: Final = (
    ("best", "worst"), ("more", "less"), ("before", "after"), ("highest", "lowest"), ("cheapest", "most expensive"),
    ("biggest", "smallest"), ("maximum", "minimum"), ("fastest", "slowest"), ("better", "worse"), ("most", "least"),
    ("increase", "decrease"), ("advantages", "disadvantages"), ("above", "below"), ("first", "last"), ("buy", "sell"),
    ("good", "bad"), ("oldest", "newest"), ("largest", "smallest"), ("gain", "lose"),
)  # fmt: skip
_OPPOSITES: Final = (
    ("deposit", "withdraw"), ("hire", "fire"), ("push", "pull"), ("arrival", "departure"), ("public", "private"),
    ("vertical", "horizontal"), ("empty", "full"), ("deep", "shallow"), ("domestic", "foreign"), ("guilty", "innocent"),
    ("attack", "defend"), ("save", "spend"), ("gain", "lose"), ("learn", "teach"), ("create", "destroy"),
    ("marry", "divorce"), ("question", "answer"), ("lock", "unlock"), ("legal", "illegal"), ("happy", "unhappy"),
    ("connect", "disconnect"), ("appear", "disappear"), ("employed", "unemployed"), ("possible", "impossible"),
)  # fmt: skip
_NUMBER_WORDS: Final = (
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "twelve",
    "twenty",
    "fifty",
)
_BOUNDS: Final = ("more than", "less than", "at least", "at most", "up to", "over", "fewer than", "nearly")
_REFUSALS: Final = ("refuse to", "fail to", "forget to", "pretend to", "avoid having to")
_CONTRACTIONS: Final = (
    ("can", "can't"), ("does", "doesn't"), ("do", "don't"), ("did", "didn't"), ("should", "shouldn't"), ("is", "isn't"),
    ("are", "aren't"), ("would", "wouldnt"), ("could", "couldn’t"), ("was", "wasnt"),
    ("will", "won't"), ("has", "hasnt"),
)  # fmt: skip
_MODIFIERS: Final = (
    "wooden", "annual", "corporate", "portable", "temporary", "digital", "medieval", "rural", "electric", "frozen",
    "foreign", "imaginary", "underwater", "wholesale", "junior", "spare", "abandoned", "solar",
)  # fmt: skip
_OWNERS: Final = ("my", "your", "his", "her", "their")
_MODALS: Final = (("can", "must"), ("should", "must"), ("have to", "can"), ("must", "may"), ("need to", "can"))
_STRANGE_UNITS: Final = ("furlongs", "fathoms", "parsecs", "teaspoons", "bushels", "leagues", "decibels", "lumens")
_CASED_UNITS: Final = (
    ("GB", "Gb"),
    ("MB", "Mb"),
    ("Mbps", "MBps"),
    ("MW", "mW"),
    ("mg", "mcg"),
    ("ms", "s"),
    ("kg", "g"),
)
_RELATIONS: Final = (
    ("for", "against"), ("with", "without"), ("off", "onto"), ("while", "after"), ("until", "since"), ("by", "for"),
    ("before", "during"), ("under", "behind"), ("above", "beside"), ("from", "against"), ("to", "from"),
)  # fmt: skip
_TIMES: Final = (
    ("does", "did"), ("do", "did"), ("is", "was"), ("are", "were"), ("has", "had"), ("have", "had"),
    ("is", "has been"), ("are", "have been"), ("did", "will"), ("will", "did"), ("was", "will be"),
)  # fmt: skip
_VERBS_IN_TIME: Final = (
    ("owns", "owned"), ("makes", "made"), ("causes", "caused"), ("wins", "won"), ("runs", "ran"), ("works", "worked"),
    ("happens", "happened"), ("says", "said"), ("leads", "led"), ("gets", "got"), ("uses", "used"), ("wrote", "writes"),
    ("invented", "invents"), ("plays", "played"), ("needs", "needed"), ("pays", "paid"), ("created", "creates"),
)  # fmt: skip
_BESIDE_NAMES: Final = ("with", "for", "about", "against", "to")
_CONJUNCTIONS: Final = (("if", "when"), ("because", "if"), ("while", "because"), ("that", "if"), ("when", "because"))
_ANYHOW: Final = r"\b(?:(?:how|why) (?:do|can|could|should|would|to)|what (?:do|can|could|should) \w+ do)\b"
"""Questions that mean the same for anybody (`how do I`), and for what can and what should be."""
_HELPING: Final = "is|are|was|were|do|does|did|can|could|should|would|will|has|have"
_CAPITAL: Final = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}\b(?! [A-Z])")
_DIGITS: Final = re.compile(r"(?<![\w.,])\d{1,6}(?![\w.,]*\w)")


@dataclass(frozen=True, kw_only=True, slots=True)
class MinimalEdit:
    kind: str
    before: str
    after: str


Rule = Callable[[str, random.Random], str | None]


def make_minimal_edits(questions: Sequence[str], seed: int, kinds: Sequence[str] = ()) -> Iterator[MinimalEdit]:
    """Yield each question changed by each rule that applies; the same for the same seed."""
    for question in questions:
        for kind, rule in RULES.items():
            if kinds and kind not in kinds:
                continue
            # A generator for each rule, so that results do not depend on which other rules applied.
            chance = random.Random(f"{seed} {kind} {question}")
            after = rule(question, chance)
            if after is not None and after != question:
                yield MinimalEdit(kind=kind, before=question, after=after)


def _change_number(question: str, chance: random.Random) -> str | None:
    spots = list(_DIGITS.finditer(question))
    if not spots:
        return None
    match = chance.choice(spots)
    value = int(match[0])
    return _replace_match(question, match, str(max(value + chance.choice((-2, -1, 1, 2, 5, 10)), 0)))


def _change_unit(question: str, chance: random.Random) -> str | None:
    return _replace_pair(question, _UNITS, chance)


def _change_date(question: str, chance: random.Random) -> str | None:
    for group in (_MONTHS, _DAYS, _RELATIVE):
        for word in group:
            match = re.search(rf"\b{word}\b", question, re.I if group is _RELATIVE else 0)
            if match:
                return _replace_match(question, match, chance.choice([other for other in group if other != word]))
    match = re.search(r"\b(?:19|20)\d\d\b", question)
    return (
        None if match is None else _replace_match(question, match, str(int(match[0]) + chance.choice((-3, -1, 1, 4))))
    )


def _add_relative_time(question: str, chance: random.Random) -> str | None:
    if len(question.split()) > 12 or re.search(rf"\d|\b(?:{'|'.join(_RELATIVE)})\b", question, re.I):
        return None
    return f"{question.rstrip(' ?')} {chance.choice(_RELATIVE)}?"


def _change_name(question: str, chance: random.Random) -> str | None:
    spots = list(_CAPITAL.finditer(question))
    if not spots:
        return None
    match = chance.choice(spots)
    return _replace_match(question, match, chance.choice(_PLACES + _PEOPLE))


def _negate_question(question: str, _: random.Random) -> str | None:
    match = re.match(rf"(?:(?:how|why|what|when|where|who)\s+)?(?:{_HELPING})\b", question, re.I)
    if match is None or re.search(r"\b(?:not|no|never|without)\b|n['’]t\b", question, re.I):
        return None
    words = question.split()
    at = len(match[0].split())
    return " ".join([*words[: at + 1], "not", *words[at + 1 :]]) if len(words) > at + 1 else None


def _reverse_comparison(question: str, chance: random.Random) -> str | None:
    return _replace_pair(question, _COMPARISONS, chance)


def _reverse_direction(question: str, _: random.Random) -> str | None:
    match = re.search(r"\bfrom (\w+) to (\w+)\b", question)
    if match is not None:
        return _replace_match(question, match, f"from {match[2]} to {match[1]}") if match[1] != match[2] else None
    match = re.search(r"\b(from|to) (?=[A-Z])", question)
    return None if match is None else _replace_match(question, match, "to " if match[1] == "from" else "from ")


def _change_quantifier(question: str, chance: random.Random) -> str | None:
    pairs = (("all", "only some"), ("any", "all"), ("every", "no"), ("some", "all"), ("only", "also"), ("each", "any"))
    return _replace_pair(question, pairs, chance, back=False)


def _swap_sides(question: str, _: random.Random) -> str | None:
    names = list(_CAPITAL.finditer(question))
    for one, two in itertools.pairwise(names):
        between = question[one.end() : two.start()]
        if one[0] != two[0] and not re.fullmatch(r"\s*(?:,|and|or|vs\.?|versus|&|/|,? ?and|,? ?or)\s*", between):
            return f"{question[: one.start()]}{two[0]}{between}{one[0]}{question[two.end() :]}"
    match = re.search(r"\b(?:do|does|did|can|should|will) (\w{3,}s) (\w+) (\w{3,}s)\b", question)
    if match is None or match[1] == match[3]:
        return None
    return f"{question[: match.start(1)]}{match[3]} {match[2]} {match[1]}{question[match.end(3) :]}"


def _change_number_word(question: str, chance: random.Random) -> str | None:
    return _replace_pair(question, list(itertools.permutations(_NUMBER_WORDS, 2)), chance, back=False)


def _negate_by_contraction(question: str, chance: random.Random) -> str | None:
    if re.search(r"\b(?:not|no|never)\b|n['’]?t\b", question, re.I):
        return None
    return _replace_pair(question, _CONTRACTIONS, chance, back=False)


def _add_refusal(question: str, chance: random.Random) -> str | None:
    match = re.search(rf"\b(?i:{_HELPING}) (?:I|you|we|they|people|[A-Z][a-z]+) (?=[a-z]{{3,}}\b)", question)
    return None if match is None else f"{question[: match.end()]}{chance.choice(_REFUSALS)} {question[match.end() :]}"


def _change_bound(question: str, chance: random.Random) -> str | None:
    for bound in _BOUNDS:
        match = re.search(rf"\b{bound} (?=\d)", question, re.I)
        if match is not None:
            return _replace_match(question, match, "")
    match = re.search(r"(?<![\w.,$€])\d{1,6}(?![\w.,]*\w)", question)
    return None if match is None else _replace_match(question, match, f"{chance.choice(_BOUNDS)} {match[0]}")


def _add_modifier(question: str, chance: random.Random) -> str | None:
    spots = list(re.finditer(r"\b(?:the|a|an|my|your|of|for) (?=[a-z]{4,}\b)", question))
    if not spots or len(question.split()) > _SHORT:
        return None
    match = chance.choice(spots)
    return f"{question[: match.end()]}{chance.choice(_MODIFIERS)} {question[match.end() :]}"


def _change_owner(question: str, chance: random.Random) -> str | None:
    match = re.search(rf"\b(?:{'|'.join(_OWNERS)}) (?=[a-z])", question)
    if match is None:
        return None
    return _replace_match(question, match, f"{chance.choice([word for word in _OWNERS if word != match[0].strip()])} ")


def _change_operator(question: str, chance: random.Random) -> str | None:
    match = re.search(r"(?<=\b[\w)] )[-+*/<>=](?= (?:\d|\(|\w\b))", question)
    if match is None:
        return None
    return _replace_match(
        question, match, chance.choice([sign for sign in ("-", "+", "*", "/", "!=") if sign != match[0]])
    )


def _change_unit_case(question: str, chance: random.Random) -> str | None:
    both = [*_CASED_UNITS, *((two, one) for one, two in _CASED_UNITS)]
    fitting = [(spot, new) for old, new in both if (spot := re.search(rf"(?<=\d) ?{old}\b", question))]
    if not fitting:
        return None
    match, new = chance.choice(fitting)
    return _replace_match(question, match, f" {new}")


def _use_strange_unit(question: str, chance: random.Random) -> str | None:
    match = re.search(r"(?<=\d )[a-z]{3,}s\b", question)
    return None if match is None else _replace_match(question, match, chance.choice(_STRANGE_UNITS))


def _swap_and_or(question: str, _: random.Random) -> str | None:
    if re.search(r"\b(?:between|both|either|whether|versus|vs)\b|\?.*\w", question, re.I):
        return None
    match = re.search(r"(?<=[a-z] )(?:and|or)(?= [a-z])", question)
    return None if match is None else _replace_match(question, match, "or" if match[0] == "and" else "and")


def _change_modal(question: str, chance: random.Random) -> str | None:
    if re.search(r"\bhow\b", question, re.I):  # the modals mean the same there
        return None
    return _replace_pair(question, _MODALS, chance, back=False)


def _change_relation(question: str, chance: random.Random) -> str | None:
    fitting = [
        (match, new)
        for old, new in _RELATIONS
        if (match := re.search(rf"(?<=[a-z] ){old}(?= (?:the|a|an|my|[A-Z][a-z]+)\b)", question))
    ]
    if not fitting:
        return None
    match, new = chance.choice(fitting)
    return _replace_match(question, match, new)


def _change_tense(question: str, chance: random.Random) -> str | None:
    helping = list(re.finditer(rf"\b(?:{_HELPING}|had)\b|['’](?:s|re|ve|d)\b", question, re.I))
    if not helping:
        return _replace_pair(question, _VERBS_IN_TIME, chance)
    fitting = [new for old, new in _TIMES if old == helping[0][0].lower()]
    return _replace_match(question, helping[0], chance.choice(fitting)) if fitting and len(helping) == 1 else None


def _change_person(question: str, _: random.Random) -> str | None:
    if re.search(rf"{_ANYHOW}|\b(?:me|my|your|we)\b|\?.*\w", question, re.I):
        return None
    match = re.search(r"\b(do|did|have|had|can|should|will) (I|you)\b", question, re.I)
    return (
        None
        if match is None
        else _replace_match(question, match, f"{match[1]} {'I' if match[2].lower() == 'you' else 'you'}")
    )


def _change_duty(question: str, chance: random.Random) -> str | None:
    if re.search(_ANYHOW, question, re.I):
        return None
    match = re.search(r"\b(?:have|need) to (?=[a-z])", question)
    if match is not None:
        return _replace_match(question, match, "")
    who = r"(?=(?:I|you|we|they|people|[a-z]+s)\b(?! (?:have|need)))"
    match = re.search(rf"\b(do|can|should|must) {who}", question, re.I)
    if match is None:
        return None
    new = chance.choice(("can", "should", "must")) if match[1].lower() == "do" else "do"
    return _replace_match(question, match, f"{new} ")


def _change_preposition(question: str, chance: random.Random) -> str | None:
    match = re.search(rf"(?<=[a-z] )(?:{'|'.join(_BESIDE_NAMES)}) (?=(?!How|Wh|If|The|My)[A-Z][a-z]+\b)", question)
    if match is None:
        return None
    return _replace_match(
        question, match, chance.choice([*(f"{word} " for word in _BESIDE_NAMES if f"{word} " != match[0]), ""])
    )


def _change_conjunction(question: str, chance: random.Random) -> str | None:
    fitting = [
        (match, new)
        for old, new in (*_CONJUNCTIONS, *((two, one) for one, two in _CONJUNCTIONS))
        if (match := re.search(rf"(?<=[a-z] ){old}(?= (?:I|you|he|she|we|they|a|an|the|my|your) )", question))
    ]
    if not fitting:
        return None
    match, new = chance.choice(fitting)
    return _replace_match(question, match, new)


def _change_letter(question: str, chance: random.Random) -> str | None:
    match = re.search(r"(?<=[a-z] )[A-HX-Z](?=[ ?])", question)
    return (
        None
        if match is None
        else _replace_match(question, match, chance.choice([letter for letter in "ABCDE" if letter != match[0]]))
    )


def _use_opposite(question: str, chance: random.Random) -> str | None:
    return _replace_pair(question, _OPPOSITES, chance)


_SHORT: Final = 14  # words, to which one more still makes a difference


def _replace_pair(
    question: str, pairs: Sequence[tuple[str, str]], chance: random.Random, back: bool = True
) -> str | None:
    both = [*pairs, *((two, one) for one, two in pairs)] if back else list(pairs)
    fitting = [(match, new) for old, new in both if (match := re.search(rf"\b{old}\b", question, re.I))]
    if not fitting:
        return None
    match, new = chance.choice(fitting)
    return _replace_match(question, match, new)


def _replace_match(question: str, match: re.Match[str], new: str) -> str:
    return f"{question[: match.start()]}{new}{question[match.end() :]}"


RULES: Final[dict[str, Rule]] = {
    "number": _change_number,
    "unit": _change_unit,
    "date": _change_date,
    "relative time": _add_relative_time,
    "name": _change_name,
    "negation": _negate_question,
    "comparison": _reverse_comparison,
    "direction": _reverse_direction,
    "quantifier": _change_quantifier,
    "swapped": _swap_sides,
    "number word": _change_number_word,
    "contraction": _negate_by_contraction,
    "refusal": _add_refusal,
    "bound": _change_bound,
    "modifier": _add_modifier,
    "owner": _change_owner,
    "operator": _change_operator,
    "cased unit": _change_unit_case,
    "strange unit": _use_strange_unit,
    "and or": _swap_and_or,
    "modal": _change_modal,
    "relation": _change_relation,
    "tense": _change_tense,
    "person": _change_person,
    "duty": _change_duty,
    "preposition": _change_preposition,
    "conjunction": _change_conjunction,
    "letter": _change_letter,
    "opposite": _use_opposite,
}
