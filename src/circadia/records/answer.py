"""An anticipated answer: generated before the question arrives, valid for one state of the memory it was built from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum

from circadia.ids import AgentId, AnswerId, BankId, PassId
from circadia.records.index_entry import BankHeads


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerableQuestion:
    """The question of a ready answer, as the lookup needs it."""

    id: AnswerId
    phrasings: Sequence[str]
    """The question in several wordings, the most likely first."""
    confidence: float
    """0 to 1."""
    conversation: str | None = None
    """The only conversation that may use the answer, because the question depends on it; none allows all."""


class AnswerMode(StrEnum):
    """How an agent's calls use ready answers (ANS-03)."""

    OFF = "off"
    """Answers are neither used nor generated."""
    HINT = "hint"
    """Answers are added to the context, marked as possibly for another question."""
    SERVE = "serve"
    """An answer that is sure enough is served; the others become hints."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerScope:
    """Who asks whom, and with which call settings; answers are never shared between scopes (ANS-06)."""

    agent_id: AgentId
    end_user: str = ""
    """Empty if the agent's calls name no end user."""
    frame: str
    """Digest of everything in a call except the conversation: provider, model, system prompt, tools, settings."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerFrame:
    """The last call of a scope, as the template for answering a question ahead of time."""

    bank_id: BankId
    scope: AnswerScope
    upstream: str
    target: str
    """Path and query after the provider's base URL."""
    dialect: str
    """Key of the request format (`Route.dialect`)."""
    model: str
    body: str
    """The call without the conversation: JSON without what a person or the model said, not streamed. Empty if nothing
    may be asked ahead in it."""
    headers: Sequence[tuple[str, str]] = ()
    """Request headers that affect the answer, such as `anthropic-beta`; never one with a secret."""
    at: datetime
    """Time of the last call."""
    asked: int = 1
    """How often a question differed from the one before it; with 0, nothing is asked ahead yet (ANS-21)."""
    why_not: str = ""
    """Why nothing may be asked ahead in it; empty if it may."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerBasis:
    """The state of a bank that an answer depends on (ANS-04)."""

    blocks: Mapping[str, int] = field(default_factory=dict[str, int])
    """Version of each block of the bank that is not deleted, by label."""
    shown: Sequence[str] = ()
    """Labels of the blocks in the prompt."""
    notes: Mapping[int, float] = field(default_factory=dict[int, float])
    """Weight of each note in the prompt, by number."""
    episodes: Mapping[int, float] = field(default_factory=dict[int, float])
    """Weight of each episode in the prompt, by number."""
    heads: BankHeads
    """Head numbers of the bank when the answer was generated: rows with greater numbers came later."""
    generation: int
    """`generation` of the bank at that time; it changes when something is forgotten."""
    layers: Mapping[BankId, str] = field(default_factory=dict[BankId, str])
    """State of each other bank of the agent at that time; it changes with all that is written there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    id: AnswerId
    bank_id: BankId
    scope: AnswerScope
    phrasings: Sequence[str]
    """The question in several wordings; the first is the one that was answered."""
    confidence: float
    """Estimated probability of the question, 0 to 1."""
    conversation: str | None = None
    """The only conversation that may use the answer, because the question depends on it; none allows all."""
    text: str
    """Empty once the answer is dropped."""
    reasoning: str = ""
    """The model's reasoning; empty if it gave none."""
    basis: AnswerBasis
    read_upto: int = 0
    """Number of the newest turn after which a judge found it still right; 0 if none was asked since it was made."""
    pass_id: PassId | None = None
    made_at: datetime
    expires_at: datetime
    """Expiry, whether or not the answer was used (ANS-05)."""
    tokens: int = 0
    """Input and output tokens of generating the answer."""
    nanousd: int | None = None
    """Price of generating it in billionths of a US dollar; none if unknown."""
    seconds: float = 0.0
    """Time it took to generate."""
    uses: int = 0
    """Times it was served, or shown as a hint for a question that it answers."""
    used_at: datetime | None = None
    revision: int = 0
    """The bank's `answers` count at the last change of this answer; uses do not count."""
    dropped: str = ""
    """A value of `DropReason`; empty while the answer is valid."""
    dropped_at: datetime | None = None


class DropReason(StrEnum):
    """Why an answer was dropped."""

    VOID = "void"
    """A source has changed."""
    EXPIRED = "expired"
    CROWDED = "crowded"
    """Removed to make room for answers that were used more recently."""
    REPLACED = "replaced"
    """The question was answered again."""
    WRONG = "wrong"
    """A fresh answer to the question differed (ANS-07)."""
    BY_HAND = "by_hand"
    FORGOTTEN = "forgotten"
    """Something that the answer may contain was forgotten."""


class MatchKind(StrEnum):
    EXACT = "exact"
    SIMILAR = "similar"


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerUse:
    """A question that a ready answer was found for; answer quality is sampled from these."""

    id: str
    """Sorts by time."""
    bank_id: BankId
    answer_id: AnswerId
    scope: AnswerScope
    question: str
    phrasing: str
    """The wording of the answer that matched."""
    match_kind: MatchKind
    served: bool
    """False if the answer was shown as a hint although it was sure enough to be served."""
    at: datetime
    right: bool | None = None
    """Whether a fresh answer to the question agrees; none if nobody has checked, or the check is undecided."""
    judged_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SameQuestionVerdict:
    """Whether a judge finds that a question asks the same as a phrasing of an answer (ANS-13). It holds no text."""

    id: str
    """Hash of both texts, the answer, and the judge with its model and prompt version."""
    bank_id: BankId
    answer_id: AnswerId
    same: bool
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerDay:
    """Answer counts of one bank and UTC day; they contain no conversation text."""

    bank_id: BankId
    day: date
    served: int = 0
    """Calls answered from a ready answer."""
    hints: int = 0
    """Calls that received a hint."""
    misses: int = 0
    """Questions without a matching answer."""
    made: int = 0
    used: int = 0
    """Answers used for the first time."""
    wasted: int = 0
    """Answers dropped without any use (ANS-08)."""
    wasted_tokens: int = 0
    """Tokens spent on the wasted answers."""
    right: int = 0
    """Sampled uses judged right."""
    wrong: int = 0
    """Sampled uses judged wrong."""


class LookupOutcome(StrEnum):
    HIT = "hit"
    HINT = "hint"
    """The answer may be shown beside the question, marked as possibly for another one."""
    MISS = "miss"
