"""What becomes of a ready answer after one more statement: each is taken as if it came after the answer.

Of labelled conversations, a turn that a person named as evidence must void the answer or put it in doubt; most others,
which are about the same two people, must leave it. Of the suite in seven languages, each statement says what it is.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.recall import LongConversation
from benchmarks.voiding_suite import VoidingCase, VoidingLanguage, voiding_suite
from circadia.answers.freshness import prepare_question
from circadia.answers.question_text import only_asks
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.search import later_rows
from circadia.memory.search.columns import Array
from circadia.memory.search.index import BankIndex
from circadia.memory.search.terms import stored_terms
from circadia.memory.search.vectors import stored_vector
from circadia.records.index_entry import BankHeads, IndexEntry, Layer

TURNS: Final = 50
"""Other turns of one talk after which an answer is looked at."""
LEAVES, JUDGED, DOUBTED, VOIDED = range(4)
"""What a row does: nothing; a judge looks at it; the answer is a hint until one has; the answer is void."""
DAY: Final = "24 November 2026"
RIDGE: Final = 30.0
STEPS: Final = 20
"""Of Newton's method, at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionFeatures:
    """A question beside all turns of its conversation."""

    rows: later_rows.RowFeatures
    usual: float
    evidence: Array
    """Whether each is evidence."""
    outcomes: Array
    """What each does."""
    person: Array
    """Whether each is said by, or names, somebody whom the question names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleShares:
    """What comes of a rule, in percent."""

    recall: float
    """Of the turns that are evidence, how many void the answer or put it in doubt."""
    survival: float
    """Of the others, how many do not."""
    recall_judged: float = 0.0
    """Evidence after which it is not served, once a judge who is right has looked."""
    survival_judged: float = 0.0
    """Others after which it is."""
    same_person: float = 0.0
    """Others about the same person that leave it."""
    same_person_judged: float = 0.0
    alive: float = 0.0
    """Answers that are served after `TURNS` other turns of one talk, once a judge who is right has looked."""


def fits(conversation: LongConversation) -> bool:
    """Return whether it is for fitting: by a hash of its turns, so that each run splits alike."""
    return zlib.crc32("\n".join(turn.text for turn in conversation.turns).encode()) % 2 == 0


async def asked(conversation: LongConversation, embedder: BundledEmbedder) -> Sequence[QuestionFeatures]:
    """Put each question beside each turn."""
    turns = conversation.turns
    index, words = BankIndex(), await embedder.word_vectors()
    texts = [(turn.indexed_text, turn.text, turn.session) for turn in turns]
    index.add(Layer.EPISODES, await _entries(texts, embedder))
    every, only = np.arange(len(turns)), np.array([only_asks(turn.text) for turn in turns])
    found = list[QuestionFeatures]()
    for each in conversation.questions:
        question = prepare_question(each.question, words, embedder.name)
        rows = index.build_features(every, question, every)
        usual = later_rows.usual_cosine(rows.near, question.sense)
        weights = later_rows.weigh_rows(rows, usual)
        outcomes = np.where(only, LEAVES, _outcomes(weights, later_rows.build_thresholds(weights, usual)))
        named = {turn.speaker for turn in turns if turn.speaker in each.question}
        person = [turn.speaker in named or any(name in turn.text for name in named) for turn in turns]
        evidence = np.isin(every, list(each.evidence))
        found.append(
            QuestionFeatures(rows=rows, usual=usual, evidence=evidence, outcomes=outcomes, person=np.array(person))
        )
    return found


def _outcomes(weights: Array, bars: later_rows.ChangeThresholds) -> Array:
    return np.searchsorted([bars.judged, bars.doubted, later_rows.VOID_WEIGHT], weights)


async def _entries(texts: Sequence[tuple[str, str, str | None]], embedder: BundledEmbedder) -> Sequence[IndexEntry]:
    vectors = await embedder.embed([searched for searched, _, _ in texts])
    return [
        IndexEntry(
            number=at, at=0.0, conversation=session, speaker="", kind="turn", trust="person", importance=None,
            weight=1.0, terms=stored_terms(searched, text), vector=stored_vector(vector),
            embedder=embedder.name, text=text,
        )
        for at, ((searched, text, session), vector) in enumerate(zip(texts, vectors, strict=True), 1)
    ]  # fmt: skip


def shipped(given: Sequence[QuestionFeatures]) -> RuleShares:
    """Return what comes of the rule as it is shipped."""
    evidence = np.concatenate([each.evidence for each in given])
    outcomes = np.concatenate([each.outcomes for each in given])
    others = outcomes[~evidence]
    person = outcomes[np.concatenate([each.person & ~each.evidence for each in given])]
    talks = [
        (each.outcomes[at : at + TURNS] < VOIDED).all()
        for each in given
        for at in range(0, len(each.outcomes) - TURNS + 1, TURNS)
        if not each.evidence[at : at + TURNS].any()
    ]
    return RuleShares(
        recall=_percent(outcomes[evidence] >= DOUBTED), survival=_percent(others < DOUBTED),
        recall_judged=_percent(outcomes[evidence] >= JUDGED), survival_judged=_percent(others < VOIDED),
        same_person=_percent(person < DOUBTED), same_person_judged=_percent(person < VOIDED),
        alive=_percent(np.array(talks)),
    )  # fmt: skip


def _percent(those: Array) -> float:
    return 100 * float(those.mean()) if len(those) else 100.0


def cosine_alone(given: Sequence[QuestionFeatures], survival: float) -> RuleShares:
    """Return what comes of a bar of cosine that lets so many percent of the others be."""
    evidence = np.concatenate([each.evidence for each in given])
    near = np.concatenate([each.rows.near for each in given])
    bar = np.quantile(near[~evidence], survival / 100)
    return RuleShares(recall=_percent(near[evidence] > bar), survival=_percent(near[~evidence] <= bar))


def fit(given: Sequence[QuestionFeatures]) -> Sequence[float]:
    """Return weights that tell evidence from other turns."""
    rows = np.vstack([later_rows.feature_columns(each.rows, each.usual) for each in given])
    evidence = np.concatenate([each.evidence for each in given])
    scale = rows.std(axis=0) + 1e-9
    return [float(each) for each in _logistic(rows / scale, evidence.astype(float))[:-1] / scale]


def _logistic(columns: Array, labels: Array) -> Array:
    """Return the weights of a logistic regression, by Newton's method, and, last, the intercept, which has no ridge."""
    rows = np.hstack([columns, np.ones((len(columns), 1))])
    ridge = np.full(rows.shape[1], RIDGE)
    ridge[-1] = 0
    weights = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        likely = 1 / (1 + np.exp(-np.clip(rows @ weights, -50, 50)))
        slope = rows.T @ (labels - likely) - ridge * weights
        bend = (rows * (likely * (1 - likely))[:, None]).T @ rows + np.diag(ridge)
        step = np.linalg.solve(bend, slope)
        weights += step
        if float(np.abs(step).max()) < 1e-4:
            break
    return weights


