"""What is asked of banks: how often, and the exact state of a bank that an answer is of (SLEEP-26).

Askings are counted in memory and written by whoever works while nobody waits. What was asked once is not written down,
nor what has a secret in it, nor what is asked where nothing may be kept of what is said.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import orjson

from circadia.bounded_dict import BoundedDict
from circadia.ids import BankId
from circadia.memory.redaction import redact
from circadia.memory.search.index import DEPTH, RANKING, Question
from circadia.records.agent import Agent
from circadia.records.bank import Bank, Capture
from circadia.records.index_entry import Layer
from circadia.records.ready_view import BankHeads, ReadyView

OFTEN: Final = 2
"""Askings from which on a question counts as asked often."""
WINDOW: Final = timedelta(days=14)
"""Askings that are longer ago do not count."""
MOST_CHARACTERS: Final = 2_000
"""Of a question that is counted; embedders read no more."""
MAX_COUNTED: Final = 4_000
"""Questions that are counted at the same time, about 1 KB each; of more, those that were asked longest ago go."""
_LISTS: Final = ("kinds", "trusts")
_VALUES: Final = ("since", "until", "session", "speaker")


@dataclass(kw_only=True, slots=True)
class BankQuestion:
    """One question to one bank."""

    bank_id: BankId
    asked: str
    """The question with its filters, as JSON."""
    generation: int
    """The bank's, when it was asked: what was asked before something was forgotten is not written after it."""
    limit: int = 0
    """The most hits that were asked for; what is beyond the depth of a search does not count."""
    total: int = 0
    """How often it was asked since it is counted here."""
    pending: int = 0
    """How many of them are not written yet."""
    at: datetime


class QuestionCounter:
    """Counts."""

    def __init__(self) -> None:
        self._counted: BoundedDict[tuple[BankId, str], BankQuestion] = BoundedDict(MAX_COUNTED)

    def is_asked_often(self, bank: Bank, asked: str) -> bool:
        """Return whether the question, asked once more, counts as asked often."""
        found = self._counted.get((bank.id, asked))
        return found is not None and found.total >= OFTEN - 1

    def count(self, bank: Bank, asked: str, limit: int, at: datetime) -> None:
        """Count an asking."""
        key = (bank.id, asked)
        found = self._counted.get(key)
        if found is None or found.generation != bank.generation or at - found.at > WINDOW:
            found = BankQuestion(bank_id=bank.id, asked=asked, generation=bank.generation, at=at)
        self._counted[key] = found
        found.limit, found.at = max(found.limit, min(limit, DEPTH)), at
        found.total += 1
        found.pending += 1

    def pending_questions(self, bank_id: BankId | None = None) -> Sequence[BankQuestion]:
        """Return the questions, of one bank or of all, whose askings are to be written."""
        return [
            each
            for each in self._counted.values()
            if each.pending and each.total >= OFTEN and bank_id in (None, each.bank_id)
        ]

    def drop(self, bank_id: BankId) -> None:
        """Forget what was asked of a bank."""
        for key in [key for key in self._counted if key[0] == bank_id]:
            del self._counted[key]


def may_keep_question(bank: Bank, agent: Agent | None) -> bool:
    """Return whether a question of an agent, or of the operator (none), may be written down.

    It may not where the agent's turns are not kept, nor where the bank takes only what it is given.
    """
    if bank.policy.capture is Capture.EXPLICIT:
        return False
    return agent is None or (agent.policy.capture and {bank.name, bank.template}.isdisjoint(agent.policy.read_banks))


def has_secret(asked: str) -> bool:
    """Return whether a question that `described` tells of has in it what is not to be written."""
    text = str(orjson.loads(asked)["text"])
    return redact(text) != text


def normalize_question(question: str) -> str:
    """Return the question as it is looked for, embedded and counted: without what separates words but one space."""
    return " ".join(question.split())


def describe_question(question: Question) -> str | None:
    """Return the question with its filters, the same for all that have the same answer; none if that depends on more.

    Its limit is no part of it: fewer hits are the first of more.
    """
    if not 0 < len(question.text) <= MOST_CHARACTERS or question.recency or question.limit > DEPTH:
        return None
    found: dict[str, object] = {"text": question.text}
    layers = sorted(set(question.layers))
    if len(layers) < len(Layer):
        found["layers"] = layers
    found |= {name: sorted(set(values)) for name in _LISTS if (values := getattr(question, name))}
    found |= {name: value for name in _VALUES if (value := getattr(question, name)) is not None}
    if question.importance:
        found["importance"] = question.importance
    try:
        return orjson.dumps(found).decode()
    except TypeError:  # half a character, which no database keeps
        return None


def load_filters(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the filters of a question that `described` tells of, as `Question` has them."""
    found = {name: value for name, value in asked.items() if name != "text"}
    if "layers" in found:
        found["layers"] = tuple(Layer(each) for each in found["layers"])
    return found


def question_key(asked: str) -> str:
    """Return the key of what `described` returns."""
    return hashlib.blake2b(asked.encode(), digest_size=16).hexdigest()


def search_stamp(bank: Bank, heads: BankHeads, embedders: Collection[str]) -> str:
    """Return the state of a bank that searches see: it is another after each change that could change an answer.

    How rows are ranked, rows that came, rows that went or got vectors in place of others, demotions and retirements,
    vectors that came, and by whose vectors a question is looked for.
    """
    counts = (RANKING, bank.generation, bank.demotions, bank.vectors, heads.episodes, heads.notes)
    return " ".join([*map(str, counts), *sorted(embedders)])


def notes_stamp(bank: Bank, heads: BankHeads) -> str:
    """Return the state of a bank's notes."""
    return f"{bank.generation} {bank.demotions} {heads.notes}"


def count_recent_askings(view: ReadyView, now: datetime) -> int:
    """Return how often a question was asked within the window."""
    first = (now - WINDOW).date().isoformat()
    return sum(number for day, number in view.days.items() if day >= first)
