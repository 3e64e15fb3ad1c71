"""Count the questions to banks, and identify the exact state of a bank that an answer reflects (SLEEP-26).

Counts are kept in memory and written in the background. Questions asked only once, with secrets, or where the policy
forbids storing what is said are never written.
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
from circadia.records.bank import Bank, CaptureMode
from circadia.records.index_entry import Layer
from circadia.records.ready_view import BankHeads, ReadyView

OFTEN: Final = 2
"""Askings that make a question frequent."""
WINDOW: Final = timedelta(days=14)
"""Age beyond which askings do not count."""
MOST_CHARACTERS: Final = 2_000
"""Longest question that is counted; embedders read no more."""
MAX_COUNTED: Final = 4_000
"""Questions counted at the same time, about 1 KB each; the least recent ones are dropped."""
_LISTS: Final = ("kinds", "trusts")
_VALUES: Final = ("since", "until", "conversation", "speaker")


@dataclass(kw_only=True, slots=True)
class BankQuestion:
    bank_id: BankId
    asked: str
    """The question with its filters, as JSON."""
    generation: int
    """The bank's when asked; a question from before something was forgotten must not be written after it."""
    limit: int = 0
    """Most hits that were requested, up to the depth of a search."""
    total: int = 0
    """Askings in this process."""
    pending: int = 0
    """Askings that are not written yet."""
    at: datetime


class QuestionCounter:
    def __init__(self) -> None:
        self._counted: BoundedDict[tuple[BankId, str], BankQuestion] = BoundedDict(MAX_COUNTED)

    def is_asked_often(self, bank: Bank, asked: str) -> bool:
        """Return whether asking the question once more makes it frequent."""
        counted = self._counted.get((bank.id, asked))
        return counted is not None and counted.total >= OFTEN - 1

    def count(self, bank: Bank, asked: str, limit: int, at: datetime) -> None:
        key = (bank.id, asked)
        counted = self._counted.get(key)
        if counted is None or counted.generation != bank.generation or at - counted.at > WINDOW:
            counted = BankQuestion(bank_id=bank.id, asked=asked, generation=bank.generation, at=at)
        self._counted[key] = counted
        counted.limit, counted.at = max(counted.limit, min(limit, DEPTH)), at
        counted.total += 1
        counted.pending += 1

    def pending_questions(self, bank_id: BankId | None = None) -> Sequence[BankQuestion]:
        """Return the frequent questions of one bank or all that have askings to write."""
        return [
            counted
            for counted in self._counted.values()
            if counted.pending and counted.total >= OFTEN and bank_id in (None, counted.bank_id)
        ]

    def drop(self, bank_id: BankId) -> None:
        for key in [key for key in self._counted if key[0] == bank_id]:
            del self._counted[key]


def may_keep_question(bank: Bank, agent: Agent | None) -> bool:
    """Return whether a question may be stored: capture is on and not only explicit; None is the operator."""
    if bank.policy.capture_mode is CaptureMode.EXPLICIT:
        return False
    return agent is None or (agent.policy.capture and {bank.name, bank.template}.isdisjoint(agent.policy.read_banks))


def has_secret(asked: str) -> bool:
    text = str(orjson.loads(asked)["text"])
    return redact(text) != text


def normalize_question(question: str) -> str:
    """Return the question as it is searched, embedded and counted: with single spaces between words."""
    return " ".join(question.split())


def describe_question(question: Question) -> str | None:
    """Return the question with its filters as a key for its answer; None if the answer depends on more.

    The limit is left out: fewer hits are the first of more.
    """
    if not 0 < len(question.text) <= MOST_CHARACTERS or question.recency or question.limit > DEPTH:
        return None
    described: dict[str, object] = {"text": question.text}
    layers = sorted(set(question.layers))
    if len(layers) < len(Layer):
        described["layers"] = layers
    described |= {name: sorted(set(values)) for name in _LISTS if (values := getattr(question, name))}
    described |= {name: value for name in _VALUES if (value := getattr(question, name)) is not None}
    if question.importance:
        described["importance"] = question.importance
    try:
        return orjson.dumps(described).decode()
    except TypeError:  # half a character, which databases reject
        return None


def load_filters(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the filters of a described question as arguments of `Question`."""
    filters = {name: value for name, value in asked.items() if name != "text"}
    if "layers" in filters:
        filters["layers"] = tuple(Layer(layer) for layer in filters["layers"])
    return filters


def question_key(asked: str) -> str:
    return hashlib.blake2b(asked.encode(), digest_size=16).hexdigest()


def search_stamp(bank: Bank, heads: BankHeads, embedders: Collection[str]) -> str:
    """Return the state of a bank that searches depend on; it changes whenever an answer could change.

    It covers ranking, added, removed and reweighted rows, new and replaced vectors, and the embedders in use.
    """
    counts = (RANKING, bank.generation, bank.demotions, bank.vectors, heads.episodes, heads.notes)
    return " ".join([*map(str, counts), *sorted(embedders)])


def notes_stamp(bank: Bank, heads: BankHeads) -> str:
    return f"{bank.generation} {bank.demotions} {heads.notes}"


def count_recent_askings(view: ReadyView, now: datetime) -> int:
    first = (now - WINDOW).date().isoformat()
    return sum(number for day, number in view.days.items() if day >= first)
