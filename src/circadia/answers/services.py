"""What gateway and sleep tier see of ready answers: two Protocols, their records, the precision (ANS-07)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from circadia.ids import AnswerId
from circadia.memory.context import Context
from circadia.records.answer import Answer, AnswerBasis, AnswerScope, AnswerUse, LookupOutcome, MatchKind
from circadia.records.bank import Bank
from circadia.settings.answers import AnswersSettings
from circadia.stores.base import Tx

LAST: Final = 50
"""Judged uses that count; older ones say little about today's answers."""


class Validity(NamedTuple):
    void: str = ""
    """Why the answer may not even be a hint; empty if it may."""
    newer: int = 0
    """Number of the bank's newest turn, if it is not read for the answer yet; then it is only a hint."""

    @property
    def why_not(self) -> str:
        """Return why the answer may not be served; empty if it may."""
        return self.void or (
            f"number {self.newer} of the episodes, which came later, is not read yet" if self.newer else ""
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """An expected question compared with the one asked."""

    answer: AnswerId
    phrasing: str
    kind: MatchKind
    similarity: float
    """Cosine of both questions; 1 for the same text."""
    shared_letters: float = 1.0
    """Jaccard similarity of both questions' letter trigrams."""
    conflict: str = ""
    """How the questions differ; empty if they do not."""


KnownVerdicts = Callable[[Sequence[Match]], Awaitable[Sequence[bool | None]]]
"""Returns for each match whether it asks the same; none without a verdict."""


async def no_verdicts(matches: Sequence[Match]) -> Sequence[bool | None]:
    return [None] * len(matches)


@dataclass(frozen=True, kw_only=True, slots=True)
class LookupResult:
    outcome: LookupOutcome
    answer: Answer | None = None
    """The whole answer as the transaction shows it; none with a miss."""
    match: Match | None = None
    candidates: Sequence[Match] = ()
    """Similar questions for a judge, the nearest first."""
    newer: int = 0
    """Number of the bank's newest turn, if it is not read for the answer yet; then it is a hint at most."""
    loading: bool = False
    """Whether the index is still loading, so that a miss may be wrong."""


MISS: Final = LookupResult(outcome=LookupOutcome.MISS)


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedMatch:
    match: Match
    answer: Answer | None
    validity: Validity


class AnswerFinder(Protocol):
    """Finds ready answers for the gateway's calls.

    An implementation reads each answer, and checks its validity, in the caller's transaction: no write of any process
    leaves a stale answer, and no answer of another scope is found (ANS-04, ANS-06).
    """

    async def find(
        self, tx: Tx, bank: Bank, scope: AnswerScope, question: str, conversation: str | None = None,
        verdicts: KnownVerdicts = no_verdicts, others: Sequence[Bank] = (),
    ) -> LookupResult:  # fmt: skip
        """Return the result for a question in a reading transaction in which `bank` was read.

        If one of the `others`, which the agent reads too, has changed since, an answer is a hint (MEM-35).
        A call waits at most 200 ms for an index to load; then it is a miss with `loading` set.
        """
        ...

    async def fetch_basis(self, tx: Tx, bank: Bank, context: Context, others: Sequence[Bank] = ()) -> AnswerBasis:
        """Return what an answer rests on whose context was made in this transaction."""
        ...


class AnswerValidator(Protocol):
    """Tells the sleep tier what is ready, and whether it is still valid.

    A result depends on rows of the database alone, so all processes agree at once. It may wait for an index to load:
    never ask within a writing transaction.
    """

    async def has_answer(self, tx: Tx, bank: Bank, scope: AnswerScope, question: str, where: str | None) -> bool:
        """Return whether the same text has an answer in a conversation. Raises UpstreamFailed: loading failed."""
        ...

    async def validity(self, tx: Tx, bank: Bank, answer: Answer) -> Validity:
        """Return an answer's validity, whether it was dropped or has expired or not. Raises UpstreamFailed."""
        ...


def judged_use_limit(settings: AnswersSettings) -> int:
    return max(LAST, settings.least_samples)


def precision(uses: Sequence[AnswerUse]) -> float | None:
    """Return the share of right uses among the judged ones; none without any."""
    judged = [use.right for use in uses if use.right is not None]
    return judged.count(True) / len(judged) if judged else None


def are_answers_trusted(uses: Sequence[AnswerUse], settings: AnswersSettings) -> bool:
    """Return whether answers may be served: too few uses were judged, or enough of the newest were right.

    `uses` are those of one bank and agent, the newest first (`Answers.find_uses`).
    """
    judged = [use for use in uses if use.right is not None][: judged_use_limit(settings)]
    share = precision(judged)
    return share is None or len(judged) < settings.least_samples or share >= settings.least_precision