KINDS: Final = ("same words", "other words", "same person", "unrelated", "findings", "others")
"""What the statements of the suite are: two that change the answer, and four that leave it."""


async def suite(embedder: BundledEmbedder) -> Mapping[str, Mapping[str, Array]]:
    """Return by language and kind what the statements of the suite do."""
    languages = voiding_suite()
    everywhere = [text for each in languages.values() for text in each.unrelated[:2]]
    return {code: await _language(each, everywhere, embedder) for code, each in languages.items()}


async def _language(
    language: VoidingLanguage, everywhere: Sequence[str], embedder: BundledEmbedder
) -> Mapping[str, Array]:
    """Return what statements do in a bank that has the answers, and in which those who are asked about speak, too."""
    base = [("Eve", each.answer) for each in language.cases]
    base += [(name, text) for name in language.names for text in language.unrelated]
    words, found = await embedder.word_vectors(), {kind: list[int]() for kind in KINDS}
    for case in language.cases:
        said = _said(case, language, everywhere)
        index = BankIndex()
        texts = [*base, *(("Eve", text) for each in said.values() for text in each)]
        index.add(
            Layer.EPISODES, await _entries([(f"{DAY} {who}: {text}", text, None) for who, text in texts], embedder)
        )
        heads, question = BankHeads(len(base), 0), prepare_question(case.question, words, embedder.name)
        later = index.find_later_rows(heads, heads, question)
        weights = {row.number - len(base) - 1: row.weight for row in later.rows}
        outcomes = _outcomes(
            np.array([weights.get(at, -np.inf) for at in range(len(texts) - len(base))]), later.thresholds
        )
        at = 0
        for kind, each in said.items():
            found[kind] += outcomes[at : at + len(each)].tolist()
            at += len(each)
    return {kind: np.array(each) for kind, each in found.items()}


def _said(case: VoidingCase, language: VoidingLanguage, everywhere: Sequence[str]) -> Mapping[str, Sequence[str]]:
    return {
        "same words": [case.same_words], "other words": [case.other_words], "same person": [case.besides],
        "unrelated": language.unrelated, "findings": everywhere,
        "others": [each.answer for each in language.cases if each is not case],
    }  # fmt: skip


def changed(outcomes: Mapping[str, Array], *, judged: bool) -> float:
    """Return how many percent of the statements that change the answer keep it from being served."""
    every = np.concatenate([outcomes[kind] for kind in ("same words", "other words")])
    return _percent(every >= (JUDGED if judged else DOUBTED))


def left(outcomes: Mapping[str, Array], kind: str, *, judged: bool) -> float:
    """Return how many percent of the statements of a kind leave the answer."""
    return _percent(outcomes[kind] < (VOIDED if judged else DOUBTED))
