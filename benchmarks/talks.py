"""Made-up talks of two people who tell things among much else: the same for a seed, with questions about what was told.

Questions are of four kinds: when something was, who said it, how many there are, and what is excepted.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from circadia.evaluation.locomo import DialogueTurn

BEGIN: Final = datetime(2025, 3, 3, 18, 0, tzinfo=UTC)
KINDS: Final = ("date", "source", "count", "exception")
PEOPLE: Final = ("Ann", "Bob")
_THINGS_NAMES: Final = """
kayak violin tent ladder drone quilt saddle lathe piano scooter telescope canoe kite oven anvil loom camera skates
trumpet sledge easel hammock accordion microscope wheelbarrow
"""
_THINGS: Final = tuple(_THINGS_NAMES.split())
_SOURCES_NAMES: Final = """
Greta Ivo Selma Tomas Ulla Viktor Wanda Xaver Yara Zeno Agnes Bruno Clara Dario Elisa Falk Gerda Hanno Ilse Jonas
Karla Leander Mona Nils Oda
"""
_SOURCES: Final = tuple(_SOURCES_NAMES.split())
_PLACES_NAMES: Final = """
bakery cinema library market museum theatre sauna brewery garden lighthouse bridge quarry vineyard harbour mill chapel
arcade orchard castle ferry stadium forge aquarium windmill abbey
"""
_PLACES: Final = tuple(_PLACES_NAMES.split())
_ANIMALS_NAMES: Final = """
rabbits hens geese goats ducks lizards canaries ponies turtles beehives hamsters pigeons llamas ferrets quails newts
snails donkeys parrots alpacas sheep frogs gerbils finches guppies
"""
_ANIMALS: Final = tuple(_ANIMALS_NAMES.split())
_FOODS: Final = (
    ("nuts", "pecans"), ("fruit", "quinces"), ("cheese", "feta"), ("fish", "mackerel"), ("herbs", "coriander"),
    ("soups", "gazpacho"), ("cakes", "strudel"), ("teas", "rooibos"), ("beans", "lentils"), ("roots", "beetroot"),
    ("berries", "currants"), ("mushrooms", "morels"), ("breads", "focaccia"), ("juices", "tomato"), ("spices", "cumin"),
    ("salads", "endive"), ("grains", "millet"), ("oils", "walnut"), ("melons", "honeydew"), ("greens", "chard"),
    ("sweets", "liquorice"), ("stews", "goulash"), ("pastas", "gnocchi"), ("curries", "vindaloo"), ("jams", "rhubarb"),
)  # fmt: skip
MOST: Final = len(_THINGS)
"""Of each kind that a talk can have."""
_OPENERS: Final = ("Well,", "You know,", "Honestly,", "Hey,", "So,", "Oh,", "By the way,", "Listen,")
_MIDDLES: Final = (
    "the rain ruined the whole afternoon again", "my neighbour practises the same song all evening",
    "the bus was late and I read half of my novel", "work was tiring but the new colleague is funny",
    "I tried a recipe from that old cookbook", "we watched a film about deep sea divers", "the hall still needs paint",
    "the kids slept badly because of the storm", "I went for a run around the lake", "the phone company called twice",
    "my sister wants to visit in autumn", "the printer broke and nobody can mend it", "I finally cleaned the cellar",
)  # fmt: skip
_ENDS: Final = ("anyway.", "and that was that.", "so I laughed.", "what do you think?", "how was yours?", "it helped.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """Something that was told once, asked for later."""

    kind: str
    """One of KINDS."""
    text: str
    """As a person asks."""
    holds: Sequence[str]
    """What a text must hold to answer it, every one, in any case."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Talk:
    """A long one, over several evenings."""

    turns: Sequence[DialogueTurn]
    questions: Sequence[Question]

    @property
    def text(self) -> str:
        """Return all of it, as it would stand in a prompt."""
        return "\n".join(f"[{turn.at:%Y-%m-%d %H:%M}] {turn.speaker}: {turn.text}" for turn in self.turns)


def talk(seed: int, *, turns: int, of_each: int) -> Talk:
    """Return a talk of so many turns, with so many questions of each kind; 20 turns are an evening."""
    draw = random.Random(seed)
    facts = [
        fact
        for at, kind in enumerate(KINDS)
        for number in draw.sample(range(MOST), of_each)
        for fact in [(kind, number, PEOPLE[(number + at) % 2])]
    ]
    draw.shuffle(facts)
    places = dict(zip(sorted(draw.sample(range(1, turns), len(facts))), facts, strict=True))
    said: list[DialogueTurn] = []
    asked: list[Question] = []
    for at in range(turns):
        evening, minute = divmod(at, 20)
        when = BEGIN + timedelta(days=3 * evening, minutes=minute)
        fact = places.get(at)
        if fact is None:
            who, text = PEOPLE[at % 2], small_talk(draw)
        else:
            kind, number, who = fact
            text, question = _told(kind, number, who, when, draw)
            asked.append(question)
        said.append(DialogueTurn(at=when, session=f"s{evening}", speaker=who, text=text))
    return Talk(turns=said, questions=asked)


def small_talk(draw: random.Random) -> str:
    """Return what tells nothing that is asked for."""
    return " ".join(_chat(draw))


def _chat(draw: random.Random) -> Iterator[str]:
    yield draw.choice(_OPENERS)
    yield draw.choice(_MIDDLES)
    yield "and"
    yield draw.choice(_MIDDLES)
    yield draw.choice(_ENDS)


def _told(kind: str, number: int, who: str, when: datetime, draw: random.Random) -> tuple[str, Question]:
    """Return what is said, and a question for it."""
    if kind == "date":
        thing, day = _THINGS[number], (when - timedelta(days=1)).date()
        question = Question(kind=kind, text=f"When did {who} buy the {thing}?", holds=(thing, day.isoformat()))
        return f"I bought a {thing} yesterday, and it is already scratched.", question
    if kind == "source":
        source, place = _SOURCES[number], _PLACES[number]
        question = Question(kind=kind, text=f"Who told {who} about the {place}?", holds=(source, place))
        return f"It was {source} who told me about the {place} by the river.", question
    if kind == "count":
        animals, count = _ANIMALS[number], draw.randint(11, 99)
        question = Question(kind=kind, text=f"How many {animals} does {who} keep?", holds=(animals, str(count)))
        return f"I keep {count} {animals} behind the house these days.", question
    foods, but = _FOODS[number]
    question = Question(kind=kind, text=f"Which {foods} does {who} not eat?", holds=(foods, but, "except"))
    return f"I eat all {foods} except {but}, which I cannot stand.", question
