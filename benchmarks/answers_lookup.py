"""How long the lookup of a ready answer takes, by how many there are, beside another cache of answers."""

import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.answers_shelf import confirmed
from benchmarks.holds import quantile
from benchmarks.peer_driver import GPTCACHE_CACHE
from benchmarks.peers import NotInstallable
from benchmarks.report import Goal, Report, number
from circadia.answers.index import AnswerIndex
from circadia.answers.lookup import MIN_SIMILARITY
from circadia.ids import AnswerId
from circadia.memory.embedding.bundled import BundledEmbedder, WordTable
from circadia.records.answer import AnswerableQuestion

OURS: Final = "Circadia"
CONFIRMED: Final = "Circadia, confirmed in SQLite"
EXACT: Final = "exact"
MEANING: Final = "candidates for a judge"
SECONDS: Final = 240.0
"""That another may take to store the questions of one size and to look for them."""
GOALS_MS: Final = {10_000: 2.0, 100_000: 5.0}
EXACT_MS: Final = 0.2
SEED: Final = 11
_ASKS: Final = (
    ("How do I {verb} the {noun} of {name}?", "What is the best way to {verb} {name}'s {noun}?"),
    ("Who has to {verb} the {noun} for {name}?", "Which person should {verb} the {noun} for {name}?"),
    ("When did {name} {verb} the {noun} in {place}?", "On which day did {name} {verb} that {noun} in {place}?"),
    ("How much does it cost to {verb} a {noun} in {place}?", "What is the price to {verb} a {noun} in {place}?"),
    ("Why does the {noun} in {place} not {verb}?", "What is the reason that the {noun} in {place} will not {verb}?"),
)
"""Questions, each with another wording."""
_VERBS: Final = [
    "repair",
    "order",
    "paint",
    "sell",
    "move",
    "check",
    "clean",
    "print",
    "send",
    "open",
    "close",
    "build",
    "change",
    "copy",
    "sign",
    "test",
    "rent",
]
_NOUNS: Final = [
    "invoice",
    "printer",
    "boat",
    "contract",
    "report",
    "bicycle",
    "server",
    "garden",
    "ticket",
    "kitchen",
    "parcel",
    "camera",
    "meeting",
    "budget",
    "engine",
    "library",
    "password",
    "window",
    "calendar",
    "tunnel",
]
_PLACES: Final = [
    "Berlin",
    "Lagos",
    "Turin",
    "Osaka",
    "Denver",
    "Malmo",
    "Porto",
    "Cairo",
    "Quebec",
    "Hobart",
    "Graz",
    "Bergen",
    "Leeds",
    "Minsk",
    "Tunis",
]
_SYLLABLES: Final = [
    "ka",
    "lo",
    "mi",
    "ren",
    "ta",
    "vo",
    "sil",
    "da",
    "pe",
    "nor",
    "bu",
    "shi",
    "gra",
    "el",
    "tor",
    "wen",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    answers: Sequence[int] = (1_000, 10_000, 100_000)
    """That are ready, of one question each."""
    lookups: int = 1_000
    peer_answers: int = 10_000
    """Stored by the other at most: more takes it more minutes than a benchmark may."""
    shelved: int = 10_000
    """Kept in a database at most, where each lookup reads and confirms what it finds."""
    peers: bool = True
    """Whether another is set up."""


QUICK: Final = Size(answers=(200,), lookups=20, peers=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class LookupTimes:
    """What the lookups of one kind took."""

    name: str
    way: str
    answers: int
    ms: Sequence[float]
    hits: float
    """Which share gave a hit, in percent."""

    @property
    def p95(self) -> float:
        """Return the milliseconds that 95 of 100 do not exceed."""
        return quantile(self.ms, 0.95)


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    embedder, notes = BundledEmbedder(), list[str]()
    words = await embedder.word_vectors()
    found: list[LookupTimes] = []
    for answers in size.answers:
        made = list(_questions(answers))
        ready, filled = _filled(words, [first for first, _ in made])
        notes.append(f"{answers:,} questions were taken in within {number(filled)} s.")
        asked = random.Random(SEED).sample(made, min(size.lookups, answers))
        ways = {EXACT: [f"  {first.rstrip('?')} ？" for first, _ in asked], MEANING: [second for _, second in asked]}
        found += [_timed(ready, answers, way, each) for way, each in ways.items()]
        if answers <= size.shelved:
            folder_of = folder / f"shelf-{answers}"
            told = await confirmed(folder_of, embedder, [first for first, _ in made], list(ways.values()))
            found += [
                LookupTimes(name=CONFIRMED, way=way, answers=answers, ms=each.ms, hits=100 * each.hits / len(asked))
                for way, each in zip(ways, told, strict=True)
            ]
        if size.peers and answers <= size.peer_answers:
            try:
                found += await _theirs(folder / f"gptcache-{answers}", embedder, made, asked)
            except NotInstallable as error:
                notes.append(f"{GPTCACHE_CACHE.name} is left out with {answers:,} questions: {error}")
    if size.peers:
        notes.append(_redis())
    return _report(found, notes)


def _questions(count: int) -> Iterator[tuple[str, str]]:
    """Return made-up questions, all different, each with another wording."""
    chance, seen = random.Random(SEED), set[str]()
    while len(seen) < count:
        first, second = chance.choice(_ASKS)
        parts = {
            "verb": chance.choice(_VERBS), "noun": chance.choice(_NOUNS), "place": chance.choice(_PLACES),
            "name": "".join(chance.choices(_SYLLABLES, k=3)).capitalize(),
        }  # fmt: skip
        question = f"{first.format(**parts)[:-1]} {chance.choice(_PLACES)}-{chance.randrange(100)}?"
        if question not in seen:
            seen.add(question)
            yield question, second.format(**parts)[:-1] + question[question.rindex(" ") :]


def _filled(words: WordTable, questions: Sequence[str]) -> tuple[AnswerIndex, float]:
    ready = AnswerIndex(words)
    began = time.perf_counter()
    ready.add(
        AnswerableQuestion(id=AnswerId(str(at)), phrasings=[question], confidence=1.0)
        for at, question in enumerate(questions)
    )
    return ready, time.perf_counter() - began


def _timed(ready: AnswerIndex, answers: int, way: str, asked: Sequence[str]) -> LookupTimes:
    taken, found = _each(lambda question: _found(ready, question), asked)
    hits = sum(found)
    return LookupTimes(name=OURS, way=way, answers=answers, ms=taken, hits=100 * hits / len(asked))


def _found(ready: AnswerIndex, question: str) -> bool:
    """Return whether a question has an answer with the same text, or candidates for a judge."""
    if ready.find_exact(question) is not None:
        return True
    return any(not each.conflict for each in ready.find_similar(question, min_similarity=MIN_SIMILARITY))


def _each(find: Callable[[str], bool], asked: Sequence[str]) -> tuple[Sequence[float], Sequence[bool]]:
    taken, found = list[float](), list[bool]()
    for question in asked:
        began = time.perf_counter()
        found.append(find(question))
        taken.append((time.perf_counter() - began) * 1000)
    return taken, found


async def _theirs(
    folder: Path, embedder: BundledEmbedder, made: Sequence[tuple[str, str]], asked: Sequence[tuple[str, str]]
) -> Sequence[LookupTimes]:
    """Let another cache store and look for the same, with our vectors. Raises NotInstallable."""
    folder.mkdir()
    np.save(folder / "vectors.npy", await embedder.embed([first for first, _ in made]))
    np.save(folder / "same.npy", await embedder.embed([first for first, _ in asked]))
    np.save(folder / "other.npy", await embedder.embed([second for _, second in asked]))
    given = {
        "questions": [first for first, _ in made],
        "same": [first for first, _ in asked],
        "other": [second for _, second in asked],
    }
    told = await GPTCACHE_CACHE.run("lookup", folder, given, SECONDS)
    return [
        LookupTimes(name=GPTCACHE_CACHE.name, way=way, answers=len(made), ms=told[key]["ms"], hits=told[key]["hits"])
        for way, key in ((EXACT, "same"), (MEANING, "other"))
    ]


def _redis() -> str:
    """Return why redisvl is not here: no package of pip or Debian has a server with the module that it asks."""
    server = shutil.which("redis-stack-server")
    lacks = "there is none" if server is None else f"none is set up for it, though there is {server}"
    return (
        f"redisvl is left out: it needs a Redis server with its search module, and {lacks}. Debian's redis-server "
        "(7.0.15) is without it, and redisvl 0.28.0 ends there at `unknown command 'FT.INFO'`."
    )


def _report(found: Sequence[LookupTimes], notes: Sequence[str]) -> Report:
    ours = {(each.answers, each.way): each.p95 for each in found if each.name == OURS}
    return Report(
        name="answers_lookup",
        title="A lookup of a ready answer, one at a time, the question's vector included",
        columns=["ready answers, cache, lookup", "p50 ms", "p95 ms", "found, %"],
        rows=[
            [
                f"{each.answers:,}, {each.name}, {each.way}",
                number(statistics.median(each.ms)),
                number(each.p95),
                number(each.hits),
            ]
            for each in found
        ],
        goals=[
            *(
                Goal(
                    what=f"p95 for candidates, {answers:,} answers",
                    limit=limit,
                    unit="ms",
                    found=ours[answers, MEANING],
                )
                for answers, limit in GOALS_MS.items()
                if (answers, MEANING) in ours
            ),
            *(
                Goal(what=f"p95 exact, {answers:,} answers", limit=EXACT_MS, unit="ms", found=p95)
                for (answers, way), p95 in ours.items()
                if way == EXACT
            ),
        ],
        notes=[
            "Exact lookups ask with other spaces and another question mark; the others in another wording, for which "
            "candidates are found that a judge is asked about.",
            "GPTCache, with SQLite and FAISS as its documents begin, has no exact lookup: it compares vectors, for "
            "which the same question has distance 0. It is given our vectors, and its time leaves embedding out.",
            "Confirmed: the answer is read, and what it rests on and the episodes that came since are compared, in the "
            "transaction of the call. The goals are of the lookup itself.",
            *notes,
        ],
        figures={f"{each.name}, {each.answers}, {each.way}": asdict(each) for each in found},
    )
