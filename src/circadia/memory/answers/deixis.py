"""Whether a question can be understood without what was said before it: nothing in it points out of it.

Closed classes of English words, and where they stand. In doubt it points out: then it is looked for in its own
conversation only.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from circadia.memory.answers import word_classes as classes
from circadia.memory.answers.comparisons import COMPARATIVES, compares_with_nothing, superlative_of
from circadia.memory.answers.measures import NUMBER_WORDS, UNITS
from circadia.memory.answers.normal import Token
from circadia.memory.answers.word_classes import tells as _tells
from circadia.memory.answers.word_classes import word_set


def stands_alone(found: Sequence[Token]) -> bool:
    """Return whether nothing points out of the question, and it is a whole one."""
    words = [token.word for token in found]
    if not words or _fragment(found, words):
        return False
    for at, word in enumerate(words):
        refers = _REFERRING.get(word)
        if refers is not None and refers(found, words, at):
            return False
    return not _unfinished(words) and not _said(words)


def _word(words: Sequence[str], at: int) -> str:
    return words[at] if 0 <= at < len(words) else ""


def _fragment(found: Sequence[Token], words: Sequence[str]) -> bool:
    """Return whether only what was said before makes a question of it: `For Bob?`, `Is Ann?`, `Translate it`."""
    first, second = words[0], _word(words, 1)
    telling = [at for at, word in enumerate(words) if _tells(word)]
    if all(words[at] in _NOTHING_TOLD for at in telling) or first in _GOING_ON:
        return True
    known = set(words)
    if (second == "about" and first in ("what", "how")) or _uncounted(words, known):
        return True
    asks, helps = not known.isdisjoint(classes.ASKING), not known.isdisjoint(classes.AUXILIARIES)
    if first in _TEXT_VERBS and (not _tells(second) or second in _DISCOURSE):
        return not (second in classes.ASKING or _object(words, 1))
    if first in classes.AUXILIARIES:  # `is Ann`
        return len(words) == 2 and found[1].capital
    if not asks and not helps:
        more = (first in _MORE or first in COMPARATIVES) and known.isdisjoint(("about", "on", "of", "than"))
        return len(telling) < 2 or first in classes.PLACED or more
    if first in classes.ASKING and not helps:  # `how much for Bob`, but `how to swim`
        return len(telling) < 2 and second != "to" and words[-1] not in ("me", "you", "us")
    return False


def _uncounted(words: Sequence[str], known: set[str]) -> bool:
    """Return whether it asks how many, or which, without saying of what: `how many are open`, `which did Ann buy`."""
    if list(words[:2]) == ["how", "many"]:
        return _word(words, 2) in classes.AUXILIARIES
    chosen = words[0] == "which" and _word(words, 1) in classes.AUXILIARIES and _word(words, 1) not in _BE
    return chosen and known.isdisjoint(classes.COORDINATING)


def _object(words: Sequence[str], at: int) -> bool:
    """Return whether a noun phrase that says what it is follows: `the history of Rome`, no `the text`."""
    while _word(words, at) in classes.ARTICLES or _word(words, at) in classes.POSSESSIVES:
        at += 1
    if _word(words, at) in _DISCOURSE:
        return _told(words, at + 1) and _word(words, at + 1) != "in"
    return any(_tells(word) and word not in _DISCOURSE for word in words[at : at + 3]) and bool(
        _tells(_word(words, at)) or words[at : at + 1] == ["all"]
    )


def _unfinished(words: Sequence[str]) -> bool:
    """Return whether it ends with what compares it with something said, or compares with nothing."""
    return words[-1] in _ENDS or tuple(words[-2:]) in _ENDINGS or compares_with_nothing(words)


def _said(words: Sequence[str]) -> bool:
    """Return whether it asks what was said: `what did I say`, `you told me`, `the last answer`."""
    for at, word in enumerate(words):
        after = _word(words, at + 1)
        if word in classes.SUBJECTS:
            before, then = _word(words, at - 1), _word(words, at + 2)
            asks = before == "did" and (after in _SAY or (after == "just" and then in _SAY))
            if after in _SAID or asks or (before in _BE and after in _SAYING):
                return True
        if after in _DISCOURSE and word in (*_EARLIER, "the", "your") and not _told(words, at + 2):
            return True
    return False


def _told(words: Sequence[str], at: int) -> bool:
    """Return whether what follows tells which one: `the answer to life`, `the text of the law`."""
    following = _word(words, at)
    if following in ("to", "into") and words[0] in _TEXT_VERBS:
        return False
    return following in _TELLING_WHICH and at + 1 < len(words)


Refers = Callable[[Sequence[Token], Sequence[str], int], bool]


def _pronoun(found: Sequence[Token], words: Sequence[str], at: int) -> bool:
    """`he`, `her`, `they`: whether nobody before can be meant."""
    word = words[at]
    plural = word in classes.PLURAL
    possessive = word in ("his", "her", "their") and _tells(_word(words, at + 1))
    ends = at if possessive else _clause(words, at)
    if _spoken_of(found, words, at):
        return False
    for before in range(ends):
        each = words[before]
        if not _tells(each):
            if plural and each in classes.ANYONE:
                return False
            continue
        if found[before].capital and (before or each not in _OPENERS):
            return False
        if each in _PEOPLE or (plural and each.endswith("s") and not each.endswith("ss")):
            return False
    return True


ANTECEDENT: Final = 2
"""Telling words of an earlier clause of which a pronoun may stand for one."""


def _spoken_of(found: Sequence[Token], words: Sequence[str], at: int, least: int = ANTECEDENT) -> bool:
    """Return whether an earlier part of the question says what may be meant; a sentence of its own says enough."""
    end = _clause(words, at)
    closed = next((before for before in range(at - 1, -1, -1) if found[before].closes), -1)
    told = [_tells(word) for word in words[: max(end, closed + 1)]]
    return sum(told) >= (1 if closed >= end else least)


def _clause(words: Sequence[str], at: int) -> int:
    """Return where the clause of a place begins: in the same one, `Ann` and `him` are two."""
    for before in range(at - 1, -1, -1):
        if words[before] in _JOINING:
            return before
    return 0


def _thing(found: Sequence[Token], words: Sequence[str], at: int) -> bool:
    """`it`, `its`: whether it stands for nothing that is named before, nor for what follows."""
    if words[at] == "it" and (_word(words, at - 1) == "worth" or _expletive(words, at)):
        return False
    ends = at if words[at] == "its" else _clause(words, at)
    if _spoken_of(found, words, at):
        return False
    for before in range(ends):
        if not _tells(words[before]):
            continue
        if found[before].capital and before:
            return False
        if _word(words, before - 1) in _INTRODUCING or _word(words, before - 2) in _INTRODUCING:
            return False
    return True


def _expletive(words: Sequence[str], at: int) -> bool:
    """Return whether `it` stands for what follows: `is it true that`, `how long does it take to`."""
    before, rest = _word(words, at - 1), [word for word in words[at + 1 :] if word not in _ADVERBS]
    if rest[:1] and rest[0] in _WEATHER:
        return True
    if rest[:1] == ["is"] and (at == 0 or before in ("why", "how", "when", "if", "that", "because", "what")):
        rest = [word for word in rest[1:] if word not in _ADVERBS]
    elif before not in _BEFORE_IT:
        return False
    if before in _MODAL_BEFORE_IT and rest[:1] == ["be"]:
        rest = rest[1:]
    if not rest:
        return before == "is" and _word(words, at - 2) in _CLOCK
    if before == "is" and (_word(words, at - 2) in _CLOCK or _word(words, at - 2) == "far"):
        return True
    first = rest[0]
    if first in _WEATHER or (first in ("that", "like") and len(rest) > 2):
        return True
    if first == "to" and _word(words, at - 2) == "how":
        return _infinitive(rest, 0)
    if first in ("a", "an", "the"):
        return any(_infinitive(rest, place) or rest[place] in ("if", "that", "when") for place in range(2, len(rest)))
    if first in _VERBS_OF_IT or first in _EVALUATING or (first == "better" and "than" not in rest):
        return len(rest) > 1 and (
            first in _VERBS_OF_IT
            or any(
                _infinitive(rest, place) or rest[place] in _CLAUSES or rest[place].endswith("ing")
                for place in range(1, len(rest))
            )
        )
    return False


def _infinitive(words: Sequence[str], at: int) -> bool:
    after = _word(words, at + 1)
    return words[at] == "to" and bool(after) and after not in classes.ARTICLES and after not in classes.POSSESSIVES


def _pointing(found: Sequence[Token], words: Sequence[str], at: int) -> bool:
    """`this`, `that`: whether it is neither a time (`this week`) nor a conjunction (`things that help`)."""
    word, before, after = words[at], _word(words, at - 1), _word(words, at + 1)
    if _spoken_of(found, words, at, 1 + ANTECEDENT):
        return False
    if word in ("this", "these"):
        return not (after in UNITS or after in classes.DAYS_AND_TIMES)
    if word == "those":
        return after not in ("who", "that", "of", "in", "with", "which")
    if not at or not after:
        return True
    if before == "it":
        return False
    if before in _BE or before in ("do", "does", "did", "about", "like", "of", "for", "with", "in", "on", "to", "at"):
        return True
    clause = after in _SUBJECTS or after in classes.AUXILIARIES or after.endswith(("s", "ed"))
    clause = clause or _word(words, at - 2) in ("a", "an", "the", "one", "some", "any", "of")
    return not (clause or before in _THAT_AFTER or (before.endswith("s") and _word(words, at - 2) not in _SINGLE))


_SINGLE: Final = frozenset(("who", "he", "she", "it", "what", "which"))


def _one(found: Sequence[Token], words: Sequence[str], at: int) -> bool:
    """`one`: whether it stands for a thing of which something is said: `the cheaper one`."""
    before, after = _word(words, at - 1), _word(words, at + 1)
    if (found[at].capital and at) or before == "loved" or (after in ("'s", "can", "should") and before != "which"):
        return False
    if after in ("who", "whom", "whose", "that"):
        return False
    if words[at] == "ones":
        return True
    if before in ("no", "any", "every", "some") or before in classes.AUXILIARIES or not at:
        return not at and not after
    superlative = any(superlative_of(words, place) for place in range(at, len(words)))
    if before == "which" and (superlative or not _AMONG.isdisjoint(words)):
        return False
    if before == "the":
        return after not in ("thing", "and", "on", "most")
    if before in classes.QUANTIFIERS or before in ("this", "that", "which", "next", "another", "second", "third"):
        return after not in ("another", "month", "day", "year", "week")
    if _word(words, at - 2) in ("the", "this", "that", "which", "a") and _tells(before):
        return True
    return _tells(before) and (not after or not _tells(after)) and after not in ("of", "from", "to", "another")


def _there(_: Sequence[Token], words: Sequence[str], at: int) -> bool:
    before, after = _word(words, at - 1), _word(words, at + 1)
    return before not in _BE and after not in _BE and before not in ("will", "out") and after not in _THERE_BEFORE


def _other(_: Sequence[Token], words: Sequence[str], at: int) -> bool:
    """`the other options`, `another example`: whether it is not said besides what."""
    own, before, after = words[at], _word(words, at - 1), _word(words, at + 1)
    if own in ("other", "others"):
        if before in ("each", "any", "and", "or", "some") or (own == "others" and before != "the"):
            return False
        return before in ("the", "my", "your") and not {"of", "than", "besides", "from"}.intersection(words[at + 1 :])
    if own == "same":
        return not after or after in ("for", "with", "in", "on") or "same" in words[-1:]
    if before == "one" or any(word in ("from", "than", "besides") for word in words):
        return False
    return after in _DISCOURSE or sum(_tells(each) for each in words if each not in (own, after)) < 2


def _else(found: Sequence[Token], words: Sequence[str], at: int) -> bool:
    """`what else`, `anyone else`: whether it is not said besides what."""
    if _word(words, at - 1) in ("someone", "somebody", "everyone", "everybody", "nobody", "or"):
        return False
    return _BESIDES.isdisjoint(words[at + 1 :]) and not _spoken_of(found, words, at)


def _condition(found: Sequence[Token], words: Sequence[str], at: int) -> bool:
    """`if so`, `if not`: whether nothing before it may be so."""
    after, then = _word(words, at + 1), _word(words, at + 2)
    return after in ("so", "not") and then not in ("many", "much", "for") and not _spoken_of(found, words, at)


def _counted(found: Sequence[Token], words: Sequence[str], at: int) -> bool:
    """`the two`: whether it is not said of what."""
    after = _word(words, at + 1)
    ends = at + 2 >= len(words) and words[0] in _BE  # `are the two alike`
    if _word(words, at - 1) != "the" or not (ends or not after or after in classes.AUXILIARIES):
        return False
    return not _spoken_of(found, words, at)


def _always(_: Sequence[Token], words: Sequence[str], at: int) -> bool:
    """`mine`, `the former`: whether it is no idiom."""
    word = words[at]
    if word in ("mine", "yours", "hers", "ours", "theirs"):
        return _word(words, at - 1) != "of"
    if word == "here":
        return _word(words, at + 1) not in ("in", "on", "at")
    if word in ("above", "previous", "following", "aforementioned"):
        return word == "aforementioned" or (_word(words, at - 1) == "the" and not _tells(_word(words, at + 1)))
    return _word(words, at - 1) == "the" and not _tells(_word(words, at + 1))


def _next(_: Sequence[Token], words: Sequence[str], at: int) -> bool:
    after = _word(words, at + 1)
    return not after or after in ("step", "steps", "one", "part", "point")


_REFERRING: Final[Mapping[str, Refers]] = {
    **dict.fromkeys(classes.MALE | classes.FEMALE | classes.PLURAL, _pronoun),
    **dict.fromkeys(classes.THING, _thing),
    **dict.fromkeys(("this", "that", "these", "those"), _pointing),
    **dict.fromkeys(("one", "ones"), _one),
    **dict.fromkeys(("other", "others", "another", "same"), _other),
    **dict.fromkeys(
        ("mine", "yours", "hers", "ours", "theirs", "here", "former", "latter", "above", "previous", "aforementioned"),
        _always,
    ),
    "there": _there,
    "next": _next,
    "else": _else,
    "if": _condition,
    **dict.fromkeys(NUMBER_WORDS, _counted),
}
"""What decides of each word that may point out of the question."""
_BE: Final = word_set("is are was were be been being am")
_GOING_ON: Final = word_set("and but or then also so plus same ditto continue elaborate repeat again because otherwise")
_MORE: Final = word_set("more less further additional extra fewer")
_NOTHING_TOLD: Final = word_set(
    "left remaining missing sure certain serious kidding joking wrong correct ready finished"
)
"""Where nothing else is told, it is not told of what."""
_TEXT_VERBS: Final = word_set(
    "translate summarize summarise rewrite rephrase shorten paraphrase proofread correct continue expand simplify "
    "format explain improve fix delete remove send show give change undo retry convert clarify describe"
)
"""With nothing after them, they are said of what was said."""
_DISCOURSE: Final = word_set(
    "text message messages answer answers question questions example examples conversation sentence paragraph response "
    "reply summary version suggestion suggestions options option code list table result results output snippet "
    "draft link file attachment error steps"
)
"""What a conversation is made of."""
_EARLIER: Final = word_set(
    "last previous above earlier preceding former latter original following first second third next"
)
_TELLING_WHICH: Final = word_set("of about in from by on for that which who to between with at when if to and or is")
_SAID: Final = word_set(
    "said asked told mentioned wrote suggested recommended discussed proposed sent gave listed explained"
)
_SAY: Final = word_set("say ask tell mention write suggest recommend discuss propose mean talk")
_SAYING: Final = word_set("saying talking asking discussing speaking telling suggesting referring")
_AMONG: Final = frozenset(("among", "between", "or"))
_BESIDES: Final = frozenset(("than", "besides", "except", "from"))
_ENDS: Final = word_set(
    "before earlier again instead else too either afterwards otherwise more above below also though"
)
_ENDINGS: Final = frozenset((("as", "well"), ("that", "way"), ("the", "same"), ("just", "now")))
_OPENERS: Final = classes.EMPTY | frozenset(classes.ASKING) | classes.AUXILIARIES
_JOINING: Final = word_set(
    "and but or if when while before after because so that than as who which how why what where whether"
)
_PEOPLE: Final = word_set(
    "people children kids men women man woman boy girl guy person employee employees customer customers user child "
    "husband wife boyfriend girlfriend friend boss someone somebody anyone everyone students teacher student doctor "
    "mother father mom dad parents brother sister son daughter president companies baby dog cat guys girls boys"
)
_INTRODUCING: Final = word_set("a an my your every each some any")
_ADVERBS: Final = word_set(
    "not really so too very even still ever always also just actually generally usually more most"
)
_MODAL_BEFORE_IT: Final = word_set("can could will would should may might must")
_BEFORE_IT: Final = frozenset(_BE | _MODAL_BEFORE_IT | word_set("do does did has"))
_CLOCK: Final = word_set("time day date year month season long old late early")
_WEATHER: Final = word_set("raining rains snows rain snowing snow sunny windy cloudy foggy humid freezing")
_EVALUATING: Final = word_set(
    "true real possible impossible easier harder safer wiser alright safe okay ok legal illegal good bad better "
    "best worse worst hard easy difficult important "
    "necessary normal common wrong right worth late early likely unlikely healthy unhealthy dangerous rude weird "
    "strange ethical unethical moral immoral advisable wise smart stupid allowed mandatory fair cheap cheaper "
    "expensive fine useful useless harmful bearable natural acceptable essential feasible compulsory permissible "
    "permitted sensible reasonable great nice sad fun realistic rational clear obvious helpful haram halal"
)
_VERBS_OF_IT: Final = word_set(
    "take takes cost costs matter hurt mean feel help make seem look happen pay require rain snow"
)
_CLAUSES: Final = word_set("that if when whether for being having")
_SUBJECTS: Final = (
    classes.FIRST | classes.SECOND | classes.THIRD | word_set("the a an all people there some")
) - word_set("it")
_THAT_AFTER: Final = word_set(
    "true possible fact so such sure way idea say says said think thinks believe know knows mean means prove show all "
    "everything anything something nothing thing someone anyone people reason one likely clear important now given "
    "proof evidence feel feeling guarantee ensure sign find hear learn argue claim imagine suppose"
)
_THERE_BEFORE: Final = word_set("any anything anyone a an exist exists")
